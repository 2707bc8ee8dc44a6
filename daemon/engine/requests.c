/* SPDX-License-Identifier: MIT */
/* The life of a request outside the batch: accepted, prepared in the aux pool, ended. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include <string.h>

/* --- ends --- */

/* What a stop string might have swallowed is shown after all. */
static void show_held(struct engine *e, struct seq *s)
{
    if (s->state != SEQ_RUNNING || s->generated == 0) return;
    struct buf shown = BUF_INIT;
    if (seq_cut(s, &shown) == 0 && shown.len) {
        struct proto_event ev = {.type = PROTO_EV_TEXT, .channel = "answer"};
        ev.text.data = buf_steal(&shown, &ev.text.len);
        engine_emit(e, s, &ev);
    }
    buf_fini(&shown);
}

/* The session may still be read by an aux job that runs; then it is settled when that is back. One that waits is taken
 * back: what it holds is charged to nobody from now on. */
static void settle(struct engine *e, struct seq *s, bool whole)
{
    if (s->state == SEQ_PREPARING && aux_recall(e->aux, &s->job)) s->state = SEQ_NEW;
    if (s->state != SEQ_PREPARING) seq_settle(s, e->sessions, e->pool, whole);
}

void requests_fail(struct engine *e, struct seq *s, int r, const char *why)
{
    struct proto_event ev = {.type = PROTO_EV_ERROR, .code = -r};
    (void)!proto_text_set(&ev.message, why, strlen(why)); /* without memory the code says it */
    show_held(e, s);
    settle(e, s, false);
    engine_finish(e, s, &ev);
}

static double ms(uint64_t from, uint64_t to)
{
    return from && to > from ? (double)(to - from) / 1000 : 0;
}

void requests_done(struct engine *e, struct seq *s, enum proto_reason reason)
{
    uint64_t now = engine_now();
    if (reason == PROTO_STOP_CANCEL) show_held(e, s);
    struct proto_event ev = {
        .type = PROTO_EV_DONE,
        .reason = reason,
        .usage_prompt = s->n_prompt,
        .usage_cached = s->cached,
        .usage_completion = s->generated,
        .queue_ms = ms(s->submitted, s->admitted ? s->admitted : now),
        .prefill_ms = ms(s->admitted, s->first_token ? s->first_token : now),
        .decode_ms = ms(s->first_token, now),
        .ttft_ms = ms(s->submitted, s->first_token),
        .miss_at = s->n_prompt ? s->prompt.miss_at : -1,
        .seed = s->seed,
    };
    if (s->session) (void)!proto_text_set(&ev.session, s->session->name.data, s->session->name.len);
    settle(e, s, reason != PROTO_STOP_CANCEL);
    engine_finish(e, s, &ev);
}

/* --- preparation --- */

static void run_prepare(struct aux_job *j)
{
    struct seq *s = (struct seq *)((char *)j - offsetof(struct seq, job));
    const struct loaded *m = &s->engine->model;
    int r;
    if (s->req.type == PROTO_TOKENIZE)
        r = prepare_tokens(&s->answer_tokens, m, &s->req.text, s->req.special);
    else
        r = prepare_prompt(&s->prompt, m, &s->req.gen, s->session);
    s->prepare_r = r;
    if (r < 0) s->prepare_why = strdup(error_text(r)); /* the sentence is this thread's */
}

static int acquire_session(struct engine *e, struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    if (g->session.len) {
        if (g->continue_last) return error_say(-EINVAL, "either a session's name or the last session, not both");
        return session_acquire(e->sessions, s->uid, g->session.data, g->session.len, true, &s->session);
    }
    return g->continue_last ? session_acquire_last(e->sessions, s->uid, &s->session) : 0;
}

static void answer_status(struct engine *e, struct seq *s)
{
    struct proto_event ev = {.type = PROTO_EV_STATUS};
    int r = status_json(e, s->uid, true, &ev.status);
    if (r < 0)
        requests_fail(e, s, r, error_text(r));
    else
        engine_finish(e, s, &ev);
}

