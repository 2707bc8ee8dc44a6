/* SPDX-License-Identifier: MIT */
/* Also tests json-read.c. */
#include "daemon/text/schema/json-tree.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <string.h>

static int parse(struct jj_arena *a, const char *s, struct tree **out)
{
    return tree_parse(a, s, strlen(s), out);
}

static void values_keep_their_order_and_spelling(void **state)
{
    (void)state;
    struct jj_arena a = {0};
    struct tree *t;
    char pointer[64];
    assert_int_equal(
        parse(&a, " {\"b\":[1e400,-0.10], \"a/~\":\"x\\u00e9\\ud83d\\ude00\\n\\u0000\",\n\"c\":null} ", &t), 0);
    assert_int_equal(t->count, 3);
    assert_memory_equal(t->child[0]->key, "b", 1);
    const struct tree *b = tree_get(t, "b"), *s = tree_get(t, "a/~");
    assert_int_equal(b->kind, TREE_ARRAY);
    assert_memory_equal(b->child[0]->text, "1e400", 5);
    assert_memory_equal(b->child[1]->text, "-0.10", 5);
    assert_int_equal(s->count, 9);
    assert_memory_equal(s->text, "x\xc3\xa9\xf0\x9f\x98\x80\n\0", 9);
    assert_string_equal(tree_pointer(b->child[1], pointer, sizeof(pointer)), "#/b/1");
    assert_string_equal(tree_pointer(s, pointer, sizeof(pointer)), "#/a~1~0");
    assert_string_equal(tree_pointer(t, pointer, sizeof(pointer)), "#");
    assert_string_equal(tree_pointer(s, pointer, 4), "#");
    assert_memory_equal(b->source, "[1e400,-0.10]", b->source_len);
    assert_null(tree_get(t, "d"));
    assert_null(tree_get(b, "a"));
    jj_arena_fini(&a);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "{",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{\"a\" 1}",
                                      "{a:1}",
                                      "[1 2]",
                                      "01",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "-",
                                      "nul",
                                      "\"a",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\n\"",
                                      "1 2",
                                      "\"\xff\"",
                                      "{\"a\":1,\"b\":2,\"a\":3}",
                                      "'a'",
                                      "\"\\"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct jj_arena a = {0};
        struct tree *t;
        if (parse(&a, bad[i], &t) != -EBADMSG) fail_msg("%s is taken", bad[i]);
        jj_arena_fini(&a);
    }
}

static void depth_size_and_memory_are_bounded(void **state)
{
    (void)state;
    static char deep[TREE_DEPTH_MAX * 2 + 4];
    struct jj_arena a = {0};
    struct tree *t;
    memset(deep, '[', TREE_DEPTH_MAX + 1);
    memset(deep + TREE_DEPTH_MAX + 1, ']', TREE_DEPTH_MAX + 1);
    assert_int_equal(tree_parse(&a, deep, 2 * TREE_DEPTH_MAX + 2, &t), -E2BIG);
    assert_int_equal(tree_parse(&a, deep + 1, 2 * TREE_DEPTH_MAX, &t), 0);
    assert_int_equal(tree_parse(&a, deep, TREE_BYTES_MAX + 1, &t), -E2BIG);
    jj_arena_fini(&a);
    struct jj_budget budget = {20000};
    struct jj_arena small = {.budget = &budget};
    static char many[20000];
    memset(many, '0', sizeof(many));
    for (size_t i = 1; i < sizeof(many); i += 2) many[i] = ',';
    many[0] = '[';
    many[1] = ' ';
    many[sizeof(many) - 1] = ']';
    assert_int_equal(tree_parse(&small, many, sizeof(many), &t), -E2BIG);
    jj_arena_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_keep_their_order_and_spelling),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(depth_size_and_memory_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
