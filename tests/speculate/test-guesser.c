/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/guesser.h"
#include "tests/libcommon/check.h"
#include <string.h>

#define TEXT_MAX 8192
#define COST     0.2 /* steps of a row */

static int32_t text[TEXT_MAX];
static uint64_t state_of_random;

struct play {
    struct pasts pasts;
    struct past *past;
    struct guesser *guesser;
    uint32_t steps, rows, accepted;
};

static void begin(struct play *p)
{
    static const uint8_t name[PAST_NAME] = "me";
    p->past = past_hold(&p->pasts, name, 1000);
    assert_non_null(p->past);
    assert_int_equal(guesser_new(&p->guesser, p->past), 0);
}

static void end(struct play *p)
{
    p->guesser = guesser_free(p->guesser);
    past_drop(&p->pasts, p->past);
}

/* An answer: text[from … to) comes whatever is proposed. */
static void play(struct play *p, uint32_t from, uint32_t to)
{
    int32_t out[GUESS_MOST];
    float chance[GUESS_MOST];
    p->steps = p->rows = p->accepted = 0;
    for (uint32_t n = from; n < to; p->steps++) {
        guesser_read(p->guesser, text, n, UINT32_MAX);
        uint32_t k = guesser_propose(p->guesser, text, n, out, chance, GUESS_MOST), hits = 0;
        for (uint32_t i = 0; i < k; i++) assert_true(chance[i] > 0 && chance[i] <= (i ? chance[i - 1] : 1));
        k = past_rows(p->past, COST, k);
        past_pay(p->past, k, COST, 1);
        while (hits < k && n + hits < to && out[hits] == text[n + hits]) hits++;
        for (uint32_t i = 0; i < hits; i++) past_earn(p->past, 1);
        p->rows += k;
        p->accepted += hits;
        n += 1 + hits;
    }
}

static void test_copy(void **state)
{
    struct play p = {0};
    state_of_random = 1;
    for (int i = 0; i < 500; i++) text[i] = text[500 + i] = (int32_t)(next_random(&state_of_random) % 5000);
    begin(&p);
    play(&p, 503, 1000);
    assert_true(p.accepted > 450 && p.rows < 500 && p.steps < 60);
    /* The same with every tenth token replaced. */
    for (int i = 0; i < 500; i += 10) text[500 + i] = 9000 + i % 3;
    end(&p);
    begin(&p);
    play(&p, 503, 1000);
    assert_true(p.accepted > 350);
    end(&p);
    pasts_fini(&p.pasts);
}

/* An answer of another sequence of the namespace is found; of another namespace there is none. */
static void test_past(void **state)
{
    struct play p = {0};
    state_of_random = 2;
    for (int i = 0; i < 400; i++) text[i] = (int32_t)(next_random(&state_of_random) % 5000);
    begin(&p);
    play(&p, 100, 400);
    assert_int_equal(p.accepted, 0);
    past_add(&p.pasts, p.past, text + 80, 320);
    end(&p);
    begin(&p);
    play(&p, 100, 400);
    assert_true(p.accepted > 250);
    end(&p);
    static const uint8_t other[PAST_NAME] = "other";
    p.past = past_hold(&p.pasts, other, 1000);
    assert_int_equal(guesser_new(&p.guesser, p.past), 0);
    play(&p, 100, 400);
    assert_int_equal(p.rows, 0);
    end(&p);
    pasts_fini(&p.pasts);
}

/* Texts made so that each match is long and its next token another one: rows cost at most 1% of the steps and a step.
 */
static void test_refused(void **state)
{
    struct play p = {0};
    uint32_t rows = 0, steps = 0, accepted = 0;
    for (uint32_t answer = 0; answer < 20; answer++) {
        for (uint32_t i = 0; i < 1500; i++)
            text[i] = i % 25 == 24 ? (int32_t)(1000 + answer * 100 + i / 25) : (int32_t)(i % 25);
        begin(&p);
        for (uint32_t from = 24; from + 25 < 1500; from += 25) { /* only tokens that follow a match of 24 and differ */
            play(&p, from, from + 1);
            rows += p.rows;
            steps += p.steps;
            accepted += p.accepted;
        }
        end(&p);
    }
    assert_true(rows > 0 && accepted == 0);
    assert_true(rows * COST <= PAST_BEGIN + PAST_ALLOWANCE * steps + COST);
    pasts_fini(&p.pasts);
}

/* Any text, with and without places without a token: what is lost stays small. */
static void test_losses(void **state)
{
    static const uint32_t alphabets[] = {3, 20, 200};
    for (int a = 0; a < 3; a++) {
        struct play p = {0};
        state_of_random = 3;
        for (int i = 0; i < TEXT_MAX; i++) text[i] = (int32_t)(next_random(&state_of_random) % alphabets[a]);
        for (int i = 100; i < 200; i++) text[i] = INT32_MIN;
        begin(&p);
        play(&p, 1000, TEXT_MAX);
        assert_true(p.rows * COST - p.accepted <= PAST_BEGIN + PAST_ALLOWANCE * p.steps + GUESS_MOST * COST);
        assert_true(guesser_bytes(p.guesser) <= TEXT_MAX * LOOKUP_TOKEN_BYTES + 1000);
        end(&p);
        pasts_fini(&p.pasts);
    }
}

/* A long prompt is read in pieces, and nothing is proposed before its end. */
static void test_pieces(void **state)
{
    struct play p = {0};
    int32_t out[GUESS_MOST];
    float chance[GUESS_MOST];
    for (int i = 0; i < 1000; i++) text[i] = i % 50;
    begin(&p);
    for (int i = 0; i < 9; i++) {
        guesser_read(p.guesser, text, 1000, 100);
        assert_int_equal(guesser_propose(p.guesser, text, 1000, out, chance, GUESS_MOST), 0);
    }
    guesser_read(p.guesser, text, 1000, 100);
    uint32_t n = guesser_propose(p.guesser, text, 1000, out, chance, GUESS_MOST);
    assert_true(n > 8);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(out[i], i);
    assert_int_equal(guesser_propose(p.guesser, text, 1000, out, chance, 3), 3);
    end(&p);
    pasts_fini(&p.pasts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),   cmocka_unit_test(test_past),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_losses), cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
