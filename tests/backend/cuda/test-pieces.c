/* SPDX-License-Identifier: MIT */
/* How a batch is cut into pieces (daemon/backend/cuda/pieces.c). Without a GPU. */
#include "daemon/backend/cuda/pieces.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define DIM    4
#define TOKENS 1600

static struct batch_entry part[TOKENS];
static struct state_save saves[TOKENS];

static void test_sizes(void **state)
{
    assert_int_equal(cuda_piece_tokens(4096, 1), 0);
    assert_int_equal(cuda_piece_tokens(1023, 2), 0);
    assert_int_equal(cuda_piece_tokens(1024, 2), 512);
    assert_int_equal(cuda_piece_tokens(1025, 2), 576);
    assert_int_equal(cuda_piece_tokens(2048, 2), 512);
    assert_int_equal(cuda_piece_tokens(4096, 2), 1024);
    assert_int_equal(cuda_piece_tokens(2048, 4), 512);
    assert_int_equal(cuda_piece_tokens(1 << 20, 4), 1 << 17);
}

/* An entry in two pieces, behind a small one: places of all that it refers to. */
static void test_an_entry(void **state)
{
    static int32_t tokens[1000], best[1000];
    static uint8_t want[1000];
    static const struct state_save at[] = {{32, 7}, {500, 8}, {501, 9}, {990, 10}};
    want[0] = want[499] = WANT_BEST | WANT_LOGITS, want[500] = WANT_HIDDEN, want[999] = WANT_LOGITS;
    const struct batch_entry e[] = {{.n = 12, .pos = 5},
                                    {.n = 1000,
                                     .pos = 64,
                                     .tokens = tokens,
                                     .want = want,
                                     .best = best,
                                     .state = {.block = 3, .n_saves = 4, .saves = at}}};
    struct cuda_pieces p = {.e = e, .n = 2, .dim = DIM, .part = part, .saves = saves};
    assert_int_equal(cuda_next_piece(&p, 512), 2);
    assert_true(part[0].n == 12 && part[0].pos == 5 && !part[0].tokens && !part[0].want);
    assert_true(part[1].n == 500 && part[1].pos == 64 && part[1].tokens == tokens && part[1].best == best);
    assert_true(part[1].state.block == 3 && part[1].state.n_saves == 2);
    assert_memory_equal(part[1].state.saves, at, 2 * sizeof(*at));
    assert_true(p.logits == 2 && p.hidden == 0);
    assert_int_equal(cuda_next_piece(&p, 512), 1);
    assert_true(part[0].n == 500 && part[0].pos == 564 && part[0].tokens == tokens + 500);
    assert_true(part[0].want == want + 500 && part[0].best == best + 2);
    const struct state_save later[] = {{1, 9}, {490, 10}};
    assert_true(part[0].state.block == 3 && part[0].state.n_saves == 2);
    assert_memory_equal(part[0].state.saves, later, sizeof(later));
    assert_true(p.logits == 1 && p.hidden == 1);
    assert_int_equal(cuda_next_piece(&p, 512), 0);
}

/* Embeddings, with places in a grid; a run whose items see each other is not cut. */
static void test_embeddings(void **state)
{
    static float embd[600 * DIM];
    static struct item_place places[600];
    const struct batch_entry e[] = {{.n = 600, .embd = embd, .places = places},
                                    {.n = 900, .embd = embd, .whole = true},
                                    {.n = 100, .tokens = (const int32_t[100]){0}}};
    struct cuda_pieces p = {.e = e, .n = 3, .dim = DIM, .part = part, .saves = saves};
    assert_int_equal(cuda_next_piece(&p, 512), 1);
    assert_int_equal(cuda_next_piece(&p, 512), 2);
    assert_true(part[0].n == 88 && part[0].embd == embd + 512 * DIM && part[0].places == places + 512);
    assert_true(part[1].n == 900 && part[1].embd == embd && part[1].whole);
    assert_int_equal(cuda_next_piece(&p, 512), 1);
    assert_true(part[0].n == 100 && part[0].pos == 0);
    assert_int_equal(cuda_next_piece(&p, 512), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_an_entry),
                                       cmocka_unit_test(test_embeddings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
