/* SPDX-License-Identifier: MIT */
#include "daemon/session/scan.h"
#include "daemon/session/dir.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void closedirp(DIR **d)
{
    if (*d) closedir(*d);
}

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
    ssize_t n = session_log_get(fd, end, sizeof(end), f->size - sizeof(end));
    if (n < 0) return (int)n;
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
    ssize_t n = session_log_get(fd, head, sizeof(head), 0);
    if (n < 0) return (int)n;
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
        _cleanup_(closedirp) DIR *sub = fdopendir(s->dir);
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
