/* SPDX-License-Identifier: MIT */
/* Walks of the whole trie with the automaton of one terminal. */
#include "daemon/text/grammar/byte-groups.h"
#include "daemon/text/grammar/mask-part.h"
#include "daemon/text/grammar/stays.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define CODE_STATES 256 /* of an automaton whose strings are counted */

struct place {
    const struct dfa_edges *edges;
    uint32_t state;
    uint16_t count; /* times of x that have ended */
    bool inside;    /* one more has begun */
    bool may_end;
};

struct end {
    uint32_t node;
    uint16_t count;
};

struct walk {
    struct dfa *d;
    const struct token_trie *t;
    bool counted, full;
    const struct dfa_edges *start;
    uint32_t start_state;
    uint64_t counted_groups; /* COUNTED: each of their characters is one x */
    uint64_t left_out;       /* groups of bytes below nodes that were not walked, where the terminal may end */
    struct place *path;      /* [max_len + 1] by depth */
    uint64_t *bits;          /* [words] */
    uint16_t
        *times; /* COUNTED: [t->n_tokens] what each token in the order of the trie needs, plus 1; 0: it is not in */
    uint32_t n_tokens;
    struct end *ends; /* children of nodes where the terminal may end */
    uint32_t n_ends, cap_ends;
    struct byte_set missing; /* of ends */
    uint16_t most;           /* times */
};

static bool push_end(struct walk *w, uint32_t node, uint16_t count)
{
    if (w->n_ends == w->cap_ends) {
        uint32_t cap = w->cap_ends ? w->cap_ends * 2 : 512;
        struct end *v = reallocarray(w->ends, cap, sizeof(*v));
        if (!v) return false;
        w->ends = v;
        w->cap_ends = cap;
    }
    w->ends[w->n_ends++] = (struct end){node, count};
    return true;
}

/* The tokens from the trie's @k up to @end stay inside, with @times of x. */
static void take_tokens(struct walk *w, uint32_t k, uint32_t end, uint16_t times)
{
    if (k < end && times > w->most) w->most = times;
    w->n_tokens += end - k;
    for (; k < end; k++) {
        int32_t id = w->t->tokens[k];
        w->bits[id >> 6] |= 1ull << (id & 63);
        if (w->counted) w->times[k] = (uint16_t)(times + 1);
    }
}

/* The place @p behind state @to; with its edges if it has nodes @below. False: the automaton has failed. */
static bool enter(struct walk *w, uint32_t to, struct place *p, bool below)
{
    const struct place *from = p - 1;
    if (below && !w->d->states[to].edges && !dfa_expand(w->d, to)) return false;
    const struct dfa_state *q = &w->d->states[to];
    *p = (struct place){q->edges, to, from->count, !q->nullable, q->nullable};
    if (w->counted && q->nullable) {
        p->edges = w->start;
        p->state = w->start_state;
        p->count++;
    }
    return true;
}

/* Whether all tokens below node @i stay inside, where the place is: 1, 0, or the error of the automaton. Sets *@ends.
 */
static int all_stay(struct walk *w, uint32_t i, const struct place *p, bool *ends)
{
    if (w->full) return 0;
    if (!w->counted) return stays_below(w->d, w->t, i, p->state, ends);
    uint64_t below = w->t->below[i];
    *ends = true;
    return p->state == w->start_state && w->t->nodes[i].place == UTF8_BETWEEN && !(below & ~w->counted_groups);
}

/* Takes all tokens below node @i. */
static void take_below(struct walk *w, uint32_t i)
{
    const struct trie_node *nodes = w->t->nodes;
    if (!w->counted) take_tokens(w, nodes[i + 1].token, nodes[nodes[i].skip].token, 0);
    for (uint32_t k = i + 1; w->counted && k < nodes[i].skip; k++) {
        struct place *p = &w->path[nodes[k].depth];
        p->count = (uint16_t)(p[-1].count + ((nodes[k].byte & 0xc0) != 0x80)); /* characters */
        take_tokens(w, nodes[k].token, nodes[k + 1].token, p->count);
    }
}

/* Nodes from @i up to the end of its subtree. */
static int walk_subtree(struct walk *w, uint32_t i)
{
    const struct trie_node *nodes = w->t->nodes;
    for (uint32_t end = nodes[i].skip; i < end;) {
        const struct trie_node *n = &nodes[i];
        struct place *p = &w->path[n->depth];
        const struct dfa_edges *e = p[-1].edges;
        uint32_t to = e->to[e->of[n->byte]];
        if (p[-1].may_end) {
            if (to && !w->full)
                w->missing.w[n->byte >> 6] |= 1ull << (n->byte & 63);
            else if (!push_end(w, i, p[-1].count))
                return error_origin(-ENOMEM);
        }
        if (to == 0) {
            i = n->skip;
            continue;
        }
        bool ends, has_below = n->skip > i + 1;
        if (!enter(w, to, p, has_below)) return dfa_status(w->d);
        take_tokens(w, n->token, n[1].token, (uint16_t)(p->count + (w->counted && p->inside)));
        int stay = has_below ? all_stay(w, i, p, &ends) : 0;
        if (stay < 0) return stay;
        if (stay) take_below(w, i);
        if (stay && ends) w->left_out |= w->t->below[i];
        i = stay ? n->skip : i + 1;
        if (!regex_work(&w->d->store, 1)) return dfa_status(w->d);
    }
    return 0;
}

