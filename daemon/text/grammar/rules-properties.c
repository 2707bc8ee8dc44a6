/* SPDX-License-Identifier: MIT */
/* Which nonterminals derive the empty text, and which derive a text at all. The time is linear in the rules. */
#include "daemon/text/grammar/rules.h"
#include <stdlib.h>

struct search {
    struct rules *g;
    const struct dfa *d;
    uint32_t *missing; /* [n_first] symbols of a production that lack the property */
    uint32_t *uses;    /* productions by the nonterminals in them: uses[first_use[n] .. first_use[n + 1]) */
    uint32_t *first_use;
    uint32_t *queue; /* nonterminals that got the property */
    size_t n_queue;
    bool nullable; /* the property; else productive */
};

static bool *property(const struct search *v, uint32_t n)
{
    return v->nullable ? &v->g->nonterminals[n].nullable : &v->g->nonterminals[n].productive;
}

static void gain(struct search *v, uint32_t n)
{
    if (*property(v, n)) return;
    *property(v, n) = true;
    v->queue[v->n_queue++] = n;
}

static bool lacks(const struct search *v, const struct symbol *y)
{
    if (y->kind == SYMBOL_NONTERMINAL) return true;
    if (y->kind == SYMBOL_TOKENS) return v->nullable;
    return v->nullable ? !v->d->states[y->index].nullable : y->index == 0;
}

/* Fills uses and first_use. */
static void find_uses(struct search *v)
{
    struct rules *g = v->g;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < g->n_first; i++)
            for (const struct symbol *y = &g->symbols[g->first_dots[i]]; y->kind != SYMBOL_END; y++) {
                if (y->kind != SYMBOL_NONTERMINAL) continue;
                if (pass)
                    v->uses[--v->first_use[y->index + 1]] = (uint32_t)i;
                else
                    v->first_use[y->index + 1]++;
            }
        for (size_t n = 0; pass == 0 && n < g->n_nonterminals; n++) v->first_use[n + 1] += v->first_use[n];
    }
    /* The second pass moved each end to its beginning: entry n + 1 is now where the uses of n begin. */
    for (size_t n = 0; n < g->n_nonterminals; n++) v->first_use[n] = v->first_use[n + 1];
    v->first_use[g->n_nonterminals] = 0;
    for (size_t i = 0; i < g->n_first; i++)
        for (const struct symbol *y = &g->symbols[g->first_dots[i]]; y->kind != SYMBOL_END; y++)
            v->first_use[g->n_nonterminals] += y->kind == SYMBOL_NONTERMINAL;
}

static void spread(struct search *v, bool nullable)
{
    struct rules *g = v->g;
    v->nullable = nullable;
    v->n_queue = 0;
    for (uint32_t n = 0; n < g->n_nonterminals; n++)
        if (g->nonterminals[n].repeat && g->nonterminals[n].min == 0) gain(v, n);
    for (size_t i = 0; i < g->n_first; i++) {
        const struct symbol *y = &g->symbols[g->first_dots[i]];
        v->missing[i] = 0;
        for (; y->kind != SYMBOL_END; y++) v->missing[i] += lacks(v, y);
        if (v->missing[i] == 0) gain(v, y->lhs);
    }
    for (size_t k = 0; k < v->n_queue; k++) {
        uint32_t n = v->queue[k];
        for (uint32_t u = v->first_use[n]; u < v->first_use[n + 1]; u++)
            if (--v->missing[v->uses[u]] == 0) gain(v, g->symbols[g->first_dots[v->uses[u]]].lhs);
    }
}

static bool symbol_has(const struct search *v, const struct symbol *y, bool nullable)
{
    if (y->kind == SYMBOL_NONTERMINAL)
        return nullable ? v->g->nonterminals[y->index].nullable : v->g->nonterminals[y->index].productive;
    if (y->kind == SYMBOL_TOKENS) return !nullable;
    return nullable ? v->d->states[y->index].nullable : y->index != 0;
}

/* A repetition of a nullable symbol may have any count up to its max; one of a symbol that derives nothing is empty. */
static void prune(const struct search *v)
{
    struct rules *g = v->g;
    for (size_t i = 0; i < g->n_nonterminals; i++) {
        struct nonterminal *n = &g->nonterminals[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n->n; k++) {
            uint32_t dot = g->first_dots[n->first + k];
            const struct symbol *y = &g->symbols[dot];
            if (n->repeat && symbol_has(v, y, true)) n->min = 0;
            if (n->repeat && !symbol_has(v, y, false)) n->max = 0;
            while (!n->repeat && y->kind != SYMBOL_END && symbol_has(v, y, false)) y++;
            if (n->repeat || y->kind == SYMBOL_END) g->first_dots[n->first + kept++] = dot;
        }
        n->n = kept;
    }
}

bool rules_properties(struct rules *g, struct dfa *d)
{
    struct search v = {.g = g, .d = d};
    v.missing = calloc(g->n_first + 1, sizeof(*v.missing));
    v.uses = calloc(g->n_symbols + 1, sizeof(*v.uses));
    v.first_use = calloc(g->n_nonterminals + 1, sizeof(*v.first_use));
    v.queue = calloc(g->n_nonterminals + 1, sizeof(*v.queue));
    bool ok = v.missing && v.uses && v.first_use && v.queue;
    if (ok) {
        find_uses(&v);
        spread(&v, true);
        spread(&v, false);
        prune(&v);
    } else {
        regex_fail(&d->store, -ENOMEM);
    }
    free(v.missing);
    free(v.uses);
    free(v.first_use);
    free(v.queue);
    return ok;
}
