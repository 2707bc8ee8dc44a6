/* SPDX-License-Identifier: MIT */
/* Pages of a uid's sessions: their order, where the next one begins, and cursors that no page gave. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define UID 7

/* The names of a page in a row; "!" behind them: there is a next page, whose cursor is in @next. */
static const char *page(struct fixture *g, uid_t uid, size_t limit, char next[PROTO_CURSOR_MAX + 1])
{
    static char names[64];
    struct session_page p;
    assert_int_equal(session_page_take(g->store, uid, &(struct proto_text){next, strlen(next)}, limit, &p), 0);
    assert_true(p.n <= limit);
    names[0] = 0;
    for (size_t i = 0; i < p.n; i++) strcat(names, p.all[i].name->data);
    if (p.next[0]) strcat(names, "!");
    strcpy(next, p.next);
    session_page_fini(&p);
    return names;
}

/* A session for each letter of @names, the last one used last. */
static void say_each(struct fixture *g, uid_t uid, const char *names)
{
    for (; *names; names++) fixture_say(g, uid, (char[]){*names, 0}, 1);
}

static void remove_one(struct fixture *g, const char *name)
{
    struct session *x = fixture_acquire(g, UID, name);
    assert_int_equal(session_erase(x), 0);
    session_release(g->store, x);
}

static void rename_one(struct fixture *g, const char *from, const char *to)
{
    struct session *x = fixture_acquire(g, UID, from), *y;
    assert_int_equal(session_rename(g->store, x, to, strlen(to), &y), 0);
    assert_int_equal(session_move(y, x), 0);
    session_release(g->store, x);
    session_release(g->store, y);
}

static void test_order(void **state)
{
    struct fixture *g = *state;
    char next[PROTO_CURSOR_MAX + 1] = "";
    assert_string_equal(page(g, UID, 4, next), "");
    say_each(g, UID, "abcdefgh");
    say_each(g, UID + 1, "xyz");
    say_each(g, UID, "c");
    assert_string_equal(page(g, UID, 3, next), "chg!");
    assert_string_equal(page(g, UID, 3, next), "fed!");
    assert_string_equal(page(g, UID, 3, next), "ba");
    assert_string_equal(page(g, UID + 1, 1000, next), "zyx");
    assert_string_equal(page(g, UID + 2, 1000, next), "");
}

/* The last page is full as well, and no empty one comes behind it. */
static void test_limits(void **state)
{
    struct fixture *g = *state;
    char next[PROTO_CURSOR_MAX + 1] = "";
    say_each(g, UID, "abcd");
    assert_string_equal(page(g, UID, 2, next), "dc!");
    assert_string_equal(page(g, UID, 2, next), "ba");
    for (const char *want = "dcba"; *want; want++) {
        const char *got = page(g, UID, 1, next);
        assert_int_equal(got[0], *want);
        assert_string_equal(got + 1, want[1] ? "!" : "");
    }
    assert_string_equal(page(g, UID, 4, next), "dcba");
    assert_string_equal(page(g, UID, 1000, next), "dcba");
}

/* A page is a copy: nothing that happens to the sessions changes it. */
static void test_page_is_a_copy(void **state)
{
    struct fixture *g = *state;
    struct session_page p;
    say_each(g, UID, "ab");
    struct session *busy = fixture_acquire(g, UID, "b");
    assert_int_equal(session_page_take(g->store, UID, &(struct proto_text){0}, 9, &p), 0);
    session_release(g->store, busy);
    remove_one(g, "a");
    rename_one(g, "b", "z");
    fixture_close(g);
    assert_int_equal(p.n, 2);
    assert_string_equal(p.all[0].name->data, "b");
    assert_string_equal(p.all[1].name->data, "a");
    assert_true(p.all[0].busy && !p.all[1].busy);
    assert_int_equal(p.all[1].ids, 20);
    assert_int_equal(p.all[1].messages, 2);
    assert_true(p.all[0].used > p.all[1].used);
    session_page_fini(&p);
    fixture_open(g);
}

static void test_removals_between_pages(void **state)
{
    struct fixture *g = *state;
    char next[PROTO_CURSOR_MAX + 1] = "";
    say_each(g, UID, "abcdefghi");
    assert_string_equal(page(g, UID, 3, next), "ihg!");
    remove_one(g, "g"); /* the cursor's own */
    assert_string_equal(page(g, UID, 2, next), "fe!");
    remove_one(g, "e");
    remove_one(g, "d");
    remove_one(g, "i");
    assert_string_equal(page(g, UID, 2, next), "cb!");
    remove_one(g, "b");
    remove_one(g, "a");
    assert_string_equal(page(g, UID, 2, next), "");
}

/* Who is used or renamed moves to the front: the pages behind hold the others, each once. */
static void test_uses_and_renames_between_pages(void **state)
{
    struct fixture *g = *state;
    char next[PROTO_CURSOR_MAX + 1] = "";
    say_each(g, UID, "abcdefghi");
    assert_string_equal(page(g, UID, 3, next), "ihg!");
    say_each(g, UID, "g"); /* the cursor's own */
    assert_string_equal(page(g, UID, 2, next), "fe!");
    rename_one(g, "e", "z");
    assert_string_equal(page(g, UID, 1, next), "d!");
    rename_one(g, "c", "y");
    assert_string_equal(page(g, UID, 9, next), "ba");
    assert_string_equal(page(g, UID, 9, next), "yzgihfdba");
}

