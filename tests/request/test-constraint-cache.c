/* SPDX-License-Identifier: MIT */
/* The cache of compiled constraints (constraint.c), without an engine. */
#include "daemon/request/constraint.h"
#include "daemon/text/grammar/token-trie.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"

static struct tiny tiny;
static struct loaded model;
static struct constraints *cache;

static int setup(void **state)
{
    model = (struct loaded){0};
    tiny_init(&tiny);
    assert_int_equal(harness_load(&model, &tiny, NULL), 0);
    assert_int_equal(constraints_new(&cache, model.tokenizer), 0);
    return 0;
}

static int teardown(void **state)
{
    cache = constraints_free(cache);
    loaded_fini(&model);
    return 0;
}

static int hold_as(uid_t uid, const char *salt, enum proto_constraint_type type, const char *text,
                   struct constraint **out)
{
    struct proto_constraint p = {.type = type, .text = {(char *)text, strlen(text)}};
    struct proto_text s = {(char *)salt, strlen(salt)};
    return constraint_hold(cache, &(struct constraint_owner){uid, &s}, &(struct constraint_source){.constraint = &p},
                           out);
}

static struct constraint *hold(uid_t uid, const char *regex)
{
    struct constraint *x;
    assert_int_equal(hold_as(uid, "", PROTO_CONSTRAINT_REGEX, regex, &x), 0);
    return x;
}

/* The same constraint is compiled once for an owner; others have their own. */
static void test_compiled_once(void **state)
{
    struct constraints_stats s;
    struct constraint *x[4] = {hold(1000, "[ab]+"), hold(1000, "[ab]+"), hold(1001, "[ab]+"), NULL};
    assert_int_equal(hold_as(1000, "salt", PROTO_CONSTRAINT_REGEX, "[ab]+", &x[3]), 0);
    assert_ptr_equal(x[0], x[1]);
    assert_ptr_not_equal(x[0], x[2]);
    assert_ptr_not_equal(x[0], x[3]);
    constraints_stats(cache, 1000, &s);
    assert_int_equal(s.n, 2);
    assert_true(s.bytes > 0);
    for (int i = 0; i < 4; i++) constraint_drop(cache, x[i]);
    assert_int_equal(hold_as(1000, "", PROTO_CONSTRAINT_GRAMMAR, "[ab]+", &x[0]), -EDOM);
}

/* --- the trie --- */

static unsigned tries;
static struct constraint *meanwhile;

int __real_token_trie_new(struct token_trie **out, const struct tokenizer *t);
int __wrap_token_trie_new(struct token_trie **out, const struct tokenizer *t);

int __wrap_token_trie_new(struct token_trie **out, const struct tokenizer *t)
{
    struct constraints_stats s;
    if (tries++ == 0) {
        constraints_stats(cache, 1000, &s); /* needs the lock */
        assert_int_equal(s.n, 0);
        meanwhile = hold(1001, "b+"); /* as another thread might */
    }
    return __real_token_trie_new(out, t);
}

/* While a trie is made, others use the cache, and may make the same. All constraints have the one made first. */
static void test_trie_without_lock(void **state)
{
    tries = 0;
    struct constraint *x = hold(1000, "a+"), *y = hold(1000, "c+");
    assert_int_equal(tries, 2);
    assert_ptr_equal(x->trie, meanwhile->trie);
    assert_ptr_equal(x->trie, y->trie);
    constraint_drop(cache, x);
    constraint_drop(cache, y);
    constraint_drop(cache, meanwhile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_compiled_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trie_without_lock, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
