/* SPDX-License-Identifier: MIT */
#include "daemon/session/dir.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK "lock"

static void closedirp(DIR **d)
{
    if (*d) closedir(*d);
}

/* 0: the directory is ours and not writable by others. @path/@sub: its name, for the message. */
static int check_owner(int fd, const char *path, const char *sub)
{
    struct stat st;
    const char *slash = *sub ? "/" : "";
    if (fstat(fd, &st) < 0) return error_origin(-errno);
    if (st.st_uid != geteuid())
        return error_say(-EPERM, "%s%s%s belongs to uid %" PRIu32 ", not to %" PRIu32 ": no sessions are kept there",
                         path, slash, sub, (uint32_t)st.st_uid, (uint32_t)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return error_say(-EPERM, "%s%s%s can be written by others (mode %03o): no sessions are kept there", path, slash,
                         sub, (unsigned)st.st_mode & 0777);
    return 0;
}

/* Sync the directory, which may have entries of a killed process, and its parent, where it may be a new entry. */
static void sync_entries(int fd)
{
    (void)!fsync(fd);
    _cleanup_(closep) int parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) (void)!fsync(parent);
}

int session_dir_open(int *dir, int *lock, const char *path)
{
    int r = paths_make(path);
    if (r < 0) return r;
    _cleanup_(closep) int d = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d < 0) return error_in(error_origin(-errno), "sessions in %s", path);
    r = check_owner(d, path, "");
    if (r < 0) return r;
    _cleanup_(closep) int l = openat(d, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (l < 0 && errno == EROFS) l = openat(d, LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (l < 0) return error_in(error_origin(errno == ENOENT ? -EROFS : -errno), "sessions in %s: " LOCK, path);
    if (flock(l, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK) return error_in(error_origin(-errno), "sessions in %s: " LOCK, path);
        return error_say(-EBUSY, "another hobd uses the sessions in %s (it holds the lock %s/" LOCK ")", path, path);
    }
    sync_entries(d);
    *dir = d;
    *lock = l;
    d = l = -1;
    return 0;
}

int session_dir_of(int dir, const char *path, uid_t uid, bool make)
{
    char name[16];
    snprintf(name, sizeof(name), "%" PRIu32, (uint32_t)uid);
    int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    _cleanup_(closep) int fd = openat(dir, name, how);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST) return error_origin(-errno);
        if (fsync(dir) < 0) {
            int r = error_origin(-errno);
            unlinkat(dir, name, AT_REMOVEDIR); /* so that the next save tries again */
            return r;
        }
        fd = openat(dir, name, how);
    }
    if (fd < 0) return error_origin(-errno);
    int r = check_owner(fd, path, name);
    if (r < 0) return r;
    r = fd;
    fd = -1;
    return r;
}

/* --- scanning --- */

struct scan {
    int dir; /* of the uid */
    const char *path;
    uid_t uid;
    session_hash_fn hash;
    int (*found)(void *ctx, const struct session_found *f);
    int (*beside)(void *ctx, const struct session_beside *b);
    void *ctx;
};

static bool parse_uid(const char *name, uid_t *uid)
{
    char again[16];
    char *end;
    errno = 0;
    unsigned long v = strtoul(name, &end, 10);
    if (errno || *end || v >= UINT32_MAX) return false;
    snprintf(again, sizeof(again), "%lu", v);
    *uid = (uid_t)v;
    return strcmp(again, name) == 0; /* else it is not the canonical name */
}

/* Size, last checksum and summary, the summary from the end of the file or, if that is damaged, from @st. */
static int read_end(int fd, const struct stat *st, struct session_found *f)
{
    uint8_t end[SESSION_SUMMARY_BYTES + sizeof(f->sum)];
    f->size = (uint64_t)st->st_size;
    f->inode = st->st_ino;
    f->summary = (struct session_summary){
        .used = (uint64_t)st->st_mtim.tv_sec * 1000000 + (uint64_t)st->st_mtim.tv_nsec / 1000,
        .bytes = f->size,
    };
    memset(f->sum, 0, sizeof(f->sum));
    if (f->size < sizeof(end)) return 0;
    ssize_t n = pread(fd, end, sizeof(end), (off_t)(f->size - sizeof(end)));
    if (n < 0) return -errno;
    if (n != (ssize_t)sizeof(end)) return 0;
    memcpy(f->sum, end + SESSION_SUMMARY_BYTES, sizeof(f->sum));
    (void)!session_summary_read(end, &f->summary);
    return 0;
}

