/* SPDX-License-Identifier: MIT */
#include "daemon/request/start.h"
#include "daemon/request/finish.h"
#include "daemon/request/request-job.h"
#include "daemon/request/texts.h"
#include "daemon/request/types.h"
#include "libcommon/error.h"
#include <stdio.h>

#define STARTS_PER_TURN 16 /* new requests of one user */

/* --- beginning --- */

/* False: not yet, its session is busy. */
static bool start(struct core *core, struct request *r)
{
    const char *failed = core->mail.error ? core->mail.error : "out of memory";
    if (r->control.cancel) return true; /* the sweep ends it */
    int result = core->mail.state == ENGINE_FAILED ? -EIO : r->type->begin(r);
    if (result < 0)
        answer_fail(r, request_first(r), result, core->mail.state == ENGINE_FAILED ? failed : error_text(result));
    else if (result == 0)
        request_prepare(r);
    return result <= 0;
}

/* May @r begin in this turn? The engine computes no step before the turn ends, so that one user's many requests may not
 * make it long. */
static bool may_start(struct core *core, struct request *r)
{
    struct user *u = r->user;
    if (r->control.paused && r->type->large) return false; /* too much waits for its reader already */
    if (u->turn != core->turns) {
        u->turn = core->turns;
        u->started = 0;
    }
    return u->started < STARTS_PER_TURN;
}

void requests_start_new(struct core *core)
{
    bool left = false;
    core->turns++;
    for (struct request *r = core->requests.head, *next; r; r = next) {
        next = r->next;
        if (r->state != REQUEST_NEW) continue;
        if (!may_start(core, r)) {
            left |= !r->control.paused;
            continue;
        }
        struct user *u = r->user; /* outlives the request */
        if (start(core, r)) u->started++;
    }
    if (left) core_again(core);
}

/* --- deadlines and cancelling --- */

/* True if a job has @s for a moment, and its turn, or why there is none, can be kept afterwards. */
static bool comes_back(const struct request *r, const struct seq *s)
{
    return s && s->state == SEQ_FETCHING && (s->generated || r->proto.gen.detach);
}

/* When the time in the queue ends; 0: never, or it has left the queue. */
static uint64_t queue_end(const struct request *r, const struct seq *s)
{
    uint64_t end;
    if (r->texts && r->texts->begun) return 0;
    if (r->control.internal || (s && (s->state >= SEQ_FETCHING || s->times.admitted))) return 0;
    return __builtin_add_overflow(r->submitted, r->core->config.queue_timeout_usec, &end) ? 0 : end;
}

static bool is_live(const struct request *r)
{
    return r->state != REQUEST_SAVING && r->state != REQUEST_ENDED;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return b && b < a ? b : a;
}

uint64_t requests_next_deadline(const struct core *core)
{
    uint64_t first = UINT64_MAX;
    for (const struct request *r = core->requests.head; r; r = r->next) {
        if (!is_live(r)) continue;
        if (r->answers.n == 0) first = earlier(earlier(first, queue_end(r, NULL)), r->deadline);
        for (uint32_t i = 0; i < r->answers.n; i++) {
            const struct seq *s = r->answers.seqs[i];
            if (!s || s->state == SEQ_ENDED || comes_back(r, s)) continue;
            first = earlier(earlier(first, r->deadline), queue_end(r, s));
        }
    }
    return first;
}

/* Where the time passed. */
static const char *late_in(const struct request *r, const struct seq *s)
{
    if (!s) return r->texts && r->texts->begun ? "before the last text" : "in the queue";
    return s->generated ? "during the answer" : s->state >= SEQ_FETCHING ? "during prefill" : "in the queue";
}

static void sweep_late(struct request *r, struct seq *s, uint64_t now)
{
    char why[128];
    uint64_t end = queue_end(r, s);
    if (r->deadline && now >= r->deadline) {
        snprintf(why, sizeof(why), "the time limit of %lld ms passed %s", (long long)r->proto.gen.timeout_ms,
                 late_in(r, s));
        answer_fail(r, s, -ETIMEDOUT, why);
    } else if (end && now >= end) {
        snprintf(why, sizeof(why), "the request waited longer than the daemon's limit of %llu ms (queue-timeout)",
                 (unsigned long long)(r->core->config.queue_timeout_usec / 1000));
        answer_fail(r, s, -ETIMEDOUT, why);
    }
}

static void sweep(struct request *r, struct seq *s, uint64_t now)
{
    const struct request_control *c = &r->control;
    if (comes_back(r, s)) return;
    if (c->cancel || (c->internal && r->core->stopping))
        answer_done(r, s, PROTO_STOP_CANCEL);
    else if (c->lost)
        answer_fail(r, s, -ENOMEM, "no memory for a part of the answer");
    else
        sweep_late(r, s, now);
}

void requests_sweep(struct core *core, uint64_t now)
{
    for (struct request *r = core->requests.head, *next; r; r = next) {
        next = r->next;
        if (!is_live(r)) continue;
        uint32_t n = r->answers.n, left = r->answers.left;
        if (r->texts && texts_resume(r)) continue;
        if (n == 0) sweep(r, NULL, now);
        for (uint32_t i = 0; left && i < n; i++) {
            struct seq *s = r->answers.seqs[i];
            if (!s || s->state == SEQ_ENDED) continue;
            left--; /* with the last one the request may be freed */
            sweep(r, s, now);
        }
    }
}
