/* SPDX-License-Identifier: MIT */
/* The memory of a store of expressions: nodes, byte sets, and their hash tables. */
#include "daemon/text/grammar/regex.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

expr_t regex_fail(struct regex_store *s, int r)
{
    if (s->status == 0) s->status = r;
    if (s->status == -E2BIG)
        error_say(-E2BIG, "the constraint is too large: it needs more than %zu MiB", REGEX_BYTES_MAX >> 20);
    else if (s->status == -ELOOP)
        error_say(-ELOOP, "the constraint is nested too deeply: more than %d levels", REGEX_DEPTH_MAX);
    else if (s->status == -ETIME)
        error_say(-ETIME, "the constraint takes too long: it needs more than %u million steps",
                  (unsigned)(s->work_max / 1000000));
    else if (s->status == -EDQUOT)
        grammar_memory_error(s->share.memory);
    else
        error_origin(s->status);
    return EXPR_ERROR;
}

bool regex_work(struct regex_store *s, size_t n)
{
    s->work += n;
    return s->work <= s->work_max || regex_fail(s, -ETIME) != EXPR_ERROR;
}

void regex_allow_work(struct regex_store *s, uint64_t max)
{
    s->work = 0;
    s->work_max = max;
    s->status = 0;
}

uint64_t regex_begin_search(struct regex_store *s)
{
    const uint64_t max = s->work_max, left = max > s->work ? max - s->work : 0;
    s->work_max = s->work + left / 8;
    return max;
}

bool regex_end_search(struct regex_store *s, uint64_t max)
{
    const bool undecided = s->status == -ETIME || s->status == -EDOM;
    s->work_max = max;
    if (undecided) s->status = 0;
    return !undecided;
}

bool regex_may_take(struct regex_store *s, size_t more)
{
    if (s->bytes + more > REGEX_BYTES_MAX) return regex_fail(s, -E2BIG) != EXPR_ERROR;
    return grammar_share_cover(&s->share, s->bytes + more) || regex_fail(s, -EDQUOT) != EXPR_ERROR;
}

