/* SPDX-License-Identifier: MIT */
/* The queues in which a connection waits: for its turn to be read, and among the held requests of its user. */
#include "daemon/io/account.h"
#include "daemon/io/conn-state.h"
#include "daemon/io/conn.h"
#include "daemon/io/conns.h"
#include "libcommon/clock.h"
#include "libcommon/log.h"
#include <string.h>

void conns_enable(sd_event_source *source, int how)
{
    int r = sd_event_source_set_enabled(source, how);
    if (r < 0) log_error("cannot switch an event source: %s", strerror(-r));
}

void conns_queue(struct conn *c)
{
    struct conns *s = c->shared;
    fairq_add(&s->queue, account_queue(c->account), &c->entry, clock_now_usec());
    /* Also while others are throttled: this user may not be. */
    conns_enable(s->input, SD_EVENT_ON);
}

void conn_forget_held(struct conn *c)
{
    struct account_jobs *jobs = account_jobs(c->account);
    struct conn **at = &jobs->first, *before = NULL;
    proto_request_fini(&c->held);
    if (!c->in_held) return;
    while (*at != c) {
        before = *at;
        at = &(*at)->next_held;
    }
    *at = c->next_held;
    if (jobs->last == c) jobs->last = before;
    c->in_held = false;
}

void conn_release_next(struct conn *c)
{
    struct account_jobs *jobs = account_jobs(c->account);
    struct conn *next = jobs->first;
    if (!next || jobs->live >= c->shared->limits->jobs) return;
    jobs->first = next->next_held;
    if (!jobs->first) jobs->last = NULL;
    next->in_held = false;
    conns_queue(next);
}
