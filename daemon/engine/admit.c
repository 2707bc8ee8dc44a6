/* SPDX-License-Identifier: MIT */
/* Slots: who gets one and the blocks of prompt and answer, who gives his up, and what those who wait are told. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"

#define POSITIONS_USEC    200000 /* between two updates of places in the queue, */
#define POSITIONS_FEW     32     /* when it is longer than that */
#define REFUSALS_PER_TURN 8 /* the queue is a little longer than allowed until the next turns */

void admit_run(struct engine *e, struct seq *s)
{
    s->state = SEQ_RUNNING;
    if (s->generated) return; /* it was told before */
    struct proto_event ev = {.type = PROTO_EV_PREFILL, .done = s->cached, .total = s->n_prompt, .cached = s->cached};
    engine_emit(e, s, &ev);
}

static void start(struct engine *e, struct seq *s)
{
    uint64_t now = engine_now();
    int r = reuse_begin(e, s);
    if (r > 0) return; /* others hold more than it seemed: it waits on */
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return;
    }
    if (!s->admitted) {
        s->admitted = now;
        s->cached = s->kv.n_tokens;
    }
    seq_unpark(s, now);
    s->spent = 0;
    if (e->running++ == 0) e->window_end = now + e->config.batch_window_usec;
    s->state = SEQ_RUNNING;
    if (!store_fetch(e, s)) admit_run(e, s);
}

static void act(struct engine *e, struct seq *s, enum sched_why why)
{
    if (why == SCHED_START && s->state == SEQ_WAITING && e->running < e->config.parallel)
        start(e, s);
    else if (why != SCHED_START && s->state == SEQ_RUNNING) {
        e->preemptions++;
        requests_requeue(e, s);
    }
}

static bool never_ran(const struct seq *s)
{
    return s->state == SEQ_WAITING && !s->admitted && !s->public;
}

/* More wait than the queue holds: the latest is refused, or one of a user who has more than an even share of it. False:
 * nobody, for want of memory. */
static bool refuse(struct engine *e, struct sched_state *st)
{
    struct plan *p = &e->plan;
    bool *ran = calloc(p->n ? p->n : 1, sizeof(*ran));
    uint32_t waiting = 0, last = 0;
    for (uint32_t i = 0; ran && i < p->n; i++) {
        ran[i] = !never_ran(p->seqs[i]);
        if (ran[i]) continue;
        waiting++;
        if (ran[last] || p->reqs[i].arrival > p->reqs[last].arrival) last = i;
    }
    bool full = ran && waiting > e->config.queue;
    if (full) {
        struct seq *newest = p->seqs[last];
        struct sched_req r = p->reqs[last];
        p->seqs[last] = p->seqs[p->n - 1];
        p->reqs[last] = p->reqs[p->n - 1];
        ran[last] = ran[p->n - 1];
        st->n = p->n - 1;
        uint32_t i = sched_refuse(st, ran, e->config.queue, r.user, (enum sched_class)r.class, p->scratch);
        requests_fail(e, i < st->n ? p->seqs[i] : newest, -EBUSY, "the queue is full");
    }
    free(ran);
    return full;
}

static uint32_t waiting(const struct engine *e)
{
    uint32_t n = 0;
    for (const struct seq *s = e->all.head; s; s = s->next) n += never_ran(s);
    return n;
}

static void tell_positions(struct engine *e, const struct sched_state *st)
{
    struct plan *p = &e->plan;
    bool all = p->n <= POSITIONS_FEW || engine_now() >= e->positions_next;
    if (all) e->positions_next = engine_now() + POSITIONS_USEC;
    sched_positions(&p->config, st, p->scratch, p->places);
    for (uint32_t i = 0; i < p->n; i++) {
        struct seq *s = p->seqs[i];
        if (!never_ran(s) || p->places[i] == s->position || (s->position && !all)) continue;
        struct proto_event ev = {.type = PROTO_EV_QUEUED, .position = p->places[i]};
        s->position = p->places[i];
        engine_emit(e, s, &ev);
    }
}

void admit_waiting(struct engine *e)
{
    struct plan *p = &e->plan;
    struct sched_state st;
    if (!e->prefix) return; /* not all could be loaded, and nobody is there */
    /* Also when nobody waits: what is served then is what those who come later begin with. */
    if (plan_gather(e, &st) < 0 || p->n == 0) return;
    uint32_t n = sched_decide(&p->config, &p->book, &st, p->scratch, p->actions);
    plan_keep_accounts(e);
    for (uint32_t i = 0; i < n; i++) act(e, p->seqs[p->actions[i].index], p->actions[i].why);
    uint32_t left = REFUSALS_PER_TURN;
    while (waiting(e) > e->config.queue && left-- && plan_gather(e, &st) == 0 && refuse(e, &st)) continue;
    if (left == UINT32_MAX) engine_again(e);
    if (waiting(e) && plan_gather(e, &st) == 0) tell_positions(e, &st);
}