void requests_start(struct engine *e, struct seq *s)
{
    int r = 0;
    if (s->now.cancel) return; /* the sweep ends it */
    if (s->req.type == PROTO_STATUS) {
        answer_status(e, s);
        return;
    }
    if (e->state == ENGINE_FAILED) {
        requests_fail(e, s, -EIO, e->why ? e->why : "out of memory");
        return;
    }
    if (s->req.type == PROTO_GENERATE) {
        r = seq_configure(s, &e->model);
        if (r == 0) r = acquire_session(e, s);
    }
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return;
    }
    s->state = SEQ_PREPARING;
    s->job.run = run_prepare;
    s->job.done = engine_prepared;
    aux_push(e->aux, &s->job);
}

static void answer_tokens(struct engine *e, struct seq *s)
{
    struct proto_event ev = {.type = PROTO_EV_TOKENS, .ids = s->answer_tokens.ids, .n_ids = s->answer_tokens.n};
    s->answer_tokens.ids = NULL; /* the event's now */
    engine_finish(e, s, &ev);
}

void requests_prepared(struct engine *e, struct seq *s)
{
    if (s->state == SEQ_ENDED) {
        seq_settle(s, e->sessions, e->pool, false);
        engine_finish(e, s, NULL);
        return;
    }
    s->state = SEQ_WAITING;
    if (s->prepare_r < 0) {
        requests_fail(e, s, s->prepare_r, s->prepare_why ? s->prepare_why : error_text(s->prepare_r));
        return;
    }
    if (s->req.type == PROTO_TOKENIZE) {
        answer_tokens(e, s);
        return;
    }
    seq_plan(s, &e->model);
    /* What of the session's KV does not belong to this prompt would only keep others waiting. */
    if (s->session) kv_table_truncate(&s->session->kv, e->pool, (uint32_t)s->prompt.keep);
}

/* --- deadlines and wishes --- */

/* When the wait ends in any case; 0: never. */
static uint64_t queue_end(const struct engine *e, const struct seq *s)
{
    uint64_t end;
    if (s->state == SEQ_RUNNING || s->req.type == PROTO_STATUS) return 0;
    return __builtin_add_overflow(s->submitted, e->config.queue_timeout_usec, &end) ? 0 : end;
}

uint64_t requests_next_deadline(const struct engine *e)
{
    uint64_t first = UINT64_MAX;
    for (const struct seq *s = e->all.head; s; s = s->next) {
        if (s->state == SEQ_ENDED) continue;
        uint64_t end = queue_end(e, s);
        if (s->deadline && s->deadline < first) first = s->deadline;
        if (end && end < first) first = end;
    }
    return first;
}

static void sweep_late(struct engine *e, struct seq *s, uint64_t now)
{
    char why[128];
    uint64_t end = queue_end(e, s);
    if (s->deadline && now >= s->deadline) {
        snprintf(why, sizeof(why), "the deadline of %lld ms passed %s", (long long)s->req.gen.timeout_ms,
                 s->generated              ? "in mid-answer"
                 : s->state == SEQ_RUNNING ? "while the prompt was read"
                                           : "in the queue");
        requests_fail(e, s, -ETIMEDOUT, why);
    } else if (end && now >= end) {
        snprintf(why, sizeof(why), "no slot came free within %llu ms",
                 (unsigned long long)(e->config.queue_timeout_usec / 1000));
        requests_fail(e, s, -ETIMEDOUT, why);
    }
}

void requests_sweep(struct engine *e, uint64_t now)
{
    for (struct seq *s = e->all.head, *next; s; s = next) {
        next = s->next;
        if (s->state == SEQ_ENDED) continue;
        if (s->now.cancel)
            requests_done(e, s, PROTO_STOP_CANCEL);
        else
            sweep_late(e, s, now);
    }
}
