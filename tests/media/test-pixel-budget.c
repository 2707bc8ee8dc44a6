/* SPDX-License-Identifier: MIT */
/* Also media-source: pixels are charged, dropped and given back. */
#include "daemon/media/media-source.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>

static struct media_source *decoded(struct pixel_budget *b, uid_t uid, uint32_t width)
{
    struct media_source *s;
    struct media m = {.kind = MEDIA_IMAGE, .width = width, .height = 1, .data = malloc(3 * (size_t)width)};
    assert_non_null(m.data);
    assert_int_equal(media_source_new(&s, NULL), 0);
    media_source_decoded(s, &m);
    assert_non_null(s->pixels);
    media_source_charge(s, b, uid);
    return s;
}

static void test_shares(void **state)
{
    struct pixel_budget *b;
    assert_int_equal(pixel_budget_new(&b, 1200), 0);
    struct media_source *first = decoded(b, 1, 200), *large = decoded(b, 1, 1), *other = decoded(b, 2, 100);
    assert_true(first->pixels && !large->pixels); /* half for one user */
    assert_non_null(other->pixels);
    assert_int_equal(pixel_budget_bytes(b), 900);
    struct media_source *third = decoded(b, 3, 50), *more = decoded(b, 3, 1);
    assert_true(third->pixels && more->pixels == NULL);
    media_source_charge(first, b, 1); /* is charged already */
    media_source_ref(first);
    media_source_drop(first);
    assert_true(!first->pixels && pixel_budget_bytes(b) == 450);
    struct media_source *all[] = {first, first, large, other, third, more};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) media_source_unref(all[i]);
    assert_int_equal(pixel_budget_bytes(b), 0);
    assert_false(pixel_budget_take(b, 1, UINT64_MAX));
    assert_null(pixel_budget_free(b));
    assert_null(pixel_budget_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
