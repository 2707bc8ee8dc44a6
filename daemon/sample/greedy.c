/* SPDX-License-Identifier: MIT */
/* Sampler: the largest logit. */
#include "daemon/sample/candidates.h"
#include "daemon/sample/processors.h"
#include <errno.h>
#include <stdlib.h>

static int greedy_apply(struct logits_processor *p, struct logits_row *row, const struct logits_history *h)
{
    row->picked = candidates_largest(row);
    return 0;
}

static int greedy_clone(const struct logits_processor *p, struct logits_processor **out)
{
    return greedy_sampler_new(out);
}

static void greedy_free(struct logits_processor *p)
{
    free(p);
}

static const struct logits_processor_ops greedy_ops = {
    .name = "greedy", .samples = true, .apply = greedy_apply, .clone = greedy_clone, .free = greedy_free};

int greedy_sampler_new(struct logits_processor **out)
{
    struct logits_processor *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->ops = &greedy_ops;
    *out = p;
    return 0;
}
