/* SPDX-License-Identifier: MIT */
#include "daemon/session/list.h"
#include "daemon/session/session.h"
#include "daemon/session/store.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct session_store *store;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    return session_store_new(&f->store, 4000);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    session_store_free(f->store);
    free(f);
    return 0;
}

static struct session *acquire(struct fixture *f, uid_t uid, const char *name)
{
    struct session *x = NULL;
    assert_int_equal(session_acquire(f->store, uid, name, strlen(name), true, &x), 0);
    return x;
}

static void test_names_are_checked(void **state)
{
    struct fixture *f = *state;
    struct session *x = NULL;
    char big[PROTO_NAME_MAX + 1];
    memset(big, 'x', sizeof(big));
    assert_int_equal(session_acquire(f->store, 1, "", 0, true, &x), -EINVAL);
    assert_int_equal(session_acquire(f->store, 1, big, sizeof(big), true, &x), -EINVAL);
    assert_int_equal(session_acquire(f->store, 1, "a/b", 3, true, &x), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "'/'"));
    assert_int_equal(session_acquire(f->store, 1, "a\0b", 3, true, &x), -EINVAL);
    assert_int_equal(session_acquire(f->store, 1, "a\nb", 3, true, &x), -EINVAL);
    assert_null(x);
    assert_int_equal(session_acquire(f->store, 1, big, PROTO_NAME_MAX, true, &x), 0);
    session_release(f->store, x);
}

static void test_busy_and_removed_when_empty(void **state)
{
    struct fixture *f = *state;
    struct session *x = acquire(f, 1, "a"), *y = NULL;
    assert_int_equal(session_acquire(f->store, 1, "a", 1, true, &y), -EBUSY);
    assert_string_equal(error_text(-EBUSY), "session 'a' is in use by another request");
    session_release(f->store, x);
    assert_int_equal(session_acquire(f->store, 1, "a", 1, false, &y), -ENOENT);
}

static void test_uids_are_apart(void **state)
{
    struct fixture *f = *state;
    struct session *a = acquire(f, 1, "a"), *b = acquire(f, 2, "a"), *c = NULL;
    assert_ptr_not_equal(a, b);
    assert_int_equal(session_append(a, 7, "xy", 2, false), 0);
    session_release(f->store, a);
    session_release(f->store, b);
    assert_int_equal(session_acquire_last(f->store, 2, &c), -ENOENT);
    assert_int_equal(session_acquire_last(f->store, 1, &c), 0);
    assert_ptr_equal(a, c);
    session_release(f->store, c);
    size_t n;
    uint64_t bytes, all;
    session_count(f->store, 2, &n, &bytes);
    assert_int_equal(n, 0);
    session_count(f->store, 1, &n, &bytes);
    assert_int_equal(n, 1);
    session_count(f->store, (uid_t)-1, &n, &all);
    assert_int_equal(n, 1);
    assert_true(bytes == all && bytes > 0);
}

static void test_last_is_the_most_recently_used(void **state)
{
    struct fixture *f = *state;
    const char *names[] = {"a", "b", "c", "a"};
    for (int i = 0; i < 4; i++) {
        struct session *x = acquire(f, 1, names[i]);
        assert_int_equal(session_add_message(x, "user", 4, "hi", 2), 0);
        session_release(f->store, x);
    }
    struct session *x = NULL, *y = NULL;
    assert_int_equal(session_acquire_last(f->store, 1, &x), 0);
    assert_string_equal(x->key.name.data, "a");
    assert_int_equal(session_acquire_last(f->store, 1, &y), -EBUSY);
    session_release(f->store, x);
}

static void test_append_extend_truncate(void **state)
{
    struct fixture *f = *state;
    struct session *x = acquire(f, 1, "a");
    assert_int_equal(session_append(x, 1, "", 0, true), 0);
    assert_int_equal(session_append(x, 2, "ab", 2, true), 0);
    assert_int_equal(
        session_extend(x, items_tokens((int32_t[]){3, 4, 5}, 3), (uint32_t[]){3, 3, 6}, "cdef", "\0\0\1\1", 4), 0);
    assert_int_equal(x->content.n_ids, 5);
    assert_memory_equal(x->content.text.data, "abcdef", 6);
    assert_memory_equal(x->content.markup.data, "\1\1\0\0\1\1", 6);
    session_truncate(x, 9);
    assert_int_equal(x->content.n_ids, 5);
    session_truncate(x, 3);
    assert_int_equal(x->content.n_ids, 3);
    assert_int_equal(x->content.text.len, 3);
    assert_int_equal(x->content.markup.len, 3);
    session_truncate(x, 0);
    assert_int_equal(x->content.text.len, 0);
    session_release(f->store, x);
}

static void test_messages(void **state)
{
    struct fixture *f = *state;
    struct session *x = acquire(f, 1, "a");
    size_t n;
    uint64_t before, after;
    session_count(f->store, 1, &n, &before);
    assert_int_equal(session_add_message(x, "user", 4, "one", 3), 0);
    assert_int_equal(session_add_message(x, "assistant", 9, "", 0), 0);
    assert_string_equal(x->content.messages[0].content.data, "one");
    assert_int_equal(x->content.messages[1].content.len, 0);
    session_count(f->store, 1, &n, &after);
    assert_true(after > before);
    session_drop_messages(x, 0);
    session_count(f->store, 1, &n, &after);
    assert_int_equal(after, before);
    session_release(f->store, x);
}

static void test_quota(void **state)
{
    struct fixture *f = *state;
    struct session *x = acquire(f, 1, "a"), *y = NULL;
    static const char text[5000];
    assert_int_equal(session_add_message(x, "user", 4, text, sizeof(text)), 0);
    session_release(f->store, x);
    assert_int_equal(session_acquire(f->store, 1, "a", 1, true, &y), -EDQUOT);
    assert_int_equal(session_acquire(f->store, 1, "b", 1, true, &y), -EDQUOT);
    assert_non_null(strstr(error_text(-EDQUOT), "limit"));
    size_t n;
    uint64_t bytes;
    session_count(f->store, 1, &n, &bytes);
    assert_int_equal(n, 1);
    session_release(f->store, acquire(f, 2, "b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_and_removed_when_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uids_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_is_the_most_recently_used, setup, teardown),
        cmocka_unit_test_setup_teardown(test_append_extend_truncate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
