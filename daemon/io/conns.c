/* SPDX-License-Identifier: MIT */
#include "daemon/io/conns.h"
#include "daemon/io/conn-state.h"
#include "daemon/io/conn.h"
#include "daemon/io/priority.h"
#include "daemon/io/timer.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"

enum {
    TURN_MESSAGES = 16,    /* of one connection's turn */
    TURN_BYTES = 64 << 10, /* likewise */
    WAKE_TURNS = 64,       /* of one wake-up; then other event sources have their turn, */
    WAKE_USEC = 1000,      /* and after so much CPU time */
    FLUSH_USEC = 4,        /* of writing to one socket, about */
};

/* A user who takes more than a hundredth of the main thread's time is heavy; all heavy users together get a fifth of
 * it. One large message can take a tenth of a second: they wait for half a second then. */
static const struct fairq_config fair = {.burst = 20000, .heavy_burst = 500000, .user_share = 100, .heavy_share = 5};

/* One connection's turn. Returns CPU time as of its end. */
static uint64_t serve(struct conns *s, struct fairq_entry *t, uint64_t before)
{
    struct conn *c = conn_of_entry(t);
    bool more = conn_read(c, TURN_MESSAGES, TURN_BYTES);
    struct fairq_user *u = account_queue(c->account); /* now: the hello may have named another user */
    uint64_t after = clock_thread_usec(), now = clock_now_usec();
    fairq_charge(&s->queue, u, after - before, now);
    if (more) fairq_add(&s->queue, u, t, now);
    return after;
}

/* Throttled users may be served again. */
static int on_wait(sd_event_source *source, uint64_t now, void *ctx)
{
    struct conns *s = ctx;
    if (fairq_any(&s->queue)) conns_enable(s->input, SD_EVENT_ON);
    return 0;
}

static int on_input(sd_event_source *source, void *ctx)
{
    struct conns *s = ctx;
    uint64_t begin = clock_thread_usec(), now = begin, wait = 0;
    struct fairq_entry *t;
    for (int i = 0; i < WAKE_TURNS && now - begin < WAKE_USEC; i++) {
        t = fairq_next(&s->queue, clock_now_usec(), &wait);
        if (!t) break;
        now = serve(s, t, now);
    }
    conns_flush(s);
    if (fairq_any(&s->queue) && !wait) return 0;
    conns_enable(s->input, SD_EVENT_OFF);
    if (wait) timer_arm(s->event, &s->wait, wait, on_wait, s);
    return 0;
}

int conns_init(struct conns *s, struct sd_event *event, const struct conn_limits *limits, const struct conn_ops *ops,
               void *ctx)
{
    *s = (struct conns){.event = event, .limits = limits, .ops = ops, .ctx = ctx, .queue.config = fair};
    int r = sd_event_add_defer(event, &s->input, on_input, s);
    if (r >= 0) r = sd_event_source_set_priority(s->input, PRIORITY_INPUT);
    if (r >= 0) r = sd_event_source_set_enabled(s->input, SD_EVENT_OFF);
    return r < 0 ? error_origin(r) : 0;
}

void conns_fini(struct conns *s)
{
    s->input = sd_event_source_disable_unref(s->input);
    s->wait = sd_event_source_disable_unref(s->wait);
}

void conns_flush(struct conns *s)
{
    while (s->unsent) {
        struct conn *c = s->unsent;
        s->unsent = c->next_unsent;
        c->next_unsent = NULL;
        c->unsent = false;
        fairq_charge(&s->queue, account_queue(c->account), FLUSH_USEC, clock_now_usec());
        conn_flush(c);
    }
}
