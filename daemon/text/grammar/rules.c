/* SPDX-License-Identifier: MIT */
/* From expressions to productions. */
#include "daemon/text/grammar/rules.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define WIDE_BYTES 64 /* a repetition of so many different bytes is a terminal of its own, ... */
#define WIDE_TIMES 2  /* ... if it may have so many */

enum { HAS_WIDE = 1 };

struct compiler {
    struct rules *g;
    struct dfa *d;
    struct grammar_builder *b;
    uint8_t *marks;    /* [nodes] HAS_WIDE: a wide repetition is inside */
    uint32_t *numbers; /* [nodes] the nonterminal of an expression, plus 1 */
    expr_t *bodies;    /* [nonterminals] */
    size_t cap_bodies;
};

static unsigned first_bytes(const struct regex_store *s, expr_t e)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < regex_node(s, e)->n_edges; i++) {
        const struct byte_set *set = &s->sets[s->edges[regex_node(s, e)->edges - 1 + i].set];
        for (int w = 0; w < 4; w++) n += (unsigned)__builtin_popcountll(set->w[w]);
    }
    return n;
}

/* Children have lower indexes than their parents. The derivatives add nodes behind @n. */
static bool mark_wide(struct compiler *c, size_t n)
{
    struct regex_store *s = &c->d->store;
    for (size_t i = 0; i < n; i++) {
        struct regex_node x = s->nodes[i];
        if (x.kind == REGEX_CAT) c->marks[i] = c->marks[x.a] | c->marks[x.b];
        if (x.kind == REGEX_ALT)
            for (uint32_t k = 0; k < x.b; k++) c->marks[i] |= c->marks[s->kids[x.a + k]];
        if (x.kind != REGEX_REPEAT) continue;
        c->marks[i] = c->marks[x.a];
        if (x.c < WIDE_TIMES || !(x.flags & REGEX_REGULAR) || c->marks[i]) continue;
        if (!regex_derive(s, x.a)) return false;
        if (first_bytes(s, x.a) >= WIDE_BYTES) c->marks[i] |= HAS_WIDE;
    }
    return true;
}

static bool is_terminal(const struct compiler *c, expr_t e)
{
    const struct regex_node *x = regex_node(&c->d->store, e);
    if (!(x->flags & REGEX_REGULAR)) return false;
    return !c->marks[e] || (x->kind == REGEX_REPEAT && !c->marks[x->a]);
}

static bool add_symbol(struct compiler *c, struct symbol sym)
{
    struct rules *g = c->g;
    if (g->n_symbols >= RULES_MAX) return regex_fail(&c->d->store, -E2BIG) != EXPR_ERROR;
    if (!regex_grow(&c->d->store, &g->symbols, &g->cap_symbols, g->n_symbols + 1, sizeof(sym))) return false;
    g->symbols[g->n_symbols++] = sym;
    return true;
}

/* The number of the nonterminal for @e, which is made if it is new. UINT32_MAX: failed. */
static uint32_t nonterminal_of(struct compiler *c, expr_t e)
{
    struct regex_store *s = &c->d->store;
    struct rules *g = c->g;
    if (c->numbers[e]) return c->numbers[e] - 1;
    const struct regex_node *x = regex_node(s, e);
    struct nonterminal n = {.min_len = UINT32_MAX};
    if (x->kind == REGEX_REPEAT) {
        n.repeat = true;
        n.min = x->b;
        n.max = x->c;
    }
    expr_t body = x->kind == REGEX_RULE ? c->b->bodies[x->a] : e;
    if (!regex_grow(s, &g->nonterminals, &g->cap_nonterminals, g->n_nonterminals + 1, sizeof(n)) ||
        !regex_grow(s, &c->bodies, &c->cap_bodies, g->n_nonterminals + 1, sizeof(*c->bodies)))
        return UINT32_MAX;
    c->bodies[g->n_nonterminals] = body;
    g->nonterminals[g->n_nonterminals++] = n;
    c->numbers[e] = (uint32_t)g->n_nonterminals;
    return (uint32_t)g->n_nonterminals - 1;
}

