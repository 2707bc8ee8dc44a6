/* SPDX-License-Identifier: MIT */
#include "daemon/sched/internal.h"

#define BATCH_FACTOR 4  /* slots while all requests are of class batch */
#define MOST_FACTOR  12 /* the same where steps are short */
#define FORGET_UNITS 64 /* a share of fewer units would often be rounded to none */

static uint32_t times(uint32_t n, uint32_t factor)
{
    return n > UINT32_MAX / factor ? UINT32_MAX : n * factor;
}

void sched_config_init(struct sched_config *c, uint32_t parallel, uint32_t batch_tokens)
{
    *c = (struct sched_config){
        .parallel = parallel,
        .parallel_batch = times(parallel, BATCH_FACTOR),
        .parallel_most = times(parallel, MOST_FACTOR),
        .batch_tokens = batch_tokens,
        .prefill_units = 1,
        .decode_units = 4,
        .quantum = 512,
        .yield_ms = 1000,
        .patience = 16384,
        .forget = 8192,
        .step_ratio = 6,
        .step_ms = 100,
        .step_least = 1.25,
        .shared = {.ratio = 4, .least = 2},
        .behind = {.ratio = 3, .least = 1.5},
        .express_tokens = 32,
        .express_ratio = 1.5,
        .express_lead = 4 * 512,
        .express_part = 8,
        .short_steps = 8,
        .short_tokens = 6,
        .short_ratio = 1.5,
        .prefill_min = 8,
        .prefill_due = 32,
        .prefill_gap = 8,
    };
}

/* --- scratch --- */

size_t sched_scratch_size(uint32_t n, uint32_t n_users)
{
    return n * (sizeof(struct sched_item) + sizeof(uint32_t) + 2 * sizeof(bool)) +
           n_users * (sizeof(struct sched_item) + sizeof(struct sched_usage));
}

struct sched_scratch sched_scratch_init(void *memory, uint32_t n, uint32_t n_users)
{
    struct sched_scratch x = {.items = memory};
    x.user_heap = x.items + n;
    x.usage = (struct sched_usage *)(x.user_heap + n_users);
    x.list = (uint32_t *)(x.usage + n_users);
    x.progress = (bool *)(x.list + n);
    x.done = x.progress + n;
    return x;
}

void sched_partition(const struct sched_scratch *x, uint32_t n_users)
{
    uint32_t first = 0;
    for (uint32_t u = 0; u < n_users; u++) {
        x->usage[u].first = first;
        first += x->usage[u].n;
        x->usage[u].n = 0;
    }
}

/* --- service --- */

uint32_t sched_units(const struct sched_config *c, const struct sched_req *r, uint32_t n)
{
    return sched_decodes(r) ? n * c->decode_units : n * c->prefill_units;
}

/* Move the accounts towards the smallest one of a user with requests, for the units served since the last time. */
static void forget(const struct sched_config *c, struct sched_book *b, const struct sched_state *s)
{
    uint64_t units = b->clock - b->forgot, least = UINT64_MAX;
    if (units < FORGET_UNITS) return;
    b->forgot = b->clock;
    if (units > c->forget) units = c->forget;
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t served = s->users[s->reqs[i].user].served;
        if (served < least) least = served;
    }
    for (uint32_t u = 0; u < s->n_users; u++) {
        uint64_t served = s->users[u].served;
        if (served > least) s->users[u].served -= (uint64_t)((double)(served - least) * (double)units / c->forget);
    }
}

void sched_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                const struct sched_run *runs, uint32_t n, const struct sched_load *load, double ms)
{
    b->steps++;
    for (uint32_t i = 0; i < n; i++) {
        const struct sched_req *r = &s->reqs[runs[i].index];
        uint32_t units = sched_units(c, r, runs[i].n);
        s->users[r->user].served += units;
        if (sched_decodes(r)) s->users[r->user].decoded = b->steps;
        b->clock += units;
    }
    forget(c, b, s);
    if (load->due) b->due_step = b->steps;
    b->express = load->express;
    if (load->express)
        b->short_left = c->short_steps;
    else if (b->short_left)
        b->short_left--;
    if (load->draft)
        b->untried = 0;
    else if (load->untried)
        b->untried++;
    if (!load->express) b->since_prefill = load->no_prefill ? b->since_prefill + 1 : 0;
    sched_time_learn(&b->time, load, ms);
}

uint64_t sched_lead_max(const struct sched_config *c, uint32_t longest, bool blocks_short)
{
    uint64_t step = (uint64_t)c->batch_tokens * c->decode_units;
    uint64_t again = (uint64_t)longest * c->decode_units; /* prefill costs no more */
    uint64_t longer = again + again / SCHED_REDONE_SHARE;
    return (c->parallel_most + 2ull) * c->quantum + 2 * step + 2 * longer +
           (blocks_short ? c->patience + 2ull * SCHED_RECOMPUTE_FACTOR * longest : 0);
}
