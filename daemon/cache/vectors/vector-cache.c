/* SPDX-License-Identifier: MIT */
#include "daemon/cache/vectors/vector-cache.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { BUCKETS_LEAST = 256, SHED_SHARE = 4, USERS_IDLE = 64 };

struct vector_entry {
    struct vector_entry *chain;       /* of the bucket */
    struct vector_entry *prev, *next; /* of the user, the last used first */
    struct vector_user *user;
    uint64_t hash;
    uint8_t namespace[16];
    uint32_t pooling, tokens;
    size_t question_len, len;
    size_t bytes;   /* charged */
    char *texts;    /* question, then text; behind the vector */
    float vector[]; /* [dim] */
};

struct vector_user {
    uid_t uid;
    struct vector_user *next;
    struct vector_entry *head, *tail;
    struct vector_stats stats;
};

static uint64_t hash_of(const struct vector_key *k)
{
    uint64_t seed;
    memcpy(&seed, k->namespace, sizeof(seed));
    seed ^= k->pooling + (k->question ? XXH3_64bits(k->question, k->question_len) * 3 : 0);
    return XXH3_64bits_withSeed(k->text, k->len, seed);
}

static bool is_of(const struct vector_entry *e, const struct vector_key *k, uint64_t hash)
{
    return e->hash == hash && e->pooling == k->pooling && e->len == k->len && e->question_len == k->question_len &&
           memcmp(e->namespace, k->namespace, sizeof(e->namespace)) == 0 &&
           (!k->question_len || memcmp(e->texts, k->question, k->question_len) == 0) &&
           (!k->len || memcmp(e->texts + k->question_len, k->text, k->len) == 0);
}

static struct vector_entry *look(const struct vector_cache *c, const struct vector_key *k, uint64_t hash)
{
    struct vector_entry *e = c->n_buckets ? c->buckets[hash % c->n_buckets] : NULL;
    while (e && !is_of(e, k, hash)) e = e->chain;
    return e;
}

/* --- users --- */

/* The user with @uid, who is made if there is none; NULL: no memory. */
static struct vector_user *user_of(struct vector_cache *c, uid_t uid)
{
    struct vector_user *u = c->users;
    while (u && u->uid != uid) u = u->next;
    if (u) return u;
    u = calloc(1, sizeof(*u));
    if (!u) return NULL;
    u->uid = uid;
    u->next = c->users;
    c->users = u;
    return u;
}

/* Users without entries are forgotten if there are many. */
static void forget_users(struct vector_cache *c)
{
    size_t idle = 0;
    for (struct vector_user **at = &c->users, *u; (u = *at);) {
        if (!u->head && ++idle > USERS_IDLE) {
            *at = u->next;
            free(u);
        } else {
            at = &u->next;
        }
    }
}

static void list_out(struct vector_user *u, struct vector_entry *e)
{
    *(e->prev ? &e->prev->next : &u->head) = e->next;
    *(e->next ? &e->next->prev : &u->tail) = e->prev;
}

static void list_front(struct vector_user *u, struct vector_entry *e)
{
    e->prev = NULL;
    e->next = u->head;
    *(u->head ? &u->head->prev : &u->tail) = e;
    u->head = e;
}

/* --- entries --- */

static void remove_entry(struct vector_cache *c, struct vector_entry *e)
{
    struct vector_entry **at = &c->buckets[e->hash % c->n_buckets];
    while (*at != e) at = &(*at)->chain;
    *at = e->chain;
    list_out(e->user, e);
    e->user->stats.n--;
    e->user->stats.bytes -= e->bytes;
    c->bytes -= e->bytes;
    c->n--;
    free(e);
}

/* Remove entries until at most @most bytes are left. */
static void shrink(struct vector_cache *c, uint64_t most)
{
    while (c->n && c->bytes > most) {
        struct vector_user *largest = c->users;
        for (struct vector_user *u = c->users; u; u = u->next)
            if (u->stats.bytes > largest->stats.bytes) largest = u;
        remove_entry(c, largest->tail);
    }
}

