/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

void tokens_fini(struct tokens *t)
{
    free(t->ids);
    free(t->ends);
    *t = (struct tokens){0};
}

int tokens_copy(struct tokens *to, const struct tokens *from)
{
    *to = (struct tokens){0};
    if (from->n == 0) return 0;
    to->ids = calloc(from->n, sizeof(*to->ids));
    to->ends = calloc(from->n, sizeof(*to->ends));
    if (!to->ids || !to->ends) {
        tokens_fini(to);
        return error_origin(-ENOMEM);
    }
    memcpy(to->ids, from->ids, from->n * sizeof(*to->ids));
    memcpy(to->ends, from->ends, from->n * sizeof(*to->ends));
    to->n = to->cap = from->n;
    return 0;
}

void tokens_reverse(struct tokens *t, size_t from)
{
    for (size_t i = from, k = t->n; i + 1 < k; i++) {
        k--;
        int32_t id = t->ids[i];
        uint32_t end = t->ends[i];
        t->ids[i] = t->ids[k];
        t->ends[i] = t->ends[k];
        t->ids[k] = id;
        t->ends[k] = end;
    }
}

int tokens_push(struct tokens *t, int32_t id, uint32_t end)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        int32_t *ids = reallocarray(t->ids, cap, sizeof(*ids));
        if (!ids) return error_origin(-ENOMEM);
        t->ids = ids;
        uint32_t *ends = reallocarray(t->ends, cap, sizeof(*ends));
        if (!ends) return error_origin(-ENOMEM);
        t->ends = ends;
        t->cap = cap;
    }
    t->ids[t->n] = id;
    t->ends[t->n++] = end;
    return 0;
}
