/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/sim-inside.h"
#include "libcommon/error.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_LEADER UINT64_MAX

/* --- the machine --- */

static void load_add(struct sched_load *x, uint32_t pos, uint32_t n, bool decode)
{
    double pairs = ((double)pos * n + (double)n * n / 2) / 1000;
    *(decode ? &x->decode : &x->prefill) += n;
    *(decode ? &x->decode_kv : &x->prefill_kv) += pairs;
}

/* Milliseconds of a request that finds @hit tokens and has the machine to itself. */
static double alone_ms(const struct sim_config *c, const struct trace_request *q, uint32_t hit)
{
    uint32_t left = hit < q->prompt ? q->prompt - hit : 1, steps = (left + c->batch_tokens - 1) / c->batch_tokens;
    struct sched_load x = {0};
    load_add(&x, q->prompt - left, left, false);
    x.decode = q->answer - 1;
    x.decode_kv = (double)x.decode * (q->prompt + (double)q->answer / 2) / 1000;
    const double *ms = c->step_ms;
    return ms[0] * (steps + x.decode) + ms[1] * x.decode + ms[2] * x.prefill + ms[3] * x.decode_kv +
           ms[4] * x.prefill_kv;
}

double sim_stretch(const struct trace *t, const struct sim_config *c, double load)
{
    double hit = (double)t->infinite_tokens / (double)t->prompt_tokens, ms = 0, span = t->requests[t->n - 1].ms + 1;
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_request *q = &t->requests[i];
        double fixed = c->step_ms[SCHED_TIME_FIXED] * (q->answer - 1);
        /* all running requests share the fixed part of a decode step */
        ms += alone_ms(c, q, (uint32_t)(hit * q->prompt)) - fixed + fixed / c->parallel;
    }
    return ms / load / span;
}

/* --- prefixes shared between requests --- */

/* Common prefix of two prompts, in tokens. */
static uint32_t common_tokens(const struct trace *t, const struct trace_request *a, const struct trace_request *b)
{
    uint32_t n = a->n < b->n ? a->n : b->n, k = 0, most = a->prompt < b->prompt ? a->prompt : b->prompt;
    while (k < n && t->ids[a->first + k] == t->ids[b->first + k]) k++;
    return k * TRACE_BLOCK < most ? k * TRACE_BLOCK : most;
}

static void find_leader(struct sim *s, uint32_t i)
{
    struct sim_seq *q = &s->seqs[i];
    q->leader = NO_LEADER;
    q->common = s->reqs[i].computed;
    for (uint32_t k = 0; k < s->n; k++) {
        if (k == i || s->seqs[k].q->n == 0 || s->reqs[k].decoding) continue;
        if (s->t->ids[q->q->first] != s->t->ids[s->seqs[k].q->first]) continue;
        uint32_t common = common_tokens(s->t, q->q, s->seqs[k].q);
        if (common <= q->common) continue;
        q->common = common;
        q->leader = s->seqs[k].id;
    }
}

/* Reports the shared prefixes to the scheduler. A request whose leader has computed its prompt gets a new leader. */
static void update_groups(struct sim *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct sim_seq *q = &s->seqs[i];
        struct sched_req *r = &s->reqs[i];
        r->group = SCHED_NONE;
        r->shared = 0;
        if (q->leader == NO_LEADER) continue;
        for (uint32_t k = 0; k < s->n; k++)
            if (s->seqs[k].id == q->leader) r->group = k;
        if (r->group == SCHED_NONE || s->reqs[r->group].decoding) {
            r->computed = r->running ? r->computed : sim_cache_find(s, i);
            if (r->computed >= r->known) r->computed = r->known - 1;
            find_leader(s, i);
            r->group = SCHED_NONE;
            continue;
        }
        uint32_t have = s->reqs[r->group].computed;
        if (!s->reqs[r->group].running || have < r->computed || r->running) have = r->computed;
        r->shared = q->common > have ? q->common - have : 0;
    }
}

/* --- events --- */

static void arrive(struct sim *s)
{
    const struct trace_request *q = &s->t->requests[s->next];
    uint32_t i = s->n++;
    if (s->by_user[q->user].requests++ == 0) s->n_active++;
    s->seqs[i] = (struct sim_seq){.q = q, .id = s->next, .arrived = q->ms * s->c->stretch};
    s->reqs[i] = (struct sched_req){
        .arrival = ++s->next,
        .since = s->book.clock,
        .user = q->user,
        .known = q->prompt,
        .blocks = sim_cache_blocks(s, q),
        .group = SCHED_NONE,
        .class = SCHED_CLASS_INTERACTIVE,
    };
    uint32_t cached = sim_cache_find(s, i);
    s->reqs[i].computed = cached < q->prompt ? cached : q->prompt - 1;
    find_leader(s, i);
}

