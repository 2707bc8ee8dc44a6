/* SPDX-License-Identifier: MIT */
#include "daemon/session/quota.h"
#include "daemon/session/list.h"
#include "daemon/session/session.h"
#include "daemon/session/store.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RESERVE_PART 20 /* the reserve is at most this part of the file system */
#define NAMES_MORE   8  /* files that a session may add: its log, its bases, a temporary file */

#define REMEDY "'hob sessions' shows their sizes, 'hob sessions rm NAME' frees space"

struct inode {
    uint64_t number, size, used;
    size_t names;
};

static int statvfs_space(int dir, struct session_space *out)
{
    struct statvfs fs;
    if (fstatvfs(dir, &fs) < 0) return error_origin(-errno);
    *out = (struct session_space){.files = fs.f_files ? fs.f_favail : UINT64_MAX};
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &out->free)) out->free = UINT64_MAX;
    if (__builtin_mul_overflow((uint64_t)fs.f_blocks, (uint64_t)fs.f_frsize, &out->total)) out->total = UINT64_MAX;
    return 0;
}

void session_quota_init(struct session_quota *q, const struct session_store_config *c)
{
    *q = (struct session_quota){.dir = -1,
                                .space = c->space ? c->space : statvfs_space,
                                .bytes_max = c->disk_max_per_uid,
                                .reserve = c->disk_reserve};
    pthread_mutex_init(&q->lock, NULL);
}

void session_quota_fini(struct session_quota *q)
{
    pthread_mutex_destroy(&q->lock);
}

void session_usage_fini(struct session_usage *s)
{
    tdestroy(s->inodes, free);
    s->inodes = NULL;
}

/* --- files; with the lock held --- */

static int by_number(const void *a, const void *b)
{
    const struct inode *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static struct inode *find(const struct session_usage *s, uint64_t number)
{
    const struct inode key = {.number = number};
    struct inode **at = tfind(&key, &s->inodes, by_number);
    return at ? *at : NULL;
}

static uint64_t blocks(uint64_t size)
{
    uint64_t n = size / SESSION_QUOTA_BLOCK + (size % SESSION_QUOTA_BLOCK != 0);
    return n * SESSION_QUOTA_BLOCK;
}

static void resize(struct session_usage *s, struct inode *x, uint64_t size)
{
    s->bytes += blocks(size) - blocks(x->size);
    x->size = size;
}

static struct inode *make(struct session_usage *s, uint64_t number)
{
    struct inode *x = calloc(1, sizeof(*x));
    if (!x) return NULL;
    x->number = number;
    if (tsearch(x, &s->inodes, by_number)) return x;
    free(x);
    return NULL;
}

static void drop(struct session_usage *s, struct inode *x)
{
    assert(x->names && s->names);
    s->names--;
    if (--x->names) return;
    resize(s, x, 0);
    tdelete(x, &s->inodes, by_number);
    free(x);
}

/* --- files --- */

int session_quota_add(struct session_owner *o, uint64_t inode, uint64_t size, uint64_t used)
{
    pthread_mutex_lock(&o->quota->lock);
    struct inode *x = find(&o->usage, inode);
    if (!x) x = make(&o->usage, inode);
    if (x) {
        resize(&o->usage, x, size);
        if (x->used < used) x->used = used;
        x->names++;
        o->usage.names++;
    }
    pthread_mutex_unlock(&o->quota->lock);
    return x ? 0 : -ENOMEM;
}

void session_quota_remove(struct session_owner *o, uint64_t inode)
{
    pthread_mutex_lock(&o->quota->lock);
    struct inode *x = find(&o->usage, inode);
    if (x) drop(&o->usage, x);
    pthread_mutex_unlock(&o->quota->lock);
}

void session_quota_resize(struct session_owner *o, uint64_t inode, uint64_t size)
{
    pthread_mutex_lock(&o->quota->lock);
    struct inode *x = find(&o->usage, inode);
    if (x) resize(&o->usage, x, size);
    pthread_mutex_unlock(&o->quota->lock);
}

uint64_t session_quota_kept(struct session_owner *o, uint64_t inode)
{
    pthread_mutex_lock(&o->quota->lock);
    const struct inode *x = find(&o->usage, inode);
    uint64_t used = x ? x->used : 0;
    pthread_mutex_unlock(&o->quota->lock);
    return used;
}

void session_quota_split(struct session_owner *o, uint64_t inode, uint64_t *own, uint64_t *shared)
{
    pthread_mutex_lock(&o->quota->lock);
    const struct inode *x = find(&o->usage, inode);
    if (x) *(x->names == 1 ? own : shared) += blocks(x->size);
    pthread_mutex_unlock(&o->quota->lock);
}

int session_quota_add_name(struct session_owner *o, int dir, const char *name, uint64_t used)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return errno == ENOENT ? 0 : error_origin(-errno);
    return session_quota_add(o, st.st_ino, (uint64_t)st.st_size, used);
}

