/* SPDX-License-Identifier: MIT */
/* Stretches that one step computes whole: examples, and what holds for every state. */
#include "daemon/sched/scheduler.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 40

struct table {
    struct sched_config c;
    struct sched_book b;
    struct sched_req reqs[MOST];
    struct sched_user users[4];
    struct sched_state s;
    struct sched_run out[MOST];
    struct sched_load load;
    uint32_t n_out;
};

static uint64_t drawn = 1;

static uint32_t draw(uint32_t n)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % n;
}

/* A machine that takes 10 ms for a step, 1 for a token of either kind. */
static void table_init(struct table *t, uint32_t batch_tokens)
{
    memset(t, 0, sizeof(*t));
    sched_config_init(&t->c, MOST, batch_tokens);
    t->b.time = (struct sched_time){.ms = {10, 1, 1, 0, 0}, .samples = 1};
    t->s = (struct sched_state){.reqs = t->reqs, .users = t->users, .n_users = 4};
}

static struct sched_req *add(struct table *t, uint32_t user, uint32_t computed, uint32_t known)
{
    struct sched_req *r = &t->reqs[t->s.n++];
    *r = (struct sched_req){
        .arrival = t->s.n,
        .user = user,
        .computed = computed,
        .known = known,
        .group = SCHED_NONE,
        .class = SCHED_CLASS_INTERACTIVE,
        .running = true,
    };
    return r;
}

static struct sched_req *add_answer(struct table *t, uint32_t user)
{
    struct sched_req *r = add(t, user, 7, 8);
    r->decoding = true;
    return r;
}

static struct sched_req *add_whole(struct table *t, uint32_t user, uint32_t computed, uint32_t known, uint32_t n)
{
    struct sched_req *r = add(t, user, computed, known);
    r->stretch = n;
    r->whole = true;
    return r;
}

static void step(struct table *t)
{
    void *scratch = malloc(sched_scratch_size(t->s.n, t->s.n_users));
    assert_non_null(scratch);
    t->s.reqs = t->reqs, t->s.users = t->users;
    t->n_out = sched_step(&t->c, &t->b, &t->s, scratch, t->out, &t->load);
    free(scratch);
}

static void done(struct table *t)
{
    sched_done(&t->c, &t->b, &t->s, t->out, t->n_out, &t->load, 0);
}

/* Tokens of request @index in the step. */
static uint32_t tokens_of(const struct table *t, const struct sched_req *r)
{
    for (uint32_t i = 0; i < t->n_out; i++)
        if (&t->reqs[t->out[i].index] == r) return t->out[i].n;
    return 0;
}

/* --- examples --- */

/* A stretch that does not fit behind others waits, and who comes behind it does not. */
static void test_fits_or_waits(void **state)
{
    struct table t;
    table_init(&t, 64);
    const struct sched_req *first = add(&t, 0, 0, 40), *run = add_whole(&t, 0, 100, 150, 30),
                           *last = add(&t, 0, 0, 900);
    step(&t);
    assert_int_equal(tokens_of(&t, first), 40);
    assert_int_equal(tokens_of(&t, run), 0);
    assert_int_equal(tokens_of(&t, last), 24);
    t.reqs[1].stretch = 24;
    step(&t);
    assert_int_equal(tokens_of(&t, run), 24);
    assert_int_equal(tokens_of(&t, last), 0);
    t.reqs[0].computed = 40;
    t.reqs[1].stretch = 64;
    t.reqs[1].known = 164;
    step(&t);
    assert_int_equal(t.n_out, 1);
    assert_int_equal(tokens_of(&t, run), 64);
    assert_true(t.out[0].logits && !t.load.due);
}

/* Beside an answer it has no time: it is due once in prefill_gap steps, and other prompts use the time in between. */
static void test_due_beside_an_answer(void **state)
{
    struct table t;
    uint32_t runs = 0, others = 0;
    table_init(&t, 512);
    const struct sched_req *answer = add_answer(&t, 0), *run = add_whole(&t, 1, 0, 300, 256),
                           *other = add(&t, 2, 0, 100000);
    for (uint32_t i = 0; i < 90; i++) {
        step(&t);
        const uint32_t n = tokens_of(&t, run);
        assert_int_equal(tokens_of(&t, answer), 1);
        assert_true(n == 0 || n == 256);
        assert_int_equal(t.load.due, n > 0);
        runs += n > 0;
        others += tokens_of(&t, other) > 0;
        done(&t);
    }
    assert_in_range(runs, 9, 11);
    assert_in_range(others, 78, 82);
    assert_true(t.users[1].served >= (uint64_t)runs * 200 * t.c.prefill_units); /* less what has decayed */
}

