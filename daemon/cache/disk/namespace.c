/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/namespace.h"
#include "daemon/model/partfile.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/paths.h"
#include "libcommon/random.h"
#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#define SECRET_NAME "secret"
#define REMEDY      "remove it, and hobd creates a new one (the blocks on disk are then lost)"
#define TRIES       5000 /* of one millisecond: another process makes the file */

/* --- the secret --- */

/* Fills @out with random bytes. */
static int draw(void *out, size_t n)
{
    int r = random_fill(out, n);
    return r ? error_say(r, "no random numbers: %s", strerror(-r)) : 0;
}

static int wrong(const char *dir, const char *what)
{
    return error_say(-EBADMSG, "%s/" SECRET_NAME " %s; " REMEDY, dir, what);
}

static int check(int fd, const char *dir)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return error_say(-errno, "%s/" SECRET_NAME ": %s", dir, strerror(errno));
    if (!S_ISREG(st.st_mode)) return wrong(dir, "is not a regular file");
    if (st.st_uid != geteuid())
        return error_say(-EBADMSG, "%s/" SECRET_NAME " belongs to uid %u; " REMEDY, dir, (unsigned)st.st_uid);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return error_say(-EBADMSG, "%s/" SECRET_NAME " is accessible to others (mode %03o, should be 600); " REMEDY,
                         dir, (unsigned)st.st_mode & 0777);
    if (st.st_size != NAMESPACE_SECRET_BYTES)
        return error_say(-EBADMSG, "%s/" SECRET_NAME " has %jd bytes, should have %d; " REMEDY, dir,
                         (intmax_t)st.st_size, NAMESPACE_SECRET_BYTES);
    return 0;
}

/* 0; -ENOENT without an error text; -errno with one. */
static int read_secret(struct namespace_secret *out, int at, const char *dir)
{
    struct namespace_secret s;
    _cleanup_(closep) int fd = openat(at, SECRET_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return -ENOENT;
    if (fd < 0 && (errno == ELOOP || errno == ENXIO)) return wrong(dir, "is not a regular file");
    if (fd < 0) return error_say(-errno, "cannot open %s/" SECRET_NAME ": %s", dir, strerror(errno));
    int r = check(fd, dir);
    if (r) return r;
    ssize_t n = read(fd, s.bytes, sizeof(s.bytes));
    if (n < 0) return error_say(-errno, "cannot read %s/" SECRET_NAME ": %s", dir, strerror(errno));
    if (n != sizeof(s.bytes)) return wrong(dir, "is truncated");
    *out = s;
    return 0;
}

static int write_secret(int fd)
{
    struct namespace_secret s;
    int r = draw(s.bytes, sizeof(s.bytes));
    if (r) return r;
    ssize_t n = write(fd, s.bytes, sizeof(s.bytes));
    return n == sizeof(s.bytes) ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* Makes the file unless another process has made it first. 0; 1: another process is making it; -errno. */
static int make_secret(const char *dir)
{
    struct namespace_secret there;
    struct partfile f;
    int r = partfile_begin(&f, dir, SECRET_NAME);
    if (r) return r;
    r = read_secret(&there, f.dir, dir);
    if (r == -ENOENT) {
        r = write_secret(f.fd);
        r = r ? error_say(r, "cannot create %s/" SECRET_NAME ": %s", dir, strerror(-r)) : partfile_commit(&f);
    }
    partfile_end(&f);
    return r;
}

int namespace_secret_load(struct namespace_secret *out, const char *dir)
{
    static const struct timespec soon = {.tv_nsec = 1000000};
    if (!dir) return draw(out->bytes, sizeof(out->bytes));
    int r = paths_make(dir);
    if (r) return r;
    _cleanup_(closep) int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return error_say(-errno, "cannot open %s: %s", dir, strerror(errno));
    for (int i = 0; (r = read_secret(out, at, dir)) == -ENOENT && i < TRIES; i++) {
        int made = make_secret(dir);
        if (made < 0) return made;
        if (made > 0) nanosleep(&soon, NULL);
    }
    partfile_sweep(at, SECRET_NAME PARTFILE_SUFFIX); /* of a process that was killed */
    return r == -ENOENT ? error_say(r, "%s/" SECRET_NAME " was removed by another program", dir) : r;
}

/* --- the digest; namespace.h describes it --- */

/* XXH3 takes a key of at least XXH3_SECRET_SIZE_MIN bytes, which is more than the secret has. */
struct long_secret {
    uint8_t bytes[12][16];
};

/* Derives the long key from the secret. */
static void stretch(struct long_secret *out, const struct namespace_secret *secret)
{
    struct {
        uint8_t secret[NAMESPACE_SECRET_BYTES];
        uint8_t i;
    } in;
    memcpy(in.secret, secret->bytes, sizeof(in.secret));
    for (in.i = 0; in.i < 12; in.i++) {
        XXH128_canonical_t c;
        XXH128_canonicalFromHash(&c, XXH3_128bits(&in, sizeof(in)));
        memcpy(out->bytes[in.i], c.digest, 16);
    }
}

/* XXH3-128 with a key, canonical. */
static void keyed(uint8_t out[16], const struct long_secret *key, const void *p, size_t n)
{
    static const uint8_t nothing;
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_withSecret(n ? p : &nothing, n, key, sizeof(*key)));
    memcpy(out, c.digest, 16);
}

struct message {
    uint8_t bytes[128];
    size_t n;
};

/* Appends a field with its length before it. */
static void put(struct message *m, const void *p, uint64_t n)
{
    uint64_t len = htole64(n);
    assert(n <= sizeof(m->bytes) && m->n + sizeof(len) + n <= sizeof(m->bytes));
    memcpy(m->bytes + m->n, &len, sizeof(len));
    memcpy(m->bytes + m->n + sizeof(len), p, n);
    m->n += sizeof(len) + n;
}

void namespace_make(struct prefix_namespace *out, const struct namespace_secret *secret, const uint8_t identity[16],
                    const struct namespace_owner *owner, uint64_t policy)
{
    struct long_secret key;
    struct message m = {.n = 0};
    struct {
        uint64_t len;
        uint8_t digest[16];
    } salt = {.len = htole64(owner->salt ? owner->salt_len : 0)}; /* a salt of any length, as length and digest */
    uint8_t kind = owner->public;
    uint32_t uid = owner->public ? 0 : htole32(owner->uid);
    uint64_t p = htole64(policy);

    stretch(&key, secret);
    keyed(salt.digest, &key, owner->salt, le64toh(salt.len));
    put(&m, "hob space 1", 11);
    put(&m, identity, 16);
    put(&m, &kind, sizeof(kind));
    put(&m, &uid, sizeof(uid));
    put(&m, &salt, sizeof(salt));
    put(&m, &p, sizeof(p));
    keyed(out->bytes, &key, m.bytes, m.n);
}
