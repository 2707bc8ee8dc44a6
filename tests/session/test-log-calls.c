/* SPDX-License-Identifier: MIT */
/*
 * Each system call of loading, saving, forking, renaming and removing a session fails once, or does a part of its work:
 * no turn is lost or doubled, no valid log is set aside, and what returned 0 is on disk.
 */
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "tests/session/fixture.h"
#include "tests/support/calls.h"
#include "tests/support/memory.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG 20000 /* bytes of text, so that a fork shares the log */

/* What the store has after a restart, such as "a2 b-": the last turns of "a" and "b". */
static const char *turns(struct fixture *g)
{
    static char text[16];
    text[0] = 0;
    fixture_close(g);
    fixture_open(g);
    for (const char *name = "a"; name; name = *name == 'a' ? "b" : NULL) {
        struct session *x = NULL;
        char one[8];
        const int r = session_acquire(g->store, 7, name, 1, false, &x);
        assert_true(r == 0 || r == -ENOENT);
        if (r == 0) assert_int_equal(session_load(x), 0);
        const size_t n = r == 0 ? x->content.n_messages / 2 : 0;
        if (r == 0) assert_true(fixture_last(x) == n || fixture_last(x) == 0); /* a fork has no outcomes */
        snprintf(one, sizeof(one), "%s%s%c", text[0] ? " " : "", name, r ? '-' : (char)('0' + n));
        strcat(text, one);
        if (r == 0) session_release(g->store, x);
        assert_false(fixture_exists(g, 7, name, ".bad"));
        assert_false(fixture_exists(g, 7, name, ".tmp"));
    }
    return text;
}

/* Turn @n. A save that fails is repeated when @again. */
static int say(struct fixture *g, const char *name, unsigned n, bool again)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, 7, name, 1, true, &x);
    if (r < 0) return r;
    r = session_load(x);
    if (r == 0) {
        fixture_turn(x, n);
        r = session_save(x);
        if (r < 0 && again) {
            r = session_save(x);
            assert_int_equal(r, 0); /* one call fails, and no other */
        }
    }
    session_release(g->store, x);
    return r;
}

static void two_turns(struct fixture *g)
{
    assert_int_equal(say(g, "a", 1, false), 0);
    assert_int_equal(say(g, "a", 2, false), 0);
    fixture_close(g);
    fixture_open(g);
}

static void two_long_turns(struct fixture *g)
{
    char *text = calloc(1, LONG);
    memset(text, 'x', LONG);
    struct session *x = fixture_acquire(g, 7, "a");
    assert_int_equal(session_append(x, 5, text, LONG, false), 0);
    session_release(g->store, x);
    free(text);
    two_turns(g);
}

static int append(struct fixture *g)
{
    return say(g, "a", 3, false);
}

static int append_again(struct fixture *g)
{
    return say(g, "a", 3, true);
}

static int create(struct fixture *g)
{
    return say(g, "b", 1, false);
}

static int to_another(struct fixture *g, bool fork)
{
    struct session *x = NULL, *y = NULL;
    int r = session_acquire(g->store, 7, "a", 1, false, &x);
    if (r < 0) return r;
    r = fork ? session_fork(g->store, x, "b", 1, &y) : session_rename(g->store, x, "b", 1, &y);
    if (r < 0) {
        session_release(g->store, x);
        return r;
    }
    r = session_load(x);
    if (r == 0) r = fork ? session_duplicate(y, x) : session_move(y, x);
    session_release(g->store, y);
    session_release(g->store, x);
    return r;
}

static int make_fork(struct fixture *g)
{
    return to_another(g, true);
}

static int make_rename(struct fixture *g)
{
    return to_another(g, false);
}

static int erase(struct fixture *g)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, 7, "a", 1, false, &x);
    if (r < 0) return r;
    r = session_erase(x);
    session_release(g->store, x);
    return r;
}

static int reopen(struct fixture *g)
{
    struct session_store_config c = fixture_config(g);
    fixture_close(g);
    const int r = session_store_open(&g->store, 1 << 20, &c);
    if (r < 0) assert_null(g->store);
    return r;
}

static void long_fork(struct fixture *g)
{
    two_long_turns(g);
    assert_int_equal(make_fork(g), 0);
    fixture_reopen(g);
}

static long memory_at = -1; /* this allocation of a turn's last step fails; -1: none */

