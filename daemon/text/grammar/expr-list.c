/* SPDX-License-Identifier: MIT */
#include "daemon/text/grammar/expr-list.h"
#include "libcommon/error.h"
#include <stdlib.h>

int expr_list_push(struct expr_list *l, expr_t e)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        expr_t *v = reallocarray(l->e, cap, sizeof(*v));
        if (!v) return error_origin(-ENOMEM);
        l->e = v;
        l->cap = cap;
    }
    l->e[l->n++] = e;
    return 0;
}

int range_list_push(struct range_list *l, uint32_t first, uint32_t last)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        struct expr_range *v = reallocarray(l->v, cap, sizeof(*v));
        if (!v) return error_origin(-ENOMEM);
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = (struct expr_range){first, last};
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct expr_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

int range_list_complement(struct range_list *l)
{
    struct range_list other = {0};
    uint32_t next = 0;
    int r = 0;
    if (l->n) qsort(l->v, l->n, sizeof(*l->v), compare);
    for (size_t i = 0; i < l->n && r == 0; i++) {
        if (l->v[i].first > next) r = range_list_push(&other, next, l->v[i].first - 1);
        if (l->v[i].last >= next) next = l->v[i].last + 1;
    }
    if (r == 0 && next <= 0x10ffff) r = range_list_push(&other, next, 0x10ffff);
    if (r < 0) {
        free(other.v);
        return r;
    }
    free(l->v);
    *l = other;
    return 0;
}
