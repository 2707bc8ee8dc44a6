/* SPDX-License-Identifier: MIT */
#include "daemon/sequence/prompt.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* "<b>ab" with three tokens; the template wrote the first three bytes. */
static void make(struct prompt *p)
{
    *p = (struct prompt){.keep = 2, .miss_at = 1};
    assert_int_equal(prompt_record(p, "<b>", 3, true), 0);
    assert_int_equal(prompt_record(p, "ab", 2, false), 0);
    assert_int_equal(tokens_push(&p->tokens, 70, 3), 0);
    assert_int_equal(tokens_push(&p->tokens, 71, 4), 0);
    assert_int_equal(tokens_push(&p->tokens, 72, 5), 0);
}

static void check(const struct prompt *p)
{
    assert_int_equal(p->text.len, 5);
    assert_memory_equal(p->text.data, "<b>ab", 5);
    assert_int_equal(p->markup.len, 5);
    assert_memory_equal(p->markup.data, "\1\1\1\0\0", 5);
    assert_int_equal(p->tokens.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p->tokens.ids[i], 70 + i);
        assert_int_equal(p->tokens.ends[i], 3 + i);
    }
    assert_int_equal(p->keep, 2);
    assert_int_equal(p->miss_at, 1);
}

/* Text and flags have the same length after each call. */
static void test_record(void **state)
{
    struct prompt p;
    make(&p);
    check(&p);
    assert_int_equal(prompt_record(&p, "", 0, true), 0);
    check(&p);
    prompt_fini(&p);
    assert_null(p.text.data);
    assert_int_equal(p.tokens.n, 0);
}

/* A copy is whole, and independent of the prompt that it was made of. */
static void test_copy(void **state)
{
    struct prompt a, b = {0}, none = {0}, empty = {0};
    make(&a);
    assert_int_equal(prompt_copy(&b, &a), 0);
    assert_int_equal(prompt_record(&a, "more", 4, true), 0);
    a.tokens.ids[0] = -1;
    a.text.data[0] = a.markup.data[0] = 'x';
    prompt_fini(&a);
    check(&b);
    prompt_fini(&b);
    assert_int_equal(prompt_copy(&empty, &none), 0);
    assert_int_equal(empty.tokens.n + empty.text.len + empty.markup.len, 0);
    prompt_fini(&empty);
}

/* Without memory a record changes nothing, and a copy can be freed. */
static void test_without_memory(void **state)
{
    char text[5000];
    struct prompt p, copy = {0};
    bool failed = true;
    memset(text, 't', sizeof(text));
    make(&p);
    for (unsigned long n = 0; failed && n < 10; n++) {
        memory_fail(n);
        int r = prompt_record(&p, text, sizeof(text), true);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (failed) check(&p);
    }
    assert_false(failed);
    assert_int_equal(p.text.len, 5 + sizeof(text));
    assert_int_equal(p.markup.len, p.text.len);
    failed = true;
    for (unsigned long n = 0; failed && n < 10; n++) {
        memory_fail(n);
        int r = prompt_copy(&copy, &p);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (!failed) assert_memory_equal(copy.text.data, p.text.data, p.text.len);
        prompt_fini(&copy);
    }
    assert_false(failed);
    prompt_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
