/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/guesser.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX
#define LOST    8     /* tokens without a match after which a copy counts as ended */
#define LEAST   0.05f /* a row never costs less than this share of a step */

enum source { OWN, PAST, SOURCES };

/* The last draft, whether it was computed or not. */
struct guess {
    uint32_t known; /* tokens of the sequence then */
    uint32_t n;     /* 0: there was no match */
    uint32_t length;
    bool near;
    int32_t ids[GUESS_MOST];
    float share[GUESS_MOST];
};

struct guesser {
    struct past *past; /* borrowed */
    struct lookup *own;
    uint32_t read; /* items of the sequence in @own */
    bool failed;   /* for want of memory; it proposes nothing any more */
    struct pace pace;
    struct guess last;
    enum source source;  /* of the text that is being copied, */
    uint32_t near, lost; /* the place of the next token there, and tokens since the last match */
};

int guesser_new(struct guesser **out, struct past *past)
{
    struct guesser *g = calloc(1, sizeof(*g));
    if (!g) return error_origin(-ENOMEM);
    int r = lookup_new(&g->own, GUESS_TOKENS);
    if (r < 0) {
        free(g);
        return r;
    }
    g->past = past;
    g->near = NOWHERE;
    *out = g;
    return 0;
}

struct guesser *guesser_free(struct guesser *g)
{
    if (!g) return NULL;
    lookup_free(g->own);
    free(g);
    return NULL;
}

size_t guesser_bytes(const struct guesser *g)
{
    return sizeof(*g) + lookup_bytes(g->own);
}

void guesser_read(struct guesser *g, const int32_t *ids, uint32_t n, uint32_t most)
{
    if (g->failed || n <= g->read) return;
    uint32_t left = n - g->read, now = left < most ? left : most;
    g->failed = lookup_push(g->own, ids + g->read, now) < 0;
    g->read += now;
}

/* Compare the last draft with the tokens that came. */
static void learn(struct guesser *g, const int32_t *ids, uint32_t n)
{
    const struct guess *x = &g->last;
    uint32_t came = n - x->known;
    for (uint32_t i = 0; i < x->n && i < came; i++) {
        bool hit = ids[x->known + i] == x->ids[i];
        pace_learn(&g->pace, x->near, x->length + i, x->share[i], hit);
        pace_learn(&g->past->pace, x->near, x->length + i, x->share[i], hit);
        if (!hit) break;
    }
    if (g->near == NOWHERE) return;
    g->near += came; /* also if some were others: a copy with changes */
    g->lost = x->n ? 0 : g->lost + came;
    if (g->lost > LOST) g->near = NOWHERE;
}

/* The longest match; *from: where. */
static void find(const struct guesser *g, const int32_t *ids, uint32_t n, struct lookup_match *out, enum source *from)
{
    struct lookup_match past;
    lookup_find(g->own, ids, n, g->source == OWN ? g->near : NOWHERE, out);
    lookup_find(g->past->answers, ids, n, g->source == PAST ? g->near : NOWHERE, &past);
    *from = past.length > out->length ? PAST : OWN;
    if (*from == PAST) *out = past;
}

uint32_t guesser_propose(struct guesser *g, const int32_t *ids, uint32_t n, int32_t *out, float *chance, uint32_t max)
{
    struct guess *x = &g->last;
    struct lookup_match m;
    enum source from;
    float all = 1;
    uint32_t i;
    if (g->failed || g->read != n) return 0;
    if (n > x->known) learn(g, ids, n);
    x->known = n;
    find(g, ids, n, &m, &from);
    x->n = lookup_follow(from == OWN ? g->own : g->past->answers, &m, from == OWN, x->ids, x->share, GUESS_MOST);
    x->length = m.length;
    x->near = m.near;
    if (x->n == 0) return 0;
    g->source = from;
    g->near = m.places[0];
    for (i = 0; i < x->n && i < max; i++) {
        all *= pace_chance(&g->pace, &g->past->pace, m.near, m.length + i, x->share[i]);
        if (all < LEAST) break;
        out[i] = x->ids[i];
        chance[i] = all;
    }
    return i;
}
