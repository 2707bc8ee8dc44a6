/* SPDX-License-Identifier: MIT */
/* Constructors of sequences, repetitions and complements. Each simplifies with rules that keep the set of strings. */
#include "daemon/text/grammar/regex.h"
#include <stdlib.h>
#include <string.h>

static uint32_t add_len(uint32_t a, uint32_t b)
{
    if (a == UINT32_MAX || b == UINT32_MAX) return UINT32_MAX;
    return a + b < REGEX_LEN_MAX ? a + b : REGEX_LEN_MAX;
}

/* The flags that a sequence of @a and @b has. */
static uint8_t cat_flags(uint8_t a, uint8_t b)
{
    uint8_t both = a & b & (REGEX_NULLABLE | REGEX_REGULAR | REGEX_ALIVE),
            one = (a | b) & (REGEX_BOOLEAN | REGEX_DEAD | REGEX_LIMITED);
    return both | one;
}

static uint32_t add_count(uint32_t a, uint32_t b)
{
    if (a == EXPR_UNLIMITED || b == EXPR_UNLIMITED) return EXPR_UNLIMITED;
    return a < EXPR_UNLIMITED - b ? a + b : EXPR_UNLIMITED;
}

/* @a is no sequence. */
static expr_t cat_one(struct regex_store *s, expr_t a, expr_t b)
{
    if (a == REGEX_ID_NONE || b == REGEX_ID_NONE) return REGEX_ID_NONE;
    if (a == REGEX_ID_EMPTY) return b;
    if (b == REGEX_ID_EMPTY) return a;
    const struct regex_node *x = regex_node(s, a), *y = regex_node(s, b);
    expr_t head = y->kind == REGEX_CAT ? y->a : b, tail = y->kind == REGEX_CAT ? y->b : REGEX_ID_EMPTY;
    if (a == REGEX_ID_ALL && head == REGEX_ID_ALL) return b;
    const struct regex_node *h = regex_node(s, head);
    if (x->kind == REGEX_REPEAT && h->kind == REGEX_REPEAT && h->a == x->a && x->b + (uint64_t)h->b < UINT32_MAX) {
        expr_t e = regex_repeat(s, x->a, x->b + h->b, add_count(x->c, h->c));
        return e == EXPR_ERROR ? e : cat_one(s, e, tail);
    }
    struct regex_node n = {.kind = REGEX_CAT,
                           .flags = cat_flags(x->flags, y->flags),
                           .a = a,
                           .b = b,
                           .min_len = add_len(x->min_len, y->min_len)};
    return regex_intern(s, &n, NULL);
}

expr_t regex_cat(struct regex_store *s, expr_t a, expr_t b)
{
    if (s->status || a == EXPR_ERROR || b == EXPR_ERROR) return EXPR_ERROR;
    if (regex_node(s, a)->kind != REGEX_CAT) return cat_one(s, a, b);
    size_t n = 0;
    for (expr_t e = a; regex_node(s, e)->kind == REGEX_CAT; e = regex_node(s, e)->b) n++;
    expr_t *parts = malloc((n + 1) * sizeof(*parts)), e = a;
    if (!parts) return regex_fail(s, -ENOMEM);
    for (size_t i = 0; i < n; i++, e = regex_node(s, e)->b) parts[i] = regex_node(s, e)->a;
    parts[n] = e;
    for (size_t i = n + 1; i-- > 0 && b != EXPR_ERROR;) b = cat_one(s, parts[i], b);
    free(parts);
    return b;
}

/* x{0,} and x{0,1} inside a repetition. */
static expr_t inner(const struct regex_node *x, expr_t e, uint32_t max)
{
    if (x->kind != REGEX_REPEAT || x->b > 0) return e;
    if (x->c == 1 || max == EXPR_UNLIMITED) return x->a;
    return e;
}

static uint32_t times_len(uint32_t len, uint32_t n)
{
    if (n == 0) return 0;
    if (len == UINT32_MAX) return UINT32_MAX;
    uint64_t all = (uint64_t)len * n;
    return all < REGEX_LEN_MAX ? (uint32_t)all : REGEX_LEN_MAX;
}

expr_t regex_repeat(struct regex_store *s, expr_t e, uint32_t min, uint32_t max)
{
    if (s->status || e == EXPR_ERROR) return EXPR_ERROR;
    if (min > max) return REGEX_ID_NONE;
    if (max == 0 || e == REGEX_ID_EMPTY) return REGEX_ID_EMPTY;
    if (e == REGEX_ID_NONE) return min ? REGEX_ID_NONE : REGEX_ID_EMPTY;
    if (min == 1 && max == 1) return e;
    const struct regex_node *x = regex_node(s, e);
    if (x->flags & REGEX_NULLABLE) min = 0;
    if (e == REGEX_ID_ALL) return e;
    if (x->kind == REGEX_REPEAT && x->b == 0 && x->c == EXPR_UNLIMITED) return e;
    if (min == 0 && inner(x, e, max) != e) return regex_repeat(s, x->a, 0, max);
    static const struct byte_set every = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    if (x->kind == REGEX_SET && min == 0 && max == EXPR_UNLIMITED && !memcmp(&s->sets[x->a], &every, sizeof(every)))
        return REGEX_ID_ALL;
    struct regex_node n = {.kind = REGEX_REPEAT, .a = e, .b = min, .c = max, .min_len = times_len(x->min_len, min)};
    n.flags = x->flags & (REGEX_REGULAR | REGEX_BOOLEAN | REGEX_LIMITED);
    if (max > 1 && max != EXPR_UNLIMITED) n.flags |= REGEX_LIMITED;
    if (min == 0)
        n.flags |= REGEX_NULLABLE | REGEX_ALIVE;
    else
        n.flags |= x->flags & (REGEX_NULLABLE | REGEX_ALIVE | REGEX_DEAD);
    return regex_intern(s, &n, NULL);
}

expr_t regex_not(struct regex_store *s, expr_t e)
{
    if (s->status || e == EXPR_ERROR) return EXPR_ERROR;
    if (e == REGEX_ID_NONE) return REGEX_ID_ALL;
    const struct regex_node *x = regex_node(s, e);
    if (x->kind == REGEX_NOT) return x->a;
    struct regex_node n = {.kind = REGEX_NOT, .flags = REGEX_REGULAR | REGEX_BOOLEAN, .a = e, .min_len = UINT32_MAX};
    if (!(x->flags & REGEX_NULLABLE)) {
        n.flags |= REGEX_NULLABLE | REGEX_ALIVE;
        n.min_len = 0;
    }
    return regex_intern(s, &n, NULL);
}