/* Twice as many buckets, once each has an entry. Without memory the chains grow. */
static void grow(struct vector_cache *c)
{
    size_t n = c->n_buckets ? 2 * c->n_buckets : BUCKETS_LEAST;
    if (c->n < c->n_buckets) return;
    struct vector_entry **to = calloc(n, sizeof(*to));
    if (!to) return;
    for (size_t i = 0; i < c->n_buckets; i++)
        for (struct vector_entry *e = c->buckets[i], *next; e; e = next) {
            next = e->chain;
            e->chain = to[e->hash % n];
            to[e->hash % n] = e;
        }
    free(c->buckets);
    c->buckets = to;
    c->n_buckets = n;
}

bool vector_cache_find(struct vector_cache *c, const struct vector_key *key, uid_t uid, float *out, uint32_t *tokens)
{
    if (!c->bytes_max) return false;
    struct vector_user *u = user_of(c, uid);
    struct vector_entry *e = look(c, key, hash_of(key));
    if (u) *(e ? &u->stats.found : &u->stats.missed) += 1;
    if (!e) return false;
    list_out(e->user, e);
    list_front(e->user, e);
    memcpy(out, e->vector, c->dim * sizeof(*out));
    *tokens = e->tokens;
    return true;
}

void vector_cache_add(struct vector_cache *c, const struct vector_key *key, uid_t uid, const float *vector,
                      uint32_t tokens)
{
    const uint64_t hash = hash_of(key);
    size_t bytes = sizeof(struct vector_entry) + sizeof(void *) + c->dim * sizeof(*vector);
    bytes += key->question_len + key->len; /* of texts in memory, so that the sum does not overflow */
    if (bytes > c->bytes_max || look(c, key, hash)) return;
    shrink(c, c->bytes_max - bytes);
    grow(c);
    forget_users(c);
    struct vector_user *u = c->n_buckets ? user_of(c, uid) : NULL;
    struct vector_entry *e = u ? malloc(bytes) : NULL;
    if (!e) return;
    *e = (struct vector_entry){.user = u,
                               .hash = hash,
                               .pooling = key->pooling,
                               .tokens = tokens,
                               .question_len = key->question_len,
                               .len = key->len,
                               .bytes = bytes,
                               .texts = (char *)(e->vector + c->dim)};
    memcpy(e->namespace, key->namespace, sizeof(e->namespace));
    memcpy(e->vector, vector, c->dim * sizeof(*vector));
    if (key->question_len) memcpy(e->texts, key->question, key->question_len);
    if (key->len) memcpy(e->texts + key->question_len, key->text, key->len);
    e->chain = c->buckets[hash % c->n_buckets];
    c->buckets[hash % c->n_buckets] = e;
    list_front(u, e);
    u->stats.n++;
    u->stats.bytes += bytes;
    c->bytes += bytes;
    c->n++;
}

void vector_cache_shed(struct vector_cache *c)
{
    shrink(c, c->bytes - c->bytes / SHED_SHARE);
}

void vector_cache_stats(const struct vector_cache *c, uid_t uid, struct vector_stats *out)
{
    *out = (struct vector_stats){0};
    for (const struct vector_user *u = c->users; u; u = u->next) {
        if (uid != (uid_t)-1 && u->uid != uid) continue;
        out->n += u->stats.n;
        out->bytes += u->stats.bytes;
        out->found += u->stats.found;
        out->missed += u->stats.missed;
    }
}

void vector_cache_fini(struct vector_cache *c)
{
    shrink(c, 0);
    assert(!c->n);
    for (struct vector_user *u = c->users, *next; u; u = next) {
        next = u->next;
        free(u);
    }
    free(c->buckets);
    c->buckets = NULL;
    c->users = NULL;
    c->n_buckets = 0;
}
