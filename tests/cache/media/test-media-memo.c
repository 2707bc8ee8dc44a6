/* SPDX-License-Identifier: MIT */
#include "daemon/cache/media/media-memo.h"
#include "tests/libcommon/check.h"
#include <string.h>

static struct media_key key_of(uint8_t space, const char *file)
{
    struct media_key k = {.namespace = {space}};
    media_file_digest((const uint8_t *)file, strlen(file), k.digest);
    return k;
}

static void test_facts(void **state)
{
    struct media_memo *m;
    struct media_fact f = {.kind = MEDIA_IMAGE, .width = 3, .height = 4, .digest = {9}}, out;
    const struct media_key a = key_of(1, "a"), b = key_of(1, "b"), other = key_of(2, "a");
    assert_int_equal(media_memo_new(&m), 0);
    assert_false(media_memo_find(m, &a, &out));
    media_memo_add(m, &a, &f);
    assert_true(media_memo_find(m, &a, &out));
    assert_memory_equal(&out, &f, sizeof(f));
    assert_false(media_memo_find(m, &b, &out) || media_memo_find(m, &other, &out));
    f.width = 5;
    media_memo_add(m, &a, &f);
    assert_true(media_memo_find(m, &a, &out) && out.width == 5);
    for (unsigned i = 0; i < 20000; i++) { /* more than it holds: the latest is always there */
        struct media_key k = a;
        memcpy(k.digest, &i, sizeof(i));
        f.height = i;
        media_memo_add(m, &k, &f);
        assert_true(media_memo_find(m, &k, &out) && out.height == i);
    }
    assert_false(media_memo_find(m, &a, &out));
    assert_null(media_memo_free(m));
    assert_null(media_memo_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
