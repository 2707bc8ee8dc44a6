/* SPDX-License-Identifier: MIT */
/* Walks of the whole trie with the automaton of one terminal. */
#include "daemon/text/grammar/mask-part.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define CODE_STATES 256 /* of an automaton whose strings are counted */

struct place {
    uint32_t state;
    uint16_t count; /* times of x that have ended */
    bool inside;    /* one more has begun */
};

struct walk {
    struct dfa *d;
    const struct token_trie *t;
    bool counted;
    uint32_t start;
    struct place *path; /* [max_len + 1] by depth */
    struct taken {
        int32_t token;
        uint16_t times;
    } * tokens; /* [t->n_tokens] */
    struct end {
        uint32_t node;
        uint16_t count;
    } * ends;
    uint32_t n_tokens, n_ends, cap_tokens, cap_ends;
    uint16_t most; /* times */
};

static bool grow(void *array, uint32_t *cap, size_t size)
{
    void *p;
    uint32_t more = *cap ? *cap * 2 : 256;
    memcpy(&p, array, sizeof(p));
    p = reallocarray(p, more, size);
    if (!p) return false;
    memcpy(array, &p, sizeof(p));
    *cap = more;
    return true;
}

static bool take_tokens(struct walk *w, uint32_t i, uint16_t times)
{
    const struct trie_node *n = &w->t->nodes[i];
    for (uint32_t k = n->token; k < n[1].token; k++) {
        if (w->n_tokens == w->cap_tokens && !grow(&w->tokens, &w->cap_tokens, sizeof(*w->tokens))) return false;
        w->tokens[w->n_tokens++] = (struct taken){w->t->tokens[k], times};
        if (times > w->most) w->most = times;
    }
    return true;
}

/* The place behind byte @b. False: the automaton has failed; the dead state: no way. */
static bool step(struct walk *w, const struct place *from, uint8_t b, struct place *to)
{
    *to = *from;
    to->state = dfa_step(w->d, from->state, b);
    if (to->state == UINT32_MAX || !w->counted || to->state == 0) return to->state != UINT32_MAX;
    to->inside = !w->d->states[to->state].nullable;
    if (!to->inside) {
        to->state = w->start;
        to->count++;
    }
    return true;
}

/* Nodes from @i up to the end of its subtree. */
static int walk_subtree(struct walk *w, uint32_t i)
{
    const struct trie_node *nodes = w->t->nodes;
    for (uint32_t end = nodes[i].skip; i < end;) {
        const struct trie_node *n = &nodes[i];
        struct place *p = &w->path[n->depth];
        if (!step(w, p - 1, n->byte, p)) return dfa_status(w->d);
        if (p->state == 0) {
            i = n->skip;
            continue;
        }
        bool may_end = w->counted ? !p->inside : w->d->states[p->state].nullable;
        if (!take_tokens(w, i, (uint16_t)(p->count + p->inside))) return error_origin(-ENOMEM);
        if (may_end && n->skip > i + 1) {
            if (w->n_ends == w->cap_ends && !grow(&w->ends, &w->cap_ends, sizeof(*w->ends)))
                return error_origin(-ENOMEM);
            w->ends[w->n_ends++] = (struct end){i, p->count};
        }
        i++;
    }
    return 0;
}

static int walk_all(struct walk *w, uint32_t q)
{
    w->path = calloc((size_t)w->t->max_len + 1, sizeof(*w->path));
    if (!w->path) return error_origin(-ENOMEM);
    w->path[0].state = w->start = q;
    if (!w->d->states[q].edges && !dfa_expand(w->d, q)) return dfa_status(w->d);
    const struct byte_set live = w->d->states[q].live;
    int r = 0;
    for (int b = 0; b < 256 && r == 0; b++)
        if (byte_set_has(&live, (uint8_t)b) && w->t->children[b]) r = walk_subtree(w, w->t->children[b]);
    return r;
}

