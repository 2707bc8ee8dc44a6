/* SPDX-License-Identifier: MIT */
#include "daemon/engine/sched.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define N 20

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

static void test_decode_first_then_prefill_by_arrival(void **state)
{
    const struct sched_seq s[] = {
        {.computed = 0, .known = 100, .arrival = 3},
        {.computed = 7, .known = 8, .decoding = true, .arrival = 4},
        {.computed = 10, .known = 20, .arrival = 1},
        {.computed = 9, .known = 10, .decoding = true, .arrival = 2, .paused = true},
    };
    uint32_t order[4];
    struct sched_run out[4];
    assert_int_equal(sched_batch(s, 4, 32, order, out), 3);
    assert_int_equal(out[0].index, 1);
    assert_int_equal(out[0].n, 1);
    assert_true(out[0].logits);
    assert_int_equal(out[1].index, 2);
    assert_int_equal(out[1].n, 10);
    assert_true(out[1].logits);
    assert_int_equal(out[2].index, 0);
    assert_int_equal(out[2].n, 21);
    assert_false(out[2].logits);
}

/* With one token a step all decoding sequences get their turn. */
static void test_turns(void **state)
{
    struct sched_seq s[3] = {
        {.computed = 1, .known = 2, .decoding = true, .arrival = 1},
        {.computed = 1, .known = 2, .decoding = true, .arrival = 2},
        {.computed = 1, .known = 2, .decoding = true, .arrival = 3},
    };
    uint32_t order[3], got[3] = {0};
    struct sched_run out[3];
    for (uint64_t step = 1; step <= 30; step++) {
        assert_int_equal(sched_batch(s, 3, 1, order, out), 1);
        got[out[0].index]++;
        s[out[0].index].last_step = step;
    }
    for (int i = 0; i < 3; i++) assert_int_equal(got[i], 10);
}

/* Invariants on random states. */
static void test_random_invariants(void **state)
{
    for (int round = 0; round < 20000; round++) {
        struct sched_seq s[N];
        struct sched_run out[N];
        uint32_t order[N], n = rnd(N + 1), batch = 1 + rnd(64), used = 0, want = 0, ready_decoding = 0, decoded = 0;
        bool in[N] = {false};
        for (uint32_t i = 0; i < n; i++) {
            bool decoding = rnd(2);
            uint32_t computed = rnd(50) + decoding;
            s[i] = (struct sched_seq){
                .computed = computed,
                .known = decoding ? computed + 1 : computed + 1 + rnd(60),
                .decoding = decoding,
                .paused = rnd(5) == 0,
                .last_step = rnd(4),
                .arrival = i * 7919 % 1000,
            };
            if (s[i].paused) continue;
            want += s[i].known - s[i].computed;
            ready_decoding += decoding;
        }
        size_t runs = sched_batch(s, n, batch, order, out);
        for (size_t k = 0; k < runs; k++) {
            const struct sched_seq *x = &s[out[k].index];
            assert_true(out[k].index < n);
            assert_false(in[out[k].index]);
            in[out[k].index] = true;
            assert_false(x->paused);
            assert_true(out[k].n >= 1 && x->computed + out[k].n <= x->known);
            assert_int_equal(out[k].logits, x->computed + out[k].n == x->known);
            if (k > 0 && x->decoding) assert_true(s[out[k - 1].index].decoding);
            used += out[k].n;
            decoded += x->decoding;
        }
        assert_int_equal(used, want < batch ? want : batch); /* a step is as full as it can be */
        assert_int_equal(decoded, ready_decoding < batch ? ready_decoding : batch);
        /* only the last run may be cut; no prefill that came later runs while an earlier one is left out */
        for (size_t k = 0; k + 1 < runs; k++) assert_true(out[k].logits);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                if (in[i] && !in[j] && !s[j].paused && !s[i].decoding && !s[j].decoding)
                    assert_true(s[i].arrival < s[j].arrival);
    }
}

static void test_admission(void **state)
{
    struct sched_wait w = {.blocks = 4};
    assert_int_equal(sched_admit(&w, 1, 4), SCHED_ADMIT);
    assert_int_equal(sched_admit(&w, 1, 3), SCHED_WAIT);
    assert_int_equal(sched_admit(&w, 0, 4), SCHED_WAIT);
    w.paused = true;
    assert_int_equal(sched_admit(&w, 1, 4), SCHED_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_first_then_prefill_by_arrival),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_random_invariants),
        cmocka_unit_test(test_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
