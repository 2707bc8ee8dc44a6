/* SPDX-License-Identifier: MIT */
/* Rows of which only some tokens are allowed. */
#include "daemon/sample/candidates.h"
#include "daemon/sample/rng.h"
#include "tests/sample/fixture.h"
#include <math.h>
#include <string.h>

#define V 8

/* Words of all kinds, and tokens behind the last word. */
static void test_allow(void **state)
{
    static const uint64_t mask[] = {UINT64_C(1) << 63 | 1, 0, UINT64_MAX};
    float logits[200];
    struct sample_scratch *s;
    assert_int_equal(sample_scratch_new(&s, 200), 0);
    for (int i = 0; i < 200; i++) logits[i] = (float)i;
    for (uint32_t vocab = 1; vocab <= 200; vocab++)
        for (size_t words = 0; words <= 3; words++) {
            struct logits_row r = {.logits = logits, .vocab = vocab, .scratch = s};
            logits_allow(&r, mask, words);
            assert_ptr_equal(r.logits, logits); /* as yet */
            const float *w = logits_write(&r);
            for (uint32_t i = 0; i < vocab; i++) {
                bool allowed = i / 64 < words && (i == 0 || i == 63 || (i >= 128 && i < 192));
                assert_true(w[i] == (allowed ? (float)i : -INFINITY));
            }
        }
    assert_true(logits[1] == 1); /* the model's row is as it was */
    sample_scratch_free(s);
}

/* Two masks allow the tokens that both allow. */
static void test_allow_twice(void **state)
{
    static const uint64_t first[] = {0x0f}, second[] = {0x3c, UINT64_MAX};
    const float row[V] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct sample_scratch *s;
    assert_int_equal(sample_scratch_new(&s, V), 0);
    struct logits_row r = {.logits = row, .vocab = V, .scratch = s};
    logits_allow(&r, first, 1);
    logits_allow(&r, second, 2);
    const float *w = logits_write(&r);
    for (int i = 0; i < V; i++) assert_true(w[i] == (i == 2 || i == 3 ? row[i] : -INFINITY));
    sample_scratch_free(s);
}

static uint64_t random_word(unsigned turn, size_t w)
{
    return (uint64_t)(rng_uniform(turn, 0, w) * 0x1p32) << 32 | (uint64_t)(rng_uniform(turn, 1, w) * 0x1p32);
}

/* A mask whose blocks of 256 tokens have none, few, half, all but some and all tokens, by turns. */
static void fill_mask(uint64_t *mask, size_t words, unsigned turn)
{
    for (size_t w = 0; w < words; w++) {
        uint64_t x = random_word(turn, w), y = random_word(turn + 1000, w);
        const uint64_t kinds[] = {0, x & y & x << 7 & y << 5, x, x | y | x << 7 | y << 5, UINT64_MAX};
        mask[w] = kinds[(w / 4 + turn) % 5];
    }
}

/* Samplers look only at allowed tokens, and pick as if the logits of the others were -INFINITY. */
static void test_allowed_as_banned(void **state)
{
    enum { MANY = 5003, WORDS = (MANY + 63) / 64 };
    static float many[MANY], banned[MANY];
    static uint64_t mask[WORDS];
    struct sample_scratch *s = NULL;
    assert_int_equal(sample_scratch_new(&s, MANY), 0);
    for (int i = 0; i < MANY; i++) many[i] = (float)((i * 7919) % 1000) / 100.0f;
    for (unsigned turn = 0; turn < 60; turn++) {
        size_t words = turn % 3 ? WORDS : WORDS - 2;
        fill_mask(mask, WORDS, turn);
        for (uint32_t i = 0; i < MANY; i++)
            banned[i] = i / 64 < words && mask[i / 64] >> i % 64 & 1 ? many[i] : -INFINITY;
        struct logits_row x = {.logits = many, .vocab = MANY, .scratch = s},
                          y = {.logits = banned, .vocab = MANY, .scratch = s};
        logits_allow(&x, mask, words);
        assert_int_equal(candidates_largest(&x), candidates_largest(&y));
        struct candidate want[40];
        for (uint32_t k = 1; k <= 40; k += 13) {
            candidates_top(&y, k);
            size_t n = s->n;
            memcpy(want, s->cands, n * sizeof(*want));
            candidates_top(&x, k);
            assert_int_equal(s->n, n);
            assert_memory_equal(s->cands, want, n * sizeof(*want));
        }
    }
    sample_scratch_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allow),
        cmocka_unit_test(test_allow_twice),
        cmocka_unit_test(test_allowed_as_banned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
