/* SPDX-License-Identifier: MIT */
/* Admission: who gets a slot and the blocks of prompt and answer, and what the others are told. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"

/* Has blocks, as far as there were any to find. */
static void begin(struct engine *e, struct seq *s)
{
    uint64_t now = engine_now();
    s->cached = s->kv.n_tokens;
    if (!s->admitted) s->admitted = now;
    if (e->running++ == 0) e->window_end = now + e->config.batch_window_usec;
    s->state = SEQ_RUNNING;
    if (!store_fetch(e, s)) admit_run(e, s);
}

void admit_run(struct engine *e, struct seq *s)
{
    s->state = SEQ_RUNNING;
    if (s->generated) return; /* it was told before */
    struct proto_event ev = {.type = PROTO_EV_PREFILL, .done = s->cached, .total = s->n_prompt, .cached = s->cached};
    engine_emit(e, s, &ev);
}

/* By arrival, so that a large request is not starved by small ones; what nobody waits for comes last. 1: the first that
 * could start has no room; 2: nobody waits. */
static int start_next(struct engine *e, bool public)
{
    for (struct seq *s = e->all.head; s; s = s->next) {
        if (s->state != SEQ_WAITING || s->now.paused || s->public != public) continue;
        if (e->running >= e->config.parallel) return 1;
        int r = reuse_begin(e, s);
        if (r == 1) return 1;
        if (r < 0)
            requests_fail(e, s, r, error_text(r));
        else
            begin(e, s);
        return 0;
    }
    return 2;
}

static void tell_positions(struct engine *e)
{
    uint32_t position = 0;
    for (struct seq *s = e->all.head, *next; s; s = next) {
        next = s->next;
        if (s->state != SEQ_WAITING || s->public || s->admitted) continue;
        if (++position > e->config.queue) {
            requests_fail(e, s, -EBUSY, "the queue is full");
        } else if (position != s->position) {
            struct proto_event ev = {.type = PROTO_EV_QUEUED, .position = position};
            s->position = position;
            engine_emit(e, s, &ev);
        }
    }
}

void admit_waiting(struct engine *e)
{
    int r;
    while ((r = start_next(e, false)) == 0) continue;
    while (r == 2 && start_next(e, true) == 0) continue;
    tell_positions(e);
}
