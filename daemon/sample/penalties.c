/* SPDX-License-Identifier: MIT */
/* Processor: penalties of ids that the newest tokens contain. It reads them from the history, so it keeps no state. */
#include "daemon/sample/candidates.h"
#include "daemon/sample/processors.h"
#include <errno.h>
#include <stdlib.h>

struct penalties {
    struct logits_processor base;
    struct sample_params params;
};

static float penalize(const struct sample_params *p, float x, uint32_t count)
{
    if (p->repeat != 1.0f) x = x > 0.0f ? x / p->repeat : x * p->repeat;
    if (p->frequency != 0.0f) x -= (float)count * p->frequency;
    if (p->presence != 0.0f) x -= p->presence;
    return x;
}

static int penalties_apply(struct logits_processor *base, struct logits_row *row, const struct logits_history *h)
{
    const struct sample_params *p = &((const struct penalties *)base)->params;
    uint32_t *counts = row->scratch->counts;
    size_t from = h->n;
    for (size_t left = p->repeat_n; from > 0 && left > 0;) left -= h->ids[--from] != ITEM_EMBD;
    for (size_t i = from; i < h->n; i++)
        if ((uint32_t)h->ids[i] < row->vocab) counts[h->ids[i]]++;
    for (size_t i = from; i < h->n; i++) {
        int32_t id = h->ids[i];
        uint32_t count = (uint32_t)id < row->vocab ? counts[id] : 0;
        if (count == 0) continue; /* done before, or not of the vocabulary */
        counts[id] = 0;
        logits_set(row, (uint32_t)id, penalize(p, logits_get(row, (uint32_t)id), count));
    }
    return 0;
}

static int penalties_clone(const struct logits_processor *p, struct logits_processor **out)
{
    return penalties_processor_new(out, &((const struct penalties *)p)->params);
}

static void penalties_free(struct logits_processor *p)
{
    free(p);
}

static const struct logits_processor_ops penalties_ops = {
    .name = "penalties", .apply = penalties_apply, .clone = penalties_clone, .free = penalties_free};

int penalties_processor_new(struct logits_processor **out, const struct sample_params *p)
{
    struct penalties *x = calloc(1, sizeof(*x));
    if (!x) return -ENOMEM;
    *x = (struct penalties){{.ops = &penalties_ops}, *p};
    *out = &x->base;
    return 0;
}