/* Bases in the first @n bytes of the file. A damaged record is ignored here and found when the log is loaded. */
static void read_bases(struct session_found *f, const uint8_t *data, size_t n, size_t at)
{
    const uint8_t *payload = NULL;
    uint32_t kind = 0;
    size_t len = 0;
    if (session_log_next(data, n, &at, &kind, &payload, &len) != LOG_GOOD || kind != SESSION_LOG_KIND_BASE) return;
    (void)!session_bases_read(&f->bases, payload, len);
}

/* 0; 1: not a regular file; -EBADMSG: damaged; other -errno: cannot be read. */
static int look(const struct scan *s, const char *name, struct session_found *f)
{
    uint8_t head[SESSION_LOG_HEAD_MAX], hash[16];
    struct stat st;
    size_t at;
    _cleanup_(closep) int fd = openat(s->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) return -errno;
    if (!S_ISREG(st.st_mode)) return 1;
    ssize_t n = pread(fd, head, sizeof(head), 0);
    if (n < 0) return -errno;
    int r = session_log_head(&f->head, head, (size_t)n, &at);
    if (r < 0) return r;
    s->hash(hash, f->head.name, f->head.name_len);
    if (f->head.uid != s->uid || memcmp(hash, f->hash, sizeof(hash)) != 0) return -EBADMSG;
    read_bases(f, head, (size_t)n, at);
    return read_end(fd, &st, f);
}

static int scan_log(const struct scan *s, const char *name, const uint8_t hash[16])
{
    struct session_found f = {0};
    char bad[SESSION_FILE_NAME];
    memcpy(f.hash, hash, sizeof(f.hash));
    int r = look(s, name, &f);
    if (r == 0) return s->found(s->ctx, &f);
    if (r == -EBADMSG) {
        r = session_log_set_aside(s->dir, f.hash, false, bad);
        if (r == 0)
            log_warning("%s/%" PRIu32 "/%s is damaged: renamed to %s", s->path, (uint32_t)s->uid, name, bad);
        else
            log_warning("%s/%" PRIu32 "/%s is damaged and cannot be renamed: %s", s->path, (uint32_t)s->uid, name,
                        error_text(r));
    } else {
        log_warning("%s/%" PRIu32 "/%s is ignored: %s", s->path, (uint32_t)s->uid, name,
                    r > 0              ? "it is not a regular file"
                    : r == -EOPNOTSUPP ? "a newer hobd wrote it"
                                       : strerror(-r));
    }
    return 0;
}

static int scan_uid(struct scan *s, DIR *d)
{
    uint8_t hash[16];
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(d));) {
        if (session_file_name_read(e->d_name, ".log", hash))
            r = scan_log(s, e->d_name, hash);
        else if (session_file_name_read(e->d_name, ".tmp", hash))
            (void)!unlinkat(s->dir, e->d_name, 0);
    }
    return r;
}

/* Call @visit for the directory of each uid. The caller sets the members of @s but dir and uid. */
static int each_uid(int dir, struct scan *s, int (*visit)(struct scan *s, DIR *d), bool warn)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) return error_in(error_origin(-errno), "sessions in %s", s->path);
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(d));) {
        if (!parse_uid(e->d_name, &s->uid)) continue;
        s->dir = session_dir_of(dir, s->path, s->uid, false);
        _cleanup_(closedirp) DIR *sub = s->dir < 0 ? NULL : fdopendir(s->dir);
        if (sub)
            r = visit(s, sub);
        else if (warn)
            log_warning("sessions in %s/%s are not read: %s", s->path, e->d_name, error_text(s->dir));
    }
    return r;
}

int session_dir_scan(int dir, const char *path, session_hash_fn hash,
                     int (*found)(void *ctx, const struct session_found *f), void *ctx)
{
    struct scan s = {.path = path, .hash = hash, .found = found, .ctx = ctx};
    return each_uid(dir, &s, scan_uid, true);
}

static int beside_uid(struct scan *s, DIR *d)
{
    struct session_beside b = {.uid = s->uid, .dir = s->dir};
    uint32_t base;
    int r = 0;
    for (const struct dirent *e; r == 0 && (e = readdir(d));) {
        b.name = e->d_name;
        if (session_bad_name_read(b.name, b.hash))
            b.base = -1;
        else if (session_base_name_read(b.name, b.hash, &base))
            b.base = (int)base;
        else
            continue;
        r = s->beside(s->ctx, &b);
    }
    return r;
}

int session_dir_beside(int dir, const char *path, int (*found)(void *ctx, const struct session_beside *b), void *ctx)
{
    struct scan s = {.path = path, .beside = found, .ctx = ctx};
    return each_uid(dir, &s, beside_uid, false);
}
