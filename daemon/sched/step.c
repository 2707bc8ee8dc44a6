/* SPDX-License-Identifier: MIT */
/* The batch of a step. */
#include "daemon/sched/internal.h"
#include "daemon/sched/scheduler.h"
#include <math.h>
#include <string.h>

#define EXPRESS_GAIN 1.5 /* so much shorter a step of first tokens alone has to be */

struct step {
    const struct sched_config *c;
    const struct sched_book *b;
    const struct sched_state *s;
    struct sched_scratch x;
    struct sched_run *out;
    struct sched_load *load;
    uint32_t n_out, n_decode, n_prefill; /* how many can do so */
    uint32_t tokens;                     /* left for prefill */
    uint32_t user;                       /* of the first that is ready */
    bool shared;                         /* others have something to compute, too */
    bool limited;                        /* so is the time: */
    double ms;
};

static bool is_ready(const struct sched_req *r)
{
    return r->running && !r->paused && r->computed < r->known;
}

/* One that comes back from a preemption and lacks more than its newest token reads first. */
static bool is_decode(const struct sched_req *r)
{
    return r->decoding && r->known - r->computed == 1;
}

static void run(struct step *t, uint32_t index, uint32_t n)
{
    const struct sched_req *r = &t->s->reqs[index];
    t->out[t->n_out++] = (struct sched_run){.index = index, .n = n, .logits = r->computed + n == r->known};
    double pairs = ((double)r->computed * n + (double)n * n / 2) / 1000;
    *(is_decode(r) ? &t->load->decode : &t->load->prefill) += n;
    *(is_decode(r) ? &t->load->decode_kv : &t->load->prefill_kv) += pairs;
}

/* --- decoding --- */

/* Bring the @k smallest of items[n] to the front (Hoare's selection). */
static void select_first(struct sched_item *items, uint32_t n, uint32_t k)
{
    uint32_t from = 0, to = n;
    while (to - from > 1 && k > from && k < to) {
        struct sched_item pivot = items[from + (to - from - 1) / 2];
        uint32_t i = from, j = to - 1;
        for (;;) {
            while (sched_item_less(&items[i], &pivot)) i++;
            while (sched_item_less(&pivot, &items[j])) j--;
            if (i >= j) break;
            struct sched_item x = items[i];
            items[i++] = items[j];
            items[j--] = x;
        }
        if (k <= j + 1)
            to = j + 1;
        else
            from = j + 1;
    }
}

/* Count, and put those that decode into items. */
static void gather(struct step *t)
{
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct sched_req *r = &t->s->reqs[i];
        if (!is_ready(r)) continue;
        if (t->n_decode + t->n_prefill == 0) t->user = r->user;
        t->shared |= r->user != t->user;
        if (is_decode(r))
            t->x.items[t->n_decode++] = (struct sched_item){r->last_step, r->arrival, i};
        else
            t->n_prefill++;
    }
}

static void decode(struct step *t, bool must_prefill)
{
    const struct sched_config *c = t->c;
    uint32_t room = c->batch_tokens, n = t->n_decode;
    if (must_prefill) room -= c->prefill_due < room ? c->prefill_due : room;
    if (n > room) {
        select_first(t->x.items, n, room);
        n = room;
    }
    for (uint32_t i = 0; i < n; i++) run(t, t->x.items[i].index, 1);
    t->tokens = c->batch_tokens - n;
}

/* --- prefill --- */

static void line_up(struct step *t)
{
    const struct sched_state *s = t->s;
    struct sched_who *who = t->x.who;
    memset(who, 0, s->n_users * sizeof(*who));
    for (uint32_t i = 0; i < s->n; i++)
        if (is_ready(&s->reqs[i]) && !is_decode(&s->reqs[i])) who[s->reqs[i].user].n++;
    sched_parts(&t->x, s->n_users);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (!is_ready(r) || is_decode(r)) continue;
        struct sched_who *w = &who[r->user];
        t->x.items[w->first + w->n++] = sched_item_of(r, i);
    }
}

/* As much of @r as there is room for; 0: no more in this step. */
static uint32_t chunk(const struct step *t, const struct sched_req *r, bool must)
{
    uint32_t left = r->known - r->computed, most = left < t->tokens ? left : t->tokens, n = most;
    if (t->limited) n = sched_time_prefill(&t->b->time, r->computed, t->ms, most);
    if (n < most && n < t->c->prefill_min) {
        if (!must) return 0;
        n = most < t->c->prefill_due ? most : t->c->prefill_due;
    }
    return n;
}

/* A step with one of the tokens that are decoded, and nothing else. */
static double of_one(const struct step *t)
{
    const struct sched_load one = {.decode = 1, .decode_kv = t->load->decode_kv / t->load->decode};
    return sched_time_of(&t->b->time, &one);
}

