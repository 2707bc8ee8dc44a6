/* SPDX-License-Identifier: MIT */
/* Items against numbers that stand for them: comparison, parts, and what is no list of items. */
#include "daemon/model/items.h"
#include "tests/cache/prefix/coded.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LISTS 300

/* A list of at most 40 items with runs, which begin at their beginning. */
static uint32_t random_codes(int32_t *codes)
{
    uint32_t n = (uint32_t)random() % 40, i = 0;
    while (i < n) {
        int32_t run = (int32_t)(random() % CODE_RUNS);
        uint32_t many = 1 + (uint32_t)random() % 6;
        bool token = random() % 2;
        for (uint32_t k = 0; k < many && i < n; k++) codes[i++] = token ? (int32_t)(random() % 2) : code_of(run, k);
    }
    return n;
}

static uint32_t common_codes(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i]) i++;
    return i;
}

/* Beginnings and ends of two lists. */
static void compare_parts(const int32_t *x, uint32_t n_x, const int32_t *y, uint32_t n_y)
{
    struct coded c, d;
    uint32_t from = n_x && n_y ? (uint32_t)random() % (n_x < n_y ? n_x : n_y) : 0;
    struct items a = items_from(coded_items(&c, x, n_x), from), b = items_from(coded_items(&d, y, n_y), from);
    a.n -= a.n ? (uint32_t)random() % a.n : 0;
    uint32_t common = common_codes(x + from, a.n, y + from, b.n);
    assert_int_equal(items_common(&a, &b), common);
    assert_int_equal(items_common(&b, &a), common);
    assert_int_equal(items_equal(&a, &b), common == a.n && common == b.n);
    int r = items_compare(&a, &b), s = items_compare(&b, &a);
    assert_true((r > 0) == (s < 0) && (r == 0) == (s == 0) && (r == 0) == items_equal(&a, &b));
    if (common == a.n && common < b.n) assert_true(r < 0); /* a beginning comes first */
}

static void test_compare(void **state)
{
    int32_t x[40], y[40];
    srandom(1);
    for (int i = 0; i < 30000; i++) {
        uint32_t n_x = random_codes(x), n_y = random_codes(y);
        compare_parts(x, n_x, y, n_y);
        memcpy(y, x, n_x * sizeof(*x));
        n_y = n_x - (n_x ? (uint32_t)random() % n_x : 0);
        if (n_y) y[random() % n_y] = code_of((int32_t)(random() % CODE_RUNS), 0);
        compare_parts(x, n_x, y, n_y);
    }
}

static int by_order(const void *x, const void *y)
{
    return items_compare(x, y);
}

/* All pairs of a sorted list are in order, so that the order is one. */
static void test_order(void **state)
{
    static struct coded coded[LISTS];
    static struct items lists[LISTS];
    int32_t codes[40];
    srandom(2);
    for (int i = 0; i < LISTS; i++) {
        uint32_t n = random_codes(codes);
        lists[i] = coded_items(&coded[i], codes, n > 6 ? 6 : n);
    }
    qsort(lists, LISTS, sizeof(*lists), by_order);
    for (int i = 0; i < LISTS; i++)
        for (int k = i; k < LISTS; k++) assert_true(items_compare(&lists[i], &lists[k]) <= 0);
}

/* Each part of a list, as a list of its own. */
static void test_cut(void **state)
{
    int32_t codes[40], got[40];
    struct item_run runs[40];
    struct coded c;
    srandom(3);
    for (int i = 0; i < 300; i++) {
        const struct items all = coded_items(&c, codes, random_codes(codes));
        assert_true(items_check(&all));
        for (uint32_t from = 0; from <= all.n; from++)
            for (uint32_t to = from; to <= all.n; to++) {
                struct items part = items_from(all, from);
                part.n = to - from;
                struct items own = {.ids = part.ids, .n = part.n, .runs = runs};
                own.n_runs = items_cut(&part, runs);
                assert_true(own.n_runs <= part.n && items_check(&own) && items_equal(&part, &own));
                coded_from(&own, got);
                assert_memory_equal(got, codes + from, own.n * sizeof(*got));
                uint32_t n = 0;
                while (n < part.n &&
                       (n == 0 || (codes[from + n] >= CODE_RUN
                                       ? codes[from + n] == codes[from + n - 1] + 1 && codes[from + n] % CODE_PLACES
                                       : codes[from + n - 1] < CODE_RUN)))
                    n++;
                assert_int_equal(items_stretch(&part), n);
                assert_int_equal(items_stretch(&own), n);
            }
    }
}