static int walk_all(struct walk *w, uint32_t q)
{
    w->path = calloc((size_t)w->t->max_len + 1, sizeof(*w->path));
    w->bits = calloc(token_trie_words(w->t), sizeof(*w->bits));
    if (w->counted) w->times = calloc((size_t)w->t->n_tokens + 1, sizeof(*w->times));
    if (!w->path || !w->bits || (w->counted && !w->times)) return error_origin(-ENOMEM);
    if (!w->d->states[q].edges && !dfa_expand(w->d, q)) return dfa_status(w->d);
    w->start_state = q;
    w->path[0].edges = w->start = w->d->states[q].edges;
    const struct byte_set live = w->d->states[q].live;
    int r = w->counted ? byte_groups_counted(w->d, q, &w->counted_groups) : 0;
    for (int b = 0; b < 256 && r == 0; b++)
        if (byte_set_has(&live, (uint8_t)b) && w->t->children[b]) r = walk_subtree(w, w->t->children[b]);
    byte_groups_add(w->left_out, &w->missing);
    return r;
}

/* The ends by their bytes. */
static int store_ends(const struct walk *w, struct mask_part *p)
{
    const struct trie_node *nodes = w->t->nodes;
    uint32_t at[257] = {0};
    for (uint32_t i = 0; i < w->n_ends; i++) p->first[nodes[w->ends[i].node].byte + 1]++;
    for (int b = 0; b < 256; b++) at[b + 1] = p->first[b + 1] += p->first[b];
    p->nodes = malloc(((size_t)w->n_ends + 1) * sizeof(*p->nodes));
    if (w->counted) p->counts = malloc(((size_t)w->n_ends + 1) * sizeof(*p->counts));
    if (!p->nodes || (w->counted && !p->counts)) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < w->n_ends; i++) {
        uint32_t *to = &at[nodes[w->ends[i].node].byte];
        if (w->counted) p->counts[*to] = w->ends[i].count;
        p->nodes[(*to)++] = w->ends[i].node;
    }
    p->missing = w->missing;
    return 0;
}

/* The tokens as a list. */
static int list_tokens(const struct walk *w, struct mask_part *p)
{
    p->tokens = malloc(((size_t)w->n_tokens + 1) * sizeof(*p->tokens));
    if (!p->tokens) return error_origin(-ENOMEM);
    for (size_t i = 0; i < token_trie_words(w->t); i++)
        for (uint64_t bits = w->bits[i]; bits; bits &= bits - 1)
            p->tokens[p->n_tokens++] = (int32_t)(i * 64 + (unsigned)__builtin_ctzll(bits));
    return 0;
}

/* The tokens as a list that is sorted by the times they need. */
static int sort_tokens(const struct walk *w, struct mask_part *p)
{
    p->n_times = w->most + 1u;
    p->n_tokens = w->n_tokens;
    p->tokens = malloc(((size_t)w->n_tokens + 1) * sizeof(*p->tokens));
    p->times_end = calloc(p->n_times, sizeof(*p->times_end));
    uint32_t *at = calloc(p->n_times + 2, sizeof(*at));
    if (p->tokens && p->times_end && at) {
        for (uint32_t k = 0; k < w->t->n_tokens; k++) at[w->times[k] + 1]++;
        at[1] = 0; /* those that are not in */
        for (uint32_t k = 0; k < p->n_times; k++) p->times_end[k] = at[k + 2] += at[k + 1];
        for (uint32_t k = 0; k < w->t->n_tokens; k++)
            if (w->times[k]) p->tokens[at[w->times[k]]++] = w->t->tokens[k];
        free(at);
        return 0;
    }
    free(at);
    return error_origin(-ENOMEM);
}

/* A few tokens are a list, more a mask; counted ones are both. */
static int store_tokens(struct walk *w, struct mask_part *p)
{
    bool many = w->n_tokens > token_trie_words(w->t) * 2;
    int r = w->counted ? sort_tokens(w, p) : many ? 0 : list_tokens(w, p);
    p->words = many ? token_trie_words(w->t) : 0;
    p->n_tokens = w->n_tokens;
    if (many) p->bits = steal(w->bits);
    return r;
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
    free(w->bits);
    free(w->times);
    free(w->ends);
    if (r < 0) {
        if (p) p->refs = 1;
        mask_part_unref(p);
        return r;
    }
    *out = p;
    return 0;
}

int mask_part_of(const struct token_trie *t, const uint64_t *bits, const uint32_t *ends, uint32_t n_ends,
                 const struct byte_set *missing, struct mask_part **out)
{
    size_t words = token_trie_words(t);
    struct walk w = {.t = t, .missing = *missing, .n_ends = n_ends};
    struct mask_part *p = calloc(1, sizeof(*p));
    w.bits = malloc(words * sizeof(*w.bits));
    w.ends = calloc((size_t)n_ends + 1, sizeof(*w.ends));
    int r = p && w.bits && w.ends ? 0 : error_origin(-ENOMEM);
    for (size_t i = 0; i < words && r == 0; i++) w.n_tokens += (uint32_t)__builtin_popcountll(w.bits[i] = bits[i]);
    for (uint32_t i = 0; i < n_ends && r == 0; i++) w.ends[i].node = ends[i];
    if (p) *p = (struct mask_part){.refs = 1, .kind = PART_WALKED};
    if (r == 0) r = store_tokens(&w, p);
    if (r == 0) r = store_ends(&w, p);
    free(w.bits);
    free(w.ends);
    if (r < 0) mask_part_unref(p);
    if (r == 0) *out = p;
    return r;
}

int mask_part_walk(struct dfa *d, const struct token_trie *t, uint32_t q, bool full, struct mask_part **out)
{
    struct walk w = {.d = d, .t = t, .full = full};
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
    *p = (struct mask_part){.refs = 1, .kind = PART_UNCOUNTABLE};
    *out = p;
    return 0;
}
