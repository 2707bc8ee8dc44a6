/* SPDX-License-Identifier: MIT */
/* The table of embeddings and the memo of files: names, limits, who gives first, and what is freed. */
#include "daemon/cache/media/media-cache.h"
#include "daemon/cache/media/media-memo.h"
#include "tests/libcommon/check.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <malloc.h>
#include <string.h>

static struct media_entry entry(uint64_t high, uint64_t low, uid_t uid, uint64_t bytes, uint64_t used)
{
    return (struct media_entry){.name = {high, low}, .uid = uid, .bytes = bytes, .used = used};
}

static void add(struct media_table *t, uint64_t name, uid_t uid, uint64_t bytes)
{
    const struct media_entry x = entry(name, name, uid, bytes, 0);
    assert_int_equal(media_table_add(t, &x), 0);
}

static void remove_name(struct media_table *t, uint64_t name)
{
    media_table_remove(t, media_table_find(t, (const uint64_t[2]){name, name}));
}

static void test_names(void **state)
{
    struct media_table t = {0};
    static const uint64_t names[][2] = {{1, 2}, {1, 3}, {4, 2}, {4, 3}};
    for (int i = 0; i < 3; i++) {
        const struct media_entry x = entry(names[i][0], names[i][1], 7, 10, 0);
        assert_int_equal(media_table_add(&t, &x), 0);
    }
    for (size_t i = 0; i < 3; i++) assert_ptr_equal(media_table_find(&t, names[i]), &t.entries[i]);
    assert_null(media_table_find(&t, names[3]));
    assert_int_equal(t.bytes, 30);
    media_table_fini(&t);
}

/* Entries of earlier processes bring their time; the next use is later than each. */
static void test_uses(void **state)
{
    struct media_table t = {0};
    static const uint64_t used[] = {100, 50, 100, 200};
    for (uint64_t i = 0; i < 4; i++) {
        const struct media_entry x = entry(i, i, 7, 10, used[i]);
        assert_int_equal(media_table_add(&t, &x), 0);
        assert_int_equal(t.entries[i].used, used[i]);
        assert_int_equal(t.uses, i < 3 ? 100 : 200);
    }
    add(&t, 9, 7, 10);
    assert_int_equal(t.entries[4].used, 201);
    media_table_use(&t, &t.entries[1]);
    assert_int_equal(t.entries[1].used, 202);
    media_table_fini(&t);
}

static void test_full(void **state)
{
    struct media_table t = {0};
    for (uint64_t i = 0; i < MEDIA_ENTRIES_MAX; i++) add(&t, i + 1, 7, 1);
    const struct media_entry x = entry(0, 0, 7, 1, 0);
    assert_int_equal(media_table_add(&t, &x), -ENOBUFS);
    assert_true(t.n == MEDIA_ENTRIES_MAX && t.bytes == MEDIA_ENTRIES_MAX);
    media_table_fini(&t);
    struct media_cache c = {.bytes_max = UINT64_MAX / 2};
    struct embeddings *e;
    assert_int_equal(embeddings_new(&e, 1, 1), 0);
    for (uint32_t i = 0; i <= MEDIA_ENTRIES_MAX; i++) {
        struct media_key k = {{0}, {0}};
        memcpy(k.digest, &i, sizeof(i));
        media_cache_add(&c, &k, 7, e);
    }
    assert_int_equal(c.table.n, MEDIA_ENTRIES_MAX); /* the first had to go for the last */
    struct media_key k = {{0}, {0}};
    assert_null(media_cache_find(&c, &k));
    memcpy(k.digest, &(uint32_t){MEDIA_ENTRIES_MAX}, 4);
    struct embeddings *found = media_cache_find(&c, &k);
    assert_ptr_equal(found, e);
    embeddings_unref(found);
    media_cache_fini(&c);
    assert_int_equal(e->refs, 1); /* only this test's own */
    embeddings_unref(e);
}

/* The user with most bytes gives what was used first, however the entries are mixed. */
static void test_victim(void **state)
{
    struct media_table t = {0};
    assert_null(media_table_victim(&t));
    add(&t, 1, 7, 100);
    add(&t, 2, 8, 60);
    add(&t, 3, 7, 10);
    add(&t, 4, 8, 60);
    assert_int_equal(media_table_victim(&t)->name[0], 2);
    media_table_use(&t, media_table_find(&t, (const uint64_t[2]){2, 2}));
    assert_int_equal(media_table_victim(&t)->name[0], 4);
    remove_name(&t, 4); /* it no longer counts */
    assert_int_equal(media_table_victim(&t)->name[0], 1);
    remove_name(&t, 1);
    assert_int_equal(media_table_victim(&t)->name[0], 2);
    remove_name(&t, 2);
    assert_int_equal(media_table_victim(&t)->name[0], 3);
    remove_name(&t, 3);
    assert_null(media_table_victim(&t));
    assert_int_equal(t.bytes, 0);
    media_table_fini(&t);
}

