/* SPDX-License-Identifier: MIT */
/* Constructors of unions and intersections. */
#include "daemon/text/grammar/regex.h"
#include <stdlib.h>
#include <string.h>

#define FACTOR_DEPTH 200 /* common prefixes longer than this stay apart */

struct list {
    expr_t *e;
    size_t n;
};

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The elements, those of nested nodes of @kind included; sorted, each once. l->e is the caller's. */
static bool flatten(struct regex_store *s, struct list *l, const expr_t *e, size_t n, enum regex_kind kind)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        if (e[i] == EXPR_ERROR) return false;
        total += regex_node(s, e[i])->kind == kind ? regex_node(s, e[i])->b : 1;
    }
    if (!regex_work(s, 4 * total)) return false;
    l->e = calloc(total + 1, sizeof(*l->e));
    if (!l->e) return regex_fail(s, -ENOMEM) != EXPR_ERROR;
    l->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct regex_node *x = regex_node(s, e[i]);
        if (x->kind != kind) {
            l->e[l->n++] = e[i];
            continue;
        }
        memcpy(l->e + l->n, s->kids + x->a, x->b * sizeof(*l->e));
        l->n += x->b;
    }
    if (l->n > 1) qsort(l->e, l->n, sizeof(*l->e), compare);
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (i == 0 || l->e[i] != l->e[i - 1]) l->e[kept++] = l->e[i];
    l->n = kept;
    return true;
}

static void drop(struct list *l, expr_t e)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->e[i] != e) l->e[kept++] = l->e[i];
    l->n = kept;
}

/* One set for all elements that are sets: their union, or their intersection. */
static bool merge_sets(struct regex_store *s, struct list *l, bool both)
{
    struct byte_set all;
    memset(&all, both ? 0xff : 0, sizeof(all));
    size_t kept = 0, merged = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct regex_node *x = regex_node(s, l->e[i]);
        if (x->kind != REGEX_SET) {
            l->e[kept++] = l->e[i];
            continue;
        }
        for (int k = 0; k < 4; k++) all.w[k] = both ? all.w[k] & s->sets[x->a].w[k] : all.w[k] | s->sets[x->a].w[k];
        merged++;
    }
    l->n = kept;
    if (merged == 0) return true;
    expr_t e = regex_set(s, &all);
    if (e == EXPR_ERROR) return false;
    l->e[l->n++] = e;
    return true;
}

/* A node of the elements, sorted. */
static expr_t intern_list(struct regex_store *s, struct list *l, struct regex_node *n)
{
    if (l->n == 1) return l->e[0];
    qsort(l->e, l->n, sizeof(*l->e), compare);
    n->b = (uint32_t)l->n;
    return regex_intern(s, n, l->e);
}

static expr_t head_of(const struct regex_store *s, expr_t e)
{
    return regex_node(s, e)->kind == REGEX_CAT ? regex_node(s, e)->a : e;
}

static expr_t tail_of(const struct regex_store *s, expr_t e)
{
    return regex_node(s, e)->kind == REGEX_CAT ? regex_node(s, e)->b : REGEX_ID_EMPTY;
}

struct part {
    expr_t head, tail;
};

static int compare_heads(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->head != y->head ? (x->head > y->head) - (x->head < y->head) : (x->tail > y->tail) - (x->tail < y->tail);
}

static int compare_tails(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->tail != y->tail ? (x->tail > y->tail) - (x->tail < y->tail) : (x->head > y->head) - (x->head < y->head);
}

/* h x | h y = h (x | y). Leaves in @p one part for each head. */
static bool factor_heads(struct regex_store *s, struct part *p, size_t *n, expr_t *scratch)
{
    size_t kept = 0;
    qsort(p, *n, sizeof(*p), compare_heads);
    for (size_t i = 0, j; i < *n; i = j) {
        for (j = i; j < *n && p[j].head == p[i].head; j++) scratch[j - i] = p[j].tail;
        expr_t tail = j == i + 1 ? p[i].tail : regex_alt(s, scratch, j - i);
        if (tail == EXPR_ERROR) return false;
        p[kept++] = (struct part){p[i].head, tail};
    }
    *n = kept;
    return true;
}

