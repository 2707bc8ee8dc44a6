/* SPDX-License-Identifier: MIT */
#include "tests/sched/naive.h"
#include <math.h>
#include <string.h>

#define TURNS_LEAST  2
#define EXPRESS_GAIN 1.5
#define ROW_WORTH    1.1
#define UNTRIED_MOST 64

struct naive {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct naive_batch *out;
    uint32_t n_prefill, tokens, due;
    bool several, higher, is_short, limited;
    double ms;
};

/* --- requests --- */

static bool is_ready(const struct sched_req *r)
{
    return r->running && !r->paused && !r->busy && r->known > r->computed;
}

static bool decodes(const struct sched_req *r)
{
    return is_ready(r) && r->decoding && r->known == r->computed + 1;
}

static bool needs_prefill(const struct sched_req *r)
{
    return is_ready(r) && !decodes(r);
}

static uint32_t stretch_of(const struct sched_req *r)
{
    uint32_t left = r->known - r->computed;
    return r->stretch == 0 || r->stretch > left ? left : r->stretch;
}

static double pairs(uint32_t before, uint32_t n)
{
    return ((double)before * n + (double)n * n / 2) / 1000;
}

static void add(struct naive *x, uint32_t i, uint32_t n)
{
    const struct sched_req *r = &x->s->reqs[i];
    struct sched_load *load = &x->out->load;
    x->out->runs[i] = (struct sched_run){.index = i, .n = n, .logits = r->computed + n == r->known};
    if (decodes(r)) {
        load->decode += n;
        load->decode_kv += pairs(r->computed, n);
    } else {
        load->prefill += n;
        load->prefill_kv += pairs(r->computed, n);
    }
}

static double time_of(const struct naive *x, const struct sched_load *load)
{
    return sched_time_of(&x->b->time, load);
}