bool regex_grow(struct regex_store *s, void *array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    size_t more = *cap ? *cap * 2 : 64;
    while (more < need) more *= 2;
    if (need > UINT32_MAX / 2) return regex_fail(s, -E2BIG) != EXPR_ERROR;
    if (!regex_may_take(s, (more - *cap) * size)) return false;
    void *p;
    memcpy(&p, array, sizeof(p));
    p = reallocarray(p, more, size);
    if (!p) {
        regex_fail(s, -ENOMEM);
        return false;
    }
    memcpy(array, &p, sizeof(p));
    s->bytes += (more - *cap) * size;
    *cap = more;
    return true;
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

/* Doubles a table that is half full. Its entries get their hash from @hash. */
static bool widen(struct regex_store *s, uint32_t **table, size_t *mask, size_t n,
                  uint32_t (*hash)(const struct regex_store *s, uint32_t i))
{
    if (*table && n * 2 <= *mask) return true;
    size_t size = *table ? (*mask + 1) * 2 : 256;
    size_t more = (size - (*table ? *mask + 1 : 0)) * sizeof(**table);
    uint32_t *t = regex_may_take(s, more) ? calloc(size, sizeof(*t)) : NULL;
    if (!t) {
        regex_fail(s, -ENOMEM);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = hash(s, (uint32_t)i) & (size - 1);
        while (t[at]) at = (at + 1) & (size - 1);
        t[at] = (uint32_t)i + 1;
    }
    s->bytes += more;
    free(*table);
    *table = t;
    *mask = size - 1;
    return true;
}

static uint32_t node_hash(const struct regex_store *s, uint32_t i)
{
    return s->nodes[i].hash;
}

static uint32_t hash_set(const struct byte_set *set)
{
    uint32_t h = 0;
    for (int i = 0; i < 4; i++) h = mix(mix(h, (uint32_t)set->w[i]), (uint32_t)(set->w[i] >> 32));
    return h;
}

static uint32_t set_hash(const struct regex_store *s, uint32_t i)
{
    return hash_set(&s->sets[i]);
}

uint32_t regex_set_index(struct regex_store *s, const struct byte_set *set)
{
    if (s->status || !widen(s, &s->set_table, &s->set_mask, s->n_sets, set_hash)) return EXPR_ERROR;
    size_t at = hash_set(set) & s->set_mask;
    for (; s->set_table[at]; at = (at + 1) & s->set_mask)
        if (!memcmp(&s->sets[s->set_table[at] - 1], set, sizeof(*set))) return s->set_table[at] - 1;
    if (!regex_grow(s, &s->sets, &s->cap_sets, s->n_sets + 1, sizeof(*set))) return EXPR_ERROR;
    s->sets[s->n_sets++] = *set;
    s->set_table[at] = (uint32_t)s->n_sets;
    return (uint32_t)s->n_sets - 1;
}

static bool has_kids(const struct regex_node *n)
{
    return n->kind == REGEX_ALT || n->kind == REGEX_AND;
}

static bool same(const struct regex_store *s, const struct regex_node *x, const struct regex_node *n,
                 const uint32_t *kids)
{
    if (x->hash != n->hash || x->kind != n->kind || x->b != n->b || x->c != n->c) return false;
    return has_kids(n) ? !memcmp(s->kids + x->a, kids, n->b * sizeof(*kids)) : x->a == n->a;
}

expr_t regex_intern(struct regex_store *s, const struct regex_node *n, const uint32_t *kids)
{
    if (s->status || !widen(s, &s->node_table, &s->node_mask, s->n, node_hash)) return EXPR_ERROR;
    if (!regex_work(s, 4)) return EXPR_ERROR;
    struct regex_node x = *n;
    x.hash = mix(mix(mix(n->kind, has_kids(n) ? 0 : n->a), n->b), n->c);
    if (has_kids(n))
        for (uint32_t i = 0; i < n->b; i++) x.hash = mix(x.hash, kids[i]);
    size_t at = x.hash & s->node_mask;
    for (; s->node_table[at]; at = (at + 1) & s->node_mask)
        if (same(s, &s->nodes[s->node_table[at] - 1], &x, kids)) return s->node_table[at] - 1;
    if (has_kids(n)) {
        if (!regex_grow(s, &s->kids, &s->cap_kids, s->n_kids + n->b, sizeof(*kids))) return EXPR_ERROR;
        memcpy(s->kids + s->n_kids, kids, n->b * sizeof(*kids));
        x.a = (uint32_t)s->n_kids;
        s->n_kids += n->b;
    }
    if (!regex_grow(s, &s->nodes, &s->cap, s->n + 1, sizeof(x))) return EXPR_ERROR;
    s->nodes[s->n++] = x;
    s->node_table[at] = (uint32_t)s->n;
    return (uint32_t)s->n - 1;
}

expr_t regex_set(struct regex_store *s, const struct byte_set *set)
{
    if (byte_set_is_empty(set)) return s->status ? EXPR_ERROR : REGEX_ID_NONE;
    struct regex_node n = {.kind = REGEX_SET, .flags = REGEX_REGULAR | REGEX_ALIVE, .min_len = 1};
    n.a = regex_set_index(s, set);
    return n.a == EXPR_ERROR ? EXPR_ERROR : regex_intern(s, &n, NULL);
}

expr_t regex_byte(struct regex_store *s, uint8_t b)
{
    struct byte_set set = {{0}};
    set.w[b >> 6] = 1ull << (b & 63);
    return regex_set(s, &set);
}

int regex_store_init(struct regex_store *s)
{
    *s = (struct regex_store){.work_max = REGEX_BUILD_WORK};
    struct regex_node none = {.kind = REGEX_NONE, .flags = REGEX_REGULAR | REGEX_DEAD, .min_len = REGEX_LEN_MAX};
    struct regex_node empty = {.kind = REGEX_EMPTY, .flags = REGEX_REGULAR | REGEX_ALIVE | REGEX_NULLABLE};
    struct regex_node all = {.kind = REGEX_NOT, .flags = REGEX_REGULAR | REGEX_ALIVE | REGEX_NULLABLE};
    regex_intern(s, &none, NULL);
    regex_intern(s, &empty, NULL);
    regex_intern(s, &all, NULL); /* the complement of node 0 */
    return s->status;
}

void regex_store_fini(struct regex_store *s)
{
    free(s->nodes);
    free(s->kids);
    free(s->sets);
    free(s->edges);
    free(s->node_table);
    free(s->set_table);
    grammar_share_close(&s->share);
    *s = (struct regex_store){0};
}