static void test_cache(void **state)
{
    struct embeddings *e;
    const struct media_key k = {{1}, {2}};
    assert_int_equal(embeddings_new(&e, 10, 10), 0);
    const uint64_t bytes = sizeof(*e) + 100 * sizeof(float);
    struct media_cache twice = {.bytes_max = 3 * bytes};
    media_cache_add(&twice, &k, 7, e);
    media_cache_add(&twice, &k, 7, e); /* it exists */
    assert_int_equal(twice.table.n, 1);
    media_cache_fini(&twice);
    for (uint64_t less = 0; less < 2; less++) {
        struct media_cache c = {.bytes_max = bytes - less};
        media_cache_add(&c, &k, 7, e);
        assert_true(c.table.n == !less && c.table.bytes == (less ? 0 : bytes));
        assert_int_equal(e->refs, 1 + !less);
        media_cache_fini(&c);
    }
    embeddings_unref(e);
}

/* --- facts --- */

static size_t used_memory(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void test_memo_frees(void **state)
{
    struct media_memo *m = NULL;
    const size_t before = used_memory();
    memory_fail(0);
    assert_int_equal(media_memo_new(&m), -ENOMEM);
    assert_true(memory_end() && !m);
    assert_int_equal(media_memo_new(&m), 0);
    const size_t with = used_memory();
    assert_null(media_memo_free(m));
    assert_null(media_memo_free(NULL));
    if (with > before) assert_true(used_memory() < before + 50000); /* a sanitizer's allocator counts nothing */
}

/* A key of zeros is like any other. */
static void test_memo_of_zeros(void **state)
{
    struct media_memo *m;
    const struct media_key zero = {{0}, {0}};
    const struct media_fact fact = {.width = 3};
    struct media_fact out = {.width = 9};
    assert_int_equal(media_memo_new(&m), 0);
    assert_false(media_memo_find(m, &zero, &out));
    assert_int_equal(out.width, 9);
    media_memo_add(m, &zero, &fact);
    assert_true(media_memo_find(m, &zero, &out));
    assert_int_equal(out.width, 3);
    media_memo_free(m);
}

/* Of five files whose facts have the same four places the one that was added first is forgotten. */
static void test_memo_places(void **state)
{
    enum { SETS = 512 };
    struct media_memo *m;
    struct media_key k[5] = {{{0}, {0}}};
    struct media_fact out;
    int n = 0;
    for (uint32_t i = 1; n < 5; i++) {
        uint64_t name[2];
        memcpy(k[n].digest, &i, sizeof(i));
        media_name(&k[n], name);
        n += name[0] % SETS == 77;
    }
    assert_int_equal(media_memo_new(&m), 0);
    for (uint32_t i = 0; i < 4; i++) media_memo_add(m, &k[i], &(struct media_fact){.width = i});
    for (uint32_t i = 0; i < 4; i++) assert_true(media_memo_find(m, &k[i], &out) && out.width == i);
    media_memo_add(m, &k[2], &(struct media_fact){.width = 20}); /* as new */
    media_memo_add(m, &k[0], &(struct media_fact){.width = 10});
    for (uint32_t i = 0; i < 4; i++) assert_true(media_memo_find(m, &k[i], &out));
    media_memo_add(m, &k[4], &(struct media_fact){.width = 4});
    assert_false(media_memo_find(m, &k[1], &out));
    assert_true(media_memo_find(m, &k[0], &out) && out.width == 10);
    assert_true(media_memo_find(m, &k[2], &out) && out.width == 20);
    assert_true(media_memo_find(m, &k[3], &out) && out.width == 3);
    assert_true(media_memo_find(m, &k[4], &out) && out.width == 4);
    media_memo_add(m, &k[1], &(struct media_fact){.width = 1});
    assert_false(media_memo_find(m, &k[3], &out));
    media_memo_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memo_frees),    cmocka_unit_test(test_names),       cmocka_unit_test(test_uses),
        cmocka_unit_test(test_full),          cmocka_unit_test(test_victim),      cmocka_unit_test(test_cache),
        cmocka_unit_test(test_memo_of_zeros), cmocka_unit_test(test_memo_places),
    };
    return cmocka_run_group_tests_name("media-table", tests, NULL, NULL);
}
