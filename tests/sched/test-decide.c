/* SPDX-License-Identifier: MIT */
/* Starts and preemptions: an example for each rule. */
#include "daemon/sched/scheduler.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 32

/* A table of requests, and what the scheduler says about it. */
struct table {
    struct sched_config c;
    struct sched_book b;
    struct sched_req reqs[MOST];
    struct sched_user users[MOST];
    struct sched_state s;
    struct sched_action out[MOST];
    uint32_t n_out;
};

static void table_init(struct table *t, uint32_t parallel, uint32_t blocks)
{
    memset(t, 0, sizeof(*t));
    sched_config_init(&t->c, parallel, 512);
    sched_time_init(&t->b.time);
    t->s = (struct sched_state){.reqs = t->reqs, .users = t->users, .n_users = 4, .free_blocks = blocks};
}

/* A request of @user with a prompt of 100 tokens in 4 blocks. */
static struct sched_req *add(struct table *t, uint32_t user, bool running)
{
    struct sched_req *r = &t->reqs[t->s.n++];
    *r = (struct sched_req){
        .arrival = t->s.n,
        .user = user,
        .known = 100,
        .blocks = 4,
        .group = SCHED_NONE,
        .class = SCHED_CLASS_INTERACTIVE,
        .running = running,
    };
    return r;
}

/* It has computed its prompt and more than a quantum of its answer. */
static struct sched_req *add_decoding(struct table *t, uint32_t user)
{
    struct sched_req *r = add(t, user, true);
    r->decoding = true;
    r->computed = 199;
    r->known = 200;
    r->spent = 5000;
    return r;
}

static void decide(struct table *t)
{
    void *scratch = malloc(sched_scratch_size(t->s.n, t->s.n_users));
    assert_non_null(scratch);
    t->n_out = sched_decide(&t->c, &t->b, &t->s, scratch, t->out);
    free(scratch);
}

static void assert_action(const struct table *t, uint32_t at, uint32_t index, enum sched_reason reason)
{
    assert_true(at < t->n_out);
    assert_int_equal(t->out[at].index, index);
    assert_int_equal(t->out[at].reason, reason);
}

static void test_first_come_within_a_user(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    add(&t, 0, false)->arrival = 9;
    add(&t, 0, false)->arrival = 3;
    add(&t, 0, false)->arrival = 5;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 1, SCHED_START);
    assert_action(&t, 1, 2, SCHED_START);
}

static void test_class_before_arrival(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    add(&t, 0, false)->class = SCHED_CLASS_BATCH;
    add(&t, 0, false)->class = SCHED_CLASS_INTERACTIVE;
    add(&t, 0, false)->class = SCHED_CLASS_INFILL;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 2, SCHED_START);
    assert_action(&t, 1, 1, SCHED_START);
}

/* A class has no effect on other users. */
static void test_account_before_class(void **state)
{
    struct table t;
    table_init(&t, 1, 100);
    t.users[0].served = 1000;
    t.users[0].waited = t.users[1].waited = true;
    add(&t, 0, false)->class = SCHED_CLASS_INFILL;
    add(&t, 1, false)->class = SCHED_CLASS_BATCH;
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 1, SCHED_START);
}

/* Equal accounts: free slots are dealt in turn, not all to the first. */
static void test_free_slots_in_turn(void **state)
{
    struct table t;
    uint32_t got[2] = {0};
    table_init(&t, 6, 1000);
    for (int i = 0; i < 10; i++) add(&t, 0, false);
    for (int i = 0; i < 10; i++) add(&t, 1, false);
    decide(&t);
    assert_int_equal(t.n_out, 6);
    for (int i = 0; i < 6; i++) got[t.reqs[t.out[i].index].user]++;
    assert_int_equal(got[0], 3);
    assert_int_equal(got[1], 3);
}

