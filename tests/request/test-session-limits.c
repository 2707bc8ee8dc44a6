/* SPDX-License-Identifier: MIT */
/* Covers session-limits.c: sessions on disk that were looked at stay in memory until all users' take too much of it. */
#include "daemon/request/session-limits.h"
#include "tests/engine/harness.h"
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LIMIT    (64u << 20) /* bytes in memory */
#define IDLE     (8u << 20)  /* bytes that stay of sessions that nobody uses */
#define SESSIONS 12
#define CONTENT  (6u << 20) /* of one of them */

static atomic_uint_fast64_t resident; /* bytes in memory of all sessions, after the last turn of the engine */

void __real_sessions_turn(struct core *core, uint64_t now);
void __wrap_sessions_turn(struct core *core, uint64_t now);

void __wrap_sessions_turn(struct core *core, uint64_t now)
{
    size_t n;
    uint64_t bytes;
    __real_sessions_turn(core, now);
    session_count(core->sessions, (uid_t)-1, &n, &bytes);
    assert_int_equal(n, SESSIONS);
    resident = bytes;
}

static uid_t uid_of(unsigned i)
{
    return 1000 + i % 2;
}

static void name_of(unsigned i, char name[8])
{
    snprintf(name, 8, "s%u", i);
}

static void make_sessions(const struct harness *h)
{
    const struct session_store_config c = {.dir = h->state_dir};
    struct session_store *store;
    char *content = malloc(CONTENT), name[8];
    assert_non_null(content);
    memset(content, 'x', CONTENT);
    assert_int_equal(session_store_open(&store, 1ull << 30, &c), 0);
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct session *x;
        name_of(i, name);
        assert_int_equal(session_acquire(store, uid_of(i), name, strlen(name), true, &x), 0);
        assert_int_equal(session_load(x), 0);
        assert_int_equal(session_add_message(x, "user", 4, content, CONTENT), 0);
        assert_int_equal(session_save(x), 0);
        session_release(store, x);
    }
    session_store_free(store);
    free(content);
}

/* Read session @i; the bytes of all that are in memory then. */
static uint64_t show(struct harness *h, unsigned i)
{
    struct proto_request r = harness_simple(PROTO_SESSION_SHOW);
    char name[8];
    name_of(i, name);
    assert_int_equal(proto_text_set(&r.name, name, strlen(name)), 0);
    struct answer *a = harness_wait(h, harness_submit_as(h, 1, uid_of(i), &r));
    assert_int_equal(a->last.type, PROTO_EV_SESSIONS);
    assert_true(a->last.sessions.len > CONTENT);
    harness_forget(h);
    harness_status(h, 0, "sessions"); /* of a later turn */
    return resident;
}

static void test_idle_sessions_leave_memory(void **state)
{
    struct harness *h = *state;
    uint64_t bytes = 0, before;
    harness_dirs(h);
    make_sessions(h);
    harness_start(h);
    assert_int_equal(harness_status(h, 0, "sessions"), SESSIONS);
    assert_true(resident < CONTENT);
    for (unsigned i = 0; i < SESSIONS; i++) {
        before = bytes;
        bytes = show(h, i);
        assert_true(bytes <= LIMIT);
        if (before + CONTENT < LIMIT - CONTENT / 2) assert_true(bytes >= before + CONTENT); /* nothing left early */
    }
    assert_true(bytes > LIMIT - 2 * CONTENT);                                 /* and no more than has to */
    for (unsigned i = 0; i < SESSIONS; i++) assert_true(show(h, i) <= LIMIT); /* they come back */
    while (resident > IDLE) usleep(10000); /* by itself, while the engine has nothing else to do */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle_sessions_leave_memory, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests_name("resident", tests, NULL, NULL);
}