/* The time of a step that decodes one average token. */
static double time_of_one(const struct naive *x)
{
    const struct sched_load *all = &x->out->load;
    return time_of(x, &(struct sched_load){.decode = 1, .decode_kv = all->decode ? all->decode_kv / all->decode : 0});
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* By class and arrival. */
static int compare_own(const struct sched_req *a, const struct sched_req *b)
{
    int c = compare(a->class, b->class);
    return c ? c : compare(a->arrival, b->arrival);
}

/* --- prefill --- */

static uint32_t choose_due(const struct naive *x)
{
    uint32_t best = SCHED_NONE;
    if (x->b->steps - x->b->due_step < x->c->prefill_gap) return best;
    for (uint32_t i = 0; i < x->s->n; i++) {
        const struct sched_req *r = &x->s->reqs[i], *b = &x->s->reqs[best == SCHED_NONE ? i : best];
        if (!needs_prefill(r) || !r->whole || stretch_of(r) > x->c->batch_tokens) continue;
        int c = compare(x->s->users[r->user].served, x->s->users[b->user].served);
        if (!c) c = compare(r->user, b->user);
        if (!c) c = compare_own(r, b);
        if (best == SCHED_NONE || c < 0) best = i;
    }
    return best;
}

static void limit(struct naive *x)
{
    const struct sched_config *c = x->c;
    uint64_t least = UINT64_MAX, most = 0;
    double alone = time_of(x, &x->out->load), ms = c->step_ms;
    for (uint32_t i = 0; i < x->s->n; i++) {
        uint64_t served = x->s->users[x->s->reqs[i].user].served;
        if (decodes(&x->s->reqs[i]) && served < least) least = served;
        if (needs_prefill(&x->s->reqs[i]) && served > most) most = served;
    }
    x->limited = x->out->load.decode && x->b->time.samples && !x->is_short;
    if (ms < c->step_least * alone) ms = c->step_least * alone;
    if (x->higher && ms > c->step_ratio * alone) ms = c->step_ratio * alone;
    if (x->limited && x->several) {
        bool behind = least != UINT64_MAX && most >= least + c->quantum;
        double one = (behind ? c->behind.ratio : c->shared.ratio) * time_of_one(x);
        double all = (behind ? c->behind.least : c->shared.least) * alone;
        ms = fmin(ms, one > all ? one : all);
    }
    x->ms = ms - alone;
}

static void take(struct naive *x, uint32_t i, uint32_t n)
{
    double before = time_of(x, &x->out->load);
    add(x, i, n);
    x->ms -= time_of(x, &x->out->load) - before;
    x->tokens -= n;
}

static uint32_t chunk(const struct naive *x, const struct sched_req *r, bool forced)
{
    uint32_t left = stretch_of(r), most = left < x->tokens ? left : x->tokens;
    uint32_t n = x->limited ? sched_time_prefill(&x->b->time, r->computed, x->ms, most) : most;
    if (r->whole) return n == left ? n : 0;
    if (n == most || n >= x->c->prefill_min) return n;
    if (!forced) return 0;
    return most < x->c->prefill_due ? most : x->c->prefill_due;
}

static void prefill(struct naive *x, bool forced)
{
    const struct sched_state *s = x->s;
    uint64_t served[NAIVE_MOST];
    bool done[NAIVE_MOST] = {false};
    for (uint32_t u = 0; u < s->n_users; u++) served[u] = s->users[u].served;
    limit(x);
    if (x->due != SCHED_NONE) {
        uint32_t n = stretch_of(&s->reqs[x->due]);
        served[s->reqs[x->due].user] += n * x->c->prefill_units;
        take(x, x->due, n);
        x->out->load.due = done[x->due] = true;
        forced = false;
    }
    while (x->tokens) {
        uint32_t best = SCHED_NONE;
        for (uint32_t i = 0; i < s->n; i++) {
            const struct sched_req *r = &s->reqs[i], *b = &s->reqs[best == SCHED_NONE ? i : best];
            if (!needs_prefill(r) || done[i]) continue;
            int c = compare(served[r->user], served[b->user]);
            if (!c) c = compare(r->user, b->user);
            if (!c) c = compare_own(r, b);
            if (best == SCHED_NONE || c < 0) best = i;
        }
        if (best == SCHED_NONE) return;
        uint32_t n = chunk(x, &s->reqs[best], forced);
        if (n == 0 && !s->reqs[best].whole) return;
        if (n) forced = false;
        if (n) take(x, best, n);
        served[s->reqs[best].user] += n * x->c->prefill_units;
        done[best] = true;
    }
}

/* --- decoding --- */

/* Add the @n decoding requests that wait longest. */
static void decode_longest(struct naive *x, uint32_t n)
{
    for (; n; n--) {
        uint32_t best = SCHED_NONE;
        for (uint32_t i = 0; i < x->s->n; i++) {
            const struct sched_req *r = &x->s->reqs[i], *b = &x->s->reqs[best == SCHED_NONE ? i : best];
            if (!decodes(r) || x->out->runs[i].n) continue;
            int c = compare(r->last_step, b->last_step);
            if (best == SCHED_NONE || c < 0 || (c == 0 && r->arrival < b->arrival)) best = i;
        }
        if (best == SCHED_NONE) return;
        add(x, best, 1);
        x->tokens--;
    }
}

/* The one of candidates[n] whose turn it is: its user had the fewest turns, or waits longest. */
static uint32_t next_turn(const struct naive *x, const bool *candidates, const uint32_t *turns)
{
    uint32_t best = SCHED_NONE;
    for (uint32_t i = 0; i < x->s->n; i++) {
        const struct sched_req *r = &x->s->reqs[i], *b = &x->s->reqs[best == SCHED_NONE ? i : best];
        if (!candidates[i]) continue;
        int c = compare(turns[r->user], turns[b->user]);
        if (!c) c = compare(x->s->users[r->user].decoded, x->s->users[b->user].decoded);
        if (!c) c = compare(r->last_step, b->last_step);
        if (!c) c = compare(r->arrival, b->arrival);
        if (best == SCHED_NONE || c < 0) best = i;
    }
    return best;
}

/* Add @n decoding requests: of each user in turn, the higher class first. */
static void decode_turns(struct naive *x, uint32_t n)
{
    const struct sched_state *s = x->s;
    uint32_t turns[NAIVE_MOST] = {0};
    for (uint32_t best; n; n--) {
        best = SCHED_NONE;
        for (uint32_t i = 0; i < s->n; i++) {
            const struct sched_req *r = &s->reqs[i], *b = &s->reqs[best == SCHED_NONE ? i : best];
            if (!decodes(r) || x->out->runs[i].n) continue;
            int c = compare(turns[r->user], turns[b->user]);
            if (!c) c = compare(s->users[r->user].decoded, s->users[b->user].decoded);
            if (!c) c = compare(r->class, b->class);
            if (!c) c = compare(r->last_step, b->last_step);
            if (best == SCHED_NONE || c < 0 || (c == 0 && r->arrival < b->arrival)) best = i;
        }
        if (best == SCHED_NONE) return;
        turns[s->reqs[best].user]++;
        add(x, best, 1);
        x->tokens--;
    }
}

/* --- short and express steps --- */

static void shorten(struct naive *x)
{
    bool candidates[NAIVE_MOST];
    uint32_t turns[NAIVE_MOST] = {0}, i;
    if (x->c->short_tokens > x->c->batch_tokens) return;
    if (time_of(x, &x->out->load) <= x->c->short_ratio * time_of_one(x)) return;
    memset(x->out, 0, sizeof(*x->out));
    for (i = 0; i < x->s->n; i++) candidates[i] = decodes(&x->s->reqs[i]);
    x->tokens = x->c->short_tokens;
    uint32_t kept = x->n_prefill ? x->tokens / 4 : 0;
    while (x->tokens > kept && (i = next_turn(x, candidates, turns)) != SCHED_NONE) {
        add(x, i, 1);
        turns[x->s->reqs[i].user]++;
        candidates[i] = false;
        x->tokens--;
    }
    x->is_short = true;
    if (x->n_prefill) prefill(x, true);
}

/* First tokens for an express step: their number of each request in n[]. */
static struct sched_load choose_first(const struct naive *x, uint64_t most, double ms, uint32_t n[NAIVE_MOST])
{
    const struct sched_state *s = x->s;
    struct sched_load load = {0};
    bool answers[NAIVE_MOST] = {false}; /* users */
    for (uint32_t i = 0; i < s->n; i++) answers[s->reqs[i].user] |= s->reqs[i].running && s->reqs[i].decoding;
    for (;;) {
        uint32_t best = SCHED_NONE;
        for (uint32_t i = 0; i < s->n; i++) {
            const struct sched_req *r = &s->reqs[i], *b = &s->reqs[best == SCHED_NONE ? i : best];
            uint32_t left = r->known - r->computed;
            if (n[i] || !is_ready(r) || r->decoding || left > x->c->express_tokens || stretch_of(r) < left) continue;
            if (answers[r->user] && s->users[r->user].served > most) continue;
            int c = compare(left, b->known - b->computed);
            if (best == SCHED_NONE || c < 0 || (c == 0 && r->arrival < b->arrival)) best = i;
        }
        if (best == SCHED_NONE) return load;
        uint32_t left = s->reqs[best].known - s->reqs[best].computed;
        struct sched_load more = {.prefill = load.prefill + left};
        if (more.prefill > x->c->batch_tokens) return load;
        bool is_long = time_of(x, &more) > ms;
        if (is_long && load.prefill) return load;
        n[best] = is_long && !s->reqs[best].whole && left > x->c->express_part ? x->c->express_part : left;
        load.prefill += n[best];
    }
}

static void express(struct naive *x)
{
    const struct sched_state *s = x->s;
    uint64_t most = UINT64_MAX;
    uint32_t n[NAIVE_MOST] = {0}, turns[NAIVE_MOST] = {0}, k = 0, i;
    bool candidates[NAIVE_MOST];
    double ms = x->c->express_ratio * time_of_one(x), all = time_of(x, &x->out->load);
    for (i = 0; i < s->n; i++)
        if (is_ready(&s->reqs[i]) && s->users[s->reqs[i].user].served < most) most = s->users[s->reqs[i].user].served;
    most += x->c->express_lead;
    struct sched_load load = choose_first(x, most, ms, n);
    if (load.prefill == 0) return;
    for (i = 0; i < s->n; i++) candidates[i] = decodes(&s->reqs[i]) && s->users[s->reqs[i].user].served <= most;
    for (; load.prefill + load.decode < x->c->batch_tokens && (i = next_turn(x, candidates, turns)) != SCHED_NONE;
         k++) {
        load.decode++;
        if (k >= TURNS_LEAST && time_of(x, &load) > ms) {
            load.decode--;
            break;
        }
        n[i] = 1;
        turns[s->reqs[i].user]++;
        candidates[i] = false;
    }
    bool others_short = x->b->short_left && all > x->c->short_ratio * time_of_one(x);
    if (time_of(x, &load) * (others_short ? 1 : EXPRESS_GAIN) > all) return;
    memset(x->out, 0, sizeof(*x->out));
    x->out->load.express = true;
    for (i = 0; i < s->n; i++)
        if (n[i]) add(x, i, n[i]);
}

/* --- proposed tokens --- */

static double row_ms(const struct naive *x, uint32_t i)
{
    const double *ms = x->b->time.ms;
    return ms[SCHED_TIME_DRAFT] + ms[SCHED_TIME_PREFILL_KV] * pairs(x->s->reqs[i].known + x->out->runs[i].draft, 1);
}

static void add_row(struct naive *x, uint32_t i)
{
    x->out->load.prefill_kv += pairs(x->s->reqs[i].known + x->out->runs[i].draft, 1);
    x->out->load.draft++;
    x->out->runs[i].draft++;
    x->out->runs[i].n++;
    x->tokens--;
}

/* The part of the batch with the best next proposed token, the first in order[n]. */
static uint32_t best_row(const struct naive *x, const struct sched_run *order, uint32_t n, double *yield)
{
    uint32_t best = SCHED_NONE;
    *yield = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = order[k].index;
        const struct sched_req *r = &x->s->reqs[i];
        if (!x->out->runs[i].n || !decodes(r) || !r->chance || x->out->runs[i].draft >= r->draft) continue;
        double y = r->chance[x->out->runs[i].draft] / row_ms(x, i);
        if (y > *yield) best = i;
        if (y > *yield) *yield = y;
    }
    return best;
}