/* A new user does not wait behind a flood: it starts at once, although no slot is free. */
static void test_even_slots_at_once(void **state)
{
    struct table t;
    table_init(&t, 4, 100);
    t.users[0].served = 7000;
    t.users[0].waited = true;
    t.b.floor = 7000;
    for (int i = 0; i < 4; i++) add(&t, 0, true);
    for (int i = 0; i < 3; i++) add(&t, 0, false);
    add(&t, 1, false);
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 3, SCHED_EVEN); /* the last to arrive */
    assert_action(&t, 1, 7, SCHED_START);
    assert_int_equal(t.users[1].served, 7000); /* absence earned nothing */
    assert_true(t.users[0].waited);
    assert_false(t.users[1].waited);
}

/* Of two users with too many slots, the one with the most loses one, though it has had less. */
static void test_even_slots_of_the_most(void **state)
{
    struct table t;
    table_init(&t, 5, 100);
    t.users[0].served = t.users[2].served = 7000;
    t.users[1].served = 7100;
    t.users[0].waited = t.users[1].waited = t.users[2].waited = true;
    for (int i = 0; i < 5; i++) add(&t, i < 3 ? 0 : 1, true);
    add(&t, 2, false);
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 2, SCHED_EVEN);
    assert_action(&t, 1, 5, SCHED_START);
}

/* A user with an answer and a first token has one slot: the other is free after a step. */
static void test_even_slots_without_first_tokens(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    t.users[0].served = t.users[1].served = 7000;
    t.users[0].waited = t.users[1].waited = true;
    add(&t, 0, true);
    add(&t, 0, true)->computed = 99;
    add(&t, 1, false);
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[1].computed = 99 - t.c.express_tokens;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 1, SCHED_EVEN);
    assert_action(&t, 1, 2, SCHED_START);
}

/* The only answer of a user who is ahead goes on while the waiting user has a slot; not without one, nor if it is one
 * of two. */
static void test_only_answer(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    t.users[0].served = 7000 + t.c.quantum;
    t.users[1].served = 7000;
    t.users[0].waited = t.users[1].waited = true;
    add_decoding(&t, 0)->spent = t.c.quantum;
    add_decoding(&t, 1)->spent = 0;
    add(&t, 1, false);
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[1].user = 0;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 1, 2, SCHED_START);
}

/* Slots are shared evenly but for one; all are taken, and user 1 waits for a first token that lacks @lacks tokens. */
static void wait_for_first_token(struct table *t, uint32_t lacks)
{
    table_init(t, 4, 100);
    t->users[0].served = t->users[1].served = t->users[2].served = 7000;
    t->users[0].waited = t->users[1].waited = t->users[2].waited = true;
    for (uint32_t i = 0; i < 4; i++) add_decoding(t, i % 3)->spent = 0;
    add(t, 0, false);
    add(t, 1, false)->computed = 100 - lacks;
    decide(t);
}

/* A slot for a step or two is not waited for until one comes free; but a user with much less service keeps its own. */
static void test_first_token_at_once(void **state)
{
    struct table t;
    wait_for_first_token(&t, 32);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 3, SCHED_EVEN); /* user 0 has two */
    assert_action(&t, 1, 5, SCHED_START);
    wait_for_first_token(&t, 33);
    assert_int_equal(t.n_out, 0);
    wait_for_first_token(&t, 1);
    t.users[0].served = 7000 - t.c.express_lead;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    t.users[0].served--;
    decide(&t);
    assert_int_equal(t.n_out, 0);
}

/* A user far ahead without any slot gets one for a first token from a user with two. */
static void test_first_token_of_a_user_without_slots(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    t.users[0].served = 7000;
    t.users[1].served = 7000 + 9 * t.c.express_lead;
    t.users[0].waited = t.users[1].waited = true;
    for (int i = 0; i < 2; i++) add_decoding(&t, 0)->spent = 0;
    add(&t, 1, false)->computed = 99;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 1, 2, SCHED_START);
    t.reqs[1].user = 2; /* both have one */
    decide(&t);
    assert_int_equal(t.n_out, 0);
}

