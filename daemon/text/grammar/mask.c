/* SPDX-License-Identifier: MIT */
/* Which tokens may be next: the tokens that stay inside a terminal, and those that go on behind its end. The parts of
 * terminals (mask-part.h) tell both, but where a text behind a terminal begins like one inside it. Then what the parts
 * do not tell is found by a walk with all parses at once (mask-rest.c). */
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/grammar/mask-part.h"
#include "daemon/text/grammar/mask-rest.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define PARTS_BYTES_MAX ((size_t)16 << 20) /* of parts that the states of one grammar hold */
#define KEEP_FROM       300                /* nodes looked at: a mask that took more is kept */

static void clear_bit(uint64_t *mask, int32_t id)
{
    mask[id >> 6] &= ~(1ull << (id & 63));
}

static void set_node(struct masking *m, uint32_t i)
{
    const struct trie_node *n = &m->t->nodes[i];
    m->work++;
    for (uint32_t k = n->token; k < n[1].token; k++) mask_set(m->mask, m->t->tokens[k]);
}

/* The tokens below node @i, behind which the row is @row. */
static int add_subtree(struct masking *m, uint32_t i, uint32_t row)
{
    const struct trie_node *nodes = m->t->nodes;
    m->path[nodes[i].depth] = row;
    set_node(m, i);
    for (uint32_t end = nodes[i].skip, k = i + 1; k < end;) {
        const struct trie_node *n = &nodes[k];
        uint32_t next = rows_step(m->r, m->path[n->depth - 1], n->byte);
        if (next == ROW_FAILED || !regex_work(&m->r->dfa.store, 1)) return rows_status(m->r);
        m->path[n->depth] = next;
        if (next == ROW_DEAD) {
            m->work++;
            k = n->skip;
            continue;
        }
        set_node(m, k++);
    }
    return 0;
}

/* The tokens that stay inside x{min,max}. */
static void add_counted(struct masking *m, const struct mask_part *p, uint32_t max)
{
    uint32_t n = max < p->n_times ? p->times_end[max] : p->n_tokens;
    size_t words = token_trie_words(m->t);
    m->work += words / 8;
    if (!p->bits || n < p->n_tokens / 2) {
        for (uint32_t i = 0; i < n; i++) mask_set(m->mask, p->tokens[i]);
        m->work += n;
        return;
    }
    /* The few that need more are taken out again, but not those that another thread has put in. */
    uint64_t *had = n < p->n_tokens ? malloc(words * sizeof(*had)) : NULL;
    if (n < p->n_tokens && !had) {
        for (uint32_t i = 0; i < n; i++) mask_set(m->mask, p->tokens[i]);
        return;
    }
    if (had) memcpy(had, m->mask, words * sizeof(*had));
    for (size_t i = 0; i < words; i++) m->mask[i] |= p->bits[i];
    for (uint32_t i = n; i < p->n_tokens; i++)
        if (!(had[p->tokens[i] >> 6] >> (p->tokens[i] & 63) & 1)) clear_bit(m->mask, p->tokens[i]);
    free(had);
}

static void add_inside(struct masking *m, const struct mask_part *p, const struct regex_node *x)
{
    if (p->kind == PART_COUNTED) {
        add_counted(m, p, x->c);
    } else if (p->bits) {
        for (size_t i = 0; i < token_trie_words(m->t); i++) m->mask[i] |= p->bits[i];
    } else {
        for (uint32_t i = 0; i < p->n_tokens; i++) mask_set(m->mask, p->tokens[i]);
    }
}

/* The tokens that leave the terminal: @after is the row behind its end. */
static int add_ends(struct masking *m, const struct mask_part *p, uint32_t min, uint32_t max, uint32_t after)
{
    const struct byte_set live = m->r->rows[after].live;
    for (int w = 0; w < 4; w++)
        for (uint64_t bits = live.w[w]; bits; bits &= bits - 1) {
            unsigned b = (unsigned)w * 64 + (unsigned)__builtin_ctzll(bits);
            if (p->first[b] == p->first[b + 1]) continue;
            uint32_t row = rows_step(m->r, after, (uint8_t)b);
            if (row == ROW_FAILED) return rows_status(m->r);
            for (uint32_t i = p->first[b]; i < p->first[b + 1] && row != ROW_DEAD; i++) {
                if (p->counts && (p->counts[i] < min || p->counts[i] > max)) continue;
                int r = add_subtree(m, p->nodes[i], row);
                if (r < 0) return r;
            }
        }
    return 0;
}

static bool meets(const struct byte_set *x, const struct byte_set *y)
{
    return (x->w[0] & y->w[0]) | (x->w[1] & y->w[1]) | (x->w[2] & y->w[2]) | (x->w[3] & y->w[3]);
}

/* The part of state @q, which the state holds. */
static int part_of(struct masking *m, uint32_t q, const struct mask_part **out)
{
    struct dfa *d = &m->r->dfa;
    if (d->parts_of != m->t->id || d->part_bytes > PARTS_BYTES_MAX) mask_parts_forget(d);
    d->parts_of = m->t->id;
    bool held = d->states[q].part;
    int r = mask_part_get(d, m->t, q, out);
    if (r == 0 && !held) m->work += (*out)->n_tokens;
    return r;
}

