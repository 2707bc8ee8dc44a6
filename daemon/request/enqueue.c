/* SPDX-License-Identifier: MIT */
#include "daemon/request/enqueue.h"
#include "daemon/request/constrain-answer.h"
#include "daemon/request/context-policy.h"
#include "daemon/request/finish.h"
#include "daemon/request/infill-prompt.h"
#include "daemon/request/request-job.h"
#include "daemon/request/turn.h"
#include "libcommon/error.h"
#include <assert.h>

#define MAX_TOKENS_DEFAULT 2048
#define CONTEXT_KEEP       128 /* tokens that stay when a context is full; a quarter of it, if that is less */
#define CONTEXT_LEAST      64  /* tokens of a context that can shift or rotate */

static int set_context(struct request *r, struct seq *s)
{
    const struct loaded *m = &r->core->model;
    const struct hparams *hparams = &m->backend->hparams;
    struct seq_context *c = &s->context;
    c->ctx = m->ctx;
    c->batch = r->core->config.batch_tokens;
    c->keep = (m->ctx / 4 < CONTEXT_KEEP ? m->ctx / 4 : CONTEXT_KEEP) / KV_BLOCK * KV_BLOCK;
    c->policy = context_policy(&r->proto.gen, r->turn.session);
    if (c->policy != PROTO_CONTEXT_REFUSE && c->ctx < CONTEXT_LEAST)
        return error_say(-EINVAL, "a context of %u tokens is too small to shift or rotate", c->ctx);
    if (c->policy == PROTO_CONTEXT_ROTATE && hparams->window)
        return error_say(-EOPNOTSUPP,
                         "a '%s' model has layers with sliding windows and cannot rotate its context; use shift",
                         hparams->arch);
    if (c->policy == PROTO_CONTEXT_ROTATE && hparams_state(hparams))
        return error_say(-EOPNOTSUPP,
                         "a '%s' model has recurrent layers, which cannot forget the tokens that a rotated context "
                         "leaves out; use shift",
                         hparams->arch);
    if (c->policy == PROTO_CONTEXT_ROTATE && hparams->desc->block.positions)
        return error_say(-EOPNOTSUPP, "a '%s' model has learned positions and cannot rotate its context; use shift",
                         hparams->arch);
    if (hparams_state(hparams)) s->live.message = live_state_message(&s->prompt);
    return 0;
}

/* Fix the length of the answer, and what is done when the context is full. */
static int set_limits(struct request *r, struct seq *s)
{
    const struct proto_generate *g = &r->proto.gen;
    const struct kv_pool *pool = r->core->cache.pools[0];
    const struct loaded *m = &r->core->model;
    s->n_prompt = s->prompt.tokens.n;
    s->output.call_seed = s->sampling.seed + s->n_prompt * UINT64_C(0x9e3779b97f4a7c15); /* turns differ */
    int result = sampling_start(&s->sampling, s->biases, s->n_biases, m->eog, g->ignore_eos ? m->n_eog : 0);
    if (result == 0) result = set_context(r, s);
    if (result < 0) return result;
    uint64_t limit = context_limit(s->context.ctx, s->context.policy);
    assert(s->n_prompt > 0 && s->n_prompt < limit); /* prepare_prompt has checked it */
    int64_t left = (int64_t)(limit - s->n_prompt), want = g->max_tokens > 0 ? g->max_tokens : MAX_TOKENS_DEFAULT;
    if (r->proto.type == PROTO_INFILL) want = fim_tokens(g);
    if (r->proto.type == PROTO_WARM) want = 1;
    s->max_is_context = want > left;
    s->max_tokens = (uint32_t)(want > left ? left : want);
    result = constrain_answer(r, s);
    if (result == 0 && s->context.policy == PROTO_CONTEXT_SHIFT) result = seq_make_view(s);
    if (result == 0) result = adapters_choose(r, s);
    if (result == 0 && s->prompt.runs.n && seq_rotates(s)) /* its window would cut the runs */
        return error_say(-EOPNOTSUPP, "a context with images or sound cannot rotate; use shift");
    if (result == 0 && seq_blocks(s) > kv_pool_total(pool))
        result = error_say(-E2BIG, "the context takes %u KV blocks, but the pool has %u (see --kv-bytes)",
                           seq_blocks(s), kv_pool_total(pool));
    return result;
}

void enqueue_request(struct request *r, int result)
{
    struct core *core = r->core;
    struct seq *s = request_first(r);
    if (turn_replay(r)) return; /* even if the session has no room for another turn */
    if (result < 0) {
        answer_fail(r, s, result, request_job_error(r));
        return;
    }
    if (r->proto.gen.fork.len) result = turn_fork(r);
    if (result == 0) result = set_limits(r, s);
    if (result == 0) result = plan_reserve(&core->plan, 1);
    if (result < 0) {
        answer_fail(r, s, result, error_text(result));
        return;
    }
    const struct proto_text *salt = &r->proto.gen.salt;
    const struct namespace_owner owner = {
        .public = r->control.internal, .uid = r->uid, .salt = salt->data, .salt_len = salt->len};
    kv_cache_namespace(&core->cache, &owner, &s->reuse.namespace);
    r->state = REQUEST_ACTIVE;
    constrain_warn(r);
    s->sched.arrival = r->arrival;
    plan_wait(core, s);
    seq_list_push(&core->seqs, s);
    plan_join(core, s);
}