/* A free slot goes first to a user without any for a first token, though others have received less. */
static void test_free_slot_for_the_first_answer(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    t.users[0].served = 7000;
    t.users[1].served = 7000 + 9 * t.c.express_lead;
    t.users[0].waited = t.users[1].waited = true;
    add(&t, 0, true)->computed = 99;
    add(&t, 0, false)->computed = 99;
    add(&t, 1, false)->computed = 99;
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 2, SCHED_START);
    t.reqs[2].computed = 0; /* not a first token */
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 1, SCHED_START);
}

/* Users whose slots are all for first tokens have more of them: the only answer of another goes on. */
static void test_first_token_spares_the_only_answer(void **state)
{
    struct table t;
    table_init(&t, 3, 100);
    for (uint32_t u = 0; u < 3; u++) t.users[u] = (struct sched_user){.served = 7000, .waited = true};
    add_decoding(&t, 0);
    add(&t, 1, true)->computed = 99;
    add(&t, 1, true)->computed = 99;
    add(&t, 2, false)->computed = 99;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[2].user = 0;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[1].user = t.reqs[2].user = 3; /* the others have one each */
    t.reqs[2].user = 1;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_EVEN);
    assert_action(&t, 1, 3, SCHED_START);
}

/* Two first tokens do not take each other's slot. */
static void test_first_token_keeps_slot(void **state)
{
    struct table t;
    wait_for_first_token(&t, 1);
    t.reqs[3].decoding = false;
    t.reqs[0].spent = 0;
    t.reqs[0].computed = t.reqs[0].known - 1;
    t.reqs[0].decoding = false;
    decide(&t);
    assert_int_equal(t.n_out, 0);
}

/* But of a user who holds many slots for them, all but one count: one more user's first token takes one. */
static void test_first_tokens_are_slots(void **state)
{
    struct table t;
    table_init(&t, 4, 100);
    t.users[0] = t.users[1] = (struct sched_user){.served = 7000, .waited = true};
    for (int i = 0; i < 3; i++) add(&t, 0, true)->computed = 99;
    add_decoding(&t, 1);
    add(&t, 1, false)->computed = 99;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 2, SCHED_EVEN);
    assert_action(&t, 1, 4, SCHED_START);
    t.reqs[2].user = 2;
    decide(&t);
    assert_int_equal(t.n_out, 0);
}

/* With evenly shared slots there is no preemption before the accounts differ by a quantum. */
static void test_quantum(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    t.users[0].waited = t.users[1].waited = t.users[2].waited = true;
    add_decoding(&t, 0);
    add_decoding(&t, 1);
    add(&t, 2, false);
    t.users[0].served = 1000 + t.c.quantum - 1;
    t.users[1].served = t.users[2].served = 1000;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.users[0].served++;
    t.reqs[0].spent = t.c.quantum - 1; /* it has just come */
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[0].spent++;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_QUANTUM);
    assert_action(&t, 1, 2, SCHED_START);
}

/* A request that computes lost tokens again keeps its slot until it has also computed new ones. */
static void test_quantum_after_a_loss(void **state)
{
    struct table t;
    table_init(&t, 1, 100);
    t.users[0].waited = t.users[1].waited = true;
    t.users[0].served = 100000;
    struct sched_req *r = add(&t, 0, true);
    r->known = 4000;
    r->computed = 1500;
    r->redone = 3000;
    r->spent = 3000 + t.c.quantum + 3000 / SCHED_REDONE_SHARE - 1;
    add(&t, 1, false);
    decide(&t);
    assert_int_equal(t.n_out, 0);
    r->spent++;
    decide(&t);
    assert_action(&t, 0, 0, SCHED_QUANTUM);
    assert_action(&t, 1, 1, SCHED_START);
}

