/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/lookup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define LEAST 256 /* tokens for which a new index has room */
#define BACK  2   /* tokens before the expected place that are searched too */

enum { CHAINS = 2 };
static const uint32_t orders[CHAINS] = {LOOKUP_SHORT, LOOKUP_LONG};

/* Places count all tokens that were ever appended; a ring has the last ones. A chain may lead to places that are no
 * longer kept: the search ends there. */
struct lookup {
    uint32_t cap, most;       /* tokens of the ring now, at most: powers of two */
    uint32_t end;             /* places so far */
    uint32_t kept;            /* of these, in the ring */
    uint32_t whole;           /* tokens since the last id that is none */
    int32_t *ids;             /* [cap] */
    uint32_t *before[CHAINS]; /* [cap] the place before with the same hash */
    uint32_t *head[CHAINS];   /* [cap] by hash: the last place */
};

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = LEAST;
    while (p < n && p < UINT32_C(1) << 30) p *= 2;
    return p;
}

static void free_rings(struct lookup *l)
{
    free(l->ids);
    for (int i = 0; i < CHAINS; i++) {
        free(l->before[i]);
        free(l->head[i]);
    }
}

static int make_rings(struct lookup *l, uint32_t cap)
{
    bool whole = true;
    l->cap = cap;
    l->ids = calloc(cap, sizeof(*l->ids));
    for (int i = 0; i < CHAINS; i++) {
        l->before[i] = calloc(cap, sizeof(*l->before[i]));
        l->head[i] = calloc(cap, sizeof(*l->head[i]));
        whole = whole && l->before[i] && l->head[i];
    }
    if (l->ids && whole) return 0;
    free_rings(l);
    return error_origin(-ENOMEM);
}

int lookup_new(struct lookup **out, uint32_t most)
{
    struct lookup *l = calloc(1, sizeof(*l));
    if (!l) return error_origin(-ENOMEM);
    l->most = power_of_two(most);
    if (make_rings(l, LEAST) < 0) {
        free(l);
        return error_origin(-ENOMEM);
    }
    *out = l;
    return 0;
}

struct lookup *lookup_free(struct lookup *l)
{
    if (!l) return NULL;
    free_rings(l);
    free(l);
    return NULL;
}

uint32_t lookup_end(const struct lookup *l)
{
    return l->end;
}

size_t lookup_bytes(const struct lookup *l)
{
    return sizeof(*l) + (size_t)l->cap * LOOKUP_TOKEN_BYTES;
}

/* The token at place @at, which is kept. */
static int32_t id_at(const struct lookup *l, uint32_t at)
{
    return l->ids[at & (l->cap - 1)];
}

/* Is the token before place @at kept, and the one at it known? */
static bool is_kept(const struct lookup *l, uint32_t at)
{
    return l->end - at <= l->kept && l->end != at;
}

