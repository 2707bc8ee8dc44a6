/* SPDX-License-Identifier: MIT */
/*
 * Decisions and batches are those of the simple implementation (naive.h): for random tables whose numbers are small, so
 * that every comparison meets equal numbers, and for the states of random schedules (fixture.h).
 */
#include "tests/sched/fixture.h"
#include "tests/sched/naive.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct table {
    struct sched_config c;
    struct sched_book b;
    struct sched_req reqs[NAIVE_MOST];
    struct sched_user users[8];
    struct sched_state s;
};

static uint64_t drawn = 1;

static uint32_t draw(uint32_t n)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % n;
}

/* --- comparisons --- */

static unsigned compared, open;

uint32_t __real_sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                             void *scratch, struct sched_action *out);
uint32_t __real_sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                           void *scratch, struct sched_run *out, struct sched_load *load);
void __real_sched_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                       const struct sched_run *runs, uint32_t n, const struct sched_load *load, double ms);

uint32_t __wrap_sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                             void *scratch, struct sched_action *out);
uint32_t __wrap_sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                           void *scratch, struct sched_run *out, struct sched_load *load);
void __wrap_sched_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                       const struct sched_run *runs, uint32_t n, const struct sched_load *load, double ms);

uint32_t __wrap_sched_decide(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                             void *scratch, struct sched_action *out)
{
    static struct naive_decision d;
    bool known = naive_decide(c, b, s, &d);
    uint32_t n = __real_sched_decide(c, b, s, scratch, out);
    compared++;
    open += !known;
    if (!known) return n;
    assert_int_equal(n, d.n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(out[i].index, d.out[i].index);
        assert_int_equal(out[i].reason, d.out[i].reason);
    }
    for (uint32_t u = 0; u < s->n_users; u++) {
        assert_int_equal(s->users[u].served, d.users[u].served);
        assert_int_equal(s->users[u].waited, d.users[u].waited);
    }
    assert_int_equal(b->floor, d.floor);
    return n;
}

static void assert_load(const struct sched_load *a, const struct sched_load *b)
{
    assert_int_equal(a->decode, b->decode);
    assert_int_equal(a->prefill, b->prefill);
    assert_int_equal(a->draft, b->draft);
    assert_true(fabs(a->decode_kv - b->decode_kv) < 1e-6 && fabs(a->prefill_kv - b->prefill_kv) < 1e-6);
    assert_int_equal(a->express, b->express);
    assert_int_equal(a->no_prefill, b->no_prefill);
    assert_int_equal(a->untried, b->untried);
    assert_int_equal(a->due, b->due);
}

uint32_t __wrap_sched_step(const struct sched_config *c, const struct sched_book *b, const struct sched_state *s,
                           void *scratch, struct sched_run *out, struct sched_load *load)
{
    static struct naive_batch naive;
    uint32_t n = __real_sched_step(c, b, s, scratch, out, load), parts = 0;
    naive_step(c, b, s, out, n, &naive);
    compared++;
    for (uint32_t i = 0; i < s->n; i++) parts += naive.runs[i].n > 0;
    assert_int_equal(n, parts);
    for (uint32_t i = 0; i < n; i++) {
        const struct sched_run *r = &naive.runs[out[i].index];
        assert_int_equal(out[i].n, r->n);
        assert_int_equal(out[i].draft, r->draft);
        assert_int_equal(out[i].logits, r->logits);
    }
    assert_load(load, &naive.load);
    return n;
}