/* A victim that may lose computed tokens has a longer quantum; one that keeps them has the usual one. */
static void test_quantum_with_short_memory(void **state)
{
    struct table t;
    table_init(&t, 1, 10);
    t.users[0].waited = t.users[1].waited = true;
    t.users[0].served = 100000;
    struct sched_req *r = add(&t, 0, true);
    r->known = 4000;
    r->computed = r->spent = 3000;
    r->blocks = 90;
    add(&t, 1, false)->blocks = 60;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    r->spent = t.c.quantum + SCHED_RECOMPUTE_FACTOR * 3000 - 1;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    r->spent++;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_QUANTUM);
    assert_action(&t, 1, 1, SCHED_START);
    t.users[1] = (struct sched_user){.waited = true};
    r->spent = t.c.quantum;
    t.s.free_blocks = 60;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_QUANTUM);
}

/* Long requests must compute new tokens in each slot, or they would take turns for ever. */
static void test_new_tokens_with_short_memory(void **state)
{
    struct table t;
    table_init(&t, 1, 10);
    struct sched_req *r = add(&t, 0, true), *by = add(&t, 1, false);
    r->known = 1000;
    r->computed = 400;
    r->blocks = 90;
    r->redone = 300 * 4;
    by->blocks = 60;
    for (int first_token = 0; first_token < 2; first_token++) {
        t.users[0] = (struct sched_user){.waited = true, .served = first_token ? 0 : 100000};
        t.users[1] = (struct sched_user){.waited = true};
        by->computed = first_token ? 99 : 0;
        r->spent = r->redone + t.c.quantum + r->redone / SCHED_REDONE_SHARE - 1;
        decide(&t);
        assert_int_equal(t.n_out, 0);
        r->spent++;
        decide(&t);
        assert_int_equal(t.n_out, 2);
        assert_action(&t, 0, 0, first_token ? SCHED_EVEN : SCHED_QUANTUM);
        assert_action(&t, 1, 1, SCHED_START);
    }
    r->spent = r->redone = 0;
    t.users[0] = t.users[1] = (struct sched_user){.waited = true};
    decide(&t); /* it computes nothing again: a first token need not wait */
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_EVEN);
    by->computed = 0;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    r->paused = true; /* a slow reader yields nevertheless */
    t.s.now_ms = t.c.yield_ms;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_YIELD);
}

/* Nor do even slots, or a first token, take the slot of one that has not computed new tokens since a loss. Where a loss
 * only threatens, a first token takes it at once. */
static void test_even_slots_after_a_loss(void **state)
{
    for (int first_token = 0; first_token < 2; first_token++)
        for (int is_short = 0; is_short < 2; is_short++) {
            struct table t;
            uint32_t redone = is_short ? 0 : 800, blocks = is_short ? 0 : 100;
            table_init(&t, 2, blocks);
            t.users[0] = t.users[1] = (struct sched_user){.waited = true, .served = 7000};
            for (int i = 0; i < 2; i++) {
                struct sched_req *r = add_decoding(&t, 0);
                r->redone = redone;
                r->spent = redone + t.c.quantum + redone / SCHED_REDONE_SHARE - 1;
            }
            add(&t, 1, false)->computed = first_token ? 99 : 0;
            decide(&t);
            assert_int_equal(t.n_out, first_token && is_short ? 2 : 0);
            if (t.n_out) continue;
            t.reqs[0].spent++;
            decide(&t);
            assert_int_equal(t.n_out, 2);
            assert_action(&t, 0, 0, SCHED_EVEN); /* although the other one is the last to arrive */
            assert_action(&t, 1, 2, SCHED_START);
        }
}

static void test_class_preempts_its_own_user(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    add_decoding(&t, 0)->class = SCHED_CLASS_BATCH;
    add_decoding(&t, 1)->class = SCHED_CLASS_BATCH;
    add(&t, 0, false)->class = SCHED_CLASS_INFILL;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_CLASS);
    assert_action(&t, 1, 2, SCHED_START);
    t.reqs[2].class = SCHED_CLASS_BATCH;
    t.c.parallel_batch = 2;
    decide(&t);
    assert_int_equal(t.n_out, 0);
}

