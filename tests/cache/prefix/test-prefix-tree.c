/* SPDX-License-Identifier: MIT */
#include "daemon/cache/prefix/prefix-table.h"
#include "daemon/cache/prefix/prefix-tree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define N 100

static uint64_t rnd_state;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

/* Compares the tree with an array that is searched linearly. */
static void compare(const struct tree *t, struct tree_link *links)
{
    uint32_t in = 0;
    struct tree_link *first[4] = {0}, *last[4] = {0};
    for (struct tree_link *l = tree_first(t), *before = NULL; l; before = l, l = tree_next(l)) {
        assert_true(!before || before->key <= l->key);
        assert_in_range(l - links, 0, N - 1);
        for (int b = 0; b < 4; b++)
            if (l->own & 1 << b) {
                if (!first[b]) first[b] = l;
                last[b] = l;
            }
        assert_ptr_equal(tree_previous(l), before);
        if (!tree_next(l)) assert_ptr_equal(tree_last(t), l);
    }
    for (int i = 0; i < N; i++) in += links[i].in == t;
    assert_int_equal(tree_check(t), in);
    for (int b = 0; b < 4; b++) {
        assert_ptr_equal(tree_first_of(t->top, (uint8_t)(1 << b)), first[b]);
        assert_ptr_equal(tree_last_of(t->top, (uint8_t)(1 << b)), last[b]);
    }
}

static void test_random_against_array(void **state)
{
    static struct tree_link links[N];
    struct tree t[2] = {0};
    rnd_state = 1;
    for (int i = 0; i < N; i++) tree_link_init(&links[i], rnd(UINT32_MAX));
    for (int step = 0; step < 20000; step++) {
        struct tree_link *l = &links[rnd(N)];
        switch (rnd(3)) {
        case 0:
            tree_set_own(l, rnd(4) ? 0 : (uint8_t)rnd(16));
            break;
        case 1:
            tree_move(&t[rnd(2)], l, rnd(50));
            break;
        case 2:
            tree_move(NULL, l, 0);
            break;
        }
        compare(&t[0], links);
        compare(&t[1], links);
    }
}

/* Links with equal keys keep the order of insertion. */
static void test_equal_keys(void **state)
{
    struct tree_link links[8];
    struct tree t = {0};
    for (int i = 0; i < 8; i++) {
        tree_link_init(&links[i], (uint32_t)(i * 5 % 8));
        tree_put(&t, &links[i], 7);
    }
    struct tree_link *l = tree_first(&t);
    for (int i = 0; i < 8; i++, l = tree_next(l)) assert_ptr_equal(l, &links[i]);
    assert_null(l);
    for (int i = 0; i < 8; i++) tree_take(&links[i]);
    assert_null(t.top);
}

static void test_table_grows(void **state)
{
    enum { MEMBERS = 1000 };
    static struct table_link links[MEMBERS];
    struct table t;
    assert_int_equal(table_init(&t, 0), 0);
    for (uint64_t i = 0; i < MEMBERS; i++) table_add(&t, &links[i], i / 3 * 64); /* three of each hash */
    assert_int_equal(t.count, MEMBERS);
    assert_true(t.mask + 1 >= MEMBERS);
    for (uint64_t i = 0; i < MEMBERS; i += 2) table_remove(&t, &links[i]);
    for (uint64_t h = 0; h <= MEMBERS / 3; h++) {
        uint64_t want = 0, got = 0;
        for (uint64_t i = h * 3; i < h * 3 + 3 && i < MEMBERS; i++) want += i % 2;
        for (struct table_link *l = table_first(&t, h * 64); l; l = table_next(l), got++)
            assert_true((uint64_t)(l - links) / 3 == h && (l - links) % 2 == 1);
        assert_int_equal(got, want);
    }
    assert_null(table_first(&t, 1));
    table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_against_array),
        cmocka_unit_test(test_equal_keys),
        cmocka_unit_test(test_table_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
