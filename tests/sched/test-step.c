/* SPDX-License-Identifier: MIT */
/* The batch: examples, and what holds for every state. */
#include "daemon/sched/scheduler.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64

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

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

/* A machine that takes 10 ms for a step, 1 for a token of either kind. */
static void table_init(struct table *t, uint32_t batch_tokens)
{
    memset(t, 0, sizeof(*t));
    sched_config_init(&t->c, MOST, batch_tokens);
    t->b.time = (struct sched_time){.ms = {10, 1, 1, 0, 0}, .samples = 1};
    t->s = (struct sched_state){.reqs = t->reqs, .users = t->users, .n_users = 4};
}

static struct sched_req *add(struct table *t, uint32_t user, uint32_t computed, uint32_t known, bool decoding)
{
    struct sched_req *r = &t->reqs[t->s.n++];
    *r = (struct sched_req){
        .arrival = t->s.n,
        .user = user,
        .computed = computed,
        .known = known,
        .decoding = decoding,
        .group = SCHED_NONE,
        .class = SCHED_CLASS_INTERACTIVE,
        .running = true,
    };
    return r;
}

static void step(struct table *t)
{
    void *scratch = malloc(sched_scratch_size(t->s.n, t->s.n_users));
    assert_non_null(scratch);
    t->n_out = sched_step(&t->c, &t->b, &t->s, scratch, t->out, &t->load);
    free(scratch);
}

static void assert_run(const struct table *t, uint32_t at, uint32_t index, uint32_t n, bool logits)
{
    assert_true(at < t->n_out);
    assert_int_equal(t->out[at].index, index);
    assert_int_equal(t->out[at].n, n);
    assert_int_equal(t->out[at].logits, logits);
}

static void test_prefill_alone_fills_the_step(void **state)
{
    struct table t;
    table_init(&t, 512);
    add(&t, 0, 0, 300, false);
    add(&t, 0, 0, 900, false);
    step(&t);
    assert_int_equal(t.n_out, 2);
    assert_run(&t, 0, 0, 300, true);
    assert_run(&t, 1, 1, 212, false);
    assert_int_equal(t.load.prefill, 512);
}

/* A part ends with its stretch, which leaves room for others; it is no first token then. */
static void test_stretch(void **state)
{
    struct table t;
    table_init(&t, 64);
    add(&t, 0, 100, 150, false)->stretch = 20;
    add(&t, 0, 0, 30, false)->stretch = 30;
    add(&t, 0, 0, 900, false);
    step(&t);
    assert_int_equal(t.n_out, 3);
    assert_run(&t, 0, 0, 20, false);
    assert_run(&t, 1, 1, 30, true);
    assert_run(&t, 2, 2, 14, false);
    assert_int_equal(t.load.prefill, 64);
    table_init(&t, 64);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    for (int i = 0; i < 20; i++) add(&t, 0, 7, 8, true);
    struct sched_req *r = add(&t, 1, 300, 310, false);
    step(&t);
    assert_true(t.load.express);
    r->stretch = 9;
    step(&t);
    assert_false(t.load.express);
}

/* No part of a request for which an image is encoded; it shares no time either. */
static void test_busy(void **state)
{
    struct table t;
    table_init(&t, 64);
    add(&t, 0, 100, 150, false)->busy = true;
    add(&t, 1, 99, 100, true)->busy = true;
    add(&t, 2, 0, 900, false);
    step(&t);
    assert_int_equal(t.n_out, 1);
    assert_run(&t, 0, 2, 64, false);
}

/* Of more batch requests than there are slots for all classes, as many decode beside another request as before: of each
 * user in turn, the higher class first, then the one that waits longest. */
