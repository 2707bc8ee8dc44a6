/* SPDX-License-Identifier: MIT */
/* The cache of compiled constraints (constraint.c) and its memory, without an engine. */
#include "daemon/request/constraint-inside.h"
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

/* --- memory --- */

static struct grammar_memory *memory_of(uid_t uid)
{
    struct constraint_user *u = cache->users;
    while (u->uid != uid) u = u->next; /* there is one */
    return &u->memory;
}

static size_t kept(uid_t uid)
{
    struct constraints_stats s;
    constraints_stats(cache, uid, &s);
    return s.n;
}

/* At the limit of a user the user's own idle constraints are forgotten; then compiling is refused. */
static void test_limit_of_a_user(void **state)
{
    struct constraint *x[3], *other = hold(1001, "x+");
    constraint_drop(cache, other);
    for (int i = 0; i < 3; i++) x[i] = hold(1000, i == 0 ? "a+" : i == 1 ? "b+" : "c+");
    struct grammar_memory *m = memory_of(1000);
    assert_int_equal(m->max, CONSTRAINTS_USER_BYTES);
    m->max = m->used;
    assert_int_equal(hold_as(1000, "", PROTO_CONSTRAINT_REGEX, "d+", &other), -EDQUOT);
    assert_non_null(strstr(error_text(-EDQUOT), "this user's requests"));
    assert_int_equal(kept(1000), 3);
    constraint_drop(cache, x[1]);
    constraint_drop(cache, x[0]);
    struct constraint *y = hold(1000, "d+");
    assert_true(m->used <= m->max);
    assert_int_equal(kept(1000), 3);
    assert_int_equal(kept(1001), 1);
    assert_ptr_equal(hold(1000, "b+"), x[1]); /* a+ is forgotten */
    for (int i = 1; i < 3; i++) constraint_drop(cache, x[i]);
    constraint_drop(cache, y);
}

/* An answer whose constraint would grow over the limit gets an error, once nothing idle is left. */
static void test_limit_while_in_use(void **state)
{
    struct proto_constraint p = {.type = PROTO_CONSTRAINT_GRAMMAR};
    struct constraint *x, *spare = hold(1000, "a+");
    constraint_drop(cache, spare);
    assert_int_equal(hold_as(1000, "", p.type, "root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\"", &x), 0);
    struct grammar_memory *m = memory_of(1000);
    struct grammar_state *st;
    m->max = m->used + ((size_t)1 << 20);
    assert_int_equal(grammar_state_new(&st, x->grammar), 0);
    int r = 1;
    for (int i = 0; i < 100000 && r == 1; i++) r = grammar_state_accept_bytes(st, i % 2 ? "(" : "[", 1);
    assert_int_equal(r, -EDQUOT);
    assert_true(m->used <= m->max);
    assert_int_equal(kept(1000), 1);
    grammar_state_free(st);
    constraint_drop(cache, x);
}

/* Beyond the limit of all, the user with most memory gives, and nobody below an even share but the asker. */
static void test_limit_of_all(void **state)
{
    struct constraint *big[2] = {hold(1000, "a+"), hold(1000, "b+")}, *small = hold(1001, "x+"), *x;
    struct grammar_memory *m = memory_of(1000);
    constraint_drop(cache, big[0]);
    constraint_drop(cache, small);
    m->used += CONSTRAINTS_BYTES;
    x = hold(1002, "y+");
    assert_int_equal(kept(1000), 1); /* the other is in use */
    assert_int_equal(kept(1001), 1);
    constraint_drop(cache, x);
    x = hold(1002, "z+"); /* 1002 itself gives, not 1001 */
    assert_int_equal(kept(1001), 1);
    assert_int_equal(kept(1002), 1);
    m->used -= CONSTRAINTS_BYTES;
    constraint_drop(cache, x);
    constraint_drop(cache, big[1]);
}

/* Users without constraints are forgotten. */
static void test_users_are_forgotten(void **state)
{
    struct constraint *x;
    for (uid_t uid = 1; uid < 100; uid++) assert_int_equal(hold_as(uid, "", PROTO_CONSTRAINT_REGEX, "(a", &x), -EDOM);
    size_t n = 0;
    for (struct constraint_user *u = cache->users; u; u = u->next) n++;
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_compiled_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trie_without_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit_of_a_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit_while_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit_of_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_users_are_forgotten, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
