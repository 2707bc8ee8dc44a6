/* SPDX-License-Identifier: MIT */
#include "daemon/request/mailbox.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct mailbox m;
    m = (struct mailbox){0};
    *state = &m;
    return mailbox_init(&m);
}

static int teardown(void **state)
{
    mailbox_fini(*state);
    return 0;
}

static void test_pause_is_of_one_connection(void **state)
{
    struct mailbox *m = *state;
    for (uint64_t conn = 1; conn <= 3; conn++) assert_false(mailbox_is_paused(m, conn));
    for (uint64_t conn = 1; conn <= 3; conn++) mailbox_pause(m, conn, true);
    mailbox_pause(m, 2, true); /* no second entry */
    mailbox_pause(m, 2, false);
    assert_true(mailbox_is_paused(m, 1));
    assert_false(mailbox_is_paused(m, 2));
    assert_true(mailbox_is_paused(m, 3));
    mailbox_pause(m, 2, false);
    mailbox_pause(m, 9, false);
    mailbox_pause(m, 1, false);
    assert_false(mailbox_is_paused(m, 1));
    assert_true(mailbox_is_paused(m, 3)); /* mailbox_fini frees it */
}

static void *wait_for_kick(void *arg)
{
    struct mailbox *m = arg;
    pthread_mutex_lock(&m->lock);
    m->draining = true; /* the test sees that this thread waits */
    pthread_cond_signal(&m->wake);
    while (!m->kick) pthread_cond_wait(&m->wake, &m->lock);
    m->kick = false;
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* A kick wakes the engine's thread when it waits, and is kept for it when it does not. */
static void test_kick(void **state)
{
    struct mailbox *m = *state;
    for (int locked = 0; locked < 2; locked++) {
        pthread_t thread;
        m->draining = false;
        assert_int_equal(pthread_create(&thread, NULL, wait_for_kick, m), 0);
        pthread_mutex_lock(&m->lock);
        while (!m->draining) pthread_cond_wait(&m->wake, &m->lock); /* it holds the lock until it waits */
        if (locked) mailbox_kick_locked(m);
        pthread_mutex_unlock(&m->lock);
        if (!locked) mailbox_kick(m);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_false(m->kick);
    }
    mailbox_kick(m);
    assert_true(m->kick);
}

/* Jobs that have finished wake the engine's thread under the mailbox's own lock. */
static void test_returns_share_the_lock(void **state)
{
    struct mailbox *m = *state;
    assert_ptr_equal(m->returns.lock, &m->lock);
    assert_ptr_equal(m->returns.wake, &m->wake);
    assert_true(event_queue_fd(m->events) >= 0);
}

/* The weights are found damaged, and then the device fails, or the other way around: whoever was told the first reason
 * is not told another, and the second one is freed. */
static void test_first_failure_stays(void **state)
{
    struct mailbox *m = *state;
    struct pollfd p = {.fd = event_queue_fd(m->events), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    pthread_mutex_lock(&m->lock);
    mailbox_fail_locked(m, strdup("the weights are damaged"));
    const char *said = m->error;
    mailbox_fail_locked(m, strdup("the device has failed"));
    assert_ptr_equal(m->error, said);
    pthread_mutex_unlock(&m->lock);
    assert_int_equal(m->state, ENGINE_FAILED);
    assert_string_equal(m->error, "the weights are damaged");
    assert_int_equal(poll(&p, 1, 0), 1); /* the server looks */
}

/* A first failure without memory for its reason is a failure too: the second reason is not believed to be the first. */
static void test_failure_without_a_reason(void **state)
{
    struct mailbox *m = *state;
    pthread_mutex_lock(&m->lock);
    mailbox_fail_locked(m, NULL);
    mailbox_fail_locked(m, strdup("the device has failed"));
    pthread_mutex_unlock(&m->lock);
    assert_int_equal(m->state, ENGINE_FAILED);
    assert_null(m->error);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_pause_is_of_one_connection), TEST(test_kick),
        TEST(test_returns_share_the_lock),     TEST(test_first_failure_stays),
        TEST(test_failure_without_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