/* @running answers of class batch, and one that waits. */
static void batch_init(struct table *t, uint32_t running)
{
    table_init(t, 2, 1000);
    for (uint32_t i = 0; i < running; i++) add_decoding(t, 0)->class = SCHED_CLASS_BATCH;
    add(t, 0, false)->class = SCHED_CLASS_BATCH;
}

static void test_more_slots_for_batches_alone(void **state)
{
    struct table t;
    batch_init(&t, 7);
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 7, SCHED_START);
    batch_init(&t, 8); /* four times parallel */
    decide(&t);
    assert_int_equal(t.n_out, 0);
    batch_init(&t, 2);
    add_decoding(&t, 1);
    t.users[1].served = 100; /* it would not preempt others */
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[3].running = false; /* it waits: the reader is slow */
    t.reqs[3].paused = true;
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 2, SCHED_START);
}

/* A step that decodes n tokens takes 10 + 1.477 n ms: 1 for each, 2.5 for each thousand positions, which are 190.9. */
static uint32_t starts_beside(uint32_t running, double step_ms, uint32_t samples)
{
    struct table t;
    batch_init(&t, running);
    t.c.step_ms = step_ms;
    t.b.time = (struct sched_time){.samples = samples};
    t.b.time.ms[SCHED_TIME_FIXED] = 10;
    t.b.time.ms[SCHED_TIME_DECODE] = 1;
    t.b.time.ms[SCHED_TIME_DECODE_KV] = 2.5;
    decide(&t);
    return t.n_out;
}

static void test_still_more_where_steps_are_short(void **state)
{
    assert_int_equal(starts_beside(10, 26.3, 1), 1); /* with 11: 26.25 ms */
    assert_int_equal(starts_beside(10, 26.2, 1), 0);
    assert_int_equal(starts_beside(10, 26.3, 0), 0); /* nothing is known about the time of a step */
    assert_int_equal(starts_beside(7, 1, 1), 1);     /* four times parallel in any case */
    assert_int_equal(starts_beside(8, 1, 1), 0);
    assert_int_equal(starts_beside(23, 1e6, 1), 1); /* 12 times parallel at most */
    assert_int_equal(starts_beside(24, 1e6, 1), 0);
}

/* One of a higher class takes the place of one of them, and the others stay. */
static void test_one_of_many_batches_makes_room(void **state)
{
    struct table t;
    batch_init(&t, 6);
    add(&t, 0, false);
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 5, SCHED_CLASS);
    assert_action(&t, 1, 7, SCHED_START);
}

/* While more than @parallel run, those of higher classes are still at most @parallel. */
static void test_batches_do_not_add_slots_for_others(void **state)
{
    struct table t;
    batch_init(&t, 4);
    add_decoding(&t, 0);
    add_decoding(&t, 0);
    add(&t, 0, false);
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[6].class = t.reqs[7].class =
        SCHED_CLASS_INFILL; /* one that preempts, but no batch: the latest of lower class */
    t.reqs[5].class = SCHED_CLASS_INTERACTIVE;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 5, SCHED_CLASS);
    assert_action(&t, 1, 7, SCHED_START);
    t.reqs[5].class = SCHED_CLASS_INFILL;
    t.users[1].served = 0;
    t.reqs[7].user = 1; /* another user's takes one of the two, not one of the batches */
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 6, SCHED_EVEN);
    assert_action(&t, 1, 7, SCHED_START);
}

