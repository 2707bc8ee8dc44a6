/* SPDX-License-Identifier: MIT */
/* The life of a request outside the batch: accepted, prepared in the job pool, ended. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <string.h>

#define STARTS_PER_TURN 16 /* new requests of one user that a turn of the engine begins with */

/* --- ends --- */

/* What a stop string might have swallowed is shown after all. */
static void show_held(struct engine *e, struct seq *s)
{
    if (s->generated == 0) return;
    struct buf shown = BUF_INIT;
    if (seq_cut(s, &shown) == 0 && shown.len) {
        struct proto_event ev = {.type = PROTO_EV_TEXT, .channel = s->channel};
        ev.text.data = buf_steal(&shown, &ev.text.len);
        engine_emit(e, s, &ev);
    }
    buf_fini(&shown);
}

/* --- the end of a turn --- */

/* Gives back what it holds. */
static void let_go(struct engine *e, struct seq *s)
{
    reuse_end(e, s);
    if (s->session && s->forked) session_revert(s->session);
    if (s->session) session_release(e->sessions, s->session);
    if (s->other) session_release(e->sessions, s->other);
    s->session = s->other = NULL;
}

void requests_end(struct engine *e, struct seq *s)
{
    struct proto_event ev = s->end;
    s->end = (struct proto_event){0};
    let_go(e, s);
    engine_finish(e, s, &ev);
}

/* Ends with @ev. @said: something of the answer was, so that the session keeps it. What the job pool works on is given
 * back when it comes back; what waits there is taken back at once, and is charged to nobody from now on. */
static void end_turn(struct engine *e, struct seq *s, bool said, struct proto_event *ev)
{
    if (s->in_aux && !seq_recall(e, s)) {
        engine_finish(e, s, ev);
        return;
    }
    s->end = *ev;
    *ev = (struct proto_event){0};
    if (s->session && said && s->generated && turns_keep(e, s)) return;
    if (turns_note(e, s)) return;
    requests_end(e, s);
}

void requests_returned(struct engine *e, struct seq *s)
{
    let_go(e, s);
    engine_finish(e, s, NULL);
}

void requests_drop(struct engine *e, struct seq *s)
{
    turns_cut(e, s);
    if (!s->in_aux) let_go(e, s);
    engine_finish(e, s, NULL);
}

void requests_requeue(struct engine *e, struct seq *s)
{
    s->tail = reuse_end(e, s);
    engine_free_slot(e, s);
    s->state = SEQ_WAITING;
    seq_park(s, engine_now());
    if (s->generated) { /* nobody waits for it any more, nor it for anybody; and its context may have been shifted */
        s->with = NULL;
        plan_part(e, s);
    }
    s->since = e->plan.book.clock;
    s->looked_step = 0;
}

void requests_fail(struct engine *e, struct seq *s, int r, const char *why)
{
    struct proto_event ev = {.type = PROTO_EV_ERROR, .code = -r};
    (void)!proto_text_set(&ev.message, why, strlen(why)); /* without memory the code says it */
    show_held(e, s);
    end_turn(e, s, s->answer.len > 0, &ev);
}

/* @less: of it, what does not count. */
static double ms(uint64_t from, uint64_t to, uint64_t less)
{
    return from && to > from + less ? (double)(to - from - less) / 1000 : 0;
}

void requests_done(struct engine *e, struct seq *s, enum proto_reason reason)
{
    uint64_t now = engine_now();
    seq_unpark(s, now);
    double waited = (double)(s->waited[0] + s->waited[1]) / 1000;
    if (reason == PROTO_STOP_CANCEL) show_held(e, s);
    struct proto_event ev = {
        .type = PROTO_EV_DONE,
        .reason = reason,
        .usage_prompt = s->n_prompt,
        .usage_cached = s->cached,
        .usage_completion = s->generated,
        .queue_ms = ms(s->submitted, s->admitted ? s->admitted : now, 0) + waited,
        .prefill_ms = ms(s->admitted, s->first_token ? s->first_token : now, s->waited[0]),
        .decode_ms = ms(s->first_token, now, s->waited[1]),
        .ttft_ms = ms(s->submitted, s->first_token, 0),
        .miss_at = -1,
        .shifted = s->shifted,
        .seed = s->seed,
    };
    if (s->n_prompt) { /* until then the prompt may be a job's */
        ev.miss_at = s->prompt.miss_at;
        ev.cut_prefix = s->prompt.cut_prefix;
        ev.cut_suffix = s->prompt.cut_suffix;
    }
    if (s->session) (void)!proto_text_set(&ev.session, s->session->name.data, s->session->name.len);
    bool keep = reason != PROTO_STOP_CANCEL || s->answer.len > 0;
    end_turn(e, s, keep && s->req.type == PROTO_GENERATE, &ev);
}