/* The hash of @n tokens, the last of which is @ids[-1]. */
static uint32_t hash_of(const int32_t *ids, uint32_t n, uint32_t cap)
{
    uint64_t h = 0;
    for (uint32_t i = 1; i <= n; i++) h = (h ^ (uint32_t)ids[-(int64_t)i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & (cap - 1);
}

/* Append one token: its place follows the contexts that end before it. */
static void push_one(struct lookup *l, int32_t id)
{
    int32_t last[LOOKUP_LONG];
    for (uint32_t i = 0; i < LOOKUP_LONG && i < l->whole; i++) last[LOOKUP_LONG - 1 - i] = id_at(l, l->end - 1 - i);
    for (int i = 0; i < CHAINS; i++) {
        if (l->whole < orders[i]) continue;
        uint32_t *head = &l->head[i][hash_of(last + LOOKUP_LONG, orders[i], l->cap)];
        l->before[i][l->end & (l->cap - 1)] = *head;
        *head = l->end;
    }
    l->ids[l->end & (l->cap - 1)] = id;
    l->whole = id < 0 ? 0 : l->whole + 1;
    l->end++;
    if (l->kept < l->cap) l->kept++;
}

/* Double the ring. Its tokens get the places that they have. */
static int grow(struct lookup *l)
{
    struct lookup larger = {.most = l->most, .end = l->end - l->kept};
    int r = make_rings(&larger, l->cap * 2);
    if (r < 0) return r;
    for (uint32_t i = l->kept; i > 0; i--) push_one(&larger, id_at(l, l->end - i));
    free_rings(l);
    *l = larger;
    return 0;
}

int lookup_push(struct lookup *l, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int r = l->kept == l->cap && l->cap < l->most ? grow(l) : 0;
        if (r < 0) return r;
        push_one(l, ids[i]);
    }
    return 0;
}

/* --- searching --- */

/* Tokens before place @at that equal those at the end of @ids [n]. */
static uint32_t length_at(const struct lookup *l, uint32_t at, const int32_t *ids, uint32_t n)
{
    uint32_t i = 0, most = n < LOOKUP_LONGEST ? n : LOOKUP_LONGEST;
    while (i < most && is_kept(l, at - 1 - i) && ids[n - 1 - i] >= 0 && id_at(l, at - 1 - i) == ids[n - 1 - i]) i++;
    return i;
}

static void add_place(struct lookup_match *m, uint32_t at, uint32_t length)
{
    if (length < m->length || m->n == LOOKUP_PLACES) return;
    if (length > m->length) m->n = 0;
    m->length = length;
    m->places[m->n++] = at;
}

static void search_chain(const struct lookup *l, int chain, const int32_t *ids, uint32_t n, struct lookup_match *m)
{
    uint32_t order = orders[chain];
    if (n < order) return;
    for (uint32_t i = 1; i <= order; i++)
        if (ids[n - i] < 0) return;
    uint32_t at = l->head[chain][hash_of(ids + n, order, l->cap)], last = l->end;
    for (int i = 0; i < LOOKUP_PLACES && is_kept(l, at) && l->end - at > l->end - last; i++) {
        uint32_t length = length_at(l, at, ids, n);
        if (length >= order) add_place(m, at, length);
        last = at;
        at = l->before[chain][at & (l->cap - 1)];
    }
}

/* The longest match near the expected place, the first of several. */
static void search_near(const struct lookup *l, const int32_t *ids, uint32_t n, uint32_t near, struct lookup_match *m)
{
    for (uint32_t i = 0; i < BACK + LOOKUP_NEAR; i++) {
        uint32_t at = near - BACK + i;
        if (!is_kept(l, at) || !is_kept(l, at - 1) || id_at(l, at - 1) != ids[n - 1]) continue;
        uint32_t length = length_at(l, at, ids, n);
        if (length <= m->length) continue;
        *m = (struct lookup_match){.length = length, .near = true, .n = 1, .places = {at}};
    }
}

void lookup_find(const struct lookup *l, const int32_t *ids, uint32_t n, uint32_t near, struct lookup_match *out)
{
    struct lookup_match close = {0};
    *out = (struct lookup_match){0};
    if (n == 0 || ids[n - 1] < 0) return;
    for (int chain = CHAINS - 1; chain >= 0 && out->length == 0; chain--) search_chain(l, chain, ids, n, out);
    if (near != UINT32_MAX) search_near(l, ids, n, near, &close);
    if (close.length && (close.length >= out->length || out->length < LOOKUP_LONG)) *out = close;
}

/* --- following --- */

/* The token that is @i after place @at; negative: none. @written: those that follow the end, if it is their own. */
static int32_t after(const struct lookup *l, uint32_t at, uint32_t i, const int32_t *written)
{
    if (is_kept(l, at + i)) return id_at(l, at + i);
    return written && at + i - l->end < i ? written[at + i - l->end] : -1;
}

/* The token that most of the places have, the first of several; negative: none has one. */
static int32_t vote(const int32_t *next, uint32_t n, uint32_t *votes)
{
    int32_t best = -1;
    *votes = 0;
    for (uint32_t i = 0; i + *votes < n; i++) {
        uint32_t same = 0;
        for (uint32_t k = i; k < n; k++) same += next[k] == next[i];
        if (next[i] < 0 || same <= *votes) continue;
        best = next[i];
        *votes = same;
    }
    return best;
}

uint32_t lookup_follow(const struct lookup *l, const struct lookup_match *m, bool own, int32_t *ids, float *share,
                       uint32_t max)
{
    uint32_t places[LOOKUP_PLACES], n = m->n, votes;
    memcpy(places, m->places, n * sizeof(*places));
    for (uint32_t i = 0; i < max; i++) {
        int32_t next[LOOKUP_PLACES];
        for (uint32_t k = 0; k < n; k++) next[k] = after(l, places[k], i, own ? ids : NULL);
        ids[i] = vote(next, n, &votes);
        if (ids[i] < 0) return i;
        share[i] = (float)votes / (float)n;
        uint32_t left = 0;
        for (uint32_t k = 0; k < n; k++)
            if (next[k] == ids[i]) places[left++] = places[k];
        n = left;
    }
    return max;
}
