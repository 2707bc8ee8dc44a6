/* SPDX-License-Identifier: MIT */
/* Processor: bias of single ids, and bans. */
#include "daemon/sample/processors.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bias {
    struct logits_processor base;
    struct sample_bias *bias; /* [n_bias] */
    int32_t *ban;             /* [n_ban] */
    size_t n_bias, n_ban;
};

static int bias_apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    const struct bias *b = (const struct bias *)p;
    for (size_t i = 0; i < b->n_bias; i++) {
        const uint32_t id = (uint32_t)b->bias[i].id;
        if (id < row->vocab) logits_set(row, id, logits_get(row, id) + b->bias[i].bias);
    }
    for (size_t i = 0; i < b->n_ban; i++)
        if ((uint32_t)b->ban[i] < row->vocab) logits_set(row, (uint32_t)b->ban[i], -INFINITY);
    return 0;
}

static int bias_clone(const struct logits_processor *p, struct logits_processor **out)
{
    const struct bias *b = (const struct bias *)p;
    return bias_processor_new(out, b->bias, b->n_bias, b->ban, b->n_ban);
}

static void bias_free(struct logits_processor *p)
{
    struct bias *b = (struct bias *)p;
    free(b->bias);
    free(b->ban);
    free(b);
}

static const struct logits_processor_ops bias_ops = {
    .name = "bias", .apply = bias_apply, .clone = bias_clone, .free = bias_free};

/* A copy of @n elements of @size bytes; *failed is set when memory lacks. NULL for none. */
static void *copy(const void *from, size_t n, size_t size, bool *failed)
{
    void *to = n ? calloc(n, size) : NULL;
    if (to) memcpy(to, from, n * size);
    *failed |= n && !to;
    return to;
}

int bias_processor_new(struct logits_processor **out, const struct sample_bias *bias, size_t n_bias, const int32_t *ban,
                       size_t n_ban)
{
    struct bias *b = calloc(1, sizeof(*b));
    bool failed = false;
    if (!b) return -ENOMEM;
    *b = (struct bias){{.ops = &bias_ops},
                       copy(bias, n_bias, sizeof(*bias), &failed),
                       copy(ban, n_ban, sizeof(*ban), &failed),
                       n_bias,
                       n_ban};
    if (failed) {
        bias_free(&b->base);
        return -ENOMEM;
    }
    *out = &b->base;
    return 0;
}
