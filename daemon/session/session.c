/* SPDX-License-Identifier: MIT */
/* Acquiring and releasing sessions, and unloading idle ones to free memory. */
#include "daemon/session/session.h"
#include "daemon/session/store.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- memory --- */

/* Its content is on disk, and no request uses it. */
static bool unloadable(const struct session *x)
{
    return !x->busy && x->loaded && x->log.saved;
}

static void unload(struct session *x)
{
    session_clear(x);
    x->loaded = false;
    session_resident_remove(x);
}

/* The least recently used session of @o that can be unloaded, except @but. */
static struct session *unloadable_of(const struct session_owner *o, const struct session *but)
{
    struct session *x = o->oldest_resident;
    while (x && (x == but || !unloadable(x))) x = x->links.newer_resident;
    return x;
}

/* The same of all owners. */
static struct session *unloadable_of_all(const struct session_store *s)
{
    struct session *oldest = NULL;
    for (const struct session_owner *o = s->owners; o; o = o->next) {
        struct session *x = unloadable_of(o, NULL);
        if (x && (!oldest || x->last_use.realtime < oldest->last_use.realtime)) oldest = x;
    }
    return oldest;
}

bool session_idle_usec(const struct session_store *s, uint64_t *usec)
{
    const struct session *x = unloadable_of_all(s);
    uint64_t realtime, boottime;
    if (!x) return false;
    s->clock(&realtime, &boottime);
    *usec = realtime > x->last_use.realtime ? realtime - x->last_use.realtime : 0;
    return true;
}

bool session_unload_idle(struct session_store *s)
{
    struct session *x = unloadable_of_all(s);
    if (x) unload(x);
    return x;
}

/* Unload idle sessions of @o until @x (NULL: a new session) fits into its limit of memory. -EDQUOT (message): it does
 * not fit, and is wanted for a turn. */
static int make_room(struct session_store *s, struct session_owner *o, const struct session *x, bool turn)
{
    uint64_t more = x && !x->loaded ? x->listed.bytes : 0;
    struct session *y;
    while (atomic_load(&o->bytes) + more > s->bytes_max && (y = unloadable_of(o, x))) unload(y);
    if (!turn) return 0;
    char have[32], max[32];
    uint64_t bytes = atomic_load(&o->bytes) + more;
    if (bytes <= s->bytes_max) return 0;
    return error_say(-EDQUOT, "your %zu sessions hold %s, the limit is %s", o->n, format_size(have, bytes),
                     format_size(max, s->bytes_max));
}

int session_fits(struct session_store *s, const struct session *x, uint64_t more)
{
    struct session_owner *o = x->owner;
    struct session *y;
    char part[32], have[32], max[32];
    assert(x->busy);
    while (atomic_load(&o->bytes) + more > s->bytes_max && (y = unloadable_of(o, x))) unload(y);
    uint64_t bytes = atomic_load(&o->bytes);
    if (bytes + more <= s->bytes_max) return 0;
    return error_say(-EDQUOT, "the messages have %s, and your %zu sessions hold %s: the limit is %s",
                     format_size(part, more), o->n, format_size(have, bytes), format_size(max, s->bytes_max));
}

/* --- acquiring --- */

static int name_check(const char *name, size_t len)
{
    if (len == 0) return error_say(-EINVAL, "a session's name may not be empty");
    if (len > PROTO_NAME_MAX)
        return error_say(-EINVAL, "a session's name has at most %d bytes, this one %zu", PROTO_NAME_MAX, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f) return error_say(-EINVAL, "a session's name may not hold control characters");
        if (c == '/') return error_say(-EINVAL, "a session's name may not hold '/'");
    }
    return 0;
}

/* Make @x busy, and the most recently used. Its content counts from now on, because others may be acquired before it is
 * loaded. */
static void use(struct session_store *s, struct session *x)
{
    uint64_t realtime;
    s->clock(&realtime, &x->last_use.boot);
    s->latest = x->last_use.realtime = realtime > s->latest ? realtime : s->latest + 1;
    session_measure(x);
    x->busy = true;
    x->charged.expected = x->listed.bytes;
    session_charge(x);
    session_order_remove(x);
    session_order_append(x);
    session_resident_append(x);
}

static int use_for(struct session_store *s, struct session *x, bool turn)
{
    if (x->busy)
        return error_say(-EBUSY, "session '%.*s' is in use by another request", (int)x->key.name.len, x->key.name.data);
    int r = make_room(s, x->owner, x, turn);
    if (r == 0) use(s, x);
    return r;
}

/* *out: the session of this name, or NULL. 0; -EINVAL (message): the name is invalid, or another name has its hash. */
static int lookup(const struct session_store *s, uid_t uid, const char *name, size_t len, uint8_t hash[16],
                  struct session **out)
{
    int r = name_check(name, len);
    if (r < 0) return r;
    s->hash(hash, name, len);
    struct session *x = session_find(s, uid, hash);
    if (x && (x->key.name.len != len || memcmp(x->key.name.data, name, len) != 0))
        return error_say(-EINVAL, "the name '%.*s' has the same hash as session '%s'; choose another", (int)len, name,
                         x->key.name.data);
    *out = x;
    return 0;
}

