/* SPDX-License-Identifier: MIT */
/*
 * The part of x & !y, for example any name of a property but some: it differs from the part of x only below the nodes
 * where the two automata are in different states. Only those are walked.
 */
#include "daemon/text/grammar/byte-groups.h"
#include "daemon/text/grammar/mask-part.h"
#include "daemon/text/grammar/relax.h"
#include "daemon/text/grammar/stays.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

struct pair {
    uint32_t own, base; /* states */
};

struct difference {
    struct dfa *d;
    const struct token_trie *t;
    uint64_t *bits;
    struct pair *path; /* [max_len + 1] by depth */
    uint32_t *ranges;  /* [n_ranges] first and end of nodes whose entries in the base's ends do not hold; ascending */
    uint32_t *ends;    /* [n_ends] own */
    uint32_t n_ranges, cap_ranges, n_ends, cap_ends;
    struct byte_set missing;
};

static bool push(uint32_t **v, uint32_t *n, uint32_t *cap, uint32_t x)
{
    if (*n == *cap) {
        uint32_t more = *cap ? *cap * 2 : 256;
        uint32_t *p = reallocarray(*v, more, sizeof(*p));
        if (!p) return false;
        *v = p;
        *cap = more;
    }
    (*v)[(*n)++] = x;
    return true;
}

static bool push_range(struct difference *f, uint32_t first, uint32_t end)
{
    return push(&f->ranges, &f->n_ranges, &f->cap_ranges, first) && push(&f->ranges, &f->n_ranges, &f->cap_ranges, end);
}

static void set_tokens(struct difference *f, uint32_t first, uint32_t end, bool in)
{
    for (uint32_t k = f->t->nodes[first].token; k < f->t->nodes[end].token; k++) {
        int32_t id = f->t->tokens[k];
        if (in)
            f->bits[id >> 6] |= 1ull << (id & 63);
        else
            f->bits[id >> 6] &= ~(1ull << (id & 63));
    }
}

/* Whether there is something to be walked below node @i, where the own state is not the base's. 1, 0: its tokens are
 * taken, or an error. */
static int has_more(struct difference *f, uint32_t i, uint32_t q)
{
    bool ends;
    int r = stays_below(f->d, f->t, i, q, &ends);
    if (r <= 0) return r < 0 ? r : 1;
    uint32_t end = f->t->nodes[i].skip;
    set_tokens(f, i, end, true);
    if (ends) byte_groups_add(f->t->below[i], &f->missing);
    return push_range(f, i, end) ? 0 : error_origin(-ENOMEM);
}

static int walk_subtree(struct difference *f, uint32_t i)
{
    const struct trie_node *nodes = f->t->nodes;
    for (uint32_t end = nodes[i].skip; i < end;) {
        const struct trie_node *n = &nodes[i];
        struct pair *p = &f->path[n->depth];
        p->own = dfa_step(f->d, p[-1].own, n->byte);
        p->base = p->own == UINT32_MAX ? UINT32_MAX : dfa_step(f->d, p[-1].base, n->byte);
        if (p->base == UINT32_MAX) return dfa_status(f->d);
        bool may_end = n->depth > 1 && f->d->states[p[-1].own].nullable;
        if (!regex_work(&f->d->store, 1)) return dfa_status(f->d);
        if (may_end && p->own) f->missing.w[n->byte >> 6] |= 1ull << (n->byte & 63);
        if (may_end && !p->own && !push(&f->ends, &f->n_ends, &f->cap_ends, i)) return error_origin(-ENOMEM);
        bool below = p->own && p->own != p->base;
        int more = below ? has_more(f, i, p->own) : 1;
        if (more < 0) return more;
        if (more == 0) {
            i = n->skip;
            continue;
        }
        uint32_t next = below ? i + 1 : n->skip;
        if (!push_range(f, i, p->own ? i + 1 : n->skip)) return error_origin(-ENOMEM);
        if (p->own == 0)
            set_tokens(f, i, n->skip, false);
        else if (below)
            set_tokens(f, i, i + 1, true);
        i = next;
    }
    return 0;
}

/* The tokens of the base as a mask. */
static void copy_tokens(struct difference *f, const struct mask_part *base, const struct regex_node *x)
{
    uint32_t n = base->n_tokens;
    if (base->kind == PART_COUNTED && x->c < base->n_times) n = base->times_end[x->c];
    if (base->bits && n == base->n_tokens) {
        memcpy(f->bits, base->bits, token_trie_words(f->t) * sizeof(*f->bits));
        return;
    }
    for (uint32_t i = 0; i < n; i++) f->bits[base->tokens[i] >> 6] |= 1ull << (base->tokens[i] & 63);
}

