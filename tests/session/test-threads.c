/* SPDX-License-Identifier: MIT */
/* Other threads use busy sessions while the store is used; meant for the thread sanitizer. */
#include "libcommon/error.h"
#include "tests/session/fixture.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORKERS = 3, ROUNDS = 60 };

struct job {
    pthread_t thread;
    struct session *x, *copy;
    unsigned n;
    int r;
};

static void *work(void *arg)
{
    struct job *j = arg;
    j->r = session_load(j->x);
    if (j->r == 0) fixture_turn(j->x, j->n);
    if (j->r == 0) j->r = session_save(j->x);
    return NULL;
}

static void *fork_and_erase(void *arg)
{
    struct job *j = arg;
    j->r = session_load(j->x);
    if (j->r == 0) fixture_turn(j->x, j->n);
    if (j->r == 0) j->r = session_save(j->x);
    if (j->r == 0) j->r = session_copy(j->copy, j->x);
    if (j->r == 0) j->r = session_save(j->copy);
    if (j->r == 0) j->r = session_erase(j->copy);
    return NULL;
}

static void test_the_store_goes_on(void **state)
{
    struct fixture g;
    fixture_make(&g);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        struct job jobs[WORKERS] = {0};
        for (unsigned k = 0; k < WORKERS; k++) {
            char name[16], copy[16];
            snprintf(name, sizeof(name), "s%u", k);
            snprintf(copy, sizeof(copy), "copy%u", k);
            jobs[k].n = i;
            assert_int_equal(session_acquire(g.store, 7, name, strlen(name), true, &jobs[k].x), 0);
            if (k) assert_int_equal(session_fork(g.store, jobs[k].x, copy, strlen(copy), &jobs[k].copy), 0);
            void *(*run)(void *) = k ? fork_and_erase : work;
            assert_int_equal(pthread_create(&jobs[k].thread, NULL, run, &jobs[k]), 0);
        }
        for (unsigned k = 0; k < 20; k++) {
            struct session_info *list;
            struct session *x = NULL;
            size_t n;
            uint64_t bytes;
            assert_int_equal(session_list(g.store, 7, &list, &n), 0);
            free(list);
            session_count(g.store, 7, &n, &bytes);
            assert_int_equal(session_acquire(g.store, 7, "s0", 2, true, &x), -EBUSY);
            x = fixture_acquire(&g, 7, "mine");
            session_truncate(x, 0);
            session_drop_messages(x, 0);
            fixture_turn(x, i * 100 + k + 1);
            assert_int_equal(session_save(x), 0);
            session_release(g.store, x);
            session_unload_idle(g.store);
            assert_false(session_acquire_expired(g.store, 1ull << 60, &x));
            assert_false(session_acquire_unsaved(g.store, &x));
        }
        for (unsigned k = 0; k < WORKERS; k++) {
            assert_int_equal(pthread_join(jobs[k].thread, NULL), 0);
            assert_int_equal(jobs[k].r, 0);
            assert_int_equal(fixture_last(jobs[k].x), i);
            session_release(g.store, jobs[k].x);
            if (jobs[k].copy) session_release(g.store, jobs[k].copy);
        }
        if (i % 10 == 0)
            while (session_unload_idle(g.store)) {
            }
    }
    struct session_info *list;
    size_t n;
    uint64_t sum = 0, bytes;
    assert_int_equal(session_list(g.store, 7, &list, &n), 0);
    assert_int_equal(n, WORKERS + 1);
    session_count(g.store, 7, &n, &bytes);
    for (size_t i = 0; i < n; i++) sum += list[i].loaded ? list[i].bytes : sizeof(struct session) + list[i].name->len;
    assert_true(sum == bytes);
    free(list);
    fixture_remove(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_store_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