static void test_batches_beside_others(void **state)
{
    struct table t;
    table_init(&t, 64);
    t.c.parallel = 4;
    t.b.express = true; /* no two express steps follow each other */
    for (int i = 0; i < 8; i++) {
        struct sched_req *r = add(&t, i / 4, 9, 10, true);
        r->class = SCHED_CLASS_BATCH;
        r->last_step = 9 - (uint64_t)i;
    }
    step(&t);
    assert_int_equal(t.n_out, 8); /* no other request */
    t.users[0].decoded = 1;
    t.reqs[0].class = SCHED_CLASS_INTERACTIVE;
    step(&t);
    assert_int_equal(t.n_out, 4);
    assert_run(&t, 0, 7, 1, true);
    assert_run(&t, 1, 0, 1, true);
    assert_run(&t, 2, 6, 1, true);
    assert_run(&t, 3, 3, 1, true);
    t.reqs[0].paused = true;
    step(&t);
    assert_int_equal(t.n_out, 7);
    add(&t, 0, 0, 3, false); /* its prompt is enough */
    step(&t);
    assert_int_equal(t.n_out, 5);
    assert_int_equal(t.load.decode, 4);
}

static void test_decode_first(void **state)
{
    struct table t;
    table_init(&t, 64);
    add(&t, 0, 0, 100, false);
    add(&t, 0, 7, 8, true);
    add(&t, 1, 9, 10, true);
    add(&t, 1, 9, 10, true)->paused = true;
    add(&t, 1, 9, 10, true)->running = false;
    step(&t);
    assert_int_equal(t.n_out, 3);
    assert_run(&t, 0, 1, 1, true);
    assert_run(&t, 1, 2, 1, true);
    assert_run(&t, 2, 0, 32, false); /* 4 steps of one user's token, 44 ms, less 12 ms */
    assert_int_equal(t.load.decode, 2);
}

/* 6 times a decode-only step of 11 ms, or 100 ms, whichever is less. */
static void test_prefill_beside_decode_is_bounded(void **state)
{
    struct table t;
    table_init(&t, 512);
    add(&t, 0, 7, 8, true);
    add(&t, 0, 0, 1000, false);
    step(&t);
    assert_run(&t, 1, 1, 55, false); /* 66 ms - 11 ms */
    t.b.time.ms[SCHED_TIME_FIXED] = 30;
    step(&t);
    assert_run(&t, 1, 1, 69, false); /* 100 ms - 31 ms */
    t.b.time.ms[SCHED_TIME_PREFILL] = 0.1;
    step(&t);
    assert_run(&t, 1, 1, 511, false);
    t.b.time.ms[SCHED_TIME_PREFILL_KV] = 1; /* 7 kept: attention at depth */
    t.reqs[1].computed = 992;
    t.reqs[1].known = 5000;
    step(&t);
    assert_run(&t, 1, 1, 61, false);
}

/* Of requests of class batch it is 100 ms, until one of another class has tokens to compute. */
static void test_prefill_beside_batches_alone(void **state)
{
    struct table t;
    table_init(&t, 512);
    add(&t, 0, 7, 8, true)->class = SCHED_CLASS_BATCH;
    add(&t, 0, 0, 1000, false)->class = SCHED_CLASS_BATCH;
    step(&t);
    assert_run(&t, 1, 1, 89, false);
    struct sched_req *r = add(&t, 0, 7, 8, true);
    step(&t);
    assert_run(&t, 2, 1, 60, false); /* 6 * 12 ms - 12 ms */
    r->paused = true;
    step(&t);
    assert_run(&t, 1, 1, 89, false);
}

/* With others it is 4 times a step of one token, 11 ms, however many there are, or twice that of all. */
static void test_prefill_beside_other_users_is_bounded(void **state)
{
    struct table t;
    table_init(&t, 512);
    add(&t, 0, 0, 1000, false);
    for (int i = 0; i < 10; i++) add(&t, 1, 7, 8, true);
    step(&t);
    assert_run(&t, 10, 0, 24, false); /* 44 ms - 20 ms */
    for (int i = 0; i < 30; i++) add(&t, 1, 7, 8, true);
    step(&t);
    assert_run(&t, 40, 0, 50, false); /* 100 ms - 50 ms */
    t.users[0].served = t.c.quantum;  /* user 1 is behind */
    step(&t);
    assert_run(&t, 40, 0, 25, false); /* 75 ms - 50 ms */
    for (int i = 1; i < 41; i++) t.reqs[i].paused = i > 1;
    step(&t);
    assert_run(&t, 1, 0, 22, false); /* 33 ms - 11 ms */
    t.users[1].served = 1;
    step(&t);
    assert_run(&t, 1, 0, 33, false); /* 44 ms - 11 ms */
}

