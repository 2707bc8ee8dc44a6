/* SPDX-License-Identifier: MIT */
#include "daemon/request/advance.h"
#include "daemon/request/emit.h"
#include "daemon/request/finish.h"
#include "daemon/request/fork-answers.h"
#include "daemon/request/top-tokens.h"
#include "daemon/sequence/truncate.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdlib.h>

/* The logprob of token @id, and the most likely ones, as @g wants them. 0 or -ENOMEM. */
static int add_logprobs(struct core *core, const struct proto_generate *g, int32_t id, const float *row,
                        struct proto_event *ev)
{
    struct top_row all = {.logits = row, .vocab = core->model.vocab};
    ev->tokens.ids = malloc(sizeof(*ev->tokens.ids));
    ev->tokens.logprobs = malloc(sizeof(*ev->tokens.logprobs));
    if (!ev->tokens.ids || !ev->tokens.logprobs) return -ENOMEM;
    backend_logsumexp(core->model.backend, row, &all.max, &all.lse);
    ev->tokens.ids[0] = id;
    ev->tokens.logprobs[0] = (row[id] - all.max) - all.lse;
    ev->tokens.n = 1;
    return g->top_logprobs < 0 ? 0 : top_tokens(ev, core->model.tokenizer, &all, id, (uint32_t)g->top_logprobs);
}

/* The events of token @id. The first one has its logprob in @row if that is wanted, even without text. 0; -ENOMEM,
 * and the answer ends. */
static int emit_token(struct core *core, struct seq *s, int32_t id, const float *row, struct output_step *out)
{
    const struct proto_generate *g = &s->request->proto.gen;
    struct proto_event ev = {.type = PROTO_EV_TEXT, .channel = out->channel};
    int r = g->logprobs || g->top_logprobs >= 0 ? add_logprobs(core, g, id, row, &ev) : 0;
    if (r < 0) {
        proto_event_fini(&ev);
        return r;
    }
    emit_output(s->request, s, out, &ev);
    return 0;
}

/* The context was shifted: the tokens of the last block, which is not whole, are no longer those that it was computed
 * from. */
static void preempt_shifted(struct core *core, struct seq *s)
{
    int r = seq_truncate_kv(&core->cache, s, s->kv.n_tokens / KV_BLOCK * KV_BLOCK);
    s->sched.reached = 0;
    if (r < 0)
        answer_fail(s->request, s, r, error_text(r));
    else
        answer_preempt(s);
}

/* Sample a token from @row. True: the answer continues in its slot; false: it ended, or is preempted. */
static bool push_token(struct core *core, struct seq *s, struct logits row)
{
    struct output_step *out = &core->output;
    enum proto_reason reason = PROTO_STOP_EOS;
    int32_t id = -1;
    output_step_clear(out);
    int r = sampling_pick(&s->sampling, core->sample_scratch, row, s->prompt.tokens.ids, s->prompt.tokens.n, &id);
    if (r == 0) {
        if (s->generated == 0) s->times.first_token = clock_now_usec();
        r = seq_push(s, id, out, &reason);
    }
    if (r >= 0 && emit_token(core, s, id, row.row, out) < 0) r = -ENOMEM;
    if (r >= 0) s->request->user->counts.tokens_generated++;
    core->counts.sampled++;
    if (r < 0)
        answer_fail(s->request, s, r, error_text(r));
    else if (r == 1)
        answer_done(s->request, s, reason);
    else if (r == 2)
        preempt_shifted(core, s);
    return r == 0;
}

bool advance(struct core *core, struct seq *s, struct logits row)
{
    struct seq_group *g = s->group;
    uint32_t n = g->n; /* the last answer to end frees the group */
    struct seq *all[PROTO_ANSWERS_MAX];
    if (s->generated || n == 1) return push_token(core, s, row);
    int r = fork_answers(core, s);
    if (r < 0) {
        answer_fail(s->request, s, r, error_text(r));
        return false;
    }
    for (uint32_t i = 0; i < n; i++) all[i] = g->seqs[i];
    for (uint32_t i = 0; i < n; i++) {
        if (i) seq_preempted(all[i], clock_now_usec());
        push_token(core, all[i], row);
    }
    return false;
}