void __wrap_sched_done(const struct sched_config *c, struct sched_book *b, const struct sched_state *s,
                       const struct sched_run *runs, uint32_t n, const struct sched_load *load, double ms)
{
    struct sched_user users[NAIVE_MOST];
    struct sched_book naive = *b;
    struct sched_state copy = *s;
    copy.users = users;
    memcpy(users, s->users, s->n_users * sizeof(*users));
    naive_done(c, &naive, &copy, runs, n, load);
    sched_time_learn(&naive.time, load, ms);
    __real_sched_done(c, b, s, runs, n, load, ms);
    for (uint32_t u = 0; u < s->n_users; u++) {
        assert_int_equal(s->users[u].served, users[u].served);
        assert_int_equal(s->users[u].decoded, users[u].decoded);
    }
    assert_memory_equal(b->time.ms, naive.time.ms, sizeof(naive.time.ms));
    assert_int_equal(b->steps, naive.steps);
    assert_int_equal(b->clock, naive.clock);
    assert_int_equal(b->forgot, naive.forgot);
    assert_int_equal(b->due_step, naive.due_step);
    assert_int_equal(b->express, naive.express);
    assert_int_equal(b->short_left, naive.short_left);
    assert_int_equal(b->untried, naive.untried);
    assert_int_equal(b->since_prefill, naive.since_prefill);
}

static void check_queue(const struct table *t, void *scratch)
{
    uint32_t pos[NAIVE_MOST], want[NAIVE_MOST], queue = draw(8), user = draw(t->s.n_users);
    bool preempted[NAIVE_MOST] = {false}, some = draw(2);
    enum sched_class class = draw(SCHED_CLASSES);
    sched_positions(&t->c, &t->s, scratch, pos);
    naive_positions(&t->c, &t->s, want);
    assert_memory_equal(pos, want, t->s.n * sizeof(*pos));
    for (uint32_t i = 0; some && i < t->s.n; i++) preempted[i] = draw(3) == 0;
    assert_int_equal(sched_refuse(&t->s, some ? preempted : NULL, queue, user, class, scratch),
                     naive_refuse(&t->s, preempted, queue, user, class));
}

/* --- random tables --- */

/* @whole: the times are small integers, so that sums of them are equal. */
static void draw_time(struct sched_time *time, bool whole)
{
    sched_time_init(time);
    time->samples = draw(6) > 0;
    for (int i = 0; i < SCHED_TIME_TERMS && !whole && draw(2); i++) time->ms[i] *= (1 + draw(16)) / 8.0;
    if (!whole) return;
    for (int i = 0; i < SCHED_TIME_TERMS; i++) time->ms[i] = 1 + draw(2);
    time->ms[SCHED_TIME_FIXED] = draw(8);
    time->ms[SCHED_TIME_DECODE_KV] = time->ms[SCHED_TIME_PREFILL_KV] = 0;
}

static void draw_users(struct table *t)
{
    t->s = (struct sched_state){.reqs = t->reqs, .users = t->users, .n_users = 1 + draw(6), .now_ms = 4 + draw(4)};
    for (uint32_t u = 0; u < t->s.n_users; u++)
        t->users[u] = (struct sched_user){.served = draw(draw(2) ? 8 : 40), .decoded = draw(4), .waited = draw(2)};
    t->s.free_blocks = draw(8) ? draw(12) : 1000;
    t->b = (struct sched_book){.clock = 100, .floor = draw(12), .steps = 12, .due_step = 2 + draw(4)};
    t->b.forgot = 20 + draw(40);
    t->b.since_prefill = 6 + draw(4);
    t->b.short_left = draw(3);
    t->b.untried = 63 + draw(3);
    t->b.express = draw(3) == 0;
    draw_time(&t->b.time, draw(4) == 0);
}

static void draw_config(struct table *t)
{
    struct sched_config *c = &t->c;
    sched_config_init(c, 1 + draw(draw(9) ? 6 : 96), 1 + draw(24));
    c->parallel_batch = c->parallel + draw(draw(2) ? 4 : 40);
    c->parallel_most = c->parallel_batch + draw(draw(2) ? 4 : 40);
    c->prefill_units = 1 + draw(3);
    c->quantum = draw(6);
    c->yield_ms = draw(4);
    c->patience = draw(6);
    c->express_tokens = draw(5);
    c->express_lead = draw(6);
    c->express_part = 1 + draw(3);
    c->step_ms = 10 + draw(30);
    c->prefill_min = 1 + draw(4);
    c->prefill_due = 1 + draw(6);
    c->short_tokens = 1 + draw(8);
    c->forget = 1 + draw(100);
    if (draw(2)) c->express_ratio = 1 + draw(4);
    if (draw(2)) c->short_ratio = 1 + draw(4);
}

