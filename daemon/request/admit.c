/* SPDX-License-Identifier: MIT */
#include "daemon/request/admit.h"
#include "daemon/request/finish.h"
#include "daemon/sequence/fetch-blocks.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define POSITIONS_USEC    200000 /* between two updates of the positions of all, when the queue is longer than */
#define POSITIONS_FEW     32
#define REFUSALS_PER_TURN 8 /* until the next turn the queue is a little longer than allowed */

/* @s has its blocks, and what the disk had of it: the rest is computed. */
static void run(struct seq *s)
{
    s->state = SEQ_RUNNING;
    if (s->generated) return; /* its peer was told before */
    struct proto_event ev = {.type = PROTO_EV_PREFILL, .done = s->cached, .total = s->n_prompt, .cached = s->cached};
    request_emit(s->request, s, &ev);
}

static void fetched(struct seq *s)
{
    struct request *r = s->request;
    struct kv_cache *c = &r->core->cache;
    bool more = seq_fetched(c, s);
    if (s->state == SEQ_ENDED)
        request_returned(r, s);
    else if (!more || r->control.cancel || !seq_fetch(c, s, fetched))
        run(s);
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
    if (!s->times.admitted) {
        s->times.admitted = now;
        s->cached = s->kv.n_tokens;
    }
    seq_resumed(s, now);
    s->sched.spent = 0;
    if (core->running++ == 0) core->window_end = now + core->config.batch_window_usec;
    s->state = SEQ_RUNNING;
    if (!seq_fetch(&core->cache, s, fetched)) run(s);
}

static void act(struct core *core, struct seq *s, enum sched_reason reason)
{
    if (reason == SCHED_START && s->state == SEQ_WAITING && core->running < core->config.parallel)
        start(core, s);
    else if (reason != SCHED_START && s->state == SEQ_RUNNING) {
        core->counts.preemptions++;
        answer_preempt(s);
    }
}

static bool never_ran(const struct seq *s)
{
    return s->state == SEQ_WAITING && !s->times.admitted && !s->request->control.internal;
}

/* More requests wait than the queue holds: refuse the latest, or one of a user who has more than an even share of the
 * queue. False: the queue is not full, or there is no memory. */
static bool refuse(struct core *core, struct sched_state *st)
{
    struct plan *p = &core->plan;
    bool *ran = calloc(p->n ? p->n : 1, sizeof(*ran));
    uint32_t waiting = 0, last = 0;
    for (uint32_t i = 0; ran && i < p->n; i++) {
        ran[i] = !never_ran(p->seqs[i]);
        if (ran[i]) continue;
        waiting++;
        if (ran[last] || p->reqs[i].arrival > p->reqs[last].arrival) last = i;
    }
    bool full = ran && waiting > core->config.queue;
    if (full) {
        struct seq *newest = p->seqs[last];
        struct sched_req r = p->reqs[last];
        p->seqs[last] = p->seqs[p->n - 1];
        p->reqs[last] = p->reqs[p->n - 1];
        ran[last] = ran[p->n - 1];
        st->n = p->n - 1;
        uint32_t i = sched_refuse(st, ran, core->config.queue, r.user, (enum sched_class)r.class, p->scratch);
        struct seq *s = i < st->n ? p->seqs[i] : newest;
        answer_fail(s->request, s, -EBUSY, "the queue is full");
    }
    free(ran);
    return full;
}

static uint32_t waiting(const struct core *core)
{
    uint32_t n = 0;
    for (const struct seq *s = core->seqs.head; s; s = s->next) n += never_ran(s);
    return n;
}

static void tell_positions(struct core *core, const struct sched_state *st)
{
    struct plan *p = &core->plan;
    bool all = p->n <= POSITIONS_FEW || clock_now_usec() >= core->positions_next;
    if (all) core->positions_next = clock_now_usec() + POSITIONS_USEC;
    sched_positions(&p->config, st, p->scratch, p->places);
    for (uint32_t i = 0; i < p->n; i++) {
        struct seq *s = p->seqs[i];
        if (!never_ran(s) || p->places[i] == s->sched.position || (s->sched.position && !all)) continue;
        struct proto_event ev = {.type = PROTO_EV_QUEUED, .position = p->places[i]};
        s->sched.position = p->places[i];
        request_emit(s->request, s, &ev);
    }
}

void admit_waiting(struct core *core)
{
    struct plan *p = &core->plan;
    struct sched_state st;
    if (!core->cache.prefix) return; /* the model could not be loaded */
    /* Also when no request waits, because the accounts of now decide how later ones begin. */
    if (plan_gather(core, &st) < 0 || p->n == 0) return;
    uint32_t n = sched_decide(&p->config, &p->book, &st, p->scratch, p->actions);
    plan_keep_accounts(core);
    for (uint32_t i = 0; i < n; i++) act(core, p->seqs[p->actions[i].index], p->actions[i].reason);
    uint32_t left = REFUSALS_PER_TURN;
    while (waiting(core) > core->config.queue && left-- && plan_gather(core, &st) == 0 && refuse(core, &st)) continue;
    if (left == UINT32_MAX) core_again(core);
    if (waiting(core) && plan_gather(core, &st) == 0) tell_positions(core, &st);
}
