/* SPDX-License-Identifier: MIT */
#include "daemon/speculate/past.h"
#include "tests/libcommon/check.h"
#include <string.h>

static struct past *hold(struct pasts *t, uint32_t name, uid_t uid)
{
    uint8_t bytes[PAST_NAME] = {0};
    memcpy(bytes, &name, sizeof(name));
    struct past *p = past_hold(t, bytes, uid);
    assert_non_null(p);
    return p;
}

static bool has(const struct pasts *t, uint32_t name)
{
    for (const struct past *p = t->list; p; p = p->next)
        if (memcmp(p->name, &name, sizeof(name)) == 0) return true;
    return false;
}

/* Each namespace has a past of its own, which outlives its requests. */
static void test_namespaces(void **state)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct pasts t = {0};
    struct lookup_match m;
    struct past *a = hold(&t, 1, 1000), *b = hold(&t, 2, 1000), *c = hold(&t, 1, 1001);
    assert_true(a != b && a != c && b != c);
    past_add(&t, a, ids, 8);
    past_add(&t, a, ids, 8);
    lookup_find(a->answers, ids, 4, UINT32_MAX, &m);
    assert_int_equal(m.length, 4);
    lookup_find(b->answers, ids, 4, UINT32_MAX, &m);
    assert_int_equal(m.length, 0);
    lookup_find(c->answers, ids, 4, UINT32_MAX, &m);
    assert_int_equal(m.length, 0);
    static const int32_t over[] = {7, 8, 1, 2}; /* the end of an answer and the beginning of the next */
    lookup_find(a->answers, over, 4, UINT32_MAX, &m);
    assert_int_equal(m.length, 2);
    past_drop(&t, a);
    assert_ptr_equal(hold(&t, 1, 1000), a);
    assert_true(pasts_bytes(&t, 1000) > pasts_bytes(&t, 1001));
    assert_int_equal(pasts_bytes(&t, 1000) + pasts_bytes(&t, 1001), t.bytes);
    assert_int_equal(pasts_bytes(&t, (uid_t)-1), t.bytes);
    pasts_fini(&t);
    assert_int_equal(t.n, 0);
    assert_int_equal(t.bytes, 0);
}

/* At the limit the user with the most loses what was used least recently, but nothing that is in use. */
static void test_limit(void **state)
{
    struct pasts t = {0};
    struct past *used = hold(&t, 1, 1000);
    past_drop(&t, hold(&t, 0, 1001));
    for (uint32_t i = 2; i < 2 * PASTS_MOST; i++) past_drop(&t, hold(&t, i, 1000));
    assert_int_equal(t.n, PASTS_MOST);
    assert_true(has(&t, 0) && has(&t, 1));
    for (uint32_t i = 2; i < 2 * PASTS_MOST; i++) assert_int_equal(has(&t, i), i >= PASTS_MOST + 2);
    past_drop(&t, used);
    pasts_fini(&t);
}

static void test_bytes(void **state)
{
    static int32_t ids[PAST_TOKENS];
    struct pasts t = {0};
    for (uint32_t i = 0; i < PAST_TOKENS; i++) ids[i] = (int32_t)i;
    for (uint32_t i = 0; i < 100; i++) {
        struct past *p = hold(&t, i, 1000);
        past_add(&t, p, ids, PAST_TOKENS);
        past_add(&t, p, ids, PAST_TOKENS);
        past_drop(&t, p);
        assert_true(t.bytes <= PASTS_BYTES);
    }
    assert_true(t.n < 100 && t.n > 10);
    pasts_fini(&t);
}

static void test_account(void **state)
{
    struct past p = {.account = PAST_BEGIN};
    assert_int_equal(past_rows(&p, 0.25, 16), PAST_BEGIN / 0.25);
    assert_int_equal(past_rows(&p, 0.25, 2), 2);
    past_pay(&p, 4, 0.25, 1);
    assert_int_equal(past_rows(&p, 0.25, 16), 0);
    for (int i = 0; i < 30; i++) past_pay(&p, 0, 0.25, 1);
    assert_int_equal(past_rows(&p, 0.25, 16), 1);
    for (int i = 0; i < 30; i++) past_earn(&p, 2);
    assert_int_equal(past_rows(&p, 0.25, 16), 16);
    for (int i = 0; i < 1000; i++) past_earn(&p, 2);
    assert_true(p.account == PAST_MOST);
    past_spend(&p, 2); /* of the draft model's own account */
    assert_true(p.account == PAST_MOST && p.model_account == -2);
    for (int i = 0; i < 100; i++) past_spend(&p, -1);
    assert_true(p.model_account == PAST_MODEL_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