/* --- preparation --- */

/* Does it have a prompt? */
static bool prompts(const struct seq *s)
{
    return s->req.type == PROTO_GENERATE || s->req.type == PROTO_WARM || s->req.type == PROTO_INFILL;
}

void seq_say(struct seq *s, int r)
{
    s->aux_r = r;
    free(s->aux_why);
    s->aux_why = r < 0 ? strdup(error_text(r)) : NULL; /* the sentence is this thread's */
}

static void run_prepare(struct job *j)
{
    struct seq *s = seq_of(errand_of(j));
    struct engine *e = s->errand.engine;
    const struct loaded *m = &e->model;
    int r = s->session ? turns_load(e, s->session) : 0;
    if (r == 0 && s->other) (void)!turns_load(e, s->other); /* if it cannot be, it is in the way all the same */
    if (r == 0 && s->req.type == PROTO_TOKENIZE)
        r = prepare_tokens(&s->answer_tokens, m, &s->req.text, s->req.special);
    else if (r == 0 && prompts(s))
        r = prepare_biases(&s->biases, &s->n_biases, m, &s->req.gen);
    if (r == 0 && s->req.type == PROTO_INFILL)
        r = fim_prepare(&s->prompt, m, &s->req.gen);
    else if (r == 0 && prompts(s))
        r = prepare_prompt(&s->prompt, m, &s->req.gen, s->session);
    if (r == 0 && s->session && s->req.type == PROTO_GENERATE) r = turns_claim(s);
    seq_say(s, r);
}

static int acquire_session(struct engine *e, struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    if (g->fork.len && g->session.len == 0 && !g->continue_last)
        return error_say(-EINVAL, "a fork needs the session that it begins as");
    if (g->session.len) {
        if (g->continue_last) return error_say(-EINVAL, "either a session's name or the last session, not both");
        return session_acquire(e->sessions, s->uid, g->session.data, g->session.len, g->fork.len == 0, &s->session);
    }
    return g->continue_last ? session_acquire_last(e->sessions, s->uid, &s->session) : 0;
}

static void answer_tokens(struct engine *e, struct seq *s)
{
    struct proto_event ev = {.type = PROTO_EV_TOKENS, .ids = s->answer_tokens.ids, .n_ids = s->answer_tokens.n};
    s->answer_tokens.ids = NULL; /* the event's now */
    engine_finish(e, s, &ev);
}

static void prepared(struct engine *e, struct errand *x)
{
    struct seq *s = seq_of(x);
    s->in_aux = false;
    if (s->state == SEQ_ENDED) {
        requests_returned(e, s);
        return;
    }
    s->state = SEQ_WAITING;
    int r = s->aux_r;
    if (turns_replay(e, s)) return; /* even if the session has no room for another turn */
    if (r < 0) {
        requests_fail(e, s, r, s->aux_why ? s->aux_why : error_text(r));
        return;
    }
    if (s->req.type == PROTO_TOKENIZE) {
        answer_tokens(e, s);
        return;
    }
    if (s->req.gen.fork.len) r = turns_fork(e, s);
    if (r == 0) r = seq_plan(s, &e->model);
    if (r == 0 && seq_blocks(s, e->config.batch_tokens) > kv_pool_total(e->pool))
        r = error_say(-E2BIG, "a context that rotates takes %u blocks of KV; the pool has %u, see --kv-bytes",
                      seq_blocks(s, e->config.batch_tokens), kv_pool_total(e->pool));
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return;
    }
    s->since = e->plan.book.clock;
    store_space(e, s, &s->reuse.space);
    plan_join(e, s);
}

/* Begin with a new one. False: not yet, its session is busy. */
/* A prompt that cannot fit whatever its tokens are is not worth the memory of preparing it. */
static int check_length(const struct engine *e, const struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    bool session = g->session.len || g->continue_last; /* it may have a context policy, which is not known yet */
    uint64_t bytes = g->prompt.len;
    if (s->req.type == PROTO_INFILL) return 0; /* it is cut to what fits */
    for (size_t i = 0; i < g->n_messages; i++) bytes += g->messages[i].content.len;
    uint64_t limit = prepare_limit(e->model.ctx, session ? PROTO_CONTEXT_SHIFT : prepare_context(g, NULL));
    if (bytes <= limit * e->model.piece_max) return 0;
    return error_say(-E2BIG, "the prompt is %" PRIu64 " bytes; %" PRIu64 " tokens hold at most %" PRIu64, bytes, limit,
                     limit * e->model.piece_max);
}

