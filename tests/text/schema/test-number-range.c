/* SPDX-License-Identifier: MIT */
/* Ranges and multiples of decimal numbers against integers scaled by 1000. Also tests decimal.c and number-multiple.c.
 */
#include "daemon/text/schema/number-range.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fixture {
    struct grammar_builder *b;
    struct digits d;
    struct jj_arena arena;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_int_equal(grammar_builder_new(&f->b), 0);
    digits_init(&f->d, f->b);
}

static void fixture_fini(struct fixture *f)
{
    grammar_builder_free(f->b);
    jj_arena_fini(&f->arena);
}

/* @v thousandths, written with @places digits behind the point (fewer if the others are not 0). */
static void write(char *out, size_t n, uint32_t v, unsigned places)
{
    static const unsigned power[] = {1000, 100, 10, 1};
    while (v % power[places] != 0) places++;
    if (places == 0)
        snprintf(out, n, "%u", v / 1000);
    else
        snprintf(out, n, "%u.%0*u", v / 1000, (int)places, v % 1000 / power[places]);
}

static struct decimal decimal_of(struct fixture *f, const char *text)
{
    struct decimal x;
    assert_int_equal(decimal_parse(&f->arena, text, strlen(text), &x), 0);
    return x;
}

static void limits_are_exact(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct fixture f;
    fixture_init(&f);
    for (int i = 0; i < 300; i++) {
        char text[32], limit[32];
        uint32_t a = next_random(&random) % (i % 2 ? 3000 : 2000000);
        write(limit, sizeof(limit), a, next_random(&random) % 4);
        struct decimal x = decimal_of(&f, limit);
        bool exclusive = i & 4;
        expr_t from = digits_from(&f.d, &x, exclusive, false), to = digits_to(&f.d, &x, exclusive, false),
               same = digits_equal(&f.d, &x);
        for (int k = 0; k < 60; k++) {
            uint32_t v = k < 20 ? a + (uint32_t)k - (a < 10 ? 0 : 10) : next_random(&random) % (k % 2 ? 3000 : 2000000);
            write(text, sizeof(text), v, next_random(&random) % 4);
            assert_int_equal(expr_matches(f.b, from, text, strlen(text)), exclusive ? v > a : v >= a);
            assert_int_equal(expr_matches(f.b, to, text, strlen(text)), exclusive ? v < a : v <= a);
            assert_int_equal(expr_matches(f.b, same, text, strlen(text)), v == a);
            struct decimal y = decimal_of(&f, text);
            int order = decimal_compare(&y, &x);
            assert_int_equal((order > 0) - (order < 0), (v > a) - (v < a));
        }
    }
    fixture_fini(&f);
}

static void multiples_are_exact(void **state)
{
    (void)state;
    static const char *const factors[] = {"0.001", "0.002", "0.005", "0.01", "0.025", "0.05", "0.1", "0.125",
                                          "0.2",   "0.25",  "0.5",   "1",    "2",     "2.5",  "4",   "5",
                                          "8",     "10",    "16",    "20",   "25",    "125",  "1000"};
    uint64_t random = 2;
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        struct decimal x = decimal_of(&f, factors[i]);
        expr_t all = digits_multiple(&f.d, &x, false, true);
        assert_true(expr_is_regular(f.b, all));
        for (int k = 0; k < 400; k++) {
            char text[32];
            uint32_t v = k < 200 ? (uint32_t)k * 25 : next_random(&random) % 3000000;
            write(text, sizeof(text), v, next_random(&random) % 4);
            struct decimal y = decimal_of(&f, text);
            int divides = decimal_divides(&x, &y);
            assert_true(divides >= 0);
            assert_int_equal(expr_matches(f.b, all, text, strlen(text)), divides);
        }
    }
    fixture_fini(&f);
}

static void decimals_are_kept_exactly(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    struct decimal a = decimal_of(&f, "100000000000000000000000000000.5"),
                   b = decimal_of(&f, "1.000000000000000000000000000005e29");
    assert_int_equal(decimal_compare(&a, &b), 0);
    assert_false(decimal_is_integer(&a));
    struct decimal zero = decimal_of(&f, "-0.00e5"), three = decimal_of(&f, "3"), nine = decimal_of(&f, "-9e30");
    assert_int_equal(zero.n, 0);
    assert_int_equal(decimal_divides(&three, &nine), 1);
    assert_int_equal(decimal_divides(&nine, &three), 0);
    char whole[DECIMAL_DIGITS_MAX + 1], part[DECIMAL_DIGITS_MAX + 1];
    struct decimal small = decimal_of(&f, "1.5e-3"), large = decimal_of(&f, "1e500"), out;
    assert_true(decimal_plain(&small, whole, part));
    assert_string_equal(whole, "0");
    assert_string_equal(part, "0015");
    assert_false(decimal_plain(&large, whole, part));
    assert_int_equal(decimal_parse(&f.arena, "1e99999999999", 13, &out), -E2BIG);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(multiples_are_exact),
        cmocka_unit_test(decimals_are_kept_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