static void end(struct sim *s, uint32_t i)
{
    const struct sim_seq *q = &s->seqs[i];
    struct sim_user *u = &s->by_user[q->q->user];
    u->alone += q->alone;
    u->took += s->now - q->arrived;
    if (--u->requests == 0) s->n_active--;
    sim_cache_end(s, i);
    s->n--;
    s->reqs[i] = s->reqs[s->n];
    s->seqs[i] = s->seqs[s->n];
}

static int start(struct sim *s, uint32_t i)
{
    struct sim_seq *q = &s->seqs[i];
    int e = sim_cache_start(s, i);
    if (e) return e < 0 ? e : 0;
    s->reqs[i].running = true;
    s->reqs[i].spent = 0;
    if (q->started) return 0;
    q->started = true;
    q->alone = alone_ms(s->c, q->q, q->hit);
    s->out->prompt += q->q->prompt;
    s->out->hit += q->hit;
    stats_add(&s->out->queue, s->now - q->arrived);
    return 0;
}

static int preempt(struct sim *s, uint32_t i, enum sched_reason reason)
{
    s->out->preemptions[reason]++;
    int e = sim_cache_add(s, i, true);
    sim_cache_end(s, i);
    s->reqs[i].running = false;
    s->reqs[i].since = s->book.clock;
    s->reqs[i].blocks = sim_cache_blocks(s, s->seqs[i].q);
    return e;
}

static struct sched_state state_of(const struct sim *s)
{
    return (struct sched_state){s->reqs, s->n, s->users, s->c->users, (uint64_t)s->now, sim_cache_free_blocks(s)};
}

static int decide(struct sim *s)
{
    struct sched_state state = state_of(s);
    uint32_t n;
    int e = 0;
    if (s->c->policy == SIM_HOB)
        n = sched_decide(&s->sched, &s->book, &state, s->scratch, s->actions);
    else
        n = sim_fcfs_decide(&s->sched, &state, s->actions);
    for (uint32_t k = 0; k < n && e == 0; k++) {
        const struct sched_action *a = &s->actions[k];
        e = a->reason == SCHED_START ? start(s, a->index) : preempt(s, a->index, a->reason);
    }
    return e;
}

/* --- a step --- */

static int advance(struct sim *s, const struct sched_run *run)
{
    struct sched_req *r = &s->reqs[run->index];
    struct sim_seq *q = &s->seqs[run->index];
    r->spent += sched_units(&s->sched, r, run->n);
    r->last_step = s->out->steps;
    r->computed += run->n;
    if (!r->decoding) {
        int e = sim_cache_add(s, run->index, false);
        if (e < 0) return e;
    }
    if (!run->logits) return 0;
    if (q->generated++) {
        stats_add(&s->out->itl, s->now - q->token);
    } else {
        stats_add(&s->out->ttft, s->now - q->arrived);
        stats_add(&s->out->user_ttft[q->q->user], s->now - q->arrived);
    }
    q->token = s->now;
    r->decoding = true;
    r->known++;
    return 0;
}

/* Adds the step to the shares: served units and even shares. */
static void account(struct sim *s, const struct sched_run *runs, uint32_t n)
{
    double all = 0;
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_req *r = &s->reqs[runs[k].index];
        double units = sched_units(&s->sched, r, runs[k].n);
        s->by_user[r->user].got += units;
        all += units;
    }
    for (uint32_t u = 0; u < s->c->users; u++)
        if (s->by_user[u].requests) s->by_user[u].even += all / s->n_active;
}