int session_quota_unlink(struct session_owner *o, int dir, const char *name)
{
    struct stat st;
    bool there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (unlinkat(dir, name, 0) < 0) return errno == ENOENT ? 0 : error_origin(-errno);
    if (there) session_quota_remove(o, st.st_ino);
    return 0;
}

/* --- limits --- */

/* The bytes of @s that sessions may use, and in *kept the reserve. With the lock held. */
static uint64_t usable(const struct session_quota *q, const struct session_space *s, uint64_t *kept)
{
    *kept = q->reserve < s->total / RESERVE_PART ? q->reserve : s->total / RESERVE_PART;
    return s->free > *kept ? s->free - *kept : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* May @o, who uses @have bytes, use @more of the @left bytes? 0 or -errno (message). With the lock held. */
static int allowed(const struct session_owner *o, uint64_t have, uint64_t more, uint64_t left, uint64_t kept)
{
    char a[32], b[32], c[32];
    const struct session_quota *q = o->quota;
    if (q->bytes_max && (have > q->bytes_max || more > q->bytes_max - have))
        return error_say(-EDQUOT,
                         "your %zu sessions take %s on disk, and the limit of a user is %s (session-bytes): " REMEDY,
                         o->n, format_size(a, have), format_size(b, q->bytes_max));
    if (have <= less(left, more) && more <= less(left, more) - have) return 0;
    if (have < more || left == 0)
        return error_say(-ENOSPC,
                         "the disk is full: the file system of %s has %s left for sessions; %s more stay free "
                         "(disk-reserve)",
                         q->path, format_size(a, left), format_size(b, kept));
    return error_say(
        -EDQUOT,
        "your %zu sessions take %s on disk, this turn may need %s more, and a user may take only as much as "
        "stays free for others (%s are free): " REMEDY,
        o->n, format_size(a, have), format_size(b, more), format_size(c, left));
}

int session_claim(struct session *x, uint64_t bytes)
{
    struct session_owner *o = x->owner;
    struct session_quota *q = o->quota;
    struct session_space s;
    uint64_t kept;
    assert(x->busy);
    if (q->dir < 0) return 0;
    int r = q->space(q->dir, &s);
    if (r < 0) return error_in(r, "the disk of the sessions");
    bytes = blocks(bytes);
    pthread_mutex_lock(&q->lock);
    struct session_usage *own = &o->usage;
    uint64_t left = less(usable(q, &s, &kept), q->claimed);
    r = allowed(o, own->bytes + own->claimed, bytes, left, kept);
    if (r == 0 && s.files != UINT64_MAX && own->names + 2 * NAMES_MORE > s.files)
        r = error_say(-EDQUOT,
                      "your %zu sessions have %" PRIu64 " files, and the file system has room for %" PRIu64
                      " more: 'hob sessions rm NAME' frees some",
                      o->n, own->names, s.files);
    if (r == 0) {
        x->charged.disk += bytes;
        own->claimed += bytes;
        q->claimed += bytes;
    }
    pthread_mutex_unlock(&q->lock);
    return r;
}

void session_unclaim(struct session *x)
{
    struct session_quota *q = x->owner->quota;
    pthread_mutex_lock(&q->lock);
    x->owner->usage.claimed -= x->charged.disk;
    q->claimed -= x->charged.disk;
    x->charged.disk = 0;
    pthread_mutex_unlock(&q->lock);
}

void session_take_claim(struct session *dst, struct session *src)
{
    assert(dst->owner == src->owner);
    dst->charged.disk += src->charged.disk;
    src->charged.disk = 0;
}

int session_quota_fits(struct session_owner *o, uint64_t bytes)
{
    struct session_quota *q = o->quota;
    struct session_space s;
    uint64_t kept;
    char a[32], b[32], c[32];
    int r = q->space(q->dir, &s);
    if (r < 0) return r;
    pthread_mutex_lock(&q->lock);
    uint64_t left = usable(q, &s, &kept);
    pthread_mutex_unlock(&q->lock);
    if (blocks(bytes) <= left) return 0;
    return error_say(-ENOSPC, "it needs %s, and %s of the disk are free for sessions; %s more stay free (disk-reserve)",
                     format_size(a, bytes), format_size(b, left), format_size(c, kept));
}

void session_disk(const struct session_store *s, uid_t uid, uint64_t *bytes, uint64_t *max)
{
    struct session_quota *q = (struct session_quota *)&s->quota; /* only its lock is changed */
    *bytes = 0;
    pthread_mutex_lock(&q->lock);
    *max = q->bytes_max;
    for (const struct session_owner *o = s->owners; o; o = o->next)
        if (uid == (uid_t)-1 || o->uid == uid) *bytes += o->usage.bytes;
    pthread_mutex_unlock(&q->lock);
}

void session_store_limit(struct session_store *s, const struct session_store_config *c)
{
    pthread_mutex_lock(&s->quota.lock);
    s->quota.bytes_max = c->disk_max_per_uid;
    s->quota.reserve = c->disk_reserve;
    pthread_mutex_unlock(&s->quota.lock);
    s->sessions_max = c->sessions_max_per_uid ? c->sessions_max_per_uid : SESSIONS_MAX;
}