static bool start(struct engine *e, struct seq *s)
{
    int r = 0;
    if (s->cancel) return true; /* the sweep ends it */
    if (e->state == ENGINE_FAILED) {
        requests_fail(e, s, -EIO, e->why ? e->why : "out of memory");
        return true;
    }
    if (turns_is_request(s->req.type)) {
        turns_start(e, s);
        return true;
    }
    if (prompts(s)) {
        if (s->req.gen.detach && s->req.gen.session.len == 0 && !s->req.gen.continue_last)
            r = error_say(-EINVAL, "a detached request needs a session, where its answer is found");
        if (r == 0) r = check_length(e, s);
        if (r == 0) r = seq_configure(s, &e->model);
        if (r == 0) r = acquire_session(e, s);
        if (r == 0) turns_find_fork(e, s);
        if (r == -EBUSY && s->req.gen.wait) return false; /* until it is free, or this too late */
    }
    if (r < 0) {
        requests_fail(e, s, r, error_text(r));
        return true;
    }
    s->state = SEQ_PREPARING;
    seq_send(e, s, run_prepare, prepared);
    return true;
}

void requests_prepare_early(struct engine *e, struct seq *s)
{
    const struct proto_generate *g = &s->req.gen;
    if (!prompts(s) || g->session.len || g->continue_last || g->detach || g->fork.len) return;
    /* An error is told by the engine's thread, which finds it again. */
    if (check_length(e, s) < 0 || seq_configure(s, &e->model) < 0) return;
    s->state = SEQ_PREPARING;
    seq_send(e, s, run_prepare, prepared);
}

/* May it begin in this turn of the engine? A user's many requests must not make the turn long, for a step waits. */
static bool may_start(struct engine *e, struct seq *s)
{
    /* Its answer can be large, and goes to where too much waits already. */
    if (s->paused && turns_is_request(s->req.type)) return false;
    if (!s->tally) s->tally = tally_hold(e, s->uid);
    struct tally *t = s->tally;
    if (!t) return true; /* it will fail for want of memory */
    if (t->started_turn != e->turns) {
        t->started_turn = e->turns;
        t->started = 0;
    }
    return t->started < STARTS_PER_TURN;
}

void requests_start_new(struct engine *e)
{
    bool left = false;
    e->turns++;
    for (struct seq *s = e->all.head, *next; s; s = next) {
        next = s->next;
        if (s->state != SEQ_NEW) continue;
        struct tally *t;
        if (!may_start(e, s)) {
            left |= !s->paused;
            continue;
        }
        t = s->tally;
        if (start(e, s) && t) t->started++; /* the sequence may be gone, its user's tally stays */
    }
    if (left) engine_again(e);
}

/* --- deadlines and wishes --- */

/* The job pool has it for a moment, in mid-answer or with nobody to tell; then its turn, or why there is none, can be
 * kept. */
static bool comes_back(const struct seq *s)
{
    return s->state == SEQ_FETCHING && (s->generated || s->req.gen.detach);
}

/* When the wait ends in any case; 0: never. */
static uint64_t queue_end(const struct engine *e, const struct seq *s)
{
    uint64_t end;
    if (s->state >= SEQ_FETCHING || s->admitted || s->public) return 0;
    return __builtin_add_overflow(s->submitted, e->config.queue_timeout_usec, &end) ? 0 : end;
}

uint64_t requests_next_deadline(const struct engine *e)
{
    uint64_t first = UINT64_MAX;
    for (const struct seq *s = e->all.head; s; s = s->next) {
        if (s->state >= SEQ_SAVING || comes_back(s)) continue;
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
                 s->generated               ? "in mid-answer"
                 : s->state >= SEQ_FETCHING ? "while the prompt was read"
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
        if (s->state >= SEQ_SAVING || comes_back(s)) continue;
        if (s->cancel || (s->public && e->stopping))
            requests_done(e, s, PROTO_STOP_CANCEL);
        else if (s->lost)
            requests_fail(e, s, -ENOMEM, "no memory for a part of the answer");
        else
            sweep_late(e, s, now);
    }
}