/* A first token that is nearly there does not wait for many others' answers, but in every other step they come first;
 * it does wait when its user has had more than others, or when it saves little. One answer of a user who has had as
 * little goes on. */
static void test_first_tokens_alone(void **state)
{
    struct table t;
    table_init(&t, 512);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    for (int i = 0; i < 20; i++) add(&t, 0, 7, 8, true);
    add(&t, 1, 300, 301, false);
    add(&t, 1, 9, 10, true);
    add(&t, 2, 300, 400, false);
    step(&t);
    assert_int_equal(t.n_out, 3);
    assert_run(&t, 0, 0, 1, true);
    assert_run(&t, 1, 20, 1, true);
    assert_run(&t, 2, 21, 1, true);
    assert_true(t.load.express);
    t.users[0].served = t.c.express_lead + 1;
    step(&t);
    assert_int_equal(t.n_out, 2);
    assert_run(&t, 0, 20, 1, true);
    assert_run(&t, 1, 21, 1, true);
    t.users[0].served = 0;
    t.b.express = true;
    step(&t);
    assert_true(t.n_out > 20 && !t.load.express);
    t.b.express = false;
    t.users[1].served = t.c.express_lead + 1;
    step(&t);
    assert_true(t.n_out > 20 && !t.load.express);
    t.users[1].served = 0;
    t.b.time.ms[SCHED_TIME_FIXED] = 100;
    step(&t);
    assert_true(t.n_out > 20 && !t.load.express);
}

/* Of several first tokens those that lack the fewest tokens come first, as many as fit into the time; then users decode
 * in turn, as many tokens as fit and at least two. */
static void test_express_is_short(void **state)
{
    struct table t;
    table_init(&t, 512);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    for (int i = 0; i < 20; i++) add(&t, 0, 7, 8, true);
    for (int i = 0; i < 3; i++) add(&t, 1, 300, 320, false);
    add(&t, 2, 300, 301, false);
    add(&t, 2, 9, 10, true)->last_step = 2;
    for (int i = 0; i < 2; i++) add(&t, 2, 9, 10, true)->last_step = 1;
    t.users[1].served = t.users[2].served = t.c.quantum / 2;
    step(&t);
    assert_true(t.load.express);
    assert_int_equal(t.n_out, 3); /* 7 ms, of 7.5 */
    assert_run(&t, 0, 0, 1, true);
    assert_run(&t, 1, 23, 1, true);
    assert_run(&t, 2, 25, 1, true);
    t.b.time.ms[SCHED_TIME_FIXED] = 8; /* 13 ms, of 13.5 */
    t.users[0].decoded = 2;
    t.users[2].decoded = 1;
    step(&t);
    assert_int_equal(t.n_out, 5);
    assert_run(&t, 0, 0, 1, true);
    assert_run(&t, 1, 1, 1, true);
    assert_run(&t, 2, 23, 1, true);
    assert_run(&t, 3, 25, 1, true);
    assert_run(&t, 4, 26, 1, true);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    t.reqs[23].paused = true;
    step(&t); /* one of 20 tokens takes longer: a part of it */
    assert_true(t.load.express);
    assert_int_equal(t.load.prefill, t.c.express_part);
    assert_run(&t, 1, 20, t.c.express_part, false);
    assert_int_equal(t.load.decode, 2);
}

/* After an express step, others are short for a while: the next first token waits for a few tokens only. Decoding takes
 * turns, and prompts go on. */