static void set_limit(struct step *t)
{
    const struct sched_config *c = t->c;
    double alone = sched_time_of(&t->b->time, t->load);
    double most = fmin(c->step_ratio * alone, fmax(c->step_ms, c->step_least * alone));
    t->limited = t->load->decode && t->b->time.samples > 0;
    if (t->shared && t->limited) most = fmin(most, fmax(c->shared_ratio * of_one(t), c->shared_least * alone));
    t->ms = most - alone;
}

static void prefill(struct step *t, bool must)
{
    struct sched_item *line = t->x.line;
    uint32_t n_line = 0;
    line_up(t);
    for (uint32_t u = 0; u < t->s->n_users; u++)
        if (t->x.who[u].n) line[n_line++] = (struct sched_item){t->s->users[u].served, u, u};
    sched_heap_make(line, n_line);
    set_limit(t);
    while (n_line && t->tokens) {
        struct sched_who *w = &t->x.who[line->index];
        struct sched_item *part = t->x.items + w->first;
        if (!w->heaped) sched_heap_make(part, w->n);
        w->heaped = true;
        uint32_t n = chunk(t, &t->s->reqs[part->index], must);
        if (n == 0) return;
        double before = sched_time_of(&t->b->time, t->load);
        run(t, part->index, n);
        t->ms -= sched_time_of(&t->b->time, t->load) - before;
        t->tokens -= n;
        must = false;
        w->n = sched_heap_pop(part, w->n);
        line->key += n * t->c->prefill_units;
        if (w->n == 0)
            n_line = sched_heap_pop(line, n_line);
        else
            sched_heap_down(line, n_line, 0);
    }
}

/* --- first tokens alone --- */

static bool is_express(const struct step *t, const struct sched_req *r)
{
    return is_ready(r) && !r->decoding && r->known - r->computed <= t->c->express_tokens;
}

/* The least account of those who have something to compute. */
static uint64_t least_served(const struct step *t)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < t->s->n; i++) {
        uint64_t served = t->s->users[t->s->reqs[i].user].served;
        if (is_ready(&t->s->reqs[i]) && served < least) least = served;
    }
    return least;
}

/* Which those are, and the answers of their users. Returns how many tokens they are; 0: there are none. */
static uint32_t choose_express(const struct step *t, bool *chosen)
{
    const struct sched_state *s = t->s;
    uint64_t most = least_served(t) + t->c->quantum;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < s->n_users; i++) t->x.who[i].n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sched_req *r = &s->reqs[i];
        uint32_t left = r->known - r->computed;
        chosen[i] = is_express(t, r) && s->users[r->user].served <= most && tokens + left <= t->c->batch_tokens;
        if (!chosen[i]) continue;
        tokens += left;
        t->x.who[r->user].n = 1;
    }
    for (uint32_t i = 0; tokens && i < s->n && tokens < t->c->batch_tokens; i++) {
        const struct sched_req *r = &s->reqs[i];
        if (chosen[i] || !is_ready(r) || !is_decode(r) || !t->x.who[r->user].n) continue;
        chosen[i] = true;
        tokens++;
    }
    return tokens;
}

/* In place of the step that was made, if it is much longer. */
static void express(struct step *t)
{
    bool *chosen = t->x.done;
    const struct sched_load some = {.prefill = choose_express(t, chosen)};
    double ms = sched_time_of(&t->b->time, &some);
    if (!some.prefill || EXPRESS_GAIN * ms > sched_time_of(&t->b->time, t->load)) return;
    *t->load = (struct sched_load){.express = true};
    t->n_out = 0;
    for (uint32_t i = 0; i < t->s->n; i++)
        if (chosen[i]) run(t, i, t->s->reqs[i].known - t->s->reqs[i].computed);
}

/* --- proposed tokens --- */

/* They take no place from any other token. */
static void speculate(struct step *t)
{
    for (uint32_t i = 0; i < t->n_out && t->tokens; i++) {
        struct sched_run *run = &t->out[i];
        const struct sched_req *r = &t->s->reqs[run->index];
        if (!is_decode(r)) continue;
        uint32_t n = r->draft < t->tokens ? r->draft : t->tokens;
        run->draft = n;
        run->n += n;
        t->tokens -= n;
        t->load->decode += n;
        t->load->decode_kv += ((double)r->known * n + (double)n * n / 2) / 1000;
    }
}

uint32_t sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                    void *scratch, struct sched_run *out, struct sched_load *load)
{
    struct step t = {.c = c, .b = b, .s = s, .out = out, .load = load};
    t.x = sched_scratch_cut(scratch, s->n, s->n_users);
    *load = (struct sched_load){0};
    gather(&t);
    bool must = t.n_prefill && b->since_prefill >= c->prefill_gap;
    decode(&t, must);
    if (t.n_prefill) prefill(&t, must || t.n_decode == 0);
    load->no_prefill = t.n_prefill && load->prefill == 0;
    if (t.shared && !b->express && b->time.samples > 0) express(&t);
    if (!load->express) speculate(&t);
    return t.n_out;
}
