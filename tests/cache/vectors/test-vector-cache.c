/* SPDX-License-Identifier: MIT */
/* What is found, by whom, and who loses what when the cache is full. */
#include "daemon/cache/vectors/vector-cache.h"
#include "tests/libcommon/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 8 };

static struct vector_key key_of(uint32_t space, const char *text)
{
    struct vector_key k = {.pooling = 1, .text = text, .len = strlen(text)};
    memcpy(k.namespace, &space, sizeof(space));
    return k;
}

static void add(struct vector_cache *c, uid_t uid, unsigned number)
{
    char text[32];
    float v[DIM] = {(float)uid, (float)number};
    snprintf(text, sizeof(text), "text %04u", number);
    const struct vector_key k = key_of(uid, text);
    vector_cache_add(c, &k, uid, v, number);
}

static bool has(struct vector_cache *c, uid_t uid, unsigned number)
{
    char text[32];
    float v[DIM];
    uint32_t tokens = 0;
    snprintf(text, sizeof(text), "text %04u", number);
    const struct vector_key k = key_of(uid, text);
    bool found = vector_cache_find(c, &k, uid, v, &tokens);
    if (found) assert_true(v[0] == (float)uid && v[1] == (float)number && tokens == number);
    return found;
}

/* Bytes of one entry. */
static uint64_t bytes_of_one(void)
{
    struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
    add(&c, 1, 1);
    const uint64_t bytes = c.bytes;
    assert_true(bytes > DIM * sizeof(float));
    vector_cache_fini(&c);
    return bytes;
}

static void test_every_part_of_the_key_counts(void **state)
{
    struct vector_cache c = {.bytes_max = 1 << 20, .dim = DIM};
    const float v[DIM] = {1};
    float out[DIM];
    uint32_t tokens;
    struct vector_key k = key_of(1, "a text"), other;
    k.question = "why";
    k.question_len = 3;
    vector_cache_add(&c, &k, 1, v, 3);
    assert_true(vector_cache_find(&c, &k, 1, out, &tokens));
    assert_memory_equal(v, out, sizeof(v));
    other = k;
    other.namespace[15]++;
    assert_false(vector_cache_find(&c, &other, 2, out, &tokens));
    other = k;
    other.pooling++;
    assert_false(vector_cache_find(&c, &other, 1, out, &tokens));
    other = k;
    other.len--;
    assert_false(vector_cache_find(&c, &other, 1, out, &tokens));
    other = k;
    other.question = "how";
    assert_false(vector_cache_find(&c, &other, 1, out, &tokens));
    other.question = NULL;
    other.question_len = 0;
    assert_false(vector_cache_find(&c, &other, 1, out, &tokens));
    other = k; /* the same bytes, parted elsewhere */
    other.question_len = 2;
    other.text = "ya text";
    other.len = 7;
    assert_false(vector_cache_find(&c, &other, 1, out, &tokens));
    vector_cache_fini(&c);
}

static void test_a_user_removes_nothing_of_one_with_less(void **state)
{
    const uint64_t one = bytes_of_one();
    struct vector_cache c = {.bytes_max = 6 * one, .dim = DIM};
    add(&c, 2, 0);
    add(&c, 2, 1);
    for (unsigned i = 0; i < 20; i++) add(&c, 1, i);
    assert_true(has(&c, 2, 0) && has(&c, 2, 1) && c.bytes == 6 * one);
    for (unsigned i = 0; i < 16; i++) assert_false(has(&c, 1, i));
    for (unsigned i = 16; i < 20; i++) assert_true(has(&c, 1, i));
    assert_true(has(&c, 1, 16)); /* used: the next one goes */
    add(&c, 2, 2);
    assert_true(has(&c, 1, 16) && !has(&c, 1, 17) && has(&c, 2, 2));
    struct vector_stats s;
    vector_cache_stats(&c, 2, &s);
    assert_true(s.n == 3 && s.bytes == 3 * one);
    vector_cache_stats(&c, (uid_t)-1, &s);
    assert_true(s.n == 6 && s.bytes == c.bytes && s.found > 0 && s.missed >= 17);
    vector_cache_shed(&c);
    assert_true(c.bytes <= 5 * one && c.bytes >= 4 * one);
    vector_cache_fini(&c);
    assert_int_equal(c.bytes, 0);
}

static void test_many_and_none(void **state)
{
    struct vector_cache c = {.bytes_max = 64 << 20, .dim = DIM}, none = {.dim = DIM};
    for (unsigned i = 0; i < 5000; i++) add(&c, i % 3, i);
    for (unsigned i = 0; i < 5000; i++) assert_true(has(&c, i % 3, i));
    add(&c, 0, 0); /* twice is once */
    assert_int_equal(c.n, 5000);
    vector_cache_fini(&c);
    add(&none, 1, 1);
    assert_false(has(&none, 1, 1));
    vector_cache_fini(&none);
    struct vector_cache small = {.bytes_max = bytes_of_one() - 1, .dim = DIM};
    add(&small, 1, 1);
    assert_int_equal(small.n, 0);
    vector_cache_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_of_the_key_counts),
        cmocka_unit_test(test_a_user_removes_nothing_of_one_with_less),
        cmocka_unit_test(test_many_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