static void last_step(void)
{
    if (memory_at >= 0) memory_fail((unsigned long)memory_at);
}

/* A turn of "b", a fork, that does not go behind its log, but into a new one. */
static int rewrite(struct fixture *g)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, 7, "b", 1, true, &x);
    if (r < 0) return r;
    r = session_load(x);
    if (r == 0) {
        fixture_turn(x, 3);
        x->log.rewrite = true;
        last_step();
        r = session_save(x);
    }
    session_release(g->store, x);
    return r;
}

/* To "b", with a turn that is in memory only. */
static int turn_to_another(struct fixture *g, bool fork)
{
    struct session *x = NULL, *y = NULL;
    int r = session_acquire(g->store, 7, "a", 1, false, &x);
    if (r < 0) return r;
    r = session_load(x);
    if (r < 0) {
        session_release(g->store, x);
        return r;
    }
    if (fork) {
        assert_int_equal(session_fork(g->store, x, "b", 1, &y), 0);
        assert_int_equal(session_copy(y, x), 0);
        fixture_turn(y, 3);
        last_step();
        r = session_save(y);
    } else {
        fixture_turn(x, 3);
        assert_int_equal(session_rename(g->store, x, "b", 1, &y), 0);
        last_step();
        r = session_move(y, x);
    }
    session_release(g->store, y);
    session_release(g->store, x);
    return r;
}

static int fork_turn(struct fixture *g)
{
    return turn_to_another(g, true);
}

static int rename_turn(struct fixture *g)
{
    return turn_to_another(g, false);
}

static int erase_fork(struct fixture *g)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, 7, "b", 1, false, &x);
    if (r < 0) return r;
    r = session_erase(x);
    session_release(g->store, x);
    return r;
}

/* The third turn of "a" was cut by a crash. */
static void torn_turn(struct fixture *g)
{
    char path[256];
    size_t n;
    two_turns(g);
    assert_int_equal(append(g), 0);
    fixture_path(path, g, 7, "a", ".log");
    char *log = fixture_read(path, &n);
    fixture_write(path, log, n - 5);
    free(log);
    fixture_reopen(g);
}

static int load(struct fixture *g)
{
    struct session *x = NULL;
    int r = session_acquire(g->store, 7, "a", 1, false, &x);
    if (r < 0) return r;
    r = session_load(x);
    session_release(g->store, x);
    return r;
}

static const struct operation {
    const char *name;
    void (*before)(struct fixture *g);
    int (*run)(struct fixture *g);
    const char *old, *new;
} operations[] = {
    {"append", two_turns, append, "a2 b-", "a3 b-"},
    {"append again", two_turns, append_again, "a2 b-", "a3 b-"},
    {"create", two_turns, create, "a2 b-", "a2 b1"},
    {"fork", two_turns, make_fork, "a2 b-", "a2 b2"},
    {"fork a long one", two_long_turns, make_fork, "a2 b-", "a2 b2"},
    {"rename", two_turns, make_rename, "a2 b-", "a- b2"},
    {"rename a long one", two_long_turns, make_rename, "a2 b-", "a- b2"},
    {"erase", two_turns, erase, "a2 b-", "a- b-"},
    {"open", two_turns, reopen, "a2 b-", "a2 b-"},
    {"rewrite a fork", long_fork, rewrite, "a2 b2", "a2 b3"},
    {"fork with a turn", two_long_turns, fork_turn, "a2 b-", "a2 b3"},
    {"rename with a turn", two_long_turns, rename_turn, "a2 b-", "a- b3"},
    {"erase a fork", long_fork, erase_fork, "a2 b2", "a2 b-"},
    {"load a torn log", torn_turn, load, "a2 b-", "a2 b-"},
};

static void check(const struct operation *o, enum call call, unsigned long n, int error, int r, const char *have)
{
    const bool is_new = strcmp(have, o->new) == 0, is_old = strcmp(have, o->old) == 0;
    if (r == 0 ? !is_new : !is_new && !is_old)
        fail_msg("%s: call %lu of kind %d with %s: %d, \"%s\"", o->name, n, (int)call, strerror(error), r, have);
}

/* The bytes that count are those on disk. A removed file whose removal is not sure counts on; one that could not be
 * read when the store was opened does not count. */
