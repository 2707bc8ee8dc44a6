/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/lookup.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 5000

static uint64_t state_of_random = 7;

static int32_t draw(uint32_t n)
{
    return (int32_t)(next_random(&state_of_random) % n);
}

/* Tokens before @at that equal the last ones of @ids [n], at most LOOKUP_LONGEST. */
static uint32_t naive_length(const int32_t *text, uint32_t at, const int32_t *ids, uint32_t n)
{
    uint32_t i = 0;
    while (i < at && i < n && i < LOOKUP_LONGEST && ids[n - 1 - i] >= 0 && text[at - 1 - i] == ids[n - 1 - i]) i++;
    return i;
}

static uint32_t naive_longest(const int32_t *text, uint32_t end, const int32_t *ids, uint32_t n, uint32_t first)
{
    uint32_t most = 0;
    for (uint32_t at = first + 1; at < end; at++) {
        uint32_t length = naive_length(text, at, ids, n);
        if (length > most) most = length;
    }
    return most;
}

static void assert_match(const struct lookup *l, const int32_t *text, uint32_t n, uint32_t near)
{
    struct lookup_match m;
    lookup_find(l, text, n, near, &m);
    assert_true(m.n <= LOOKUP_PLACES && (m.length > 0) == (m.n > 0));
    for (uint32_t i = 0; i < m.n; i++) {
        assert_true(m.places[i] < n);
        assert_int_equal(naive_length(text, m.places[i], text, n), m.length);
    }
    if (!m.near) assert_true(m.length == 0 || m.length >= LOOKUP_SHORT);
}

/* What is found is a match; with few places for each pair it is the longest. */
static void test_matches_are_true(void **state)
{
    static const uint32_t alphabets[] = {2, 5, 40, 400};
    static int32_t text[TEXT_MAX];
    for (int a = 0; a < 4; a++) {
        struct lookup *l;
        assert_int_equal(lookup_new(&l, TEXT_MAX), 0);
        for (uint32_t n = 0; n < 3000; n++) {
            text[n] = draw(200) == 0 ? -1 : draw(alphabets[a]);
            if (n > 100 && draw(30) == 0) /* copies */
                for (uint32_t k = 0, from = (uint32_t)draw(n - 60); k < 40 && n + 1 < 3000; k++, n++) {
                    assert_int_equal(lookup_push(l, &text[n], 1), 0);
                    text[n + 1] = text[from + k];
                }
            assert_int_equal(lookup_push(l, &text[n], 1), 0);
            assert_match(l, text, n + 1, n % 3 == 0 ? n / 2 : UINT32_MAX);
            struct lookup_match m;
            lookup_find(l, text, n + 1, UINT32_MAX, &m);
            uint32_t longest = naive_longest(text, n + 1, text, n + 1, 0);
            if (alphabets[a] == 400 && longest >= LOOKUP_SHORT) assert_int_equal(m.length, longest);
        }
        assert_int_equal(lookup_end(l), 3000);
        lookup_free(l);
    }
}

static void test_follow_votes(void **state)
{
    static const int32_t text[] = {1, 2, 3, 4, 9, 1, 2, 3, 5, 9, 1, 2, 3, 4, 8, 1, 2, 3};
    struct lookup *l;
    struct lookup_match m;
    int32_t ids[4];
    float share[4];
    assert_int_equal(lookup_new(&l, 100), 0);
    assert_int_equal(lookup_push(l, text, 18), 0);
    lookup_find(l, text, 18, UINT32_MAX, &m);
    assert_int_equal(m.length, 3);
    assert_int_equal(m.n, 3);
    assert_int_equal(m.places[0], 13);
    assert_int_equal(lookup_follow(l, &m, true, ids, share, 4), 4);
    assert_int_equal(ids[0], 4);
    assert_true(share[0] > 0.66f && share[0] < 0.67f);
    assert_int_equal(ids[1], 8); /* one each: the later place */
    assert_true(share[1] == 0.5f);
    assert_int_equal(ids[2], 1);
    assert_true(share[2] == 1);
    lookup_free(l);
}

/* A text that repeats a short period is continued beyond its end, a foreign text is not. */
static void test_follow_beyond_the_end(void **state)
{
    static const int32_t text[] = {7, 8, 9, 7, 8, 9, 7, 8};
    struct lookup *l;
    struct lookup_match m;
    int32_t ids[8];
    float share[8];
    assert_int_equal(lookup_new(&l, 100), 0);
    assert_int_equal(lookup_push(l, text, 8), 0);
    lookup_find(l, text, 8, UINT32_MAX, &m);
    assert_int_equal(lookup_follow(l, &m, true, ids, share, 8), 8);
    for (int i = 0; i < 8; i++) assert_int_equal(ids[i], 7 + (i + 2) % 3);
    assert_int_equal(lookup_follow(l, &m, false, ids, share, 8), 3);
    lookup_free(l);
}

/* After a token of a copy was replaced, the copy is found again at once. */
static void test_near(void **state)
{
    int32_t text[64];
    struct lookup *l;
    struct lookup_match m;
    for (int i = 0; i < 20; i++) text[i] = i < 10 ? 100 + i : 50;
    text[20] = 104; /* after 103, the token 104 came before; now another came, and then 105 */
    text[21] = 77;
    text[22] = 106;
    assert_int_equal(lookup_new(&l, 100), 0);
    assert_int_equal(lookup_push(l, text, 23), 0);
    lookup_find(l, text, 23, UINT32_MAX, &m);
    assert_int_equal(m.length, 0);
    lookup_find(l, text, 23, 5, &m);
    assert_true(m.near && m.length == 1 && m.n == 1);
    assert_int_equal(m.places[0], 7);
    lookup_free(l);
}

/* Old tokens leave, and no match reaches to them or over a break. */
static void test_memory_is_bounded(void **state)
{
    static int32_t text[4 * 1024];
    struct lookup *l;
    struct lookup_match m;
    assert_int_equal(lookup_new(&l, 1024), 0);
    for (int i = 0; i < 4096; i++) text[i] = 10000 + i;
    for (int i = 0; i < 20; i++) text[4076 + i] = text[i];
    assert_int_equal(lookup_push(l, text, 4096), 0);
    assert_in_range(lookup_bytes(l), 1024 * LOOKUP_TOKEN_BYTES, 1024 * LOOKUP_TOKEN_BYTES + 200);
    lookup_find(l, text, 4096, UINT32_MAX, &m);
    assert_int_equal(m.length, 0);
    lookup_find(l, text, 4096, 20, &m);
    assert_int_equal(m.length, 0);
    lookup_find(l, text + 4000, 50, UINT32_MAX, &m); /* as far back as it remembers */
    assert_int_equal(m.length, LOOKUP_LONGEST);
    assert_int_equal(m.places[0], 4050);
    lookup_free(l);
    static const int32_t broken[] = {1, 2, -5, 3, 4, 1, 2, -5, 3};
    assert_int_equal(lookup_new(&l, 1024), 0);
    assert_int_equal(lookup_push(l, broken, 9), 0);
    lookup_find(l, broken, 9, UINT32_MAX, &m);
    assert_int_equal(m.length, 0);
    lookup_find(l, broken, 8, UINT32_MAX, &m);
    assert_int_equal(m.length, 0);
    lookup_free(l);
    lookup_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches_are_true),      cmocka_unit_test(test_follow_votes),
        cmocka_unit_test(test_follow_beyond_the_end), cmocka_unit_test(test_near),
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
