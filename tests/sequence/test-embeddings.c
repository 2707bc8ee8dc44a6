/* SPDX-License-Identifier: MIT */
/* Runs of embeddings in lists and in prompts. */
#include "daemon/sequence/prompt.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Three tokens. */
static void make(struct prompt *p)
{
    *p = (struct prompt){0};
    assert_int_equal(prompt_record(p, "<b>ab", 5, true), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(tokens_push(&p->tokens, 70 + i, 3 + (uint32_t)i), 0);
}

static void test_embeddings(void **state)
{
    struct embeddings *e = NULL;
    assert_null(embeddings_ref(NULL));
    assert_null(embeddings_unref(NULL));
    assert_int_equal(embeddings_new(&e, UINT32_MAX, UINT32_MAX), -ENOMEM);
    assert_null(e);
    assert_int_equal(embeddings_new(&e, 3, 5), 0);
    assert_true(e->n == 3 && e->dim == 5 && e->values[14] == 0);
    assert_ptr_equal(embeddings_ref(e), e);
    assert_null(embeddings_unref(e));
    e->values[14] = 1; /* it exists */
    embeddings_unref(e);
}

/* Some of the runs, at lower positions. */
static void test_list_copy(void **state)
{
    struct run_list a = {0}, b = {0};
    for (uint32_t i = 0; i < 20; i++) {
        const struct item_run run = {.at = 10 * i, .n = 5, .kind = ITEM_IMAGE, .digest = {(uint8_t)i}};
        assert_int_equal(run_list_add(&a, &run, NULL), 0);
    }
    assert_int_equal(run_list_copy(&b, &a, 50, 75, 45), 0);
    assert_int_equal(b.n, 3);
    for (uint32_t i = 0; i < 3; i++) assert_true(b.runs[i].at == 5 + 10 * i && b.runs[i].digest[0] == 5 + i);
    run_list_fini(&a);
    run_list_fini(&b);
    assert_null(b.runs);
}

/* Runs are items between the tokens; a copy has the same embeddings. */
static void test_runs(void **state)
{
    struct item_run run = {.n = 3, .kind = ITEM_IMAGE, .digest = "the digest of it"};
    struct embeddings *e;
    struct prompt a, b = {0};
    make(&a);
    assert_int_equal(embeddings_new(&e, 3, 64), 0);
    assert_int_equal(prompt_push_run(&a, run, 5, e), 0);
    assert_int_equal(embeddings_unref(e) == NULL && e->refs == 1, true);
    assert_int_equal(tokens_push(&a.tokens, 73, 5), 0);
    assert_int_equal(prompt_push_run(&a, run, 5, NULL), 0);
    assert_int_equal(prompt_copy(&b, &a), 0);
    assert_int_equal(e->refs, 2);
    prompt_fini(&a);
    const struct items t = prompt_items(&b);
    assert_true(t.n == 10 && t.n_runs == 2 && items_check(&t));
    assert_true(t.runs[0].at == 3 && t.runs[1].at == 7);
    assert_memory_equal(t.runs[1].digest, run.digest, 16);
    assert_true(b.runs.embd[0] == e && !b.runs.embd[1] && e->refs == 1);
    for (int i = 3; i < 6; i++) assert_true(t.ids[i] == ITEM_EMBD && b.tokens.ends[i] == 5);
    prompt_fini(&b);
}

static void test_runs_without_memory(void **state)
{
    const struct item_run run = {.n = 100, .kind = ITEM_IMAGE};
    bool failed = true;
    for (unsigned long n = 0; failed && n < 20; n++) {
        struct prompt p, copy = {0};
        struct embeddings *e = NULL;
        make(&p);
        memory_fail(n);
        int r = embeddings_new(&e, 100, 8);
        if (r == 0) r = prompt_push_run(&p, run, 5, e);
        if (r == 0) r = prompt_copy(&copy, &p);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        assert_int_equal(p.tokens.n, p.runs.n ? 103 : 3);
        const struct items t = prompt_items(&p);
        assert_true(items_check(&t));
        embeddings_unref(e);
        prompt_fini(&copy);
        prompt_fini(&p);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_list_copy),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_runs_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