/* @chain: each waits for the one before it. @answers: most decode. */
static void draw_req(struct table *t, bool chain, bool answers)
{
    static const float chances[] = {0.9f, 0.8f, 0.5f, 0.5f, 0.2f, 0.01f, 0};
    uint32_t i = t->s.n++, spent = draw(8);
    struct sched_req *r = &t->reqs[i];
    *r = (struct sched_req){
        .arrival = i * 61 % 97,
        .last_step = draw(5),
        .since = 94 + draw(7),
        .paused_ms = 2 + draw(5),
        .user = draw(t->s.n_users),
        .computed = draw(40),
        .spent = spent,
        .redone = draw(2) ? 0 : draw(spent + 1),
        .blocks = draw(draw(4) ? 3 : 9),
        .group = chain && i ? i - 1
                 : draw(2)  ? SCHED_NONE
                            : draw(i + 1),
        .shared = chain + draw(3),
        .class = (uint8_t)draw(SCHED_CLASSES),
        .running = answers || (chain ? draw(12) == 0 : draw(2)),
        .decoding = draw(answers ? 12 : 2),
        .paused = draw(8) == 0,
        .busy = draw(12) == 0,
    };
    uint32_t left = r->decoding && draw(4) ? 1 : 1 + draw(draw(2) ? 4 : 12);
    r->known = r->computed + (r->running && draw(12) == 0 ? 0 : left);
    if (r->running && draw(3) == 0) r->stretch = 1 + draw(8);
    r->whole = r->stretch && draw(2);
    r->draft = draw(3) ? 0 : draw(4);
    r->chance = draw(2) ? NULL : chances + draw(4);
}

static void draw_table(struct table *t)
{
    draw_users(t);
    draw_config(t);
    uint32_t n = 1 + draw(draw(20) ? 14 : NAIVE_MOST - 1);
    bool chain = draw(10) == 0, answers = draw(5) == 0, batch = draw(5) == 0;
    while (t->s.n < n) draw_req(t, chain, answers);
    for (uint32_t i = draw(3) == 0; batch && i < n; i++)
        t->reqs[i].class = SCHED_CLASS_BATCH; /* of all, or all but one */
}

static void test_random_tables(void **state)
{
    static struct table t;
    static uint64_t scratch[NAIVE_MOST * 16];
    struct sched_action actions[NAIVE_MOST];
    struct sched_run runs[NAIVE_MOST];
    struct sched_load load;
    for (unsigned i = 0; i < 60000; i++) {
        draw_table(&t);
        sched_decide(&t.c, &t.b, &t.s, scratch, actions);
        uint32_t n = sched_step(&t.c, &t.b, &t.s, scratch, runs, &load);
        check_queue(&t, scratch);
        if (draw(3) == 0) load.due = draw(2), load.express = draw(2), load.untried = draw(2), load.no_prefill = draw(2);
        sched_done(&t.c, &t.b, &t.s, runs, n, &load, 1 + draw(90));
    }
    assert_true(open * 3 < compared);
}

static void test_random_schedules(void **state)
{
    static struct fixture g;
    for (uint64_t seed = 1; seed < 6; seed++) {
        fixture_init(&g, seed);
        for (uint64_t until = g.steps + 1000; g.steps < until;) fixture_step(&g);
        fixture_drain(&g);
    }
    assert_true(open * 3 < compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_tables), cmocka_unit_test(test_random_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