static void test_slow_reader_yields(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    add_decoding(&t, 0);
    struct sched_req *r = add_decoding(&t, 0);
    r->paused = true;
    r->paused_ms = 5000;
    add(&t, 0, false);
    t.s.now_ms = 5000 + t.c.yield_ms - 1;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.s.now_ms++;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 1, SCHED_YIELD);
    assert_action(&t, 1, 2, SCHED_START);
    t.s.n = 2; /* nobody wants its slot */
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.s.n = 3; /* nobody reads what would start */
    t.reqs[2].paused = true;
    decide(&t);
    assert_int_equal(t.n_out, 0);
}

/* Others start before a large request until its patience is over; then all wait for it. */
static void test_large_request(void **state)
{
    struct table t;
    table_init(&t, 4, 10);
    t.users[0].waited = t.users[1].waited = true;
    t.users[1].served = 100;
    add_decoding(&t, 1)->blocks = 10;
    add(&t, 0, false)->blocks = 15;
    add(&t, 1, false);
    t.b.clock = 50000;
    t.reqs[1].since = 50000 - t.c.patience + 1;
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 2, SCHED_START);
    t.reqs[1].since--;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.users[1].served = t.c.quantum; /* what the other has can be asked for now */
    decide(&t);
    assert_int_equal(t.n_out, 3);
    assert_action(&t, 0, 0, SCHED_QUANTUM);
    assert_action(&t, 1, 1, SCHED_START);
    assert_action(&t, 2, 2, SCHED_START); /* and there is room for it too */
}

/* No preemption that does not free enough. */
static void test_no_useless_preemption(void **state)
{
    struct table t;
    table_init(&t, 4, 0);
    t.users[0].waited = t.users[1].waited = true;
    t.users[1].served = 10000;
    add_decoding(&t, 1)->blocks = 10;
    add_decoding(&t, 0)->blocks = 10;
    add(&t, 0, false)->blocks = 11;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[2].blocks = 10;
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_QUANTUM);
    assert_action(&t, 1, 2, SCHED_START);
}

/* A common prefix is computed once: the others wait, also those that arrive at the same time. */
static void test_shared_work(void **state)
{
    struct table t;
    table_init(&t, 8, 1000);
    for (int i = 0; i < 4; i++) {
        struct sched_req *r = add(&t, 0, false);
        r->group = 0;
        r->shared = 64;
    }
    add(&t, 0, false);
    decide(&t);
    assert_int_equal(t.n_out, 2);
    assert_action(&t, 0, 0, SCHED_START);
    assert_action(&t, 1, 4, SCHED_START);
    t.reqs[0].running = t.reqs[4].running = true;
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[0].computed = 64; /* the common prefix is computed: */
    for (int i = 1; i < 4; i++) t.reqs[i].computed = 64, t.reqs[i].shared = 0;
    decide(&t);
    assert_int_equal(t.n_out, 3);
}

/* The computing request has ended, is paused or is preempted: another takes over. */
static void test_shared_work_is_taken_over(void **state)
{
    struct table t;
    table_init(&t, 8, 1000);
    for (int i = 0; i < 3; i++) {
        struct sched_req *r = add(&t, 0, i == 1);
        r->group = 0;
        r->shared = 64;
    }
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[1].busy = true; /* it goes on later */
    decide(&t);
    assert_int_equal(t.n_out, 0);
    t.reqs[1].paused = true;
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 0, SCHED_START);
    t.reqs[1].paused = t.reqs[1].running = false;
    decide(&t);
    assert_int_equal(t.n_out, 1);
    assert_action(&t, 0, 0, SCHED_START);
    t.s.n = 1;
    decide(&t);
    assert_int_equal(t.n_out, 1);
}