static bool add_part(struct compiler *c, expr_t e, uint32_t lhs, bool repeat)
{
    struct symbol sym = {.repeat = repeat, .lhs = lhs};
    if (e == REGEX_ID_EMPTY) return true;
    if (is_terminal(c, e)) {
        sym.kind = SYMBOL_TERMINAL;
        sym.index = dfa_state_of(c->d, e);
    } else if (regex_node(&c->d->store, e)->kind == REGEX_TOKENS) {
        sym.kind = SYMBOL_TOKENS;
        sym.index = regex_node(&c->d->store, e)->a;
    } else {
        sym.kind = SYMBOL_NONTERMINAL;
        sym.index = nonterminal_of(c, e);
    }
    return sym.index != UINT32_MAX && add_symbol(c, sym);
}

/* A part that may be joined with its neighbours to one terminal. */
static bool is_short(const struct compiler *c, expr_t e)
{
    const struct regex_node *x = regex_node(&c->d->store, e);
    return is_terminal(c, e) && (x->kind == REGEX_SET || (x->kind == REGEX_REPEAT && x->c < WIDE_TIMES));
}

static bool add_terminal(struct compiler *c, expr_t e, uint32_t lhs)
{
    uint32_t q = e == EXPR_ERROR ? UINT32_MAX : dfa_state_of(c->d, e);
    return q != UINT32_MAX && add_symbol(c, (struct symbol){.kind = SYMBOL_TERMINAL, .index = q, .lhs = lhs});
}

/* A wide loop takes the byte before it, a quotation mark for example: what tokens do from the mark on is then the same
 * in all contexts. @last: the part before @rest. Returns the rest, or @rest as it is. */
static expr_t add_loop(struct compiler *c, expr_t last, expr_t rest, uint32_t lhs)
{
    const struct regex_store *s = &c->d->store;
    bool more = regex_node(s, rest)->kind == REGEX_CAT;
    expr_t loop = more ? regex_node(s, rest)->a : rest, tail = more ? regex_node(s, rest)->b : REGEX_ID_EMPTY;
    if (regex_node(s, last)->kind != REGEX_SET || !c->marks[loop] || !is_terminal(c, loop)) return rest;
    return add_terminal(c, regex_cat(&c->d->store, last, loop), lhs) ? tail : EXPR_ERROR;
}

/* Appends the elements of a sequence, from @e up to the first that is not short, as one terminal. Returns the rest. */
static expr_t add_run(struct compiler *c, expr_t e, uint32_t lhs)
{
    struct regex_store *s = &c->d->store;
    size_t n = 0, symbols = c->g->n_symbols;
    expr_t rest = e, run = REGEX_ID_EMPTY;
    for (; regex_node(s, rest)->kind == REGEX_CAT && is_short(c, regex_node(s, rest)->a); n++)
        rest = regex_node(s, rest)->b;
    if (regex_node(s, rest)->kind != REGEX_CAT && is_short(c, rest))
        return add_part(c, e, lhs, false) ? REGEX_ID_EMPTY : EXPR_ERROR;
    expr_t *parts = calloc(n + 1, sizeof(*parts));
    if (!parts) return regex_fail(s, -ENOMEM);
    for (size_t i = 0; i < n; i++, e = regex_node(s, e)->b) parts[i] = regex_node(s, e)->a;
    expr_t tail = add_loop(c, parts[n - 1], rest, lhs);
    bool looped = c->g->n_symbols > symbols;
    for (size_t i = n - looped; i-- > 0;) run = regex_cat(s, parts[i], run);
    free(parts);
    if (tail == EXPR_ERROR || run == REGEX_ID_EMPTY) return tail;
    if (!add_terminal(c, run, lhs)) return EXPR_ERROR;
    if (looped) { /* the run stands before the loop */
        struct symbol *y = &c->g->symbols[symbols], loop = y[0];
        y[0] = y[1];
        y[1] = loop;
    }
    return tail;
}

