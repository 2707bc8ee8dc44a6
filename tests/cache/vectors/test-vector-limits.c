/* SPDX-License-Identifier: MIT */
/* The vector cache beside a plain list of what it should have, at its limits, and without memory. */
#include "daemon/cache/vectors/vector-cache.h"
#include "tests/libcommon/check.h"
#include "tests/support/memory.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 4, TEXTS = 600 };

static struct vector_key key_of(unsigned number, char text[32])
{
    struct vector_key k = {.pooling = 1, .text = text};
    k.len = (size_t)snprintf(text, 32, "%0*u", 4 + (int)(number % 5), number);
    return k;
}

static void add(struct vector_cache *c, uid_t uid, unsigned number)
{
    char text[32];
    const float v[DIM] = {(float)number};
    const struct vector_key k = key_of(number, text);
    vector_cache_add(c, &k, uid, v, number);
}

static bool has(struct vector_cache *c, uid_t uid, unsigned number)
{
    char text[32];
    float v[DIM];
    uint32_t tokens;
    const struct vector_key k = key_of(number, text);
    const bool found = vector_cache_find(c, &k, uid, v, &tokens);
    if (found) assert_true(v[0] == (float)number && tokens == number);
    return found;
}

/* --- compared with a list --- */

static struct {
    unsigned number;
    uid_t uid;
    uint64_t bytes, used;
} list[TEXTS];

static size_t n_listed;
static uint64_t listed_bytes, uses;
static unsigned made[4]; /* of each user: when it came */

static void list_remove(size_t i)
{
    listed_bytes -= list[i].bytes;
    list[i] = list[--n_listed];
}

/* Of the user with most bytes, of several the one that came last, the one that was used first. */
static void list_shrink(uint64_t most)
{
    while (listed_bytes > most) {
        uint64_t bytes[4] = {0};
        size_t first = SIZE_MAX;
        uid_t uid = 0;
        for (size_t i = 0; i < n_listed; i++) bytes[list[i].uid] += list[i].bytes;
        for (uid_t u = 1; u < 4; u++)
            if (bytes[u] > bytes[uid] || (bytes[u] == bytes[uid] && made[u] > made[uid])) uid = u;
        for (size_t i = 0; i < n_listed; i++)
            if (list[i].uid == uid && (first == SIZE_MAX || list[i].used < list[first].used)) first = i;
        list_remove(first);
    }
}

static void test_as_a_list(void **state)
{
    struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
    uint64_t random = 7, one[5];
    for (unsigned i = 0; i < 5; i++) { /* the bytes of an entry */
        add(&c, 1, i);
        one[i] = c.bytes;
        vector_cache_fini(&c);
    }
    c.bytes_max = 300 * one[2];
    for (int step = 0; step < 20000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const unsigned number = (unsigned)(random >> 33) % TEXTS;
        const uid_t uid = 1 + number % 3;
        if (!made[uid]) made[uid] = 1 + (unsigned)step;
        size_t i = 0;
        while (i < n_listed && list[i].number != number) i++;
        if (random % 3) {
            assert_int_equal(has(&c, uid, number), i < n_listed);
            if (i < n_listed) list[i].used = ++uses;
        } else {
            add(&c, uid, number);
            if (i == n_listed) {
                list_shrink(c.bytes_max - one[number % 5]);
                list[n_listed].number = number;
                list[n_listed].uid = uid;
                list[n_listed].bytes = one[number % 5];
                listed_bytes += one[number % 5];
                list[n_listed++].used = ++uses;
            }
        }
        assert_true(c.n == n_listed && c.bytes == listed_bytes && c.bytes <= c.bytes_max);
        assert_true(c.n <= c.n_buckets || !c.n); /* chains stay short */
    }
    assert_int_equal(c.n_buckets, 512);
    vector_cache_fini(&c);
}

/* --- limits --- */

static void test_exact_bytes(void **state)
{
    struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
    add(&c, 1, 0);
    const uint64_t one = c.bytes;
    vector_cache_fini(&c);
    for (uint64_t less = 0; less < 2; less++) {
        c.bytes_max = one - less;
        add(&c, 1, 0);
        assert_int_equal(has(&c, 1, 0), !less);
        vector_cache_fini(&c);
    }
    c.bytes_max = 2 * one;
    add(&c, 1, 0);
    add(&c, 1, 5);
    assert_true(has(&c, 1, 0) && has(&c, 1, 5));
    vector_cache_fini(&c);
}

/* A cache of 0 bytes counts nothing either. */
static void test_off(void **state)
{
    struct vector_cache c = {.dim = DIM};
    struct vector_stats s;
    add(&c, 1, 0);
    assert_false(has(&c, 1, 0));
    vector_cache_stats(&c, (uid_t)-1, &s);
    assert_true(!s.n && !s.missed && !c.users && !c.buckets);
    vector_cache_fini(&c);
}

/* 64 users without entries are remembered, those that came first are not; a user with entries is. */
static void test_idle_users(void **state)
{
    struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
    struct vector_stats s;
    add(&c, 500, 1);
    assert_true(has(&c, 500, 1));
    for (uid_t uid = 1; uid <= 70; uid++) assert_false(has(&c, uid, 9));
    add(&c, 500, 2);
    for (uid_t uid = 1; uid <= 70; uid++) {
        vector_cache_stats(&c, uid, &s);
        assert_int_equal(s.missed, uid > 6);
    }
    vector_cache_stats(&c, 500, &s);
    assert_true(s.n == 2 && s.found == 1);
    vector_cache_fini(&c);
}

/* --- memory --- */

static void test_without_memory(void **state)
{
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
        memory_fail(n);
        assert_false(has(&c, 1, 7));
        add(&c, 1, 7);
        failed = memory_end();
        const bool there = has(&c, 1, 7);
        assert_true(there || failed);
        assert_int_equal(c.n, there);
        add(&c, 1, 7);
        assert_true(has(&c, 1, 7));
        vector_cache_fini(&c);
    }
    struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
    for (unsigned i = 0; i < 1000; i++) { /* nor for a larger index: the old one stays */
        memory_fail(c.n && c.n >= c.n_buckets ? 0 : 1000);
        add(&c, 1, i);
        memory_end();
    }
    assert_true(c.n == 1000 && c.n_buckets == 256);
    for (unsigned i = 0; i < 1000; i++) assert_true(has(&c, 1, i));
    vector_cache_fini(&c);
}

static size_t used_memory(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void test_fini_frees(void **state)
{
    struct vector_cache c = {.bytes_max = 64 << 20, .dim = DIM};
    const size_t before = used_memory();
    for (unsigned i = 0; i < 4000; i++) add(&c, i, i);
    const size_t with = used_memory();
    vector_cache_fini(&c);
    if (with > before) assert_true(used_memory() - before < 100000); /* a sanitizer's allocator counts nothing */
    assert_true(!c.n && !c.bytes && !c.users && !c.buckets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fini_frees), cmocka_unit_test(test_as_a_list),  cmocka_unit_test(test_exact_bytes),
        cmocka_unit_test(test_off),        cmocka_unit_test(test_idle_users), cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests_name("vector-cache-limits", tests, NULL, NULL);
}
