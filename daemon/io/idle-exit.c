/* SPDX-License-Identifier: MIT */
#include "daemon/io/idle-exit.h"
#include "daemon/io/timer.h"

static int on_timer(sd_event_source *source, uint64_t now, void *ctx)
{
    struct idle_exit *x = ctx;
    x->expired(x->ctx);
    return 0;
}

static void begin(struct idle_exit *x)
{
    if (x->serves && !x->working && x->usec)
        timer_arm(x->event, &x->timer, x->usec, on_timer, x);
    else
        timer_disarm(x->timer);
}

void idle_exit_start(struct idle_exit *x, uint64_t usec)
{
    x->serves = true;
    x->usec = usec;
    begin(x);
}

void idle_exit_change(struct idle_exit *x, uint64_t usec)
{
    if (usec == x->usec) return;
    x->usec = usec;
    begin(x);
}

void idle_exit_look(struct idle_exit *x, const struct service *s)
{
    uint64_t accepted = service_accepted(s);
    if (!x->serves) return;
    if (accepted != x->accepted) {
        x->accepted = accepted;
        x->working = true;
        timer_disarm(x->timer);
    }
    if (!x->working || service_busy(s)) return;
    x->working = false;
    begin(x);
}

void idle_exit_stop(struct idle_exit *x)
{
    x->serves = false;
    timer_disarm(x->timer);
}

void idle_exit_fini(struct idle_exit *x)
{
    x->timer = sd_event_source_disable_unref(x->timer);
}
