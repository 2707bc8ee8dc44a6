/* SPDX-License-Identifier: MIT */
/* Which sessions there are: by name, by uid, in the order of use, and those in memory. */
#include "daemon/cache/session-log.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static struct session **bucket(const struct session_store *s, uid_t uid, const uint8_t hash[16])
{
    return &s->buckets[XXH3_64bits_withSeed(hash, 16, s->seed ^ uid) & (s->n_buckets - 1)];
}

struct session *session_find(const struct session_store *s, uid_t uid, const uint8_t hash[16])
{
    struct session *x = *bucket(s, uid, hash);
    while (x && (x->uid != uid || memcmp(x->hash, hash, sizeof(x->hash)) != 0)) x = x->next_hashed;
    return x;
}

/* Twice the buckets when they are full; without memory the chains only get longer. */
static void grow(struct session_store *s)
{
    if (s->n < s->n_buckets) return;
    struct session **old = s->buckets, **new = calloc(s->n_buckets * 2, sizeof(struct session *));
    if (!new) return;
    size_t n_old = s->n_buckets;
    s->buckets = new;
    s->n_buckets *= 2;
    for (size_t i = 0; i < n_old; i++)
        for (struct session *x = old[i], *next; x; x = next) {
            struct session **b = bucket(s, x->uid, x->hash);
            next = x->next_hashed;
            x->next_hashed = *b;
            *b = x;
        }
    free(old);
}

struct session_owner *session_find_owner(const struct session_store *s, uid_t uid)
{
    struct session_owner *o = s->owners;
    while (o && o->uid != uid) o = o->next;
    return o;
}

struct session_owner *session_get_owner(struct session_store *s, uid_t uid)
{
    struct session_owner *o = session_find_owner(s, uid);
    if (o) return o;
    o = calloc(1, sizeof(*o));
    if (!o) return NULL;
    *o = (struct session_owner){.uid = uid, .dir = s->dir, .path = s->path, .room = &s->room, .next = s->owners};
    return s->owners = o;
}

/* --- the order of use --- */

void session_order_remove(struct session *x)
{
    struct session_owner *o = x->owner;
    *(x->older ? &x->older->newer : &o->oldest) = x->newer;
    *(x->newer ? &x->newer->older : &o->newest) = x->older;
    x->older = x->newer = NULL;
}

void session_order_append(struct session *x)
{
    struct session_owner *o = x->owner;
    x->older = o->newest;
    *(o->newest ? &o->newest->newer : &o->oldest) = x;
    o->newest = x;
}

void session_resident_remove(struct session *x)
{
    struct session_owner *o = x->owner;
    if (!x->resident) return;
    *(x->older_resident ? &x->older_resident->newer_resident : &o->oldest_resident) = x->newer_resident;
    *(x->newer_resident ? &x->newer_resident->older_resident : &o->newest_resident) = x->older_resident;
    x->older_resident = x->newer_resident = NULL;
    x->resident = false;
}

void session_resident_append(struct session *x)
{
    struct session_owner *o = x->owner;
    session_resident_remove(x);
    x->older_resident = o->newest_resident;
    *(o->newest_resident ? &o->newest_resident->newer_resident : &o->oldest_resident) = x;
    o->newest_resident = x;
    x->resident = true;
}

/* --- making and removing --- */

struct session *session_make(struct session_store *s, uid_t uid, const char *name, size_t len, const uint8_t hash[16])
{
    struct session_owner *o = session_get_owner(s, uid);
    struct session *x = o ? calloc(1, sizeof(*x)) : NULL;
    if (!x || proto_text_set(&x->name, name, len) < 0) {
        free(x);
        return NULL;
    }
    x->uid = uid;
    x->owner = o;
    memcpy(x->hash, hash, sizeof(x->hash));
    session_charge(x);
    grow(s);
    struct session **b = bucket(s, uid, hash);
    x->next_hashed = *b;
    *b = x;
    s->n++;
    o->n++;
    return x;
}

void session_delete(struct session_store *s, struct session *x)
{
    struct session_owner *o = x->owner;
    struct session **at = bucket(s, x->uid, x->hash);
    while (*at != x) at = &(*at)->next_hashed;
    *at = x->next_hashed;
    s->n--;
    o->n--;
    session_order_remove(x);
    session_resident_remove(x);
    session_clear(x);
    session_unclaim(x);
    session_log_drop(x);
    atomic_fetch_sub(&o->bytes, x->bytes);
    proto_text_fini(&x->name);
    free(x);
}
