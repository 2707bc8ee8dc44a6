/* SPDX-License-Identifier: MIT */
#include "daemon/model/fingerprint.h"
#include "daemon/model/partfile.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/model-parts.h"
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#define PIECE (1u << 20)

/* A file with equal fields is unchanged. */
struct identity {
    uint64_t dev, ino, size;
    int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

/* The record, followed by path_len bytes: the absolute path of the file; of a split model a zero byte behind it, then
 * the identity and the path, with a zero byte, of each other part. */
struct record {
    char magic[8];
    struct identity id;
    struct fingerprint fingerprint;
    uint64_t path_len;
    uint64_t check; /* XXH3-64 of the fields above, XOR that of the path */
};

#define PATHS_MAX (MODEL_PARTS_MAX * (sizeof(struct identity) + PATH_MAX))

_Static_assert(sizeof(struct record) == 8 + 7 * 8 + 16 + 8 + 8, "no padding, which would be written");

static const char magic[8] = "hobid\0\0\1";

static struct identity identity(const struct stat *st)
{
    return (struct identity){st->st_dev,          st->st_ino,         (uint64_t)st->st_size, st->st_mtim.tv_sec,
                             st->st_mtim.tv_nsec, st->st_ctim.tv_sec, st->st_ctim.tv_nsec};
}

static bool same(const struct identity *a, const struct identity *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void fingerprint_hex(char out[FINGERPRINT_HEX], const struct fingerprint *f)
{
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", f->bytes[i]);
}

void fingerprint_of_identity(uint8_t out[16], const struct gguf *g)
{
    XXH128_hash_t hash = {0};
    const struct gguf *part;
    for (uint32_t i = 0; (part = gguf_part(g, i)); i++) {
        const struct {
            XXH128_hash_t before;
            struct identity id;
        } x = {hash, identity(gguf_stat(part))};
        hash = XXH3_128bits(&x, sizeof(x));
    }
    XXH128_canonicalFromHash((XXH128_canonical_t *)(void *)out, hash);
}

/* --- the record --- */

static void record_name(char out[64], const struct stat *st)
{
    snprintf(out, 64, "%" PRIx64 "-%" PRIx64 FINGERPRINT_EXT, (uint64_t)st->st_dev, (uint64_t)st->st_ino);
}

static uint64_t check_of(const struct record *r, const char *path)
{
    return XXH3_64bits(r, offsetof(struct record, check)) ^ XXH3_64bits_withSeed(path, r->path_len, 1);
}

/* 0; 1: it is not a complete record; -errno: it cannot be read. *paths is empty, or has a zero byte behind its path_len
 * bytes. */
static int read_record(struct record *r, struct buf *paths, const char *dir, const char *name)
{
    struct stat st;
    _cleanup_(closep) int fd = partfile_open(dir, name, &st);
    if (fd < 0) return partfile_is_none(fd) ? 1 : error_origin(fd);
    ssize_t n = read(fd, r, sizeof(*r));
    if (n < 0) return error_origin(-errno);
    if (n != sizeof(*r) || memcmp(r->magic, magic, sizeof(magic)) != 0 || r->path_len >= PATHS_MAX) return 1;
    if ((uint64_t)st.st_size != sizeof(*r) + r->path_len) return 1;
    if (buf_reserve(paths, r->path_len + 1) < 0) return error_origin(-ENOMEM);
    n = read(fd, paths->data, r->path_len);
    if (n < 0) return error_origin(-errno);
    if (n != (ssize_t)r->path_len || r->check != check_of(r, paths->data)) return 1;
    paths->len = r->path_len;
    paths->data[paths->len] = '\0';
    return 0;
}

/* Append what a record of @g has behind its header. The identity of the first part is in the header. */
static int put_paths(struct buf *b, const struct gguf *g)
{
    const struct gguf *part;
    int r = 0;
    for (uint32_t i = 0; !r && (part = gguf_part(g, i)); i++) {
        struct identity id = identity(gguf_stat(part));
        _cleanup_(freep) char *path = realpath(gguf_path(part), NULL);
        if (!path) return error_say(-errno, "%s: %s", gguf_path(part), strerror(errno));
        if (i) r = buf_append(b, &id, sizeof(id));
        if (!r) r = buf_append(b, path, strlen(path) + (gguf_part(g, 1) != NULL));
    }
    return r;
}

int fingerprint_recall(struct fingerprint *out, const struct gguf *g, const char *dir)
{
    char name[64];
    _cleanup_(buf_fini) struct buf have = BUF_INIT, want = BUF_INIT;
    struct identity id = identity(gguf_stat(g));
    struct record r;
    record_name(name, gguf_stat(g));
    int e = read_record(&r, &have, dir, name);
    if (e) return e;
    if (!same(&r.id, &id)) return 1;
    /* A single file may have been renamed since; parts are told by their paths. */
    if (gguf_part(g, 1)) {
        e = put_paths(&want, g);
        if (e) return e;
        if (have.len != want.len || memcmp(have.data, want.data, want.len) != 0) return 1;
    }
    *out = r.fingerprint;
    return 0;
}

int fingerprint_remember(const struct fingerprint *f, const struct gguf *g, const char *dir)
{
    char name[64];
    _cleanup_(buf_fini) struct buf paths = BUF_INIT;
    int e = put_paths(&paths, g);
    if (e) return e;
    struct record r = {.id = identity(gguf_stat(g)), .fingerprint = *f, .path_len = paths.len};
    memcpy(r.magic, magic, sizeof(magic));
    r.check = check_of(&r, paths.data);
    record_name(name, gguf_stat(g));
    struct partfile p;
    e = partfile_begin(&p, dir, name);
    if (e) return e < 0 ? e : 0; /* another process writes the same */
    if (write(p.fd, &r, sizeof(r)) != sizeof(r) || write(p.fd, paths.data, r.path_len) != (ssize_t)r.path_len)
        e = error_say(-EIO, "%s/%s: cannot write it", dir, name);
    if (!e) e = partfile_commit(&p);
    partfile_end(&p);
    return e;
}

static bool lives(const char *path, const struct identity *id)
{
    struct stat st;
    if (stat(path, &st) < 0) return false;
    struct identity now = identity(&st);
    return same(&now, id);
}

int fingerprint_living(struct fingerprint *out, const char *dir, const char *name)
{
    _cleanup_(buf_fini) struct buf paths = BUF_INIT;
    struct identity id;
    struct record r;
    if (read_record(&r, &paths, dir, name) || !lives(paths.data, &r.id)) return 1;
    for (size_t at = strlen(paths.data) + 1; at < paths.len; at += strlen(paths.data + at) + 1) {
        if (paths.len - at <= sizeof(id)) return 1;
        memcpy(&id, paths.data + at, sizeof(id));
        at += sizeof(id);
        if (!lives(paths.data + at, &id)) return 1;
    }
    *out = r.fingerprint;
    return 0;
}

/* --- hashing --- */

/*
 * Wait until a new write would change the ctime. Its resolution is the kernel's tick, or a second if the timestamps
 * have no fraction. Returns false if *stop became true.
 */
static bool let_age(const struct stat *st, const atomic_bool *stop)
{
    int64_t grain = st->st_ctim.tv_nsec || st->st_mtim.tv_nsec ? 20000000 : 2000000000;
    for (;;) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        int64_t s = now.tv_sec - st->st_ctim.tv_sec;
        if (s < 0 || s > 10 || s * 1000000000 + now.tv_nsec - st->st_ctim.tv_nsec > grain) return true;
        if (atomic_load(stop)) return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

static int unchanged(int fd, const struct gguf *g)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return error_say(-errno, "%s: %s", gguf_path(g), strerror(errno));
    struct identity a = identity(&st), b = identity(gguf_stat(g));
    return same(&a, &b) ? 0 : error_say(-ESTALE, "%s: the file has changed since it was loaded", gguf_path(g));
}

static int hash_file(XXH3_state_t *state, int fd, const struct gguf *g, const atomic_bool *stop)
{
    _cleanup_(freep) uint8_t *buf = malloc(PIECE);
    if (!buf) return error_origin(-ENOMEM);
    for (uint64_t at = 0; at < (uint64_t)gguf_stat(g)->st_size;) {
        if (atomic_load(stop)) return error_say(-ECANCELED, "%s: hashing was stopped", gguf_path(g));
        ssize_t n = pread(fd, buf, PIECE, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return error_say(n ? -errno : -ESTALE, "%s: cannot read byte %" PRIu64, gguf_path(g), at);
        XXH3_128bits_update(state, buf, (size_t)n);
        at += (uint64_t)n;
    }
    return 0;
}

static int hash_part(XXH3_state_t *state, const struct gguf *g, const atomic_bool *stop)
{
    _cleanup_(closep) int fd = open(gguf_path(g), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return error_say(-errno, "%s: %s", gguf_path(g), strerror(errno));
    if (!let_age(gguf_stat(g), stop)) return error_say(-ECANCELED, "%s: hashing was stopped", gguf_path(g));
    int r = unchanged(fd, g);
    if (!r) r = hash_file(state, fd, g, stop);
    return r ? r : unchanged(fd, g);
}

int fingerprint_make(struct fingerprint *out, const struct gguf *g, const atomic_bool *stop)
{
    const struct gguf *part;
    XXH3_state_t *state = XXH3_createState();
    if (!state) return error_origin(-ENOMEM);
    XXH3_128bits_reset(state);
    int r = 0;
    for (uint32_t i = 0; !r && (part = gguf_part(g, i)); i++) r = hash_part(state, part, stop);
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(state));
    memcpy(out->bytes, c.digest, sizeof(out->bytes));
    XXH3_freeState(state);
    return r;
}