/* Answers that take all tokens leave room for it, then have their turns. */
static void test_due_in_place_of_answers(void **state)
{
    struct table t;
    uint32_t runs = 0, answers = 0;
    table_init(&t, 16);
    for (int i = 0; i < 20; i++) add_answer(&t, 0);
    const struct sched_req *run = add_whole(&t, 0, 0, 1000, 16);
    for (uint64_t i = 1; i <= 90; i++) {
        step(&t);
        runs += tokens_of(&t, run) == 16;
        answers += t.load.decode;
        assert_true(t.load.prefill == 0 || t.load.prefill == 16);
        assert_int_equal(t.load.prefill + t.load.decode, 16);
        done(&t);
    }
    assert_in_range(runs, 9, 10);
    assert_int_equal(answers, (90 - runs) * 16);
}

/* Of several the first by account, class and arrival. */
static void test_whose_is_due(void **state)
{
    struct table t;
    table_init(&t, 256);
    t.b.steps = 100;
    t.b.express = true; /* none now */
    for (uint32_t u = 0; u < 3; u++) t.users[u].served = 100 - 30 * (u == 1);
    add_answer(&t, 3);
    add_whole(&t, 0, 0, 200, 200);
    const struct sched_req *late = add_whole(&t, 1, 0, 200, 200), *batch = add_whole(&t, 1, 0, 200, 200);
    t.reqs[2].arrival = 10;
    t.reqs[3].class = SCHED_CLASS_BATCH;
    const struct sched_req *high = add_whole(&t, 1, 0, 200, 200);
    t.reqs[4].arrival = 11;
    t.reqs[4].class = SCHED_CLASS_INFILL;
    step(&t);
    assert_true(t.load.due && tokens_of(&t, high) == 200 && t.n_out == 2);
    t.reqs[4].paused = true;
    step(&t);
    assert_true(t.load.due && tokens_of(&t, late) == 200 && t.n_out == 2);
    t.reqs[2].running = false;
    step(&t);
    assert_true(t.load.due && tokens_of(&t, batch) == 200 && t.n_out == 2);
    t.users[1].served = 101;
    step(&t);
    assert_true(t.load.due && t.out[1].index == 1);
    t.b.due_step = 93;
    step(&t);
    assert_true(!t.load.due && t.n_out == 1);
}

/* An express step takes all of a stretch, where it would take a part of another prompt. */
static void test_express(void **state)
{
    struct table t;
    table_init(&t, 64);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    for (int i = 0; i < 20; i++) add_answer(&t, 0);
    struct sched_req *r = add(&t, 1, 300, 310);
    step(&t);
    assert_true(t.load.express && tokens_of(&t, r) == t.c.express_part);
    r->stretch = 10;
    r->whole = true;
    step(&t);
    assert_true(t.load.express && tokens_of(&t, r) == 10);
}

/* No step with a stretch is shortened, and none is left without any token. */
static void test_short_steps(void **state)
{
    struct table t;
    table_init(&t, 64);
    t.b.short_left = 4;
    t.b.express = true; /* none now */
    const struct sched_req *run = add_whole(&t, 0, 0, 60, 60);
    add_whole(&t, 1, 0, 60, 60);
    step(&t);
    assert_int_equal(tokens_of(&t, run), 60);
    const struct sched_req *answer = add_answer(&t, 2);
    step(&t);
    assert_int_equal(tokens_of(&t, answer), 1);
    assert_int_equal(t.load.prefill, 0);
    t.b.steps = 20;
    step(&t);
    assert_int_equal(tokens_of(&t, answer), 1);
    assert_int_equal(t.load.prefill, 60);
}

/* --- any state --- */

static bool is_ready(const struct sched_req *r)
{
    return r->running && !r->paused && r->computed < r->known;
}

static bool decodes(const struct sched_req *r)
{
    return r->decoding && r->known - r->computed == 1;
}

static void random_table(struct table *t)
{
    table_init(t, 1 + draw(600));
    for (int i = 0; i < SCHED_TIME_TERMS; i++) t->b.time.ms[i] = (double)draw(1000) / 50;
    t->b.steps = draw(20);
    t->b.due_step = draw((uint32_t)t->b.steps + 1);
    t->b.since_prefill = draw((uint32_t)(t->b.steps - t->b.due_step) + 1);
    t->b.express = draw(2);
    t->b.short_left = draw(2);
    for (uint32_t i = 0, n = draw(MOST + 1); i < n; i++) {
        const bool decoding = draw(2);
        const uint32_t left = decoding && draw(8) ? 1 : 1 + draw(300);
        struct sched_req *r = add(t, draw(4), draw(3000), 0);
        r->known = r->computed + left;
        r->decoding = decoding;
        r->paused = draw(5) == 0;
        r->running = draw(5) > 0;
        r->last_step = draw(4);
        r->class = (uint8_t)draw(SCHED_CLASSES);
        if (left > 1 && draw(2)) r->stretch = 1 + draw(left < t->c.batch_tokens ? left : t->c.batch_tokens);
        r->whole = r->stretch && draw(2);
        r->draft = draw(3);
        t->users[r->user].served = draw(1000);
    }
}