/* The children of the ends, by their bytes. */
static int store_ends(const struct walk *w, struct mask_part *p)
{
    const struct trie_node *nodes = w->t->nodes;
    uint32_t at[257] = {0};
    for (uint32_t i = 0; i < w->n_ends; i++)
        for (uint32_t c = w->ends[i].node + 1; c < nodes[w->ends[i].node].skip; c = nodes[c].skip)
            p->first[nodes[c].byte + 1]++;
    for (int b = 0; b < 256; b++) at[b + 1] = p->first[b + 1] += p->first[b];
    p->nodes = calloc((size_t)p->first[256] + 1, sizeof(*p->nodes));
    if (w->counted) p->counts = calloc((size_t)p->first[256] + 1, sizeof(*p->counts));
    if (!p->nodes || (w->counted && !p->counts)) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < w->n_ends; i++)
        for (uint32_t c = w->ends[i].node + 1; c < nodes[w->ends[i].node].skip; c = nodes[c].skip) {
            if (w->counted) p->counts[at[nodes[c].byte]] = w->ends[i].count;
            p->nodes[at[nodes[c].byte]++] = c;
        }
    return 0;
}

static int store_tokens(const struct walk *w, struct mask_part *p)
{
    size_t words = token_trie_words(w->t);
    p->n_times = w->most + 1u;
    p->tokens = calloc((size_t)w->n_tokens + 1, sizeof(*p->tokens));
    p->times_end = calloc(p->n_times, sizeof(*p->times_end));
    if (w->n_tokens > words * 2) p->bits = calloc(words, sizeof(*p->bits));
    uint32_t *at = calloc(p->n_times + 1, sizeof(*at));
    if (!p->tokens || !p->times_end || !at || (w->n_tokens > words * 2 && !p->bits)) {
        free(at);
        return error_origin(-ENOMEM);
    }
    for (uint32_t i = 0; i < w->n_tokens; i++) at[w->tokens[i].times + 1]++;
    for (uint32_t k = 0; k < p->n_times; k++) p->times_end[k] = at[k + 1] += at[k];
    for (uint32_t i = 0; i < w->n_tokens; i++) {
        int32_t id = w->tokens[i].token;
        p->tokens[at[w->tokens[i].times]++] = id;
        if (p->bits) p->bits[id >> 6] |= 1ull << (id & 63);
    }
    p->n_tokens = w->n_tokens;
    free(at);
    return 0;
}

static int make_part(struct walk *w, uint32_t q, struct mask_part **out)
{
    struct mask_part *p = calloc(1, sizeof(*p));
    int r = p ? walk_all(w, q) : error_origin(-ENOMEM);
    if (r == 0) {
        p->refs = 1;
        p->kind = w->counted ? PART_COUNTED : PART_WALKED;
        r = store_tokens(w, p);
    }
    if (r == 0) r = store_ends(w, p);
    free(w->path);
    free(w->tokens);
    free(w->ends);
    if (r < 0) {
        if (p) p->refs = 1;
        mask_part_unref(p);
        return r;
    }
    *out = p;
    return 0;
}

int mask_part_walk(struct dfa *d, const struct token_trie *t, uint32_t q, struct mask_part **out)
{
    struct walk w = {.d = d, .t = t};
    return make_part(&w, q, out);
}

/* Whether no string from state @q is a prefix of another: 1, 0, or the error of @d. */
static int is_prefix_code(struct dfa *d, uint32_t q)
{
    uint32_t found[CODE_STATES], n = 1;
    found[0] = q;
    if (d->states[q].nullable) return 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = found[i];
        if (!d->states[at].edges && !dfa_expand(d, at)) return dfa_status(d);
        if (d->states[at].nullable && !byte_set_is_empty(&d->states[at].live)) return 0;
        const struct dfa_edges *e = d->states[at].edges;
        for (uint32_t c = 1; c < e->n; c++) {
            uint32_t k = 0;
            while (k < n && found[k] != e->to[c]) k++;
            if (k == n && n == CODE_STATES) return 0;
            if (k == n) found[n++] = e->to[c];
        }
    }
    return 1;
}

int mask_part_count(struct dfa *d, const struct token_trie *t, uint32_t q, struct mask_part **out)
{
    struct walk w = {.d = d, .t = t, .counted = true};
    int r = is_prefix_code(d, q);
    if (r < 0) return r;
    if (r) return make_part(&w, q, out);
    struct mask_part *p = calloc(1, sizeof(*p));
    if (!p) return error_origin(-ENOMEM);
    p->refs = 1;
    p->kind = PART_UNCOUNTABLE;
    *out = p;
    return 0;
}
