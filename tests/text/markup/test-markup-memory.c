/* SPDX-License-Identifier: MIT */
/* What is learned from templates while memory runs out: all of it, or an error; and nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/text/markup/markup.h"
#include "tests/support/memory.h"
#include "tests/text/markup/own-templates.h"
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static long living; /* allocations of the JSON library */

static void *allocate(size_t n)
{
    void *p = memory_fails() ? NULL : malloc(n);
    living += p != NULL;
    return p;
}

static void release(void *p)
{
    living -= p != NULL;
    free(p);
}

static void expect_equal(const char *a, const char *b)
{
    if (a && b)
        assert_string_equal(a, b);
    else
        assert_ptr_equal(a, b);
}

static void expect_same(const struct markup *a, const struct markup *b)
{
    const struct markup_calls *x = &a->calls, *y = &b->calls;
    assert_int_equal(x->form, y->form);
    expect_equal(x->section_begin, y->section_begin);
    expect_equal(x->section_end, y->section_end);
    expect_equal(x->separator, y->separator);
    expect_equal(x->call_begin, y->call_begin);
    expect_equal(x->call_end, y->call_end);
    expect_equal(x->name_key, y->name_key);
    expect_equal(x->args_key, y->args_key);
    expect_equal(x->id_key, y->id_key);
    expect_equal(a->thinking.open, b->thinking.open);
    expect_equal(a->thinking.close, b->thinking.close);
    assert_int_equal(x->string_args, y->string_args);
    assert_int_equal(x->null_text, y->null_text);
    assert_int_equal(a->typed_content, b->typed_content);
}

static void each_fails(const char *name)
{
    const char *text = own_template(name);
    struct template *t;
    struct markup *want, *m;
    assert_non_null(text);
    assert_int_equal(template_new(&t, text, strlen(text)), 0);
    const struct markup_source s = {
        .template = t, .text = text, .len = strlen(text), .bos = "<s>", .eos = "</s>", .now = 1000000000};
    assert_int_equal(markup_new(&want, &s), 0);
    bool failed = true;
    for (unsigned long n = 0; failed; n += 1 + n / 40) {
        long before = living;
        m = NULL;
        memory_fail(n);
        int r = markup_new(&m, &s);
        failed = memory_end();
        if (r == 0)
            expect_same(m, want);
        else
            assert_int_equal(r, -ENOMEM);
        assert_true(r == 0 || failed);
        markup_free(m);
        assert_int_equal(living, before);
    }
    markup_free(want);
    template_free(t);
}

static void test_each_allocation_fails(void **state)
{
    each_fails("plain");
    each_fails("envelope");
    each_fails("keyed");
    each_fails("named");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_fails)};
    json_set_alloc_funcs(allocate, release);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
