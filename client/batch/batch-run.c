/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-run.h"
#include "client/batch/batch-sender.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <inttypes.h>
#include <unistd.h>

#define RUN_AHEAD      16          /* jobs that are read before they can be sent */
#define RUN_HELD       4           /* with an order: windows of answers that wait for an earlier one */
#define RUN_BYTES_MOST (64u << 20) /* of frames in memory; one job may have more */
#define RUN_TICK_MS    250         /* of the meter */

struct state {
    struct batch_run *run;
    const struct batch_ends *ends;
    struct batch_sender sender;
    struct batch_queue queue;
    size_t window;    /* jobs in the queue */
    uint64_t last_id; /* of a request */
    bool ended;       /* the input */
    bool waits;       /* for the input's descriptor */
};

/* Make the frame of a job that is to be sent. */
static int frame(struct state *x, struct batch_job *j)
{
    int r = j->state == BATCH_WAITING ? batch_job_frame(j, ++x->last_id) : 0;
    if (r < 0 && r != -ENOMEM) batch_job_fail(j, r);
    return r == -ENOMEM ? error_say(r, "no memory for a request") : 0;
}

static int take(struct state *x)
{
    while (!x->ended && x->queue.n < x->window && (x->queue.n == 0 || x->queue.bytes < RUN_BYTES_MOST)) {
        struct batch_job *j = NULL;
        int r = x->ends->take(x->ends->ctx, x->run, &j);
        if (r < 0) return r;
        x->ended = r == 1;
        x->waits = r == 2;
        if (r > 0) return 0;
        r = frame(x, j);
        if (r < 0) {
            batch_job_free(j);
            return r;
        }
        batch_queue_push(&x->queue, j);
    }
    x->waits = false;
    return 0;
}

static bool has_ended(const struct batch_job *j)
{
    return j->state == BATCH_ANSWERED || j->state == BATCH_FAILED;
}

static int put(struct state *x, struct batch_job *j)
{
    struct batch_meter *m = &x->run->meter;
    if (x->run->clear) batch_meter_clear(m);
    int r = x->ends->put(x->ends->ctx, x->run, j);
    if (r < 0) return r;
    m->answered++;
    m->failed += j->state == BATCH_FAILED;
    m->bytes += j->bytes;
    batch_queue_remove(&x->queue, j);
    batch_job_free(j);
    return 0;
}

/* Write the results that may be written now. */
static int put_ended(struct state *x)
{
    int r = 0;
    for (struct batch_job *j = x->queue.first, *next; r == 0 && j; j = next) {
        next = j->next;
        if (has_ended(j) && j != x->sender.daemon.suspect)
            r = put(x, j);
        else if (x->ends->ordered)
            break;
    }
    return r;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Wait until the daemon, the input or a clock has something. */
static int wait(struct state *x)
{
    struct pollfd fds[2] = {batch_sender_poll(&x->sender), {.fd = x->waits ? x->ends->wait_fd : -1, .events = POLLIN}};
    int64_t until = batch_sender_deadline(&x->sender);
    if (x->run->meter.on) until = earlier(until, interrupt_now() + RUN_TICK_MS);
    int r = interrupt_poll(fds, 2, until);
    return r < 0 && r != -EINTR ? error_say(r, "cannot wait for the daemon") : r < 0 ? r : 0;
}

static bool needs_daemon(const struct state *x)
{
    for (const struct batch_job *j = x->queue.first; j; j = j->next)
        if (!has_ended(j)) return true;
    return false;
}

static int turn(struct state *x)
{
    int r = take(x);
    if (r == 0 && needs_daemon(x)) r = batch_sender_connect(&x->sender);
    if (r == 0) r = batch_sender_turn(&x->sender);
    /* Behind the answers, which permit more jobs to be sent; what is added here is written when the socket takes it. */
    if (r == 0) r = batch_sender_fill(&x->sender, &x->queue);
    if (r == 0) r = put_ended(x);
    if (r < 0) return r;
    batch_meter_show(&x->run->meter, x->sender.tokens, interrupt_now());
    if (x->ended && !x->queue.n) return 1;
    /* What was written makes room: read on before waiting. */
    bool more = !x->ended && !x->waits && x->queue.n < x->window && x->queue.bytes < RUN_BYTES_MOST;
    return more ? 0 : wait(x);
}

static void tell(const struct state *x, const char *hint, bool whole)
{
    const struct batch_meter *m = &x->run->meter;
    double s = (double)(interrupt_now() - m->began) / 1000;
    if (x->run->options->verbose || (m->last && whole))
        log_info("%" PRIu64 " answered, %" PRIu64 " failed, %" PRIu64 " skipped; %" PRIu64
                 " tokens in %.1f s, %.0f tokens/s",
                 m->answered - m->failed, m->failed, m->skipped, x->sender.tokens, s,
                 s > 0 ? (double)x->sender.tokens / s : 0);
    else if (whole && m->failed)
        log_warning("%" PRIu64 " of %" PRIu64 " failed", m->failed, m->answered);
    if (!whole && hint) log_info("%s", hint);
}

int batch_run(struct batch_run *run, const struct batch_ends *ends, const char *hint)
{
    const struct options *o = run->options;
    struct state x = {.run = run, .ends = ends};
    unsigned jobs = o->batch.jobs ? (unsigned)o->batch.jobs : BATCH_JOBS_DEFAULT;
    x.window = (jobs + RUN_AHEAD) * (ends->ordered ? RUN_HELD : 1);
    run->meter.on = !o->quiet && isatty(STDERR_FILENO);
    run->meter.began = interrupt_now();
    run->clear = isatty(STDOUT_FILENO);
    int r = batch_sender_init(&x.sender, o, jobs);
    interrupt_block();
    while (r == 0) r = turn(&x);
    interrupt_unblock();
    batch_meter_clear(&run->meter);
    int status = r == 1 ? EXIT_ANSWERED : r == -ENOTCONN ? EXIT_NO_DAEMON : exit_status_of_error(r);
    if (r == 1 && run->meter.failed) status = EXIT_FAILED;
    if (r < 0 && r != -EINTR && r != -EPIPE) log_error("%s", error_text(r));
    if (r != -EPIPE) tell(&x, hint, r == 1);
    batch_queue_fini(&x.queue);
    batch_sender_fini(&x.sender);
    return status;
}