/* The base's ends that hold, among the own. */
static bool copy_ends(struct difference *f, const struct mask_part *base, const struct regex_node *x)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = 0;
        for (uint32_t i = base->first[b]; i < base->first[b + 1]; i++) {
            uint32_t node = base->nodes[i];
            if (base->counts && (base->counts[i] < x->b || base->counts[i] > x->c)) continue;
            while (r < f->n_ranges && f->ranges[r + 1] <= node) r += 2;
            if (r < f->n_ranges && f->ranges[r] <= node) continue;
            if (!push(&f->ends, &f->n_ends, &f->cap_ends, node)) return false;
        }
    }
    for (int w = 0; w < 4; w++) f->missing.w[w] |= base->missing.w[w];
    return true;
}

/* Walks all of the trie with both states. */
static int walk_pair(struct difference *f, const uint32_t q[2])
{
    int r = 0;
    f->path[0] = (struct pair){q[0], q[1]};
    for (int b = 0; b < 256 && r == 0; b++)
        if (f->t->children[b]) r = walk_subtree(f, f->t->children[b]);
    return r;
}

/* The own state above node @i, by the bytes of the token @text; f->path has it for @same bytes of them. */
static int state_above(struct difference *f, const char *text, uint32_t same)
{
    for (uint32_t k = same; k < RELAX_BYTES; k++) {
        uint32_t q = f->path[k].own ? dfa_step(f->d, f->path[k].own, (uint8_t)text[k]) : 0;
        if (q == UINT32_MAX || !regex_work(&f->d->store, 1)) return dfa_status(f->d);
        f->path[k + 1] = (struct pair){q, 0};
    }
    return 0;
}

/* Walks the deep subtrees as if the base had no tokens there. */
static int walk_deep(struct difference *f, const uint32_t q[2])
{
    const char *before = NULL;
    f->path[0] = (struct pair){q[0], 0};
    for (uint32_t k = 0; k < f->t->n_deep; k++) {
        uint32_t i = f->t->deep[k], same = 0;
        size_t len;
        const char *text = token_trie_text(f->t, f->t->tokens[f->t->nodes[i].token], &len);
        while (before && same < RELAX_BYTES && text[same] == before[same]) same++;
        before = text;
        int r = state_above(f, text, same);
        if (r < 0) return r;
        set_tokens(f, i, f->t->nodes[i].skip, false);
        r = f->path[RELAX_BYTES].own ? walk_subtree(f, i) : 0;
        if (r == 0 && !f->path[RELAX_BYTES].own && !push_range(f, i, f->t->nodes[i].skip)) r = error_origin(-ENOMEM);
        if (r < 0) return r;
    }
    return 0;
}

static int make(struct difference *f, const uint32_t q[2], const struct mask_part *base,
                int (*walk)(struct difference *f, const uint32_t q[2]))
{
    const struct regex_node x = *regex_node(&f->d->store, f->d->states[q[1]].node);
    f->bits = calloc(token_trie_words(f->t), sizeof(*f->bits));
    f->path = calloc((size_t)f->t->max_len + 1, sizeof(*f->path));
    if (!f->bits || !f->path) return error_origin(-ENOMEM);
    copy_tokens(f, base, &x);
    int r = walk(f, q);
    if (r == 0 && !copy_ends(f, base, &x)) r = error_origin(-ENOMEM);
    return r;
}

static int make_part(struct difference *f, const uint32_t q[2], const struct mask_part *base,
                     int (*walk)(struct difference *f, const uint32_t q[2]), struct mask_part **out)
{
    int r = make(f, q, base, walk);
    if (r == 0) r = mask_part_of(f->t, f->bits, f->ends, f->n_ends, &f->missing, out);
    free(f->bits);
    free(f->path);
    free(f->ranges);
    free(f->ends);
    return r;
}

int mask_part_differ(struct dfa *d, const struct token_trie *t, const uint32_t q[2], const struct mask_part *base,
                     struct mask_part **out)
{
    struct difference f = {.d = d, .t = t};
    return make_part(&f, q, base, walk_pair, out);
}

int mask_part_deepen(struct dfa *d, const struct token_trie *t, const uint32_t q[2], const struct mask_part *base,
                     struct mask_part **out)
{
    struct difference f = {.d = d, .t = t};
    return make_part(&f, q, base, walk_deep, out);
}
