/* SPDX-License-Identifier: MIT */
/* Changes of a session in memory: what marks it as unsaved, what it counts, what fails without memory, and its limits.
 */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static uint64_t memory_of(const struct fixture *g, uid_t uid)
{
    size_t n;
    uint64_t bytes;
    session_count(g->store, uid, &n, &bytes);
    return bytes;
}

static void unload_all(struct fixture *g)
{
    while (session_unload_idle(g->store)) continue;
}

static uint64_t log_size(const struct fixture *g, const char *name)
{
    char path[256];
    size_t n;
    fixture_path(path, g, 7, name, ".log");
    free(fixture_read(path, &n));
    return n;
}

/* --- nothing changes --- */

static void test_no_change(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    fixture_reopen(g);
    struct session *x = fixture_acquire(g, 7, "a");
    const struct session_content *c = session_content(x);
    assert_int_equal(c->outcomes[0].message, 2);
    session_truncate(x, c->n_ids);
    session_truncate(x, c->n_ids + 1);
    session_drop_messages(x, c->n_messages);
    session_drop_messages(x, c->n_messages + 1);
    session_drop_outcome(x, "turn-2");
    assert_true(session_saved(x));
    assert_int_equal(c->outcomes[0].message, 2);
    session_truncate(x, c->n_ids - 1);
    assert_false(session_saved(x));
    session_release(g->store, x);
}

/* An outcome whose message is not known, as that of a turn with two answers: it stays so. */
static void test_no_message_is_dropped(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 1);
    assert_int_equal(session_content(x)->outcomes[0].message, 0);
    session_drop_messages(x, 2);
    assert_int_equal(session_content(x)->outcomes[0].message, 0);
    session_drop_messages(x, 1);
    assert_int_equal(session_content(x)->outcomes[0].message, SIZE_MAX);
    session_release(g->store, x);
}

/* --- outcomes --- */

/* A turn writes its own outcome, also when the session has as many as it keeps. */
static void test_new_outcomes_only(void **state)
{
    struct fixture *g = *state;
    uint64_t size[3 * SESSION_OUTCOMES];
    for (unsigned n = 0; n < 3 * SESSION_OUTCOMES; n++) {
        struct session *x = fixture_acquire(g, 7, "a");
        struct session_outcome o = {.answer = {(char *)(uintptr_t) "yes", 3}};
        snprintf(o.uuid, sizeof(o.uuid), "turn-%02u", n);
        assert_int_equal(session_add_message(x, "user", 4, "say", 3), 0);
        assert_int_equal(session_add_outcome(x, &o), 0);
        assert_int_equal(session_save(x), 0);
        session_release(g->store, x);
        size[n] = log_size(g, "a");
    }
    assert_int_equal(size[23] - size[22], size[2] - size[1]);
}

/* A turn that is taken back leaves no outcome, and not the one before it twice. */
static void test_outcome_taken_back(void **state)
{
    struct fixture *g = *state;
    fixture_say(g, 7, "a", 1);
    struct session *x = fixture_acquire(g, 7, "a");
    fixture_turn(x, 2);
    session_drop_outcome(x, "turn-2");
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    unload_all(g);
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_content(x)->n_outcomes, 1);
    assert_int_equal(fixture_last(x), 1);
    assert_int_equal(session_content(x)->n_messages, 4);
    session_release(g->store, x);
}

/* --- text --- */

static void test_text_ends_with_nul(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    session_forget_tokens(x); /* there are none, and no text */
    session_truncate(x, 0);
    assert_int_equal(session_append(x, 1, "one", 3, true), 0);
    assert_int_equal(session_append(x, 2, "two", 3, true), 0);
    session_truncate(x, 1);
    assert_string_equal(session_content(x)->text.data, "one");
    assert_memory_equal(session_content(x)->markup.data, "\1\1\1", 4);
    session_forget_tokens(x);
    assert_string_equal(session_content(x)->text.data, "");
    assert_string_equal(session_content(x)->markup.data, "");
    session_release(g->store, x);
}

