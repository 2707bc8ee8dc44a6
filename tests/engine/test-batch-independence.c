/* SPDX-License-Identifier: MIT */
/* The other sequences of a batch change no answer: requests of all kinds at once, of several users, for slots and
 * blocks that are far too few, with readers that stall, others that leave, memory that is given up and restarts
 * between; each answer is, bit for bit, what it is alone in an engine that has nothing to share and nothing to read
 * back. */
#include "tests/engine/harness.h"

#define KINDS        14
#define ANSWERS_MOST 3    /* to one prompt */
#define BLOCK        8192 /* bytes, of the tiny model */

/* Always the same for one @kind: half of them begin as the other half does. */
static struct proto_request make(unsigned kind)
{
    static const enum proto_context policies[] = {PROTO_CONTEXT_REFUSE, PROTO_CONTEXT_SHIFT, PROTO_CONTEXT_ROTATE};
    const unsigned kept = harness_seed;
    char prompt[512] = "";
    enum proto_context policy = policies[kind % 3];
    harness_seed = kind % 2;
    for (unsigned i = 0; i < 18 + kind; i++) {
        if (i == 14) harness_seed = kind;
        strcat(strcat(prompt, harness_word()), " ");
    }
    struct proto_request r = harness_raw(prompt);
    harness_seed = kind;
    r.gen.context = policy;
    r.gen.max_tokens = policy == PROTO_CONTEXT_REFUSE ? 5 + (int)harness_draw(12) : 60 + (int)harness_draw(240);
    r.gen.n = 1 + harness_draw(ANSWERS_MOST);
    r.gen.ignore_eos = true;
    r.gen.sampling.temperature = harness_draw(4) ? 1 : 0;
    r.gen.sampling.seed = kind;
    if (harness_draw(4) == 0) r.gen.sampling.mirostat = 4;
    harness_seed = kept;
    return r;
}

static void run_alone(struct harness *h, struct answer alone[KINDS][ANSWERS_MOST])
{
    bool shifted = false;
    for (unsigned k = 0; k < KINDS; k++) {
        struct proto_request r = make(k);
        uint32_t n = r.gen.n;
        harness_start(h);
        uint64_t id = harness_submit(h, &r);
        for (uint32_t i = 0; i < n; i++) {
            assert_done(harness_wait(h, id + i), PROTO_STOP_LENGTH);
            shifted |= h->answers[id + i].last.cut.shifted > 0;
            alone[k][i] = answer_take(&h->answers[id + i]);
        }
        harness_stop(h);
    }
    assert_true(shifted);
}

/* All kinds in some order, each on a connection of its own, and some that are cancelled. */
static void run_together(struct harness *h, struct answer alone[KINDS][ANSWERS_MOST])
{
    uint64_t id[KINDS], left[4];
    unsigned order[KINDS];
    for (unsigned k = 0; k < KINDS; k++) order[k] = k;
    for (unsigned k = KINDS; k-- > 1;) {
        unsigned other = harness_draw(k + 1), x = order[k];
        order[k] = order[other];
        order[other] = x;
    }
    for (unsigned i = 0; i < KINDS; i++) {
        struct proto_request r = make(order[i]), gone = make(harness_draw(KINDS));
        gone.gen.n = 1;
        id[order[i]] = harness_submit_as(h, 10 + order[i], 1000 + harness_draw(3), &r);
        if (i % 4 == 0)
            left[i / 4] = harness_submit_as(h, 9, 1000 + harness_draw(3), &gone);
        else
            proto_request_fini(&gone);
    }
    for (unsigned i = 0; i < 60; i++) {
        engine_pause(h->engine, 10 + harness_draw(KINDS), harness_draw(2));
        if (i % 15 == 14) engine_cancel(h->engine, 9, left[i / 15]);
        if (harness_draw(20) == 0) engine_shed(h->engine);
        harness_status(h, 0, "running"); /* takes the events so far */
    }
    for (unsigned k = 0; k < KINDS; k++) engine_pause(h->engine, 10 + k, false);
    for (unsigned k = 0; k < KINDS; k++)
        for (uint32_t i = 0; i < ANSWERS_MOST && alone[k][i].n; i++) {
            struct answer *a = harness_wait(h, id[k] + i);
            assert_done(a, PROTO_STOP_LENGTH);
            assert_same(&alone[k][i], a);
            assert_int_equal(alone[k][i].last.cut.shifted, a->last.cut.shifted);
        }
}

static void test_batch_independence(void **state)
{
    struct harness *h = *state;
    struct answer alone[KINDS][ANSWERS_MOST] = {0};
    long long preemptions = 0, read = 0;
    struct tiny t;
    harness_fini(h);
    tiny_init(&t);
    t.ctx = 128;
    harness_init(h, &t);
    h->forgetful = true;
    run_alone(h, alone);
    harness_dirs(h);
    for (unsigned round = 0; round < 6; round++) {
        static const uint64_t blocks[] = {8, 24, 16};
        harness_seed = round;
        h->config.kv_bytes = blocks[round % 3] * BLOCK;
        h->config.parallel = round % 2 ? 2 : 5;
        h->config.batch_tokens = round % 3 ? 32 : 9;
        harness_start(h);
        harness_wait_disk(h);
        run_together(h, alone);
        preemptions += harness_status(h, 0, "preemptions");
        read += harness_status(h, 0, "disk_read");
        assert_all_blocks_free(h);
        harness_stop(h);
    }
    print_message("# %lld times a slot was given up, %lld bytes read back\n", preemptions, read);
    assert_true(preemptions > 0 && read > 0);
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < ANSWERS_MOST; i++) answer_fini(&alone[k][i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_batch_independence, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