static void test_short_steps(void **state)
{
    struct table t;
    table_init(&t, 512);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    for (int i = 0; i < 20; i++) add(&t, 0, 7, 8, true);
    add(&t, 1, 0, 1000, false);
    struct sched_req *first = add(&t, 2, 300, 301, false);
    step(&t);
    assert_true(t.load.express);
    sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 0);
    first->paused = true;
    for (uint32_t n = 1; n <= t.c.short_steps; n++) {
        step(&t);
        assert_false(t.load.express);
        assert_int_equal(t.load.decode, t.c.short_tokens - t.c.short_tokens / 4);
        assert_int_equal(t.load.prefill, t.c.short_tokens / 4);
        for (uint32_t i = 0; i < t.n_out; i++) t.reqs[t.out[i].index].last_step = n;
        for (uint32_t i = 0; i < 20 && n >= 4; i++) assert_true(n - t.reqs[i].last_step < 4);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 0);
    }
    step(&t);
    assert_int_equal(t.load.decode, 20);
    t.b.short_left = 1;
    t.reqs[20].paused = true;
    step(&t);                            /* without prompts */
    assert_int_equal(t.load.decode, 20); /* of one user */
    t.reqs[0].user = 1;
    step(&t);
    assert_int_equal(t.load.decode, t.c.short_tokens);
    t.b.time.ms[SCHED_TIME_FIXED] = 100; /* a few more tokens take hardly longer */
    step(&t);
    assert_int_equal(t.load.decode, 20);
}

/* In a short step users decode in turn, so that none waits for another's many answers. */
static void test_short_steps_spread(void **state)
{
    struct table t;
    table_init(&t, 512);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    for (int i = 0; i < 20; i++) add(&t, 0, 7, 8, true)->last_step = 1;
    for (uint32_t u = 1; u < 3; u++) add(&t, u, 7, 8, true)->last_step = 9;
    t.b.express = true;
    t.b.short_left = 1;
    step(&t);
    assert_int_equal(t.n_out, t.c.short_tokens);
    uint32_t of[3] = {0};
    for (uint32_t i = 0; i < t.n_out; i++) of[t.reqs[t.out[i].index].user]++;
    assert_true(of[0] == t.c.short_tokens - 2 && of[1] == 1 && of[2] == 1);
}

/* A user with one answer waits no longer than one with many. */
static void test_turns_of_users(void **state)
{
    struct table t;
    uint64_t last[4] = {0};
    table_init(&t, 512);
    t.b.time.ms[SCHED_TIME_FIXED] = 4;
    t.c.short_tokens = 3;
    for (int i = 0; i < 40; i++) add(&t, (uint32_t)i % 13 ? (uint32_t)i % 3 : 3, 7, 8, true);
    for (uint64_t n = 1; n < 50; n++) {
        t.b.express = true;
        t.b.short_left = 1;
        step(&t);
        assert_int_equal(t.n_out, 3);
        for (uint32_t i = 0; i < t.n_out; i++) {
            t.reqs[t.out[i].index].last_step = n;
            last[t.reqs[t.out[i].index].user] = n;
        }
        for (uint32_t u = 0; u < 4 && n > 1; u++) assert_true(last[u] + 1 >= n);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 0);
    }
}

/* Where there is no room for a block of prompt beside the decoding, it gets one every few steps. */
static void test_prefill_never_starves(void **state)
{
    struct table t;
    uint32_t got = 0;
    table_init(&t, 512);
    t.b.time.ms[SCHED_TIME_FIXED] = 120;
    t.b.time.ms[SCHED_TIME_PREFILL] = 5;
    add(&t, 0, 7, 8, true);
    add(&t, 0, 0, 1000, false);
    for (int i = 0; i < 90; i++) {
        step(&t);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 0);
        got += t.load.prefill;
        assert_int_equal(t.load.decode, 1);
    }
    assert_int_equal(got, 10 * t.c.prefill_due);
}

/* Nor where the decoding takes all tokens of the step. */
static void test_prefill_never_starves_of_tokens(void **state)
{
    struct table t;
    uint32_t prefill = 0, decode = 0;
    table_init(&t, 16);
    for (int i = 0; i < 20; i++) add(&t, 0, 7, 8, true);
    add(&t, 0, 0, 1000, false);
    for (int i = 0; i < 90; i++) {
        step(&t);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 0);
        prefill += t.load.prefill;
        decode += t.load.decode;
    }
    assert_int_equal(prefill, 10 * 16);
    assert_int_equal(decode, 80 * 16);
}

