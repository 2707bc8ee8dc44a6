/* SPDX-License-Identifier: MIT */
/* Also media-table: what is found, and who loses what when the cache is full. */
#include "daemon/cache/media/media-cache.h"
#include "tests/libcommon/check.h"
#include <stdbool.h>
#include <string.h>

enum { VALUES = 1000, BYTES = VALUES * 4 + sizeof(struct embeddings) };

static struct media_key key_of(uint32_t space, uint32_t number)
{
    struct media_key k = {{0}, {0}};
    memcpy(k.namespace, &space, sizeof(space));
    memcpy(k.digest, &number, sizeof(number));
    return k;
}

static void add(struct media_cache *c, uint32_t uid, uint32_t number)
{
    struct embeddings *e;
    const struct media_key k = key_of(uid, number);
    assert_int_equal(embeddings_new(&e, 10, VALUES / 10), 0);
    e->values[7] = (float)(uid + number);
    media_cache_add(c, &k, uid, e);
    embeddings_unref(e);
}

static bool has(struct media_cache *c, uint32_t uid, uint32_t number)
{
    const struct media_key k = key_of(uid, number);
    struct embeddings *e = media_cache_find(c, &k);
    if (e) assert_true(e->values[7] == (float)(uid + number));
    embeddings_unref(e);
    return e;
}

static void test_the_least_recently_used_goes(void **state)
{
    struct media_cache c = {.bytes_max = 3 * BYTES};
    for (uint32_t i = 0; i < 3; i++) add(&c, 1, i);
    assert_true(has(&c, 1, 0));
    add(&c, 1, 3);
    assert_true(has(&c, 1, 0) && !has(&c, 1, 1) && has(&c, 1, 2) && has(&c, 1, 3));
    assert_int_equal(c.table.bytes, 3 * BYTES);
    add(&c, 1, 3); /* twice is once */
    assert_int_equal(c.table.n, 3);
    media_cache_fini(&c);
}

static void test_a_user_removes_nothing_of_one_with_less(void **state)
{
    struct media_cache c = {.bytes_max = 6 * BYTES};
    add(&c, 2, 0);
    add(&c, 2, 1);
    for (uint32_t i = 0; i < 20; i++) add(&c, 1, i);
    assert_true(has(&c, 2, 0) && has(&c, 2, 1));
    for (uint32_t i = 0; i < 16; i++) assert_false(has(&c, 1, i));
    for (uint32_t i = 16; i < 20; i++) assert_true(has(&c, 1, i));
    add(&c, 2, 2); /* each has three then, at the cost of the one with four */
    assert_true(has(&c, 2, 0) && has(&c, 2, 2) && !has(&c, 1, 16) && has(&c, 1, 17));
    assert_false(has(&c, 1, 0) || has(&c, 3, 0));
    media_cache_fini(&c);
}

static void test_too_large_and_shed(void **state)
{
    struct media_cache c = {.bytes_max = BYTES - 1};
    add(&c, 1, 0);
    assert_int_equal(c.table.n, 0);
    c.bytes_max = 8 * BYTES;
    for (uint32_t i = 0; i < 8; i++) add(&c, i % 2, i);
    media_cache_shed(&c);
    assert_int_equal(c.table.bytes, 6 * BYTES);
    assert_true(!has(&c, 0, 0) && !has(&c, 1, 1) && has(&c, 0, 2));
    media_cache_fini(&c);
    media_cache_shed(&c);
    assert_int_equal(c.table.bytes, 0);
}

static void test_no_more_entries_than_places(void **state)
{
    struct media_cache c = {.bytes_max = UINT64_MAX};
    for (uint32_t i = 0; i <= MEDIA_ENTRIES_MAX; i++) {
        struct embeddings *e;
        const struct media_key k = key_of(1, i);
        assert_int_equal(embeddings_new(&e, 1, 1), 0);
        media_cache_add(&c, &k, 1, e);
        embeddings_unref(e);
    }
    assert_int_equal(c.table.n, MEDIA_ENTRIES_MAX);
    media_cache_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_recently_used_goes),
        cmocka_unit_test(test_a_user_removes_nothing_of_one_with_less),
        cmocka_unit_test(test_too_large_and_shed),
        cmocka_unit_test(test_no_more_entries_than_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