/* The floor: the smallest account of waiting users; if none waits, the largest of running users. */
/* One decision starts up to 64 requests. */
static void test_starts_of_one_decision(void **state)
{
    enum { REQS = 66 };
    struct sched_config c;
    struct sched_book b = {0};
    struct sched_user user = {0};
    struct sched_req reqs[REQS];
    struct sched_action out[REQS];
    const struct sched_state s = {.reqs = reqs, .n = REQS, .users = &user, .n_users = 1, .free_blocks = REQS};
    void *scratch = malloc(sched_scratch_size(REQS, 1));
    assert_non_null(scratch);
    sched_config_init(&c, REQS, 512);
    for (uint32_t i = 0; i < REQS; i++)
        reqs[i] = (struct sched_req){.arrival = i, .known = 100, .blocks = 1, .group = SCHED_NONE};
    assert_int_equal(sched_decide(&c, &b, &s, scratch, out), 64);
    for (uint32_t i = 0; i < 64; i++) assert_int_equal(out[i].index, i);
    free(scratch);
}

static void test_floor(void **state)
{
    struct table t;
    table_init(&t, 2, 100);
    t.users[0] = (struct sched_user){.served = 500, .waited = true};
    t.users[1] = (struct sched_user){.served = 700, .waited = true};
    add_decoding(&t, 0);
    add_decoding(&t, 1);
    add(&t, 0, false);
    add(&t, 1, false);
    decide(&t);
    assert_int_equal(t.b.floor, 500);
    t.s.n = 2;
    decide(&t);
    assert_int_equal(t.b.floor, 700);
    assert_false(t.users[0].waited);
}

/* 4 and 12 times the slots, but not more than a number holds. */
static void test_most_slots(void **state)
{
    static const uint32_t cases[][3] = {{1, 4, 12},
                                        {UINT32_MAX / 12, UINT32_MAX / 12 * 4, UINT32_MAX / 12 * 12},
                                        {UINT32_MAX / 12 + 1, (UINT32_MAX / 12 + 1) * 4, UINT32_MAX},
                                        {UINT32_MAX / 4, UINT32_MAX - 3, UINT32_MAX},
                                        {UINT32_MAX / 4 + 1, UINT32_MAX, UINT32_MAX},
                                        {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct sched_config c;
        sched_config_init(&c, cases[i][0], 512);
        assert_int_equal(c.parallel, cases[i][0]);
        assert_int_equal(c.parallel_batch, cases[i][1]);
        assert_int_equal(c.parallel_most, cases[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_come_within_a_user),
        cmocka_unit_test(test_class_before_arrival),
        cmocka_unit_test(test_account_before_class),
        cmocka_unit_test(test_free_slots_in_turn),
        cmocka_unit_test(test_even_slots_at_once),
        cmocka_unit_test(test_even_slots_of_the_most),
        cmocka_unit_test(test_even_slots_without_first_tokens),
        cmocka_unit_test(test_only_answer),
        cmocka_unit_test(test_free_slot_for_the_first_answer),
        cmocka_unit_test(test_first_token_of_a_user_without_slots),
        cmocka_unit_test(test_first_token_at_once),
        cmocka_unit_test(test_first_token_spares_the_only_answer),
        cmocka_unit_test(test_first_token_keeps_slot),
        cmocka_unit_test(test_first_tokens_are_slots),
        cmocka_unit_test(test_quantum),
        cmocka_unit_test(test_quantum_after_a_loss),
        cmocka_unit_test(test_quantum_with_short_memory),
        cmocka_unit_test(test_new_tokens_with_short_memory),
        cmocka_unit_test(test_even_slots_after_a_loss),
        cmocka_unit_test(test_class_preempts_its_own_user),
        cmocka_unit_test(test_more_slots_for_batches_alone),
        cmocka_unit_test(test_still_more_where_steps_are_short),
        cmocka_unit_test(test_one_of_many_batches_makes_room),
        cmocka_unit_test(test_batches_do_not_add_slots_for_others),
        cmocka_unit_test(test_slow_reader_yields),
        cmocka_unit_test(test_large_request),
        cmocka_unit_test(test_no_useless_preemption),
        cmocka_unit_test(test_shared_work),
        cmocka_unit_test(test_shared_work_is_taken_over),
        cmocka_unit_test(test_starts_of_one_decision),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_most_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