static bool add_production(struct compiler *c, expr_t e, uint32_t lhs)
{
    struct rules *g = c->g;
    struct regex_store *s = &c->d->store;
    if (!regex_grow(s, &g->first_dots, &g->cap_first, g->n_first + 1, sizeof(*g->first_dots))) return false;
    g->first_dots[g->n_first++] = (uint32_t)g->n_symbols;
    g->nonterminals[lhs].n++;
    if (is_terminal(c, e)) {
        if (!add_part(c, e, lhs, false)) return false;
        e = REGEX_ID_EMPTY;
    }
    while (regex_node(s, e)->kind == REGEX_CAT) {
        if (is_short(c, regex_node(s, e)->a)) {
            e = add_run(c, e, lhs);
            if (e == EXPR_ERROR) return false;
            continue;
        }
        if (!add_part(c, regex_node(s, e)->a, lhs, false)) return false;
        e = regex_node(s, e)->b;
    }
    return add_part(c, e, lhs, false) && add_symbol(c, (struct symbol){.kind = SYMBOL_END, .index = lhs, .lhs = lhs});
}

static bool add_nonterminal(struct compiler *c, uint32_t i)
{
    struct rules *g = c->g;
    struct regex_store *s = &c->d->store;
    expr_t e = c->bodies[i];
    g->nonterminals[i].first = (uint32_t)g->n_first;
    if (g->nonterminals[i].repeat) {
        if (!regex_grow(s, &g->first_dots, &g->cap_first, g->n_first + 1, sizeof(*g->first_dots))) return false;
        g->first_dots[g->n_first++] = (uint32_t)g->n_symbols;
        g->nonterminals[i].n = 1;
        return add_part(c, regex_node(s, e)->a, i, true) &&
               add_symbol(c, (struct symbol){.kind = SYMBOL_END, .index = i, .lhs = i});
    }
    if (regex_node(s, e)->kind != REGEX_ALT || is_terminal(c, e)) return add_production(c, e, i);
    for (uint32_t k = 0; k < regex_node(s, e)->b; k++)
        if (!add_production(c, s->kids[regex_node(s, e)->a + k], i)) return false;
    return true;
}

static bool compile(struct compiler *c, expr_t root)
{
    struct rules *g = c->g;
    struct regex_store *s = &c->d->store;
    /* The start nonterminal has a rule of its own as its body, so that nothing derives it again. */
    if (!regex_grow(s, &g->nonterminals, &g->cap_nonterminals, 1, sizeof(*g->nonterminals)) ||
        !regex_grow(s, &c->bodies, &c->cap_bodies, 1, sizeof(*c->bodies)))
        return false;
    g->nonterminals[g->n_nonterminals++] = (struct nonterminal){.min_len = UINT32_MAX};
    c->bodies[0] = root;
    for (uint32_t i = 0; i < g->n_nonterminals; i++)
        if (!add_nonterminal(c, i)) return false;
    return rules_properties(g, c->d);
}

int rules_compile(struct rules *g, struct dfa *d, struct grammar_builder *b, expr_t root)
{
    *g = (struct rules){0};
    *d = (struct dfa){0};
    int r = builder_status(b);
    if (r < 0) return r;
    if (root == EXPR_ERROR) return error_say(-EINVAL, "the grammar has no root");
    if (!rules_inline(b, &root)) return builder_status(b);
    struct compiler c = {.g = g, .d = d, .b = b};
    r = dfa_init(d, &b->store);
    if (r < 0) return dfa_status(d);
    size_t n = d->store.n;
    c.marks = calloc(n, 1);
    c.numbers = calloc(n, sizeof(*c.numbers));
    g->token_sets = steal(b->token_sets);
    g->n_token_sets = b->n_token_sets;
    b->n_token_sets = 0;
    if (!c.marks || !c.numbers)
        r = error_origin(-ENOMEM);
    else if (!mark_wide(&c, n) || !compile(&c, root))
        r = dfa_status(d);
    else if (!g->nonterminals[0].productive)
        r = error_say(-EDOM, "no text satisfies the constraint");
    free(c.marks);
    free(c.numbers);
    free(c.bodies);
    return r;
}

void rules_fini(struct rules *g)
{
    for (size_t i = 0; i < g->n_token_sets; i++) free(g->token_sets[i].ids);
    free(g->token_sets);
    free(g->symbols);
    free(g->nonterminals);
    free(g->first_dots);
    free(g->rest);
    *g = (struct rules){0};
}