/* [a] x | [b] x = [ab] x. */
static bool merge_heads(struct regex_store *s, struct part *p, size_t *n)
{
    size_t kept = 0;
    qsort(p, *n, sizeof(*p), compare_tails);
    for (size_t i = 0; i < *n; i++) {
        struct part *last = kept ? &p[kept - 1] : NULL;
        if (!last || last->tail != p[i].tail || regex_node(s, last->head)->kind != REGEX_SET ||
            regex_node(s, p[i].head)->kind != REGEX_SET) {
            p[kept++] = p[i];
            continue;
        }
        struct byte_set all = s->sets[regex_node(s, last->head)->a];
        const struct byte_set *more = &s->sets[regex_node(s, p[i].head)->a];
        for (int k = 0; k < 4; k++) all.w[k] |= more->w[k];
        last->head = regex_set(s, &all);
        if (last->head == EXPR_ERROR) return false;
    }
    *n = kept;
    return true;
}

static bool factor(struct regex_store *s, struct list *l)
{
    if (l->n < 2 || s->depth >= FACTOR_DEPTH) return true;
    struct part *p = calloc(l->n, sizeof(*p));
    expr_t *scratch = calloc(l->n, sizeof(*scratch));
    size_t n = l->n;
    bool ok = p && scratch;
    if (!ok) regex_fail(s, -ENOMEM);
    for (size_t i = 0; i < n && ok; i++) p[i] = (struct part){head_of(s, l->e[i]), tail_of(s, l->e[i])};
    s->depth++;
    ok = ok && factor_heads(s, p, &n, scratch) && merge_heads(s, p, &n);
    for (size_t i = 0; i < n && ok; i++) {
        l->e[i] = regex_cat(s, p[i].head, p[i].tail);
        ok = l->e[i] != EXPR_ERROR;
    }
    s->depth--;
    l->n = n;
    free(p);
    free(scratch);
    return ok;
}

/* The empty string beside x{1,n} or beside an element that has it. */
static bool merge_empty(struct regex_store *s, struct list *l)
{
    bool empty = false, nullable = false;
    size_t plus = SIZE_MAX;
    for (size_t i = 0; i < l->n; i++) {
        const struct regex_node *x = regex_node(s, l->e[i]);
        if (l->e[i] == REGEX_ID_EMPTY)
            empty = true;
        else if (x->flags & REGEX_NULLABLE)
            nullable = true;
        else if (x->kind == REGEX_REPEAT && x->b == 1)
            plus = i;
    }
    if (!empty || (!nullable && plus == SIZE_MAX)) return true;
    if (!nullable) {
        const struct regex_node *x = regex_node(s, l->e[plus]);
        l->e[plus] = regex_repeat(s, x->a, 0, x->c);
        if (l->e[plus] == EXPR_ERROR) return false;
    }
    drop(l, REGEX_ID_EMPTY);
    return true;
}

static expr_t alt_node(struct regex_store *s, struct list *l)
{
    struct regex_node n = {.kind = REGEX_ALT, .flags = REGEX_REGULAR | REGEX_DEAD, .min_len = REGEX_LEN_MAX};
    bool known = true;
    for (size_t i = 0; i < l->n; i++) {
        const struct regex_node *x = regex_node(s, l->e[i]);
        n.flags |= x->flags & (REGEX_NULLABLE | REGEX_BOOLEAN | REGEX_ALIVE | REGEX_LIMITED);
        n.flags &= x->flags | (uint8_t) ~(REGEX_REGULAR | REGEX_DEAD);
        known = known && x->min_len != UINT32_MAX;
        if (x->min_len < n.min_len) n.min_len = x->min_len;
    }
    if (!known && n.min_len) n.min_len = UINT32_MAX;
    return intern_list(s, l, &n);
}