/* Runs one step. 0; 1: nothing can be computed now. */
static int step(struct sim *s)
{
    struct sched_state state = state_of(s);
    struct sched_load load = {0}, x = {0};
    uint32_t n;
    if (s->c->policy == SIM_HOB)
        n = sched_step(&s->sched, &s->book, &state, s->scratch, s->runs, &load);
    else
        n = sim_fcfs_step(&s->sched, &state, s->runs);
    if (n == 0) return 1;
    for (uint32_t k = 0; k < n; k++) {
        const struct sched_req *r = &s->reqs[s->runs[k].index];
        load_add(&x, r->computed, s->runs[k].n, r->decoding && r->known - r->computed == 1);
    }
    double ms = sched_time_of(&s->machine, &x);
    account(s, s->runs, n);
    sched_done(&s->sched, &s->book, &state, s->runs, n, &load, ms);
    s->now += ms;
    s->out->busy_ms += ms;
    s->out->computed += x.prefill;
    s->out->steps++;
    for (uint32_t k = 0; k < n; k++) {
        int e = advance(s, &s->runs[k]);
        if (e < 0) return e;
    }
    for (uint32_t i = s->n; i-- > 0;)
        if (s->seqs[i].generated >= s->seqs[i].q->answer) end(s, i);
    return 0;
}

static int play(struct sim *s)
{
    int e = 0;
    while (e == 0 && (s->n || s->next < s->t->n)) {
        double coming = s->next < s->t->n ? s->t->requests[s->next].ms * s->c->stretch : 0;
        while (s->next < s->t->n && coming <= s->now) {
            arrive(s);
            if (s->next < s->t->n) coming = s->t->requests[s->next].ms * s->c->stretch;
        }
        update_groups(s);
        e = decide(s);
        if (e == 0) e = step(s);
        if (e <= 0) continue;
        if (s->next >= s->t->n) return error_say(-EDEADLK, "no waiting request can start");
        s->now = coming;
        e = 0;
    }
    return e;
}

/* --- start and end --- */

static int sim_init(struct sim *s)
{
    size_t n = s->t->n, users = s->c->users;
    sched_config_init(&s->sched, s->c->parallel, s->c->batch_tokens);
    sched_time_init(&s->book.time);
    sched_time_init(&s->machine);
    memcpy(s->machine.ms, s->c->step_ms, sizeof(s->machine.ms));
    s->users = calloc(users, sizeof(*s->users));
    s->reqs = calloc(n, sizeof(*s->reqs));
    s->seqs = calloc(n, sizeof(*s->seqs));
    s->actions = calloc(n, sizeof(*s->actions));
    s->runs = calloc(n, sizeof(*s->runs));
    s->scratch = malloc(sched_scratch_size((uint32_t)n, (uint32_t)users));
    s->by_user = calloc(users, sizeof(*s->by_user));
    s->out->user_ttft = calloc(users, sizeof(*s->out->user_ttft));
    if (!s->users || !s->reqs || !s->seqs || !s->actions || !s->runs || !s->scratch || !s->by_user ||
        !s->out->user_ttft)
        return -ENOMEM;
    return sim_cache_new(s);
}

static int sum_up(struct sim *s)
{
    struct prefix_stats sum;
    uint32_t n = 0;
    double *x = calloc(2 * (size_t)s->c->users, sizeof(*x)), *speed = x ? x + s->c->users : NULL;
    if (!x) return -ENOMEM;
    for (uint32_t u = 0; u < s->c->users; u++) {
        const struct sim_user *user = &s->by_user[u];
        if (user->took <= 0) continue;
        x[n] = user->got / user->even;
        speed[n++] = user->alone / user->took;
    }
    s->out->jain = stats_jain(x, n);
    s->out->jain_speed = stats_jain(speed, n);
    free(x);
    s->out->ms = s->now;
    prefix_stats_get(s->prefix, (uid_t)-1, &sum);
    s->out->evictions = sum.evictions;
    return 0;
}

int sim_run(struct sim_result *out, const struct trace *t, const struct sim_config *c)
{
    *out = (struct sim_result){0};
    struct sim s = {.t = t, .c = c, .out = out};
    assert(c->users && c->block && TRACE_BLOCK % c->block == 0);
    if (t->n > UINT32_MAX / 2) return error_say(-E2BIG, "too many requests");
    int e = sim_init(&s);
    if (e == 0) e = play(&s);
    if (e == 0) e = sum_up(&s);
    for (uint32_t i = 0; i < s.n; i++) sim_cache_end(&s, i);
    sim_cache_free(&s);
    free(s.users);
    free(s.reqs);
    free(s.seqs);
    free(s.actions);
    free(s.runs);
    free(s.scratch);
    free(s.by_user);
    return e;
}

void sim_result_fini(struct sim_result *r)
{
    free(r->user_ttft);
    r->user_ttft = NULL;
}
