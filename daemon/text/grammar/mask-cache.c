/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/mask-cache.h"
#include "daemon/text/grammar/mask-part.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

struct entry {
    struct entry *next;          /* of the bucket */
    struct entry *newer, *older; /* by last use */
    struct mask_part *part;
    uint64_t hash;
    size_t n;
    char key[];
};

struct mask_cache {
    pthread_mutex_t lock;
    struct entry *buckets[BUCKETS];
    struct entry *newest, *oldest;
    size_t bytes, unowned; /* of all parts; of those that are charged to nobody */
};

int mask_cache_new(struct mask_cache **out)
{
    struct mask_cache *c = calloc(1, sizeof(*c));
    if (!c) return error_origin(-ENOMEM);
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return 0;
}

static uint64_t hash_key(const char *key, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)key[i]) * 0x100000001b3u;
    return h;
}

static void unlink_entry(struct mask_cache *c, struct entry *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void make_newest(struct mask_cache *c, struct entry *e)
{
    e->older = c->newest;
    e->newer = NULL;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static size_t entry_bytes(const struct entry *e)
{
    return sizeof(*e) + e->n + mask_part_bytes(e->part);
}

/* The bytes in the cache of the owner of @e. */
static size_t *cached_of(struct mask_cache *c, const struct entry *e)
{
    return e->part->memory ? &e->part->memory->cached : &c->unowned;
}

static void evict(struct mask_cache *c, struct entry *e)
{
    struct entry **at = &c->buckets[e->hash % BUCKETS];
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    unlink_entry(c, e);
    c->bytes -= entry_bytes(e);
    *cached_of(c, e) -= entry_bytes(e);
    mask_part_unref(e->part);
    free(e);
}

struct mask_cache *mask_cache_free(struct mask_cache *c)
{
    if (!c) return NULL;
    while (c->oldest) evict(c, c->oldest);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

static struct entry *find(struct mask_cache *c, const char *key, size_t n, uint64_t hash)
{
    for (struct entry *e = c->buckets[hash % BUCKETS]; e; e = e->next)
        if (e->hash == hash && e->n == n && !memcmp(e->key, key, n)) return e;
    return NULL;
}

struct mask_part *mask_cache_get(struct mask_cache *c, const char *key, size_t n)
{
    uint64_t hash = hash_key(key, n);
    struct mask_part *part = NULL;
    pthread_mutex_lock(&c->lock);
    struct entry *e = find(c, key, n, hash);
    if (e) {
        unlink_entry(c, e);
        make_newest(c, e);
        part = mask_part_ref(e->part);
    }
    pthread_mutex_unlock(&c->lock);
    return part;
}

/* The oldest entry of the owner with most bytes, but not @but; NULL: there is none. */
static struct entry *victim(struct mask_cache *c, const struct entry *but)
{
    struct entry *v = NULL;
    for (struct entry *e = c->oldest; e; e = e->newer)
        if (e != but && (!v || *cached_of(c, e) > *cached_of(c, v))) v = e;
    return v;
}

void mask_cache_put(struct mask_cache *c, const char *key, size_t n, struct mask_part *part)
{
    struct entry *e = calloc(1, sizeof(*e) + n);
    if (!e) return;
    e->hash = hash_key(key, n);
    e->n = n;
    e->part = mask_part_ref(part);
    memcpy(e->key, key, n);
    pthread_mutex_lock(&c->lock);
    struct entry *old = find(c, key, n, e->hash);
    if (old) evict(c, old);
    e->next = c->buckets[e->hash % BUCKETS];
    c->buckets[e->hash % BUCKETS] = e;
    make_newest(c, e);
    c->bytes += entry_bytes(e);
    *cached_of(c, e) += entry_bytes(e);
    for (struct entry *v; c->bytes > MASK_CACHE_BYTES && (v = victim(c, e));) evict(c, v);
    pthread_mutex_unlock(&c->lock);
}

bool mask_cache_evict(struct mask_cache *c, struct grammar_memory *m)
{
    pthread_mutex_lock(&c->lock);
    struct entry *e = c->oldest;
    while (e && e->part->memory != m) e = e->newer;
    if (e) evict(c, e);
    pthread_mutex_unlock(&c->lock);
    return e;
}