static void check_count(const struct operation *o, const struct fixture *g, enum call call)
{
    if (o->run == reopen) return;
    const uint64_t counted = fixture_bytes(g, 7), files = fixture_disk(g, 7);
    assert_true(call == CALL_FSYNC ? counted >= files : counted == files);
}

/* True: a call failed. */
static bool run(const struct operation *o, enum call call, unsigned long n, int error)
{
    struct fixture g;
    fixture_make(&g);
    o->before(&g);
    calls_fail(call, n, error);
    const int r = o->run(&g);
    const bool failed = calls_end();
    check_count(o, &g, call);
    if (error && r != 0) assert_int_equal(r, -error);
    if (error == EINVAL && o->run != rewrite) assert_int_equal(r, 0); /* no RENAME_NOREPLACE: done in another way */
    check(o, call, n, error, r, turns(&g));
    if (error == EINTR || !failed) assert_int_equal(r, 0);
    fixture_remove(&g);
    return failed;
}

static void test_each_call_fails(void **state)
{
    static const struct {
        enum call call;
        int error;
    } faults[] = {
        {CALL_OPEN, EMFILE},   {CALL_OPEN, EACCES}, {CALL_FSTAT, EIO},    {CALL_FSTATVFS, EIO},
        {CALL_READ, EIO},      {CALL_READ, EINTR},  {CALL_WRITE, ENOSPC}, {CALL_WRITE, EINTR},
        {CALL_WRITE, 0},       {CALL_FSYNC, EIO},   {CALL_TRUNCATE, EIO}, {CALL_RENAME, EIO},
        {CALL_RENAME, EINVAL}, {CALL_LINK, EMLINK}, {CALL_LINK, EIO},     {CALL_UNLINK, EIO},
    };
    for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
        for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++)
            for (unsigned long n = 0; run(&operations[i], faults[k].call, n, faults[k].error); n++) continue;
}

/* Reads and writes of a few bytes at a time. */
static void test_in_parts(void **state)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
        for (size_t most = 8; most < 2000; most = most * 3 + 4) {
            struct fixture g;
            fixture_make(&g);
            operations[i].before(&g);
            calls_short(most);
            calls_stale(EINTR);
            assert_int_equal(operations[i].run(&g), 0);
            check(&operations[i], CALLS, most, 0, 0, turns(&g));
            calls_end();
            assert_string_equal(turns(&g), operations[i].new);
            fixture_remove(&g);
        }
}

/* Each allocation fails once. */
static void test_operations_without_memory(void **state)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
        for (unsigned long n = 0;; n++) {
            const struct operation *o = &operations[i];
            struct fixture g;
            if (o->run == append || o->run == append_again || o->run == create) break;
            fixture_make(&g);
            o->before(&g);
            if (o->run == rewrite || o->run == fork_turn || o->run == rename_turn)
                memory_at = (long)n;
            else
                memory_fail(n);
            const int r = o->run(&g);
            const bool failed = memory_end();
            memory_at = -1;
            check_count(o, &g, CALLS);
            check(o, CALLS, n, ENOMEM, r, turns(&g));
            fixture_remove(&g);
            if (!failed) break;
            assert_true(r == 0 || r == -ENOMEM);
        }
}

static void test_load_without_memory(void **state)
{
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct fixture g;
        struct session *x = NULL;
        fixture_make(&g);
        two_long_turns(&g);
        assert_int_equal(session_acquire(g.store, 7, "a", 1, false, &x), 0);
        memory_fail(n);
        const int r = session_load(x);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        session_release(g.store, x);
        assert_string_equal(turns(&g), "a2 b-");
        fixture_remove(&g);
    }
}

static void test_save_without_memory(void **state)
{
    for (unsigned long n = 0, failed = 1; failed; n++) {
        struct fixture g;
        fixture_make(&g);
        two_turns(&g);
        struct session *x = fixture_acquire(&g, 7, "a");
        fixture_turn(x, 3);
        memory_fail(n);
        const int r = session_save(x);
        failed = memory_end();
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (r < 0 && n % 2) assert_int_equal(session_save(x), 0);
        session_release(g.store, x);
        assert_string_equal(turns(&g), r == 0 || n % 2 ? "a3 b-" : "a2 b-");
        fixture_remove(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_call_fails), cmocka_unit_test(test_in_parts),
                                       cmocka_unit_test(test_operations_without_memory),
                                       cmocka_unit_test(test_load_without_memory),
                                       cmocka_unit_test(test_save_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