/* Offsets have 32 bits. The text is memory that nothing but its end touches. */
static void test_longest_text(void **state)
{
    struct fixture *g = *state;
    const size_t room = ((size_t)4 << 30) + 4096;
    struct session *x = fixture_acquire(g, 7, "a");
    struct buf *t = &x->content.text;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    *t = (struct buf){p, UINT32_MAX - 2, room};
    assert_int_equal(session_append(x, 1, "abc", 3, false), -ENOMEM);
    assert_int_equal(session_append(x, 1, "ab", 2, false), 0);
    assert_int_equal(session_content(x)->ends[0], UINT32_MAX);
    assert_int_equal(session_append(x, 2, "c", 1, false), -ENOMEM);
    assert_int_equal(session_append(x, 2, "", 0, false), 0);
    assert_int_equal(session_content(x)->n_ids, 2);
    munmap(p, room);
    *t = (struct buf)BUF_INIT;
    session_revert(x);
    session_release(g->store, x);
}

/* Appending one by one does not copy all that there is each time. */
static void test_growth(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    size_t grown = 0, cap = 0;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(session_append(x, i, "x", 1, false), 0);
        grown += session_content(x)->cap_ids != cap;
        cap = session_content(x)->cap_ids;
    }
    assert_true(grown < 40);
    session_release(g->store, x);
}

/* --- memory --- */

static void test_append_without_memory(void **state)
{
    struct fixture *g = *state;
    struct session *x = fixture_acquire(g, 7, "a");
    for (unsigned long n = 0, failed = 1; failed; n++) {
        memory_fail(n);
        const int r = session_append(x, 1, "abc", 3, true);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        assert_int_equal(session_content(x)->n_ids, !failed);
        assert_int_equal(session_content(x)->text.len, failed ? 0 : 3);
    }
    session_release(g->store, x);
}

static void test_texts_without_memory(void **state)
{
    struct fixture *g = *state;
    static int (*const set[])(struct session *, const char *, size_t) = {session_set_note, session_set_failed,
                                                                         session_set_adapter};
    struct session *x = fixture_acquire(g, 7, "a");
    const struct session_content *c = session_content(x);
    for (int i = 0; i < 3; i++) {
        const struct proto_text *t = i == 0 ? &c->note : i == 1 ? &c->failed : &c->adapter;
        assert_int_equal(set[i](x, "one", 3), 0);
        memory_fail(0);
        assert_int_equal(set[i](x, "other", 5), -ENOMEM);
        assert_string_equal(t->data, "one");
        memory_fail(0);
        assert_int_equal(set[i](x, "", 0), 0); /* needs none */
        assert_int_equal(t->len, 0);
        memory_end();
    }
    session_release(g->store, x);
}

static void test_acquire_without_memory(void **state)
{
    struct fixture *g = *state;
    char name[8];
    for (int i = 0; i < 300; i++) { /* so many that the index grows */
        struct session *x = NULL;
        snprintf(name, sizeof(name), "s%d", i);
        for (unsigned long n = 0, failed = 1; failed; n++) {
            memory_fail(n);
            const int r = session_acquire(g->store, i < 2 ? 7 : 8, name, strlen(name), true, &x);
            failed = memory_end();
            if (r == 0) break;
            assert_true(failed);
            assert_int_equal(r, -ENOMEM);
        }
        fixture_turn(x, 1);
        session_release(g->store, x);
    }
    for (int i = 0; i < 300; i++) {
        struct session *x = NULL;
        snprintf(name, sizeof(name), "s%d", i);
        assert_int_equal(session_acquire(g->store, i < 2 ? 7 : 8, name, strlen(name), false, &x), 0);
        assert_int_equal(fixture_last(x), 1);
        session_release(g->store, x);
    }
}

/* The index has a place for each session, so that none is searched for long. */
static void test_index_grows(void **state)
{
    struct fixture *g = *state;
    char name[8];
    for (int i = 0; i < 600; i++) {
        struct session *x = NULL;
        snprintf(name, sizeof(name), "s%d", i);
        assert_int_equal(session_acquire(g->store, 7, name, strlen(name), true, &x), 0);
        fixture_turn(x, 1);
        session_release(g->store, x);
        assert_true(g->store->n <= g->store->n_buckets);
    }
}

