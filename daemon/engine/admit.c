/* SPDX-License-Identifier: MIT */
/* Admission: who gets a slot and the blocks of prompt and answer, and what the others are told. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include <assert.h>

/* Tokens of the prompt whose KV the session holds; the last token is evaluated again, its logits are wanted. */
static uint32_t reusable(const struct seq *s)
{
    if (!s->session) return 0;
    uint32_t n = s->session->kv.n_tokens, keep = (uint32_t)s->prompt.keep, last = (uint32_t)s->n_prompt - 1;
    if (n > keep) n = keep;
    return n > last ? last : n;
}

static uint32_t blocks_wanted(const struct seq *s)
{
    uint32_t have = s->session ? s->session->kv.n_blocks : 0, need = kv_table_blocks(seq_positions(s));
    return need > have ? need - have : 0;
}

/* One who waits gives up its session's KV for the one whose turn it is: the last in line first. */
static bool shed_waiting(struct engine *e, const struct seq *head)
{
    for (struct seq *s = e->all.tail; s; s = s->prev) {
        if (s == head || s->state != SEQ_WAITING || !s->session || s->session->kv.n_blocks == 0) continue;
        kv_table_fini(&s->session->kv, e->pool);
        return true;
    }
    return false;
}

static void start(struct engine *e, struct seq *s)
{
    uint64_t now = engine_now();
    s->cached = reusable(s);
    if (s->session) { /* the KV goes with the sequence and comes back at its end */
        s->kv = s->session->kv;
        s->session->kv = (struct kv_table){0};
        kv_table_truncate(&s->kv, e->pool, (uint32_t)s->cached);
    }
    s->admitted = now;
    int r = kv_table_reserve(&s->kv, e->pool, seq_positions(s));
    assert(r != -ENOBUFS); /* they were counted */
    if (e->running++ == 0) e->window_end = now + e->config.batch_window_usec;
    s->state = SEQ_RUNNING;
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return;
    }
    struct proto_event ev = {.type = PROTO_EV_PREFILL, .done = s->cached, .total = s->n_prompt, .cached = s->cached};
    engine_emit(e, s, &ev);
}

/* The waiting sequence whose turn it is; *fits: it can start now. */
static struct seq *next_in_line(const struct engine *e, bool *fits)
{
    struct sched_wait w;
    for (struct seq *s = e->all.head; s; s = s->next) {
        if (s->state != SEQ_WAITING) continue;
        w = (struct sched_wait){.blocks = blocks_wanted(s), .paused = s->now.paused};
        enum sched_verdict v = sched_admit(&w, e->config.parallel - e->running, kv_pool_free_blocks(e->pool));
        if (v == SCHED_PASS) continue;
        *fits = v == SCHED_ADMIT;
        return s;
    }
    return NULL;
}

static void tell_positions(struct engine *e)
{
    uint32_t position = 0;
    for (struct seq *s = e->all.head, *next; s; s = next) {
        next = s->next;
        if (s->state != SEQ_WAITING) continue;
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
    struct seq *s;
    bool fits;
    while ((s = next_in_line(e, &fits))) {
        if (fits) {
            start(e, s);
            continue;
        }
        if (e->running >= e->config.parallel) break;
        if (!session_shed(e->sessions) && !shed_waiting(e, s)) break;
    }
    tell_positions(e);
}
