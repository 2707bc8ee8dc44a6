/* SPDX-License-Identifier: MIT */
/* Opening and closing a store. */
#include "daemon/session/dir.h"
#include "daemon/session/quota.h"
#include "daemon/session/scan.h"
#include "daemon/session/session.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include "libcommon/log.h"
#include "libcommon/random.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#define BUCKETS_MIN 64

static void real_clock(uint64_t *realtime, uint64_t *boottime)
{
    struct timespec r, b;
    clock_gettime(CLOCK_REALTIME, &r);
    clock_gettime(CLOCK_BOOTTIME, &b);
    *realtime = (uint64_t)r.tv_sec * 1000000 + (uint64_t)r.tv_nsec / 1000;
    *boottime = (uint64_t)b.tv_sec * 1000000 + (uint64_t)b.tv_nsec / 1000;
}

static void real_hash(uint8_t out[16], const char *name, size_t len)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(name, len));
    memcpy(out, c.digest, 16);
}

struct session_store *session_store_free(struct session_store *s)
{
    if (!s) return NULL;
    while (s->owners) {
        struct session_owner *o = s->owners;
        while (o->oldest) session_delete(s, o->oldest);
        s->owners = o->next;
        session_usage_fini(&o->usage);
        free(o);
    }
    if (s->lock >= 0) close(s->lock);
    if (s->dir >= 0) close(s->dir);
    session_quota_fini(&s->quota);
    free(s->path);
    free(s->buckets);
    free(s->replacing);
    free(s);
    return NULL;
}

int session_store_new(struct session_store **out, uint64_t bytes_max_per_uid)
{
    static const struct session_store_config memory = {0};
    return session_store_open(out, bytes_max_per_uid, &memory);
}

/* --- scanning the directory --- */

static int keep_replacing(struct session_store *s, struct session *x, const struct session_found *f)
{
    static const uint8_t none[16];
    if (memcmp(f->head.replaced_hash, none, sizeof(none)) == 0) return 0;
    struct replacing *list = reallocarray(s->replacing, s->n_replacing + 1, sizeof(*list));
    if (!list) return -ENOMEM;
    s->replacing = list;
    struct replacing *one = &list[s->n_replacing++];
    one->to = x;
    memcpy(one->hash, f->head.replaced_hash, sizeof(one->hash));
    memcpy(one->sum, f->head.replaced_sum, sizeof(one->sum));
    return 0;
}

static int scanned(void *ctx, const struct session_found *f)
{
    struct session_store *s = ctx;
    struct session *x = session_make(s, f->head.uid, f->head.name, f->head.name_len, f->hash);
    if (!x) return -ENOMEM;
    session_order_append(x);
    if (session_log_place(x, f->inode, f->size) < 0) return -ENOMEM;
    memcpy(x->log.sum, f->sum, sizeof(x->log.sum));
    memcpy(x->log.replaced_hash, f->head.replaced_hash, sizeof(x->log.replaced_hash));
    memcpy(x->log.replaced_sum, f->head.replaced_sum, sizeof(x->log.replaced_sum));
    memcpy(x->log.bases, f->bases.list, sizeof(x->log.bases));
    x->log.n_bases = f->bases.n;
    x->last_use.realtime = f->summary.used;
    x->listed.ids = f->summary.ids;
    x->listed.messages = f->summary.messages;
    x->listed.bytes = f->summary.bytes;
    if (x->last_use.realtime > s->latest) s->latest = x->last_use.realtime;
    return keep_replacing(s, x, f);
}