/* Threads [@n] of @row, which are in one state. Sets *@rest if their part does not tell all of their tokens. */
static int add_threads(struct masking *m, uint32_t row, const struct row_item *x, size_t n, bool *rest)
{
    const struct mask_part *p;
    int r = part_of(m, x->state, &p);
    if (r < 0) return r;
    struct regex_node node = *regex_node(&m->r->dfa.store, m->r->dfa.states[x->state].node);
    add_inside(m, p, &node);
    if (*rest || (p->first[256] == 0 && byte_set_is_empty(&p->missing))) return 0;
    uint32_t after = rows_after(m->r, row, x, n);
    if (after == ROW_FAILED) return rows_status(m->r);
    *rest = meets(&p->missing, &m->r->rows[after].live);
    return *rest ? 0 : add_ends(m, p, node.b, node.c, after);
}

static int compare_states(const void *a, const void *b)
{
    const struct row_item *x = a, *y = b;
    return (x->state > y->state) - (x->state < y->state);
}

static int add_all_threads(struct masking *m, uint32_t row)
{
    size_t n = m->r->rows[row].n_threads;
    struct row_item *x = malloc((n + 1) * sizeof(*x));
    if (!x) return error_origin(-ENOMEM);
    memcpy(x, row_threads(&m->r->rows[row]), n * sizeof(*x));
    if (n > 1) qsort(x, n, sizeof(*x), compare_states);
    bool rest = false;
    int r = 0;
    for (size_t i = 0, j; i < n && r == 0; i = j) {
        for (j = i + 1; j < n && x[j].state == x[i].state;) j++;
        r = add_threads(m, row, x + i, j - i, &rest);
    }
    free(x);
    return r == 0 && rest ? mask_rest(m, row) : r;
}

static void add_token_sets(struct masking *m, const struct row *w)
{
    for (uint32_t i = 0; i < w->n_tokens; i++) {
        const struct token_set *set = &m->r->rules.token_sets[m->r->rules.symbols[row_tokens(w)[i].dot].index];
        for (size_t k = 0; k < set->n && !set->others; k++)
            if ((uint32_t)set->ids[k] < m->t->vocab) mask_set(m->mask, set->ids[k]);
        for (uint32_t k = 0; k < m->t->n_tokens && set->others; k++)
            if (token_set_has(set, m->t->tokens[k])) mask_set(m->mask, m->t->tokens[k]);
    }
}

/* Keeps the mask of @row in place of one that was not used lately. */
static void keep(struct masking *m, uint32_t row)
{
    struct grammar *g = m->g;
    size_t words = token_trie_words(m->t);
    struct mask_slot *s = &g->slots[g->next_slot];
    while (s->recent) {
        s->recent = false;
        g->next_slot = (g->next_slot + 1) % MASK_SLOTS;
        s = &g->slots[g->next_slot];
    }
    if (s->bits && s->row < m->r->n && m->r->rows[s->row].mask == g->next_slot + 1) m->r->rows[s->row].mask = 0;
    if (s->words != words) {
        free(s->bits);
        g->slot_bytes -= s->words * sizeof(*s->bits);
        bool room = grammar_share_cover(&g->share, g->slot_bytes + words * sizeof(*s->bits));
        s->bits = room ? malloc(words * sizeof(*s->bits)) : NULL;
        s->words = s->bits ? words : 0;
        g->slot_bytes += s->words * sizeof(*s->bits);
    }
    if (!s->bits) return;
    memcpy(s->bits, m->mask, words * sizeof(*s->bits));
    s->trie = m->t->id;
    s->row = row;
    m->r->rows[row].mask = g->next_slot + 1;
    g->next_slot = (g->next_slot + 1) % MASK_SLOTS;
}

static int make_mask(struct masking *m, uint32_t row)
{
    size_t words = token_trie_words(m->t);
    struct row *w = &m->r->rows[row];
    struct mask_slot *s = w->mask ? &m->g->slots[w->mask - 1] : NULL;
    if (s && s->row == row && s->trie == m->t->id) {
        s->recent = true;
        memcpy(m->mask, s->bits, words * sizeof(*m->mask));
        return 0;
    }
    memset(m->mask, 0, words * sizeof(*m->mask));
    if (w->accepted)
        for (uint32_t i = 0; i < m->t->n_ends; i++) mask_set(m->mask, m->t->ends[i]);
    add_token_sets(m, w);
    m->path = malloc(((size_t)m->t->max_len + 1) * sizeof(*m->path));
    int r = m->path ? add_all_threads(m, row) : error_origin(-ENOMEM);
    free(m->path);
    if (r == 0 && m->work > KEEP_FROM) keep(m, row);
    return r;
}

int grammar_state_mask(struct grammar_state *st, const struct token_trie *t, uint64_t *mask)
{
    struct masking m = {.g = st->g, .r = &st->g->rows, .t = t, .mask = mask};
    if (grammar_state_has_ended(st)) {
        memset(mask, 0, token_trie_words(t) * sizeof(*mask));
        return 0;
    }
    pthread_mutex_lock(&st->g->lock);
    rows_begin(m.r);
    int r = make_mask(&m, state_row(st));
    pthread_mutex_unlock(&st->g->lock);
    return r;
}