static bool good(const int32_t *ids, uint32_t n, const struct item_run *runs, uint32_t n_runs)
{
    const struct items t = {.ids = ids, .n = n, .runs = runs, .n_runs = n_runs};
    return items_check(&t);
}

static void test_check(void **state)
{
    const int32_t E = ITEM_EMBD, ids[] = {5, E, E, E, E, 6};
    const struct item_run whole[] = {{.at = 1, .n = 2, .kind = ITEM_IMAGE}, {.at = 3, .n = 2, .kind = ITEM_SOUND}};
    struct item_run r[2];
    assert_true(good(ids, 6, whole, 2));
    assert_true(good(ids, 1, NULL, 0));
    assert_true(good(ids, 0, NULL, 0));
    assert_false(good(ids, 6, NULL, 0)); /* ids without their run */
    assert_false(good(ids, 6, whole, 1));
    assert_false(good(ids, 4, whole, 2)); /* it ends behind the items */
    assert_false(good(ids, 3, whole, 2)); /* it begins there */
    static const struct {
        size_t run;
        struct item_run is;
    } bad[] = {
        {1, {.at = 2, .n = 3, .kind = ITEM_SOUND}}, /* they overlap */
        {1, {.at = 3, .n = 1, .kind = ITEM_SOUND}},
        {1, {.at = 3, .n = 0, .kind = ITEM_SOUND}},
        {1, {.at = 3, .n = 3, .kind = ITEM_SOUND}}, /* over a token */
        {1, {.at = 3, .n = UINT32_MAX, .kind = ITEM_SOUND}},
        {1, {.at = UINT32_MAX, .n = 2, .kind = ITEM_SOUND}},
        {1, {.at = 3, .n = 2, .kind = 0}},
        {1, {.at = 3, .n = 2, .kind = ITEM_KIND_MAX + 1}},
        {1, {.at = 3, .n = 2, .kind = ITEM_SOUND, .offset = 1}}, /* the rest of a run that does not begin before it */
        {0, {.at = 0, .n = 3, .kind = ITEM_IMAGE}},
        {0, {.at = 1, .n = 1, .kind = ITEM_IMAGE}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        memcpy(r, whole, sizeof(r));
        r[bad[i].run] = bad[i].is;
        assert_false(good(ids, 6, r, 2));
    }
    /* The rest of a run that the items before them have. */
    struct item_run rest = {.at = 0, .n = 4, .kind = ITEM_IMAGE, .offset = 7};
    assert_true(good(ids + 1, 5, &rest, 1));
    rest.offset = UINT32_MAX - 3;
    assert_false(good(ids + 1, 5, &rest, 1));
}

static bool place_is(struct item_place p, uint32_t time, uint32_t row, uint32_t column)
{
    return p.of[0] == time && p.of[1] == row && p.of[2] == column;
}

/* A grid of 2 x 3, a run without a grid, a grid of 4 x 1, and tokens around them. */
static void test_places(void **state)
{
    const struct item_run runs[] = {{.at = 2, .n = 6, .kind = ITEM_IMAGE, .columns = 3},
                                    {.at = 8, .n = 2, .kind = ITEM_SOUND},
                                    {.at = 11, .n = 4, .kind = ITEM_IMAGE, .columns = 1}};
    static const uint32_t want[][3] = {{0, 0, 0}, {1, 1, 1},  {2, 2, 2},  {2, 2, 3},    {2, 2, 4},   {2, 3, 2},
                                       {2, 3, 3}, {2, 3, 4},  {5, 5, 5},  {6, 6, 6},    {7, 7, 7},   {8, 8, 8},
                                       {8, 9, 8}, {8, 10, 8}, {8, 11, 8}, {12, 12, 12}, {13, 13, 13}};
    enum { N = sizeof(want) / sizeof(*want) };
    const struct items t = {.n = N - 1, .runs = runs, .n_runs = 3}; /* the last one is behind them */
    struct item_place out[N];
    for (uint32_t from = 0; from < N; from++)
        for (uint32_t n = 1; n <= N - from; n++) {
            bool before = from + n <= 2; /* nothing but tokens so far */
            assert_int_equal(items_places(&t, from, n, out), !before);
            for (uint32_t i = 0; !before && i < n; i++)
                assert_true(place_is(out[i], want[from + i][0], want[from + i][1], want[from + i][2]));
        }
    const struct items plain = {.n = N, .runs = runs + 1, .n_runs = 1};
    assert_false(items_places(&plain, 0, N, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare), cmocka_unit_test(test_order),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_check),   cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