static bool exists(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Does a file exist that may need the base: a *.bad file, or a log that was not read (@x NULL)? */
static bool needed(const struct session_beside *b, const struct session *x)
{
    char name[SESSION_FILE_NAME];
    bool found = false;
    session_file_name(name, b->hash, ".log");
    if (!x && exists(b->dir, name)) return true;
    for (int i = 0; !found && i < SESSION_BADS; i++) {
        session_bad_name(name, b->hash, i);
        found = exists(b->dir, name);
    }
    return found;
}

/* Count the file for its owner, or remove a base that no file needs: a crash left it. */
static int scanned_beside(void *ctx, const struct session_beside *b)
{
    struct session_store *s = ctx;
    struct session *x = session_find(s, b->uid, b->hash);
    struct session_owner *o = session_get_owner(s, b->uid);
    struct stat st;
    if (!o) return -ENOMEM;
    if (b->base >= 0 && x && (uint32_t)b->base < x->log.n_bases) {
        struct session_base *base = &x->log.bases[b->base];
        if (fstatat(b->dir, b->name, &st, AT_SYMLINK_NOFOLLOW) < 0) return 0; /* the load reports it */
        base->inode = st.st_ino;
        return session_quota_add(o, st.st_ino, (uint64_t)st.st_size, base->size);
    }
    if (b->base < 0 || needed(b, x)) return session_quota_add_name(o, b->dir, b->name, 0);
    (void)!unlinkat(b->dir, b->name, 0);
    return 0;
}

/* A rename that a crash interrupted left both logs. Remove the old one, unless it has changed since. */
static void finish_renames(struct session_store *s)
{
    for (size_t i = 0; i < s->n_replacing; i++) {
        const struct replacing *one = &s->replacing[i];
        uid_t uid = one->to->key.uid;
        struct session *old = session_find(s, uid, one->hash);
        if (!old || memcmp(old->log.sum, one->sum, sizeof(one->sum)) != 0) continue;
        _cleanup_(closep) int dir = session_dir_of(s->dir, s->path, uid, false);
        int r = dir < 0 ? dir : session_log_unlink(dir, old);
        char hex[SESSION_HEX];
        hex_write(hex, old->key.hash, 16);
        if (r < 0) {
            log_warning("%s/%" PRIu32 "/%s.log: the session was renamed, but this file cannot be removed: %s", s->path,
                        (uint32_t)uid, hex, error_text(r));
            session_log_leave(old);
        }
        for (size_t j = i + 1; j < s->n_replacing; j++) /* the old one may be a rename itself */
            if (s->replacing[j].to == old) s->replacing[j].to = one->to;
        session_delete(s, old);
    }
    free(s->replacing);
    s->replacing = NULL;
    s->n_replacing = 0;
}

static int by_use(const void *a, const void *b)
{
    const struct session *x = *(struct session *const *)a, *y = *(struct session *const *)b;
    return (x->last_use.realtime > y->last_use.realtime) - (x->last_use.realtime < y->last_use.realtime);
}

static int sort_owner(struct session_owner *o)
{
    _cleanup_(freep) struct session **list = calloc(o->n ? o->n : 1, sizeof(struct session *));
    size_t n = 0;
    if (!list) return -ENOMEM;
    for (struct session *x = o->oldest; x; x = x->links.newer) list[n++] = x;
    qsort(list, n, sizeof(struct session *), by_use);
    for (size_t i = 0; i < n; i++) {
        session_order_remove(list[i]);
        session_order_append(list[i]);
    }
    return 0;
}

static int open_dir(struct session_store *s, const char *dir)
{
    int r = session_dir_open(&s->dir, &s->lock, dir);
    if (r < 0) return r;
    s->path = strdup(dir);
    if (!s->path) return -ENOMEM;
    s->quota.dir = s->dir;
    s->quota.path = s->path;
    r = session_dir_scan(s->dir, s->path, s->hash, scanned, s);
    if (r < 0) return r;
    finish_renames(s);
    r = session_dir_beside(s->dir, s->path, scanned_beside, s);
    for (struct session_owner *o = s->owners; r == 0 && o; o = o->next) r = sort_owner(o);
    return r;
}

int session_store_open(struct session_store **out, uint64_t bytes_max_per_uid, const struct session_store_config *c)
{
    struct session_store *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->bytes_max = bytes_max_per_uid;
    session_quota_init(&s->quota, c);
    s->sessions_max = c->sessions_max_per_uid ? c->sessions_max_per_uid : SESSIONS_MAX;
    s->clock = c->clock ? c->clock : real_clock;
    s->hash = c->hash ? c->hash : real_hash;
    s->dir = s->lock = -1;
    s->n_buckets = BUCKETS_MIN;
    s->buckets = calloc(s->n_buckets, sizeof(struct session *));
    int r = s->buckets ? 0 : -ENOMEM;
    if (r == 0) r = random_fill(&s->seed, sizeof(s->seed));
    if (r == 0 && c->dir) r = open_dir(s, c->dir);
    if (r < 0) {
        session_store_free(s);
        return r;
    }
    *out = s;
    return 0;
}