/* A new busy session. @turn: the limits apply. */
static int make_busy(struct session_store *s, uid_t uid, const char *name, size_t len, const uint8_t hash[16],
                     bool turn, struct session **out)
{
    struct session_owner *o = session_get_owner(s, uid);
    if (!o) return -ENOMEM;
    if (turn && o->n >= s->sessions_max)
        return error_say(-EDQUOT,
                         "you have %zu sessions, and the limit is %" PRIu32
                         " (session-count): 'hob sessions rm NAME' removes one",
                         o->n, s->sessions_max);
    int r = make_room(s, o, NULL, turn);
    if (r < 0) return r;
    struct session *x = session_make(s, uid, name, len, hash);
    if (!x) return -ENOMEM;
    session_order_append(x);
    x->loaded = true;
    use(s, x);
    *out = x;
    return 0;
}

int session_acquire(struct session_store *s, uid_t uid, const char *name, size_t len, bool create, struct session **out)
{
    uint8_t hash[16];
    struct session *x;
    int r = lookup(s, uid, name, len, hash, &x);
    if (r < 0) return r;
    if (!x && !create) return error_say(-ENOENT, "there is no session '%.*s'", (int)len, name);
    if (!x) return make_busy(s, uid, name, len, hash, true, out);
    r = use_for(s, x, create);
    if (r == 0) *out = x;
    return r;
}

int session_acquire_last(struct session_store *s, uid_t uid, struct session **out)
{
    const struct session_owner *o = session_find_owner(s, uid);
    if (!o || !o->newest) return error_say(-ENOENT, "there is no session to continue");
    struct session *x = o->newest;
    int r = use_for(s, x, true);
    if (r == 0) *out = x;
    return r;
}

static int make_beside(struct session_store *s, const struct session *src, const char *name, size_t len, bool turn,
                       struct session **out)
{
    uint8_t hash[16];
    struct session *x;
    assert(src->busy);
    int r = lookup(s, src->key.uid, name, len, hash, &x);
    if (r < 0) return r;
    if (x) return error_say(-EEXIST, "there is a session '%.*s' already", (int)len, name);
    return make_busy(s, src->key.uid, name, len, hash, turn, out);
}

int session_fork(struct session_store *s, const struct session *src, const char *name, size_t len, struct session **out)
{
    int r = make_beside(s, src, name, len, true, out);
    if (r == 0) (*out)->listed = src->listed; /* a fork that shares the log is not loaded */
    return r;
}

int session_rename(struct session_store *s, const struct session *src, const char *name, size_t len,
                   struct session **out)
{
    return make_beside(s, src, name, len, false, out);
}

/* Older than @ttl by both clocks. The realtime clock may have been set forward since the last use; the boot clock
 * cannot be, but knows only the uses by this process. */
static bool expired(const struct session *x, uint64_t ttl, uint64_t realtime, uint64_t boottime)
{
    if (realtime <= x->last_use.realtime || realtime - x->last_use.realtime <= ttl) return false;
    return !x->last_use.boot || (boottime > x->last_use.boot && boottime - x->last_use.boot > ttl);
}

bool session_acquire_expired(struct session_store *s, uint64_t ttl_usec, struct session **out)
{
    uint64_t realtime, boottime;
    struct session *first = NULL;
    if (!ttl_usec) return false;
    s->clock(&realtime, &boottime);
    for (const struct session_owner *o = s->owners; o; o = o->next)
        for (struct session *x = o->oldest; x; x = x->links.newer) {
            if (x->busy || !expired(x, ttl_usec, realtime, boottime)) continue;
            if (!first || x->last_use.realtime < first->last_use.realtime) first = x;
            break;
        }
    if (!first) return false;
    first->busy = true; /* without a new last use */
    session_resident_append(first);
    *out = first;
    return true;
}

bool session_acquire_unsaved(struct session_store *s, struct session **out)
{
    for (const struct session_owner *o = s->owners; s->dir >= 0 && o; o = o->next)
        for (struct session *x = o->oldest_resident; x; x = x->links.newer_resident)
            if (!x->busy && x->loaded && !x->log.saved) {
                x->busy = true;
                *out = x;
                return true;
            }
    return false;
}

void session_release(struct session_store *s, struct session *x)
{
    assert(x->busy);
    session_unclaim(x);
    x->busy = false;
    x->charged.expected = 0;
    session_charge(x);
    if (x->loaded && x->content.n_ids == 0 && x->content.n_messages == 0 && x->content.text.len == 0 &&
        x->content.failed.len == 0 && x->log.size == 0) {
        session_delete(s, x);
        return;
    }
    session_measure(x);
    if (!x->loaded) {
        session_resident_remove(x);
        return;
    }
    x->listed.ids = x->content.n_ids;
    x->listed.messages = x->content.n_messages;
    x->listed.bytes = x->charged.memory;
}

void session_revert(struct session *x)
{
    assert(x->busy);
    session_clear(x);
    x->loaded = x->log.size == 0;
}

/* --- reading --- */

const struct proto_text *session_name(const struct session *x)
{
    return &x->key.name;
}

uid_t session_uid(const struct session *x)
{
    return x->key.uid;
}

uint64_t session_last_use(const struct session *x)
{
    return x->last_use.realtime;
}

bool session_loaded(const struct session *x)
{
    return x->loaded;
}

bool session_saved(const struct session *x)
{
    return x->log.saved;
}