static void test_prefill_by_account(void **state)
{
    struct table t;
    table_init(&t, 128);
    t.b.express = true; /* none now */
    t.users[0].served = 100;
    t.users[1].served = 40;
    add(&t, 0, 0, 1000, false);
    add(&t, 1, 0, 50, false);
    add(&t, 1, 0, 50, false)->class = SCHED_CLASS_INFILL;
    add(&t, 2, 0, 10, false);
    step(&t);
    assert_int_equal(t.n_out, 4);
    assert_run(&t, 0, 3, 10, true);
    assert_run(&t, 1, 2, 50, true);
    assert_run(&t, 2, 1, 50, true);
    assert_run(&t, 3, 0, 18, false);
}

/* One that was preempted and lacks some of its tokens reads them again, as prefill. */
static void test_resumed_reads_first(void **state)
{
    struct table t;
    table_init(&t, 64);
    add(&t, 0, 32, 60, true);
    add(&t, 0, 9, 10, true);
    step(&t);
    assert_int_equal(t.n_out, 2);
    assert_run(&t, 0, 1, 1, true);
    assert_run(&t, 1, 0, 28, true);
    assert_int_equal(t.load.prefill, 28);
    sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 50);
    assert_int_equal(t.users[0].served, 28 + t.c.decode_units);
    t.c.prefill_units = 3;
    sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 50);
    assert_int_equal(t.users[0].served, 28 + 3 * 28 + 2 * t.c.decode_units);
}

/* With fewer tokens than decoding sequences none waits longer than it takes to serve all. */
static void test_turns(void **state)
{
    struct table t;
    table_init(&t, 7);
    for (uint32_t i = 0; i < 50; i++) add(&t, i % 4, 1, 2, true);
    for (uint64_t n = 1; n <= 500; n++) {
        step(&t);
        assert_int_equal(t.n_out, 7);
        for (uint32_t i = 0; i < t.n_out; i++) t.reqs[t.out[i].index].last_step = n;
        for (uint32_t i = 0; i < 50; i++) assert_true(n - t.reqs[i].last_step <= 50 / 7 + 1);
    }
}

static void random_table(struct table *t)
{
    table_init(t, 1 + rnd(600));
    for (int i = 0; i < SCHED_TIME_TERMS; i++) t->b.time.ms[i] = (double)rnd(1000) / 50;
    t->b.since_prefill = rnd(10);
    for (uint32_t i = 0, n = rnd(MOST + 1); i < n; i++) {
        bool decoding = rnd(2);
        uint32_t computed = rnd(3000) + decoding;
        struct sched_req *r = add(t, rnd(4), computed, computed + (decoding ? 1 : rnd(300)), decoding);
        r->paused = rnd(5) == 0;
        r->running = rnd(5) > 0;
        r->last_step = rnd(4);
        r->class = (uint8_t)rnd(SCHED_CLASSES);
        t->users[r->user].served = rnd(1000);
    }
}

/* First tokens alone: each with all that its prompt lacks, or one with a part; and of answers of several users some. */
static void check_express(const struct table *t)
{
    uint32_t turns[4] = {0}, most = 0, can_decode = 0;
    bool in[MOST] = {false}, first[4] = {false};
    for (uint32_t i = 0; i < t->n_out; i++) {
        const struct sched_req *r = &t->reqs[t->out[i].index];
        assert_true(t->out[i].logits || (t->out[i].n == t->c.express_part && t->load.prefill == t->c.express_part));
        in[t->out[i].index] = true;
        if (r->decoding && ++turns[r->user] > most) most = turns[r->user];
        if (!r->decoding) first[r->user] = true;
        assert_true(r->decoding || t->out[i].n <= t->c.express_tokens);
    }
    for (uint32_t i = 0; i < t->s.n; i++) {
        const struct sched_req *r = &t->reqs[i];
        if (!r->running || r->paused || !r->decoding || r->known - r->computed != 1 || !first[r->user]) continue;
        can_decode++;
        assert_true(in[i] || turns[r->user] + 1 >= most);
    }
    assert_true(t->load.decode >= (can_decode < 2 ? can_decode : 2) ||
                t->load.prefill + t->load.decode == t->c.batch_tokens);
}