static void test_cursor_outlives_the_store(void **state)
{
    struct fixture *g = *state;
    char next[PROTO_CURSOR_MAX + 1] = "";
    say_each(g, UID, "abcde");
    assert_string_equal(page(g, UID, 2, next), "ed!");
    fixture_close(g);
    fixture_open(g);
    assert_string_equal(page(g, UID, 2, next), "cb!");
}

/* What no page gave is refused, also for a user who has no sessions; another's cursor is only a time. */
static void test_cursors_that_are_none(void **state)
{
    struct fixture *g = *state;
    char next[PROTO_CURSOR_MAX + 1] = "", bad[PROTO_CURSOR_MAX + 1];
    struct session_page p;
    say_each(g, UID, "abc");
    say_each(g, UID + 1, "xyz");
    assert_string_equal(page(g, UID + 1, 2, next), "zy!");
    const size_t n = strlen(next);
    const struct {
        size_t at, len;
        char c;
    } cases[] = {{0, 1, '0'},  {0, n - 1, '0'}, {n, n + 1, '0'}, {0, n, 'g'},     {0, n, 'A'},    {15, n, ' '},
                 {16, n, '-'}, {17, n, '/'},    {n - 1, n, 0},   {n - 1, n, ':'}, {n - 2, n, '`'}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (uid_t uid = UID; uid < UID + 3; uid += 2) {
            strcpy(bad, next);
            bad[cases[i].at] = cases[i].c;
            const struct proto_text after = {bad, cases[i].len};
            assert_int_equal(session_page_take(g->store, uid, &after, 3, &p), -EINVAL);
            assert_string_equal(error_text(-EINVAL), "session.list: after: not the 'next' of an earlier answer");
            assert_true(p.n == 0 && !p.all && !p.next[0]);
        }
    assert_string_equal(page(g, UID, 9, next), "cba");
}

static void test_without_memory(void **state)
{
    struct fixture *g = *state;
    say_each(g, UID, "abc");
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct session_page p;
        struct session_info *list;
        size_t count;
        memory_fail(n);
        int r = session_page_take(g->store, UID, &(struct proto_text){0}, 9, &p);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        session_page_fini(&p);
        memory_fail(n);
        r = session_list(g->store, UID, &list, &count);
        assert_int_equal(r, memory_end() ? -ENOMEM : 0);
        if (r == 0) assert_int_equal(count, 3);
        free(list);
    }
}

/* A busy session is listed as it was: only its request may look at it. */
static void test_busy(void **state)
{
    struct fixture *g = *state;
    say_each(g, UID, "a");
    struct session *x = fixture_acquire(g, UID, "a");
    struct session_info before, now;
    static const char text[20000];
    session_info_of(x, &before);
    assert_true(before.busy && !before.loaded);
    assert_int_equal(session_append(x, 1, text, sizeof(text), false), 0);
    assert_int_equal(session_save(x), 0);
    session_info_of(x, &now);
    assert_int_equal(now.disk, before.disk);
    assert_int_equal(now.ids, before.ids);
    assert_int_equal(now.bytes, before.bytes);
    session_release(g->store, x);
    session_info_of(x, &now);
    assert_int_equal(now.disk, fixture_disk(g, UID));
    assert_int_equal(now.ids, before.ids + 1);
    assert_true(now.bytes > before.bytes + 2 * sizeof(text) - 1000 && now.loaded && !now.busy);
}

/* Sessions whose last use is that of their files, because the ends of their logs are damaged, may have the same time.
 */
static void test_same_time(void **state)
{
    struct fixture *g = *state;
    static const struct timespec times[2] = {{.tv_sec = 1600000000}, {.tv_sec = 1600000000}};
    char next[PROTO_CURSOR_MAX + 1] = "", path[256], seen[8] = "";
    size_t n;
    say_each(g, UID, "abcd");
    fixture_close(g);
    for (const char *name = "a\0b\0c\0d\0"; *name; name += 2) {
        fixture_path(path, g, UID, name, ".log");
        char *log = fixture_read(path, &n);
        fixture_write(path, log, n - 1);
        free(log);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    fixture_open(g);
    for (int i = 0; i < 4; i++) {
        const char *got = page(g, UID, 1, next);
        assert_string_equal(got + 1, i < 3 ? "!" : "");
        assert_null(strchr(seen, got[0]));
        seen[i] = got[0];
    }
    assert_int_equal(strlen(seen), 4);
}

int main(void)
{
#define RIG(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        RIG(test_order),
        RIG(test_limits),
        RIG(test_page_is_a_copy),
        RIG(test_removals_between_pages),
        RIG(test_uses_and_renames_between_pages),
        RIG(test_cursor_outlives_the_store),
        RIG(test_cursors_that_are_none),
        cmocka_unit_test_setup_teardown(test_without_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_busy, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_same_time, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("session-page", tests, NULL, NULL);
}
