/* SPDX-License-Identifier: MIT */
/* The largest logits of random rows are those that sorting all of them finds: with the row's peaks and without, with
 * tokens that are not allowed, and with logits that processors changed. */
#include "daemon/sample/candidates.h"
#include "daemon/sample/rng.h"
#include "tests/sample/fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 700 /* tokens */

struct drawn {
    uint64_t seed, n;
};

static uint32_t draw(struct drawn *d, uint32_t n)
{
    return (uint32_t)(rng_uniform(d->seed, 0, d->n++) * n);
}

static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Few values, so that many are equal; some are no numbers. */
static void draw_row(struct drawn *d, float *x, uint32_t vocab)
{
    const uint32_t values = draw(d, 2) ? 5 : 1000, odd = draw(d, 3) ? 0 : draw(d, vocab);
    for (uint32_t i = 0; i < vocab; i++) x[i] = (float)draw(d, values) - 3;
    for (uint32_t i = 0; i < odd; i++) x[draw(d, vocab)] = draw(d, 2) ? NAN : -INFINITY;
}

static void draw_mask(struct drawn *d, uint64_t *mask, size_t words)
{
    const uint32_t of = 1 + draw(d, 40);
    memset(mask, 0, words * sizeof(*mask));
    for (size_t i = 0; i < words * 64; i++)
        if (draw(d, of) == 0) mask[i / 64] |= UINT64_C(1) << i % 64;
}

static size_t sort_all(const float *x, const uint64_t *mask, size_t words, uint32_t vocab, struct candidate *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        bool is_allowed = !mask || (i / 64 < words && mask[i / 64] >> i % 64 & 1);
        if (is_allowed && x[i] > -INFINITY) out[n++] = (struct candidate){x[i], (int32_t)i};
    }
    qsort(out, n, sizeof(*out), by_logit);
    return n;
}

static void check(const struct logits_row *row, const struct candidate *all, size_t n_all, uint32_t k)
{
    const size_t most = k && k < n_all ? k : n_all;
    const struct sample_scratch *s = row->scratch;
    assert_int_equal(candidates_largest(row), n_all ? all[0].id : -1);
    candidates_top(row, k);
    assert_int_equal(s->n, most);
    for (size_t i = 0; i < most; i++) {
        assert_int_equal(s->cands[i].id, all[i].id);
        assert_true(s->cands[i].logit == all[i].logit);
    }
}

static void test_largest(void **state)
{
    static float model[MOST], now[MOST], peaks[MOST];
    static uint64_t mask[MOST / 64 + 1];
    static struct candidate all[MOST];
    for (uint64_t seed = 1; seed < 3000; seed++) {
        struct drawn d = {seed, 0};
        const uint32_t vocab = 1 + draw(&d, MOST), k = draw(&d, 2) ? draw(&d, 50) : draw(&d, vocab + 2);
        const size_t words = draw(&d, (uint32_t)logits_blocks(vocab) + 1);
        struct sample_scratch *s;
        assert_int_equal(sample_scratch_new(&s, vocab), 0);
        draw_row(&d, model, vocab);
        memcpy(now, model, sizeof(now));
        logits_peaks(peaks, model, vocab, 0, logits_blocks(vocab));
        struct logits_row row = {.logits = model, .vocab = vocab, .scratch = s, .peaks = draw(&d, 3) ? peaks : NULL};
        for (uint32_t i = draw(&d, 2) ? draw(&d, 30) : 0; i; i--) {
            const uint32_t id = draw(&d, vocab);
            now[id] = draw(&d, 2) ? -INFINITY : (float)draw(&d, 1200);
            logits_set(&row, id, now[id]);
            assert_true(logits_get(&row, id) == now[id]);
        }
        const bool masked = draw(&d, 2);
        draw_mask(&d, mask, words);
        if (masked) logits_allow(&row, mask, words);
        const size_t n = sort_all(now, masked ? mask : NULL, words, vocab, all);
        check(&row, all, n, k);
        const float *w = logits_write(&row); /* has all changes, too */
        for (uint32_t i = 0; i < vocab && !masked; i++) assert_true(w[i] == now[i] || (isnan(w[i]) && isnan(now[i])));
        check(&row, all, n, k);
        logits_set(&row, vocab - 1, 5000);
        assert_int_equal(candidates_largest(&row), vocab - 1);
        sample_scratch_free(s);
    }
}

/* What one token's processors changed is not seen by the next token's. */
static void test_changes_end_with_the_token(void **state)
{
    const float logits[] = {1, 5, 3};
    const int32_t ban[] = {1};
    struct fixture_request w = fixture_plain(), banned = fixture_plain();
    struct sample_scratch *s;
    int32_t id;
    w.p.temperature = banned.p.temperature = 0;
    banned.ban = ban, banned.n_ban = 1;
    assert_int_equal(sample_scratch_new(&s, 3), 0);
    assert_int_equal(fixture_pick(s, &banned, logits, NULL, 0, 0, &id), 0);
    assert_int_equal(id, 2);
    assert_int_equal(fixture_pick(s, &w, logits, NULL, 0, 0, &id), 0);
    assert_int_equal(id, 1);
    sample_scratch_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_changes_end_with_the_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