/* The first by account, class and arrival of those with a whole stretch. */
static const struct sched_req *first_whole(const struct table *t)
{
    const struct sched_req *best = NULL;
    for (uint32_t i = 0; i < t->s.n; i++) {
        const struct sched_req *r = &t->reqs[i];
        if (!is_ready(r) || decodes(r) || !r->whole) continue;
        if (!best) best = r;
        const uint64_t a = t->users[r->user].served, b = t->users[best->user].served;
        const bool own =
            r->user == best->user && (r->class != best->class ? r->class < best->class : r->arrival < best->arrival);
        if (a < b || (a == b && r->user < best->user) || own) best = r;
    }
    return best;
}

static void check(const struct table *t)
{
    uint32_t tokens = 0, ready = 0, draft = 0;
    bool in[MOST] = {false};
    for (uint32_t i = 0; i < t->n_out; i++) {
        const struct sched_run *run = &t->out[i];
        const struct sched_req *r = &t->reqs[run->index];
        assert_true(is_ready(r) && !in[run->index]);
        in[run->index] = true;
        assert_true(run->n > run->draft && r->computed + run->n - run->draft <= r->known);
        assert_true(!r->stretch || run->n - run->draft <= r->stretch);
        if (r->whole && !decodes(r)) assert_true(run->n == r->stretch && !run->draft);
        tokens += run->n;
        draft += run->draft;
    }
    for (uint32_t i = 0; i < t->s.n; i++) ready += is_ready(&t->reqs[i]);
    assert_true(tokens <= t->c.batch_tokens && tokens == t->load.prefill + t->load.decode + t->load.draft);
    assert_true(t->n_out > 0 || ready == 0);
    const struct sched_req *first = first_whole(t);
    const bool may = t->b.steps - t->b.due_step >= t->c.prefill_gap && !t->load.express;
    assert_int_equal(t->load.due, may && first);
    if (t->load.due) assert_int_equal(tokens_of(t, first), first->stretch);
    if (t->load.due || t->load.express || !t->load.decode || draft || t->b.since_prefill >= t->c.prefill_gap) return;
    struct sched_load alone = t->load;
    alone.prefill = 0, alone.prefill_kv = 0;
    double all = sched_time_of(&t->b.time, &t->load), of = sched_time_of(&t->b.time, &alone);
    /* short steps are limited by tokens */
    if (t->load.prefill && !t->b.short_left) assert_true(all <= 6.001 * of && (all <= 100.01 || all <= 1.2501 * of));
}

static void test_random_states(void **state)
{
    uint32_t due = 0, whole = 0;
    for (int round = 0; round < 30000; round++) {
        struct table t;
        random_table(&t);
        step(&t);
        check(&t);
        due += t.load.due;
        for (uint32_t i = 0; i < t.n_out; i++) whole += t.reqs[t.out[i].index].whole;
    }
    if (due < 3000 || whole < due + 500) fail_msg("%u due, %u in all", due, whole);
}

/* Requests of all kinds for ever: while stretches are ready, one is computed every few steps, and all in the end. */
static void test_progress(void **state)
{
    for (int round = 0; round < 200; round++) {
        struct table t;
        uint32_t since = 0, left = 0;
        random_table(&t);
        t.b.steps = t.b.due_step = t.b.since_prefill = 0;
        for (uint32_t i = 0; i < t.s.n; i++) t.reqs[i].draft = 0;
        for (uint32_t k = 0; k < 3000; k++) {
            step(&t);
            check(&t);
            bool any = first_whole(&t), some = false;
            for (uint32_t i = 0; i < t.n_out; i++) {
                struct sched_req *r = &t.reqs[t.out[i].index];
                some |= r->whole;
                r->last_step = k;
                r->computed += t.out[i].n;
                r->stretch = 0;
                r->whole = false;
                if (r->computed == r->known) r->known++, r->decoding = true;
            }
            since = any && !some ? since + 1 : 0;
            assert_true(since <= t.c.prefill_gap + 2);
            done(&t);
        }
        for (uint32_t i = 0; i < t.s.n; i++) left += is_ready(&t.reqs[i]) && t.reqs[i].whole && !decodes(&t.reqs[i]);
        assert_int_equal(left, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits_or_waits),
        cmocka_unit_test(test_due_beside_an_answer),
        cmocka_unit_test(test_due_in_place_of_answers),
        cmocka_unit_test(test_whose_is_due),
        cmocka_unit_test(test_express),
        cmocka_unit_test(test_short_steps),
        cmocka_unit_test(test_random_states),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
