/* SPDX-License-Identifier: MIT */
#include "daemon/sample/sampling.h"
#include "daemon/sample/rng.h"
#include <assert.h>
#include <errno.h>

static bool has_penalty(const struct sample_params *p)
{
    return p->repeat != 1.0f || p->frequency != 0.0f || p->presence != 0.0f;
}

static int new_sampler(struct logits_processor **out, const struct sample_params *p)
{
    if (p->temperature == 0.0f) return greedy_sampler_new(out);
    return p->mirostat > 0.0f ? mirostat_sampler_new(out, p) : truncation_sampler_new(out, p);
}

int sampling_start(struct sampling *s, const struct sample_bias *bias, size_t n_bias, const int32_t *ban, size_t n_ban)
{
    struct logits_processor *p;
    int r = 0;
    logits_chain_fini(&s->chain);
    if (n_bias || n_ban) {
        r = bias_processor_new(&p, bias, n_bias, ban, n_ban);
        if (r == 0) logits_chain_add(&s->chain, p);
    }
    if (r == 0 && has_penalty(&s->params)) {
        r = penalties_processor_new(&p, &s->params);
        if (r == 0) logits_chain_add(&s->chain, p);
    }
    if (r == 0) r = new_sampler(&p, &s->params);
    if (r == 0)
        logits_chain_add(&s->chain, p);
    else
        logits_chain_fini(&s->chain);
    return r;
}

void sampling_fini(struct sampling *s)
{
    logits_chain_fini(&s->chain);
}

int sampling_clone(struct sampling *to, const struct sampling *from)
{
    *to = *from;
    to->chain = (struct logits_chain){0};
    return logits_chain_clone(&from->chain, &to->chain);
}

bool sampling_is_best(const struct sampling *s)
{
    return s->chain.first && s->params.temperature == 0.0f && s->chain.first->ops->samples;
}

/* What the chain does with the row whose largest logit is that of @best. */
static int take_best(struct sampling *s, int32_t best, int32_t *id)
{
    if (best < 0) return logits_not_numbers();
    *id = best;
    return logits_chain_accept(&s->chain, best);
}

static int pick(struct sampling *s, struct sample_scratch *x, struct logits logits, const struct logits_history *h,
                int32_t *id)
{
    return logits_chain_pick(&s->chain, x, logits, h, rng_uniform(s->seed, s->answer, s->position), id);
}

int32_t sampling_foresee(struct sampling *s, struct sample_scratch *x, struct logits logits, const int32_t *history,
                         size_t n_history)
{
    const struct logits_history h = {history, n_history};
    int32_t id;
    return pick(s, x, logits, &h, &id) < 0 ? -1 : id;
}

int sampling_pick(struct sampling *s, struct sample_scratch *x, struct logits logits, const int32_t *history,
                  size_t n_history, int32_t *id)
{
    const struct logits_history h = {history, n_history};
    int32_t picked;
    int r = logits.row ? -EAGAIN : take_best(s, logits.best, &picked);
    if (logits.picked) r = logits_chain_accept(&s->chain, picked = *logits.picked);
    while (r == -EAGAIN) {
        r = pick(s, x, logits, &h, &picked);
        if (r == 0) r = logits_chain_accept(&s->chain, picked);
    }
    if (r < 0) return r;
    s->position++;
    *id = picked;
    return 0;
}

void sampling_rollback(struct sampling *s, size_t n)
{
    assert(n <= s->position);
    logits_chain_rollback(&s->chain, n);
    s->position -= n;
}
