/* SPDX-License-Identifier: MIT */
/* The timer of --idle-exit, which is looked at, not waited for. The service is the test's. */
#include "daemon/io/idle-exit.h"
#include "tests/libcommon/check.h"
#include <stdlib.h>

#define HOUR 3600000000ull /* us */

static uint64_t accepted;
static bool busy;
static int expired;

uint64_t __wrap_service_accepted(const struct service *s);
bool __wrap_service_busy(const struct service *s);

uint64_t __wrap_service_accepted(const struct service *s)
{
    return accepted;
}

bool __wrap_service_busy(const struct service *s)
{
    return busy;
}

static void on_expired(void *ctx)
{
    expired++;
}

static int setup(void **state)
{
    struct idle_exit *x = *state = calloc(1, sizeof(*x));
    if (!x) return -1;
    x->expired = on_expired;
    accepted = 0;
    busy = false;
    expired = 0;
    return sd_event_new(&x->event);
}

static int teardown(void **state)
{
    struct idle_exit *x = *state;
    idle_exit_fini(x);
    sd_event_unref(x->event);
    free(x);
    return 0;
}

/* When the timer ends; 0: it does not run. */
static uint64_t end_of(const struct idle_exit *x)
{
    uint64_t at = 0;
    int on = SD_EVENT_OFF;
    if (x->timer) assert_true(sd_event_source_get_enabled(x->timer, &on) >= 0);
    if (on != SD_EVENT_OFF) assert_int_equal(sd_event_source_get_time(x->timer, &at), 0);
    return at;
}

static void test_expires(void **state)
{
    struct idle_exit *x = *state;
    idle_exit_look(x, NULL);
    assert_int_equal(end_of(x), 0); /* it does not serve yet */
    idle_exit_start(x, HOUR);
    assert_true(end_of(x) > HOUR);
    assert_int_equal(sd_event_source_set_time(x->timer, 1), 0);
    assert_true(sd_event_run(x->event, UINT64_MAX) > 0);
    assert_int_equal(expired, 1);
    idle_exit_stop(x);
    assert_int_equal(end_of(x), 0);
}

/* A reload that does not change the setting does not make the daemon stay longer. */
static void test_change(void **state)
{
    struct idle_exit *x = *state;
    idle_exit_change(x, HOUR);
    assert_int_equal(end_of(x), 0); /* it does not serve yet */
    idle_exit_start(x, HOUR);
    assert_int_equal(sd_event_source_set_time(x->timer, 5), 0);
    idle_exit_change(x, HOUR);
    assert_int_equal(end_of(x), 5);
    idle_exit_change(x, 2 * HOUR);
    assert_true(end_of(x) > 2 * HOUR);
    idle_exit_change(x, 0);
    assert_int_equal(end_of(x), 0);
    idle_exit_change(x, HOUR);
    assert_true(end_of(x) > HOUR);
    idle_exit_stop(x);
    idle_exit_change(x, 2 * HOUR);
    assert_int_equal(end_of(x), 0);
}

static void test_requests(void **state)
{
    struct idle_exit *x = *state;
    idle_exit_start(x, HOUR);
    assert_int_equal(sd_event_source_set_time(x->timer, 5), 0);
    idle_exit_look(x, NULL);
    assert_int_equal(end_of(x), 5);
    accepted = 1;
    busy = true;
    idle_exit_look(x, NULL);
    assert_int_equal(end_of(x), 0);
    idle_exit_change(x, 2 * HOUR);
    assert_int_equal(end_of(x), 0);
    busy = false;
    idle_exit_look(x, NULL);
    assert_true(end_of(x) > 2 * HOUR);
    assert_int_equal(sd_event_source_set_time(x->timer, 5), 0);
    accepted = 2; /* it began and ended since */
    idle_exit_look(x, NULL);
    assert_true(end_of(x) > 2 * HOUR);
    assert_int_equal(expired, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_expires), TEST(test_change), TEST(test_requests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