static bool is_shared(const struct table *t)
{
    int user = -1;
    for (uint32_t i = 0; i < t->s.n; i++) {
        const struct sched_req *r = &t->reqs[i];
        if (!r->running || r->paused || r->computed == r->known) continue;
        if (user >= 0 && (uint32_t)user != r->user) return true;
        user = (int)r->user;
    }
    return false;
}

static bool has_higher(const struct table *t)
{
    for (uint32_t i = 0; i < t->s.n; i++) {
        const struct sched_req *r = &t->reqs[i];
        if (r->running && !r->paused && r->computed < r->known && r->class != SCHED_CLASS_BATCH) return true;
    }
    return false;
}

static void check(const struct table *t)
{
    bool in[MOST] = {false};
    uint32_t tokens = 0, decode = 0, can_decode = 0, can_prefill = 0;
    for (uint32_t i = 0; i < t->n_out; i++) {
        const struct sched_run *run = &t->out[i];
        const struct sched_req *r = &t->reqs[run->index];
        assert_true(run->index < t->s.n && !in[run->index] && r->running && !r->paused);
        in[run->index] = true;
        assert_true(run->n >= 1 && r->computed + run->n <= r->known);
        assert_int_equal(run->logits, r->computed + run->n == r->known);
        tokens += run->n;
        decode += r->decoding;
    }
    for (uint32_t i = 0; i < t->s.n; i++) {
        const struct sched_req *r = &t->reqs[i];
        if (!r->running || r->paused || r->computed == r->known) continue;
        *(r->decoding ? &can_decode : &can_prefill) += 1;
        if (t->load.express) continue;
        for (uint32_t k = 0; r->decoding && !in[i] && k < t->s.n; k++)
            if (in[k] && t->reqs[k].decoding && (!t->b.short_left || t->reqs[k].user == r->user))
                assert_true(t->reqs[k].last_step <= r->last_step);
    }
    assert_true(tokens <= t->c.batch_tokens);
    assert_int_equal(decode, t->load.decode);
    assert_int_equal(tokens - decode, t->load.prefill);
    if (t->load.express) {
        check_express(t);
        return;
    }
    assert_int_equal(t->load.no_prefill, can_prefill && tokens == decode);
    if (t->b.short_left && is_shared(t) && tokens <= t->c.short_tokens) {
        assert_true(decode || !can_decode || t->b.since_prefill >= t->c.prefill_gap);
    } else if (t->b.since_prefill < t->c.prefill_gap) {
        assert_int_equal(decode, can_decode < t->c.batch_tokens ? can_decode : t->c.batch_tokens);
        struct sched_load alone = t->load;
        alone.prefill = 0, alone.prefill_kv = 0;
        double all = sched_time_of(&t->b.time, &t->load), of = sched_time_of(&t->b.time, &alone);
        if (decode && tokens > decode) {
            assert_true(all <= 100.01 || all <= 1.2501 * of);
            assert_true(all <= 6.001 * of || !has_higher(t));
        }
        alone.decode_kv /= alone.decode;
        alone.decode = 1;
        double one = decode ? sched_time_of(&t->b.time, &alone) : 0;
        if (decode && tokens > decode && is_shared(t)) assert_true(all <= 4.001 * one || all <= 2.001 * of);
    } else if (can_prefill) {
        assert_true(tokens > decode);
    }
    if (can_decode + can_prefill) assert_true(t->n_out > 0);
}

static void test_random_states(void **state)
{
    for (int round = 0; round < 20000; round++) {
        struct table t;
        random_table(&t);
        t.b.express = rnd(2);
        t.b.short_left = rnd(2);
        step(&t);
        assert_false(t.b.express && t.load.express);
        check(&t);
    }
}

static void add_drafts(struct table *t, uint32_t most)
{
    for (uint32_t i = 0; i < t->s.n; i++) t->reqs[i].draft = rnd(most + 1);
}