static size_t used_memory(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* A store that is closed leaves nothing behind. */
static void test_closing_frees(void **state)
{
    struct fixture *g = *state;
    enum { TEXT = 400000 };
    char *text = calloc(1, TEXT);
    fixture_say(g, 7, "a", 1);
    fixture_say(g, 8, "b", 1);
    struct session *x = fixture_acquire(g, 7, "a"), *y = fixture_acquire(g, 8, "b");
    const size_t before = used_memory();
    assert_int_equal(session_append(x, 1, text, TEXT, false), 0);
    assert_int_equal(session_append(y, 1, text, TEXT, false), 0);
    session_release(g->store, x);
    session_release(g->store, y);
    const size_t with = used_memory();
    fixture_close(g);
    if (with > before) assert_true(used_memory() < before + TEXT); /* a sanitizer's allocator counts nothing */
    fixture_open(g);
    free(text);
}

/* What a user's sessions count: a content that has become smaller counts less at once, one that is unloaded leaves its
 * session. */
static void test_account(void **state)
{
    struct fixture *g = *state;
    char text[5000];
    memset(text, 'x', sizeof(text));
    const uint64_t none = memory_of(g, 7);
    assert_int_equal(none, 0);
    struct session *x = fixture_acquire(g, 7, "a");
    const uint64_t empty = memory_of(g, 7);
    assert_true(empty >= sizeof(*x));
    assert_int_equal(session_append(x, 1, text, sizeof(text), false), 0);
    fixture_turn(x, 1);
    assert_int_equal(session_save(x), 0);
    session_release(g->store, x);
    const uint64_t full = memory_of(g, 7);
    assert_true(full >= empty + 2 * sizeof(text));
    x = fixture_acquire(g, 7, "a");
    assert_int_equal(memory_of(g, 7), full);
    session_truncate(x, 0);
    assert_true(memory_of(g, 7) <= full - 2 * sizeof(text));
    session_revert(x);
    session_release(g->store, x);
    assert_int_equal(memory_of(g, 7), empty);
    fixture_reopen(g);
    assert_int_equal(memory_of(g, 7), empty);
    assert_int_equal(session_acquire(g->store, 7, "a", 1, true, &x), 0); /* before it is loaded it counts whole */
    assert_int_equal(memory_of(g, 7), full);
    session_release(g->store, x);
    assert_int_equal(memory_of(g, 7), empty);
}

/* --- forks --- */

static struct session *fork_of(struct fixture *g, struct session *x, const char *name)
{
    struct session *y = NULL;
    assert_int_equal(session_fork(g->store, x, name, strlen(name), &y), 0);
    return y;
}

/* A fork whose first turn is dropped is empty, and does not get its parent's turns back. */
static void test_reverted_fork(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    struct session *x = fixture_acquire(g, 7, "a"), *y = fork_of(g, x, "b");
    assert_int_equal(session_copy(y, x), 0);
    session_revert(y);
    assert_true(session_loaded(y));
    fixture_turn(y, 2);
    assert_int_equal(session_save(y), 0);
    assert_false(fixture_exists(g, 7, "b", ".b0"));
    session_release(g->store, y);
    session_release(g->store, x);
    fixture_reopen(g);
    y = fixture_acquire(g, 7, "b");
    assert_int_equal(session_content(y)->n_messages, 2);
    assert_int_equal(session_content(y)->n_ids, 20);
    session_release(g->store, y);
}

/* What an unloaded fork shares is listed as before. */
static void test_unloaded_fork(void **state)
{
    struct fixture *g = *state;
    fixture_say_much(g, 7, "a");
    struct session *x = fixture_acquire(g, 7, "a"), *y = fork_of(g, x, "b");
    assert_int_equal(session_duplicate(y, x), 0);
    session_release(g->store, y);
    session_release(g->store, x);
    fixture_say(g, 7, "b", 2);
    uint64_t shared = 0;
    for (int i = 0; i < 3; i++) {
        struct session_info *list;
        size_t n;
        assert_int_equal(session_list(g->store, 7, &list, &n), 0);
        assert_int_equal(n, 2);
        if (i == 0) shared = list[0].shared;
        assert_true(shared > 20000 && list[0].shared == shared);
        assert_int_equal(list[0].disk, 4096);
        free(list);
        if (i == 0) unload_all(g);
        if (i == 1) fixture_reopen(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_closing_frees, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_change, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_message_is_dropped, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_new_outcomes_only, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_outcome_taken_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_text_ends_with_nul, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_longest_text, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_growth, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_append_without_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_texts_without_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_acquire_without_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_grows, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_account, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_reverted_fork, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unloaded_fork, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("session-content", tests, NULL, NULL);
}