expr_t regex_alt(struct regex_store *s, expr_t *e, size_t n)
{
    struct list l = {0};
    expr_t r = EXPR_ERROR;
    if (s->status || !flatten(s, &l, e, n, REGEX_ALT)) return EXPR_ERROR;
    drop(&l, REGEX_ID_NONE);
    for (size_t i = 0; i < l.n && r == EXPR_ERROR; i++)
        if (l.e[i] == REGEX_ID_ALL) r = REGEX_ID_ALL;
    if (l.n == 0) r = REGEX_ID_NONE;
    if (r == EXPR_ERROR && factor(s, &l) && merge_sets(s, &l, false) && merge_empty(s, &l)) r = alt_node(s, &l);
    free(l.e);
    return r;
}

/* [a] x & [b] y = ([a] & [b]) (x & y), if all elements are so. REGEX_ID_ALL: they are not. */
static expr_t and_heads(struct regex_store *s, struct list *l)
{
    if (s->depth >= FACTOR_DEPTH) return REGEX_ID_ALL;
    struct byte_set all;
    memset(&all, 0xff, sizeof(all));
    for (size_t i = 0; i < l->n; i++) {
        const struct regex_node *h = regex_node(s, head_of(s, l->e[i]));
        if (h->kind != REGEX_SET) return REGEX_ID_ALL;
        for (int k = 0; k < 4; k++) all.w[k] &= s->sets[h->a].w[k];
    }
    if (byte_set_is_empty(&all)) return REGEX_ID_NONE;
    for (size_t i = 0; i < l->n; i++) l->e[i] = tail_of(s, l->e[i]);
    s->depth++;
    expr_t tail = regex_and(s, l->e, l->n), head = regex_set(s, &all);
    s->depth--;
    return regex_cat(s, head, tail);
}

/* REGEX_ID_NONE if an element excludes another, or if one is the empty string and another does not have it. */
static expr_t and_conflict(const struct regex_store *s, const struct list *l)
{
    bool empty = false, nullable = true;
    for (size_t i = 0; i < l->n; i++) {
        const struct regex_node *x = regex_node(s, l->e[i]);
        if (x->flags & REGEX_DEAD) return REGEX_ID_NONE;
        if (l->e[i] == REGEX_ID_EMPTY) empty = true;
        if (!(x->flags & REGEX_NULLABLE)) nullable = false;
        if (x->kind == REGEX_NOT && bsearch(&x->a, l->e, l->n, sizeof(*l->e), compare)) return REGEX_ID_NONE;
    }
    if (empty) return nullable ? REGEX_ID_EMPTY : REGEX_ID_NONE;
    return REGEX_ID_ALL;
}

static expr_t and_node(struct regex_store *s, struct list *l)
{
    struct regex_node n = {.kind = REGEX_AND, .flags = REGEX_REGULAR | REGEX_BOOLEAN, .min_len = UINT32_MAX};
    bool nullable = true;
    for (size_t i = 0; i < l->n; i++) {
        nullable = nullable && regex_has(s, l->e[i], REGEX_NULLABLE);
        n.flags |= regex_node(s, l->e[i])->flags & REGEX_LIMITED;
    }
    if (nullable) {
        n.flags |= REGEX_NULLABLE | REGEX_ALIVE;
        n.min_len = 0;
    }
    return intern_list(s, l, &n);
}

expr_t regex_and(struct regex_store *s, expr_t *e, size_t n)
{
    struct list l = {0};
    if (s->status || !flatten(s, &l, e, n, REGEX_AND)) return EXPR_ERROR;
    drop(&l, REGEX_ID_ALL);
    expr_t r = l.n ? and_conflict(s, &l) : REGEX_ID_ALL;
    if (l.n && r == REGEX_ID_ALL) {
        r = EXPR_ERROR;
        if (merge_sets(s, &l, true)) r = l.n == 1 ? l.e[0] : and_heads(s, &l);
        if (r == REGEX_ID_ALL && l.n > 1) r = and_node(s, &l);
    }
    free(l.e);
    return r;
}