/* Proposed tokens get room that nothing else takes: the other tokens of the step are as without them. */
static void test_drafts_take_no_place(void **state)
{
    unsigned rounds[2] = {0}; /* without and with room for all */
    for (int round = 0; round < 20000; round++) {
        struct table t, u;
        random_table(&t);
        u = t;
        step(&t);
        u.s.reqs = u.reqs;
        u.s.users = u.users;
        add_drafts(&u, 16);
        step(&u);
        uint32_t tokens = 0, draft = 0, wanted = 0;
        assert_int_equal(u.n_out, t.n_out);
        assert_int_equal(u.load.express, t.load.express);
        for (uint32_t i = 0; i < t.n_out; i++) {
            const struct sched_req *r = &u.reqs[u.out[i].index];
            assert_run(&u, i, t.out[i].index, t.out[i].n + u.out[i].draft, t.out[i].logits);
            assert_true(r->decoding ? u.out[i].draft <= r->draft : u.out[i].draft == 0);
            tokens += u.out[i].n;
            draft += u.out[i].draft;
            if (r->decoding) wanted += r->draft;
        }
        assert_int_equal(u.load.decode, t.load.decode);
        assert_int_equal(u.load.draft, draft);
        assert_int_equal(u.load.prefill, t.load.prefill);
        assert_true(tokens <= u.c.batch_tokens);
        if (u.load.express)
            assert_int_equal(draft, 0);
        else
            assert_int_equal(draft, wanted < u.c.batch_tokens - (tokens - draft) ? wanted
                                                                                 : u.c.batch_tokens - (tokens - draft));
        if (wanted) rounds[draft == wanted]++;
    }
    assert_true(rounds[0] > 100 && rounds[1] > 100);
}

/* Each row counts as a decoded token. */
static void test_drafts_are_service(void **state)
{
    struct table t;
    table_init(&t, 8);
    add(&t, 0, 9, 10, true)->draft = 4;
    add(&t, 1, 9, 10, true)->draft = 4;
    add(&t, 2, 9, 10, true)->draft = 4;
    step(&t);
    assert_int_equal(t.n_out, 3);
    assert_run(&t, 0, 0, 5, true);
    assert_run(&t, 1, 1, 2, true);
    assert_run(&t, 2, 2, 1, true);
    assert_int_equal(t.out[1].draft, 1);
    assert_int_equal(t.load.decode, 3);
    assert_int_equal(t.load.draft, 5);
    sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 20);
    assert_int_equal(t.users[0].served, 5 * t.c.decode_units);
    assert_int_equal(t.users[1].served, 2 * t.c.decode_units);
    assert_int_equal(t.users[2].served, t.c.decode_units);
}

/* Of tokens with a known chance a step computes those that are worth their time. */
static void test_drafts_that_pay(void **state)
{
    static const float sure[8] = {1, 1, 1, 1, 1, 1, 1, 1},
                       fading[8] = {0.9f, 0.6f, 0.4f, 0.2f, 0.1f, 0.1f, 0.05f, 0.05f};
    struct table t;
    table_init(&t, 64);
    t.b.time.samples = 1;
    t.b.time.ms[SCHED_TIME_FIXED] = 9;
    t.b.time.ms[SCHED_TIME_DECODE] = 1;
    t.b.time.ms[SCHED_TIME_DECODE_KV] = t.b.time.ms[SCHED_TIME_PREFILL_KV] = 0;
    t.b.time.ms[SCHED_TIME_DRAFT] = 2.5;
    struct sched_req *r = add(&t, 0, 9, 10, true);
    r->draft = 8;
    r->chance = fading;
    step(&t); /* 10 ms for a token: a row must give more than 0.25 of one, and more when the step has given more */
    assert_int_equal(t.out[0].draft, 2);
    assert_int_equal(t.out[0].n, 3);
    r->chance = sure;
    step(&t);
    assert_int_equal(t.out[0].draft, 8);
    t.b.time.ms[SCHED_TIME_DRAFT] = 9.5; /* the step costs as much as its rows: drafts cannot pay */
    step(&t);
    assert_int_equal(t.out[0].draft, 0);
    t.b.time.ms[SCHED_TIME_DRAFT] = 2.5;
    r = add(&t, 1, 9, 10, true);
    r->draft = 8;
    r->chance = fading;
    for (int i = 0; i < 6; i++) add(&t, 2, 9, 10, true);
    step(&t); /* 17 ms for 8 tokens: nothing is likely enough */
    assert_int_equal(t.load.draft, 0);
    t.b.time.ms[SCHED_TIME_DRAFT] = 1.5; /* 0.7 of a token for the first row, with the margin 0.78 */
    step(&t);
    assert_int_equal(t.out[0].draft, 8);
    assert_true(t.out[1].draft <= 1);
    t.reqs[0].chance = NULL; /* forced */
    step(&t);
    assert_int_equal(t.out[0].draft, 8);
}