static void speculate(struct naive *x, const struct sched_run *order, uint32_t n)
{
    struct sched_load *load = &x->out->load;
    double yield;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = order[k].index;
        const struct sched_req *r = &x->s->reqs[i];
        if (!x->out->runs[i].n || !decodes(r) || r->chance) continue;
        while (x->tokens && x->out->runs[i].draft < r->draft) add_row(x, i);
    }
    if (x->b->time.samples == 0) return;
    double tokens = load->decode + load->draft + (double)load->prefill * x->c->prefill_units / x->c->decode_units;
    double ms = time_of(x, load);
    for (bool must = x->b->untried >= UNTRIED_MOST; x->tokens; must = false) {
        uint32_t i = best_row(x, order, n, &yield);
        if (i == SCHED_NONE || (!must && yield * ms <= ROW_WORTH * tokens)) break;
        double row = row_ms(x, i);
        tokens += yield * row;
        ms += row;
        add_row(x, i);
    }
    load->untried = load->draft == 0 && best_row(x, order, n, &yield) != SCHED_NONE;
}

void naive_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                const struct sched_run *order, uint32_t n, struct naive_batch *out)
{
    struct naive x = {.c = c, .b = b, .s = s, .out = out};
    uint32_t n_decode = 0, kept = 0, user = SCHED_NONE;
    bool whole = false;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < s->n; i++) {
        if (!is_ready(&s->reqs[i])) continue;
        n_decode += decodes(&s->reqs[i]);
        x.higher |= s->reqs[i].class != SCHED_CLASS_BATCH;
        x.n_prefill += needs_prefill(&s->reqs[i]);
        if (user == SCHED_NONE) user = s->reqs[i].user;
        x.several |= s->reqs[i].user != user;
    }
    x.due = choose_due(&x);
    bool forced = x.n_prefill && b->since_prefill >= c->prefill_gap;
    if (x.due != SCHED_NONE) kept = stretch_of(&s->reqs[x.due]);
    if (forced && kept < c->prefill_due) kept = c->prefill_due;
    x.tokens = c->batch_tokens;
    uint32_t room = kept < c->batch_tokens ? c->batch_tokens - kept : 0;
    if (x.higher && n_decode > c->parallel)
        decode_turns(&x, c->parallel < room ? c->parallel : room);
    else
        decode_longest(&x, room);
    if (x.n_prefill) prefill(&x, forced || n_decode == 0);
    for (uint32_t i = 0; i < s->n; i++) whole |= out->runs[i].n && s->reqs[i].whole;
    bool several = x.several && b->time.samples;
    if (several && !b->express) express(&x);
    if (several && !out->load.express && b->short_left && !whole) shorten(&x);
    out->load.no_prefill = x.n_prefill && !out->load.prefill;
    if (!out->load.express) speculate(&x, order, n);
}
