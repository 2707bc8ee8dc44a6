/* SPDX-License-Identifier: MIT */
#include "daemon/request/admit.h"
#include "daemon/request/encode-media.h"
#include "daemon/request/finish.h"
#include "daemon/sequence/fetch-blocks.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define POSITIONS_USEC    200000 /* between two updates of the positions of all, when the queue is longer than */
#define POSITIONS_FEW     32
#define REFUSALS_PER_TURN 8 /* until the next turn the queue is a little longer than allowed */

/* @s has its blocks, and what the disk had of it: the rest is computed. One that is cancelled only ends, and one that
 * has lost its blocks waits again. */
static void run(struct seq *s)
{
    struct core *core = s->request->core;
    s->state = SEQ_RUNNING;
    if (!s->kv.tables[0].n_blocks) {
        answer_preempt(s);
        return;
    }
    int r = s->request->control.cancel ? 0 : encode_start(core, s);
    if (r < 0) {
        answer_fail(s->request, s, r, error_text(r));
        return;
    }
    plan_update(core, s);
    if (s->generated || s->request->texts) return; /* its peer was told before, or is told of vectors alone */
    struct proto_event ev = {.type = PROTO_EV_PREFILL, .done = s->cached, .total = s->n_prompt, .cached = s->cached};
    request_emit(s->request, s, &ev);
}

/* The same, unless the recurrent state could not be fetched that its KV goes with: then it begins again without it. */
static void run_ready(struct seq *s)
{
    if (live_state_ready(&s->request->core->cache, s)) {
        run(s);
        return;
    }
    s->reuse.no_fetch = true;
    answer_preempt(s);
}

static void fetched(struct seq *s)
{
    struct request *r = s->request;
    struct kv_cache *c = &r->core->cache;
    bool more = seq_fetched(c, s);
    if (s->state == SEQ_ENDED)
        request_returned(r, s);
    else if (!more || r->control.cancel || !seq_fetch(c, s, fetched))
        run_ready(s);
    else
        plan_update(r->core, s);
}

static void start(struct core *core, struct seq *s)
{
    uint64_t now = clock_now_usec();
    int r = reuse_begin(&core->cache, s);
    if (r > 0) return; /* other sequences hold more blocks than it seemed: it continues to wait */
    if (r < 0) {
        answer_fail(s->request, s, r, error_text(r));
        return;
    }
    if (!s->times.admitted) s->times.admitted = now;
    if (s->sched.last_step == 0) s->cached = s->kv.n_tokens;
    seq_resumed(s, now);
    s->sched.spent = s->sched.redone = 0;
    if (core->running++ == 0) core->admission.window_end = now + core->config.batch_window_usec;
    s->state = SEQ_RUNNING;
    if (seq_fetch(&core->cache, s, fetched))
        plan_update(core, s);
    else
        run_ready(s);
}

static void act(struct core *core, struct seq *s, enum sched_reason reason)
{
    if (reason == SCHED_START && s->state == SEQ_WAITING && core->running < core->plan.config.parallel_most)
        start(core, s);
    else if (reason != SCHED_START && (s->state == SEQ_RUNNING || s->state == SEQ_ENCODING)) {
        core->counts.preemptions++;
        answer_preempt(s);
    }
}

/* More requests wait than the queue holds: refuse the latest, or one of a user who has more than an even share of the
 * queue. False: there is no memory. */
static bool refuse(struct core *core)
{
    struct plan *p = &core->plan;
    struct sched_state st;
    plan_view(core, &st);
    bool *excluded = calloc(p->n, sizeof(*excluded)); /* it ran before, or is the latest */
    uint32_t last = SCHED_NONE;
    if (!excluded) return false;
    for (uint32_t i = 0; i < p->n; i++) {
        excluded[i] = !p->seqs[i]->sched.queued;
        if (!excluded[i] && (last == SCHED_NONE || p->reqs[i].arrival > p->reqs[last].arrival)) last = i;
    }
    const struct sched_req *r = &p->reqs[last];
    excluded[last] = true;
    uint32_t i = sched_refuse(&st, excluded, core->config.queue, r->user, (enum sched_class)r->class, p->scratch);
    struct seq *s = p->seqs[i < st.n ? i : last];
    answer_fail(s->request, s, -EBUSY, "the queue is full; try again later");
    free(excluded);
    return true;
}

/* Was one of the queue not told its position yet? */
static bool is_any_untold(const struct plan *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->seqs[i] && p->seqs[i]->sched.queued && !p->seqs[i]->sched.position) return true;
    return false;
}

static void tell_positions(struct core *core)
{
    struct plan *p = &core->plan;
    struct sched_state st;
    bool all = p->n - p->n_left <= POSITIONS_FEW || clock_now_usec() >= core->admission.positions_next;
    if (!all && !is_any_untold(p)) return;
    plan_view(core, &st);
    if (all) core->admission.positions_next = clock_now_usec() + POSITIONS_USEC;
    sched_positions(&p->config, &st, p->scratch, p->places);
    for (uint32_t i = 0; i < p->n; i++) {
        struct seq *s = p->seqs[i];
        if (!s->sched.queued || p->places[i] == s->sched.position || (s->sched.position && !all)) continue;
        struct proto_event ev = {.type = PROTO_EV_QUEUED, .position = p->places[i]};
        s->sched.position = p->places[i];
        request_emit(s->request, s, &ev);
    }
}

void admit_waiting(struct core *core)
{
    struct plan *p = &core->plan;
    struct sched_state st;
    if (!core->cache.prefix || core->cache.lost) return; /* the model could not be loaded; no block can be used */
    /* Also when no request waits, because the accounts of now decide how later ones begin. */
    plan_view(core, &st);
    if (st.n == 0) return;
    uint32_t n = sched_decide(&p->config, &p->book, &st, p->scratch, p->actions);
    plan_keep_accounts(core);
    for (uint32_t i = 0; i < n; i++) {
        struct seq *s = p->seqs[p->actions[i].index];
        if (s) act(core, s, p->actions[i].reason); /* else another text has ended the request that it was of */
    }
    uint32_t left = REFUSALS_PER_TURN;
    while (p->n_queued > core->config.queue && left-- && refuse(core)) continue;
    if (left == UINT32_MAX) core_again(core);
    if (p->n_queued) tell_positions(core);
}
