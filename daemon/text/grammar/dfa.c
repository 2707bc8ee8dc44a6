/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/dfa.h"
#include "libcommon/error.h"
#include <stdlib.h>

int dfa_init(struct dfa *d, struct regex_store *store)
{
    *d = (struct dfa){.store = *store};
    *store = (struct regex_store){0};
    dfa_state_of(d, REGEX_ID_NONE);
    return d->store.status;
}

void dfa_fini(struct dfa *d)
{
    for (size_t i = 0; i < d->n; i++) free(d->states[i].edges);
    free(d->states);
    regex_store_fini(&d->store);
}

int dfa_status(struct dfa *d)
{
    if (d->store.status != -EDOM) {
        regex_fail(&d->store, d->store.status);
        return d->store.status;
    }
    return error_say(-E2BIG, "the constraint is too hard: more than %d states do not decide whether a part is empty",
                     DFA_SEARCH_MAX);
}

uint32_t dfa_state_of(struct dfa *d, expr_t e)
{
    struct regex_store *s = &d->store;
    if (e == EXPR_ERROR || s->status) return UINT32_MAX;
    if (regex_node(s, e)->state) return regex_node(s, e)->state - 1;
    int none = regex_is_none(s, e, DFA_SEARCH_MAX);
    if (none == -E2BIG && s->status == 0) regex_fail(s, -EDOM);
    if (none < 0) return UINT32_MAX;
    uint32_t q = 0;
    if (!none || d->n == 0) {
        if (!regex_grow(s, &d->states, &d->cap, d->n + 1, sizeof(*d->states))) return UINT32_MAX;
        q = (uint32_t)d->n++;
        d->states[q] = (struct dfa_state){.node = e, .nullable = regex_has(s, e, REGEX_NULLABLE)};
    }
    s->nodes[e].state = q + 1;
    return q;
}

bool dfa_expand(struct dfa *d, uint32_t q)
{
    struct regex_store *s = &d->store;
    expr_t e = d->states[q].node;
    if (!regex_derive(s, e)) return false;
    uint32_t n = regex_node(s, e)->n_edges;
    size_t size = sizeof(struct dfa_edges) + (n + 1) * sizeof(uint32_t);
    if (!regex_may_take(s, size)) return false;
    struct dfa_edges *edges = calloc(1, size);
    if (!edges) return regex_fail(s, -ENOMEM) != EXPR_ERROR;
    struct byte_set live = {{0}};
    edges->n = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct regex_edge edge = s->edges[regex_node(s, e)->edges - 1 + i];
        uint32_t to = dfa_state_of(d, edge.to);
        if (to == UINT32_MAX) {
            free(edges);
            return false;
        }
        if (to == 0) continue;
        const struct byte_set *set = &s->sets[edge.set];
        for (int b = 0; b < 256; b++)
            if (byte_set_has(set, (uint8_t)b)) edges->of[b] = (uint16_t)edges->n;
        for (int w = 0; w < 4; w++) live.w[w] |= set->w[w];
        edges->to[edges->n++] = to;
    }
    s->bytes += size;
    d->states[q].edges = edges;
    d->states[q].live = live;
    return true;
}
