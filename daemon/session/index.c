/* SPDX-License-Identifier: MIT */
/* The index of the store: sessions by name, by uid, in the order of use, and those in memory. */
#include "daemon/session/session-log.h"
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
    while (x && (x->key.uid != uid || memcmp(x->key.hash, hash, sizeof(x->key.hash)) != 0)) x = x->links.next_hashed;
    return x;
}

/* Double the buckets when they are full. Without memory for that, the chains become longer. */
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
            struct session **b = bucket(s, x->key.uid, x->key.hash);
            next = x->links.next_hashed;
            x->links.next_hashed = *b;
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
    *o = (struct session_owner){.uid = uid, .dir = s->dir, .path = s->path, .quota = &s->quota, .next = s->owners};
    return s->owners = o;
}

/* --- the order of use --- */

void session_order_remove(struct session *x)
{
    struct session_owner *o = x->owner;
    struct session_links *l = &x->links;
    *(l->older ? &l->older->links.newer : &o->oldest) = l->newer;
    *(l->newer ? &l->newer->links.older : &o->newest) = l->older;
    l->older = l->newer = NULL;
}

void session_order_append(struct session *x)
{
    struct session_owner *o = x->owner;
    x->links.older = o->newest;
    *(o->newest ? &o->newest->links.newer : &o->oldest) = x;
    o->newest = x;
}

void session_resident_remove(struct session *x)
{
    struct session_owner *o = x->owner;
    struct session_links *l = &x->links;
    if (!l->resident) return;
    *(l->older_resident ? &l->older_resident->links.newer_resident : &o->oldest_resident) = l->newer_resident;
    *(l->newer_resident ? &l->newer_resident->links.older_resident : &o->newest_resident) = l->older_resident;
    l->older_resident = l->newer_resident = NULL;
    l->resident = false;
}

void session_resident_append(struct session *x)
{
    struct session_owner *o = x->owner;
    session_resident_remove(x);
    x->links.older_resident = o->newest_resident;
    *(o->newest_resident ? &o->newest_resident->links.newer_resident : &o->oldest_resident) = x;
    o->newest_resident = x;
    x->links.resident = true;
}

/* --- creating and removing --- */

struct session *session_make(struct session_store *s, uid_t uid, const char *name, size_t len, const uint8_t hash[16])
{
    struct session_owner *o = session_get_owner(s, uid);
    struct session *x = o ? calloc(1, sizeof(*x)) : NULL;
    if (!x || proto_text_set(&x->key.name, name, len) < 0) {
        free(x);
        return NULL;
    }
    x->key.uid = uid;
    x->owner = o;
    memcpy(x->key.hash, hash, sizeof(x->key.hash));
    session_charge(x);
    grow(s);
    struct session **b = bucket(s, uid, hash);
    x->links.next_hashed = *b;
    *b = x;
    s->n++;
    o->n++;
    return x;
}

void session_delete(struct session_store *s, struct session *x)
{
    struct session_owner *o = x->owner;
    struct session **at = bucket(s, x->key.uid, x->key.hash);
    while (*at != x) at = &(*at)->links.next_hashed;
    *at = x->links.next_hashed;
    s->n--;
    o->n--;
    session_order_remove(x);
    session_resident_remove(x);
    session_clear(x);
    session_unclaim(x);
    session_log_drop(x);
    atomic_fetch_sub(&o->bytes, x->charged.memory);
    proto_text_fini(&x->key.name);
    free(x);
}