/* An estimate by which no row pays is put to the test again: it may have come from a busy moment. */
static void test_drafts_are_tried_again(void **state)
{
    static const float sure[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct table t;
    table_init(&t, 64);
    t.b.time.samples = 1;
    t.b.time.ms[SCHED_TIME_FIXED] = 9;
    t.b.time.ms[SCHED_TIME_DECODE] = 1;
    t.b.time.ms[SCHED_TIME_DECODE_KV] = t.b.time.ms[SCHED_TIME_PREFILL_KV] = 0;
    t.b.time.ms[SCHED_TIME_DRAFT] = 40;
    struct sched_req *r = add(&t, 0, 9, 10, true);
    unsigned rows = 0, tried = 0;
    for (int i = 0; i < 300; i++) { /* without proposed tokens nothing is tried */
        step(&t);
        assert_false(t.load.untried);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 10);
    }
    assert_int_equal(t.b.untried, 0);
    r->draft = 8;
    r->chance = sure;
    for (int i = 0; i < 1000; i++) {
        step(&t);
        rows += t.load.draft;
        tried += t.load.draft == 1;
        assert_true(t.load.draft != 0 || t.load.untried);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 10 + 2.0 * t.load.draft);
        if (t.load.draft > 1) break;
    }
    assert_in_range(tried, 1, 10); /* each shows that a row costs less than was thought, until they are taken */
    assert_in_range(rows, tried + 2, tried + 8);
}

/* A difference of accounts falls to 1/e while config.forget units are served, and nobody falls below the smallest. */
static void test_accounts_decay(void **state)
{
    struct table t;
    table_init(&t, 8);
    t.users[0].served = 5000;
    t.users[1].served = t.users[2].served = 1000;
    t.users[3].served = 500; /* has no request */
    for (uint32_t u = 0; u < 3; u++) add(&t, u, 9, 10, true);
    while (t.b.clock < t.c.forget) {
        step(&t);
        assert_int_equal(t.n_out, 3);
        sched_done(&t.c, &t.b, &t.s, t.out, t.n_out, &t.load, 20);
        assert_true(t.users[0].served > t.users[1].served);
        assert_int_equal(t.users[1].served, t.users[2].served);
    }
    assert_int_equal(t.users[1].served, 1000 + t.b.clock / 3);
    assert_in_range(t.users[0].served - t.users[1].served, 4000 * 0.36, 4000 * 0.40);
    assert_int_equal(t.users[3].served, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefill_alone_fills_the_step),
        cmocka_unit_test(test_stretch),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_batches_beside_others),
        cmocka_unit_test(test_decode_first),
        cmocka_unit_test(test_prefill_beside_decode_is_bounded),
        cmocka_unit_test(test_prefill_beside_batches_alone),
        cmocka_unit_test(test_prefill_beside_other_users_is_bounded),
        cmocka_unit_test(test_first_tokens_alone),
        cmocka_unit_test(test_express_is_short),
        cmocka_unit_test(test_short_steps),
        cmocka_unit_test(test_short_steps_spread),
        cmocka_unit_test(test_turns_of_users),
        cmocka_unit_test(test_prefill_never_starves),
        cmocka_unit_test(test_prefill_never_starves_of_tokens),
        cmocka_unit_test(test_prefill_by_account),
        cmocka_unit_test(test_resumed_reads_first),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_random_states),
        cmocka_unit_test(test_drafts_take_no_place),
        cmocka_unit_test(test_drafts_are_service),
        cmocka_unit_test(test_drafts_that_pay),
        cmocka_unit_test(test_drafts_are_tried_again),
        cmocka_unit_test(test_accounts_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
