/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/dfa.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define CLASSES_BYTES (256 * sizeof(uint16_t))

int dfa_init(struct dfa *d, struct regex_store *store)
{
    *d = (struct dfa){.store = *store};
    *store = (struct regex_store){0};
    dfa_state_of(d, REGEX_ID_NONE);
    return d->store.status;
}

void dfa_fini(struct dfa *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->states[i].edges);
        free(d->states[i].stays);
    }
    for (size_t i = 0; i < d->classes_size; i++) free(d->classes[i]);
    free(d->classes);
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

/* The place of these classes, or where they belong. */
static uint16_t **classes_at(uint16_t **table, size_t size, const uint16_t *of)
{
    uint64_t h = 0, w;
    for (size_t i = 0; i < CLASSES_BYTES; i += sizeof(w)) {
        memcpy(&w, (const char *)of + i, sizeof(w));
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    size_t at = h & (size - 1);
    while (table[at] && memcmp(table[at], of, CLASSES_BYTES) != 0) at = (at + 1) & (size - 1);
    return &table[at];
}

static bool widen_classes(struct dfa *d)
{
    size_t size = d->classes_size ? d->classes_size * 2 : 64;
    uint16_t **table = regex_may_take(&d->store, size * sizeof(*table)) ? calloc(size, sizeof(*table)) : NULL;
    if (!table) return false;
    for (size_t i = 0; i < d->classes_size; i++)
        if (d->classes[i]) *classes_at(table, size, d->classes[i]) = d->classes[i];
    free(d->classes);
    d->store.bytes += (size - d->classes_size) * sizeof(*table);
    d->classes = table;
    d->classes_size = size;
    return true;
}

/* The one copy of the classes of bytes @of [256]. NULL: failed. */
static const uint16_t *share_classes(struct dfa *d, const uint16_t *of)
{
    if (d->n_classes * 2 >= d->classes_size && !widen_classes(d)) return NULL;
    uint16_t **at = classes_at(d->classes, d->classes_size, of);
    if (*at) return *at;
    *at = regex_may_take(&d->store, CLASSES_BYTES) ? malloc(CLASSES_BYTES) : NULL;
    if (!*at) return NULL;
    memcpy(*at, of, CLASSES_BYTES);
    d->store.bytes += CLASSES_BYTES;
    d->n_classes++;
    return *at;
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
    uint16_t of[256] = {0};
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
            if (byte_set_has(set, (uint8_t)b)) of[b] = (uint16_t)edges->n;
        for (int w = 0; w < 4; w++) live.w[w] |= set->w[w];
        edges->to[edges->n++] = to;
    }
    edges->of = share_classes(d, of);
    if (!edges->of) {
        free(edges);
        return regex_fail(s, -ENOMEM) != EXPR_ERROR;
    }
    s->bytes += size;
    d->states[q].edges = edges;
    d->states[q].live = live;
    return true;
}
