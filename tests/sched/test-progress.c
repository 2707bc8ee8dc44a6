/* SPDX-License-Identifier: MIT */
/*
 * Progress in short memory. Requests of several users take turns in a pool that holds one or a few of them, and a
 * preempted one loses its KV to the next one. All of them must end nevertheless, without computing their tokens many
 * times.
 */
#include "daemon/sched/scheduler.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MOST  64
#define USERS 8
#define BLOCK 32

#define TIMES_MOST 8 /* tokens computed, for each token of a prompt or an answer */

/* One case. */
struct load {
    uint32_t parallel, batch, prefill_units, users, per_user;
    uint32_t prompt, max; /* tokens of the largest request */
    uint32_t fit;         /* the pool holds so many of the largest */
    uint32_t look;        /* steps for which the scheduler keeps what it believes of the cache */
};

struct answer {
    uint32_t prompt, max, generated;
    uint32_t kept;    /* waiting: tokens in the cache */
    uint32_t reached; /* tokens that were computed, in any slot */
    uint64_t used;    /* step in which it was preempted */
    uint64_t looked;  /* number of the step in which the scheduler was last told @kept; 0: not yet */
};

struct machine {
    struct sched_config c;
    struct sched_book b;
    struct sched_req reqs[MOST];
    struct answer answers[MOST];
    struct sched_user users[USERS];
    uint32_t n, pool, look;
    uint64_t steps, computed, needed;
    uint64_t rnd;
};

static uint64_t scratch[MOST * 16];

static uint32_t draw(struct machine *m, uint32_t n)
{
    m->rnd = m->rnd * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->rnd >> 33) % n;
}

static uint32_t blocks(uint32_t tokens)
{
    return (tokens + BLOCK - 1) / BLOCK;
}

static void init(struct machine *m, const struct load *l, uint64_t seed)
{
    *m = (struct machine){.rnd = seed, .look = l->look, .pool = l->fit * blocks(l->prompt + l->max)};
    sched_config_init(&m->c, l->parallel, l->batch);
    sched_time_init(&m->b.time);
    m->c.prefill_units = l->prefill_units;
    for (uint32_t i = 0; i < l->users * l->per_user; i++) {
        struct answer *a = &m->answers[m->n];
        a->prompt = l->prompt - draw(m, l->prompt / 4);
        a->max = 1 + l->max - draw(m, l->max);
        m->needed += a->prompt + a->max;
        m->reqs[m->n++] = (struct sched_req){.arrival = i + 1,
                                             .user = i % l->users,
                                             .known = a->prompt,
                                             .blocks = blocks(a->prompt + a->max),
                                             .group = SCHED_NONE,
                                             .class = SCHED_CLASS_INTERACTIVE};
    }
}

static uint32_t held(const struct machine *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) n += m->reqs[i].running ? m->reqs[i].blocks : blocks(m->answers[i].kept);
    return n;
}

/* The KV of those that wait is lost while it is too much, the oldest first. */
static void evict(struct machine *m)
{
    while (held(m) > m->pool) {
        uint32_t first = MOST;
        for (uint32_t i = 0; i < m->n; i++)
            if (m->answers[i].kept && (first == MOST || m->answers[i].used < m->answers[first].used)) first = i;
        assert_true(first < MOST);
        m->answers[first].kept -= 1 + (m->answers[first].kept - 1) % BLOCK;
    }
}

static void start(struct machine *m, uint32_t i)
{
    struct sched_req *r = &m->reqs[i];
    assert_false(r->running);
    r->running = true;
    r->spent = r->redone = 0;
    r->computed = m->answers[i].kept < r->known ? m->answers[i].kept : r->known - 1;
    m->answers[i].kept = 0;
    evict(m);
}

static void preempt(struct machine *m, uint32_t i)
{
    struct sched_req *r = &m->reqs[i];
    assert_true(r->running);
    r->running = false;
    r->since = m->b.clock;
    m->answers[i].kept = r->computed;
    m->answers[i].used = m->steps;
    m->answers[i].looked = 0;
}

static void decide(struct machine *m, struct sched_state *s)
{
    struct sched_action out[MOST];
    uint32_t running = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        struct sched_req *r = &m->reqs[i];
        struct answer *a = &m->answers[i];
        running += r->running ? r->blocks : 0;
        if (r->running || (a->looked && m->steps + 1 < a->looked + m->look)) continue;
        r->computed = a->kept < r->known ? a->kept : r->known - 1;
        a->looked = m->steps + 1;
    }
    *s = (struct sched_state){m->reqs, m->n, m->users, USERS, m->steps, m->pool - running};
    uint32_t n = sched_decide(&m->c, &m->b, s, scratch, out);
    for (uint32_t k = 0; k < n; k++)
        if (out[k].reason == SCHED_START)
            start(m, out[k].index);
        else
            preempt(m, out[k].index);
}

static void advance(struct machine *m, const struct sched_run *run)
{
    struct sched_req *r = &m->reqs[run->index];
    struct answer *a = &m->answers[run->index];
    uint32_t again = a->reached > r->computed ? a->reached - r->computed : 0;
    r->spent += sched_units(&m->c, r, run->n);
    r->redone += sched_units(&m->c, r, again < run->n ? again : run->n);
    r->computed += run->n;
    if (a->reached < r->computed) a->reached = r->computed;
    r->last_step = m->steps;
    m->computed += run->n;
    if (!run->logits) return;
    a->generated++;
    r->decoding = true;
    r->known++;
}

static void step(struct machine *m)
{
    struct sched_run runs[MOST];
    struct sched_load load;
    struct sched_state s;
    decide(m, &s);
    m->steps++;
    uint32_t n = sched_step(&m->c, &m->b, &s, scratch, runs, &load);
    sched_done(&m->c, &m->b, &s, runs, n, &load, load.prefill + load.decode);
    for (uint32_t k = 0; k < n; k++) advance(m, &runs[k]);
    for (uint32_t i = m->n; i-- > 0;) {
        if (m->answers[i].generated < m->answers[i].max) continue;
        m->n--;
        m->reqs[i] = m->reqs[m->n];
        m->answers[i] = m->answers[m->n];
    }
}

static void run(const struct load *l, uint64_t seed)
{
    struct machine m;
    init(&m, l, seed);
    while (m.n && m.computed < TIMES_MOST * m.needed) step(&m);
    if (m.n)
        fail_msg("%u requests left: parallel %u, batch %u, units %u, prompt %u, answer %u, fit %u, look %u", m.n,
                 l->parallel, l->batch, l->prefill_units, l->prompt, l->max, l->fit, l->look);
}

/* All requests end after at most TIMES_MOST times the tokens that they need. */
static void test_all_end(void **state)
{
    (void)state;
    static const uint32_t prompts[] = {60, 250, 400, 1000, 3000}, batches[] = {16, 64, 512}, looks[] = {1, 32};
    for (unsigned p = 0; p < 5; p++)
        for (unsigned b = 0; b < 3; b++)
            for (unsigned k = 0; k < 2; k++)
                for (uint32_t units = 1; units <= 4; units++)
                    for (uint32_t fit = 1; fit <= 3; fit += 2) {
                        run(&(struct load){fit, batches[b], units, 5, 2, prompts[p], 40, fit, looks[k]}, p);
                        run(&(struct load){4 * fit, batches[b], units, 5, 2, prompts[p], 300, fit, looks[k]}, p);
                    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_end)};
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
