/* SPDX-License-Identifier: MIT */
#include "libcommon/clock.h"
#include "tests/libcommon/check.h"
#include <pthread.h>
#include <time.h>

static uint64_t usec(clockid_t clock)
{
    struct timespec t;

    assert_int_equal(clock_gettime(clock, &t), 0);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A value lies between two readings of the system's clock. */
static void values_are_those_of_the_system(void **state)
{
    for (int i = 0; i < 1000; i++) {
        uint64_t before = usec(CLOCK_MONOTONIC), now = clock_now_usec();

        assert_in_range(now, before, usec(CLOCK_MONOTONIC));
        before = usec(CLOCK_THREAD_CPUTIME_ID);
        now = clock_thread_usec();
        assert_in_range(now, before, usec(CLOCK_THREAD_CPUTIME_ID));
    }
}

static void *first_reading(void *out)
{
    *(uint64_t *)out = clock_thread_usec();
    return NULL;
}

/* The time of a new thread does not include its parent's. */
static void thread_time_is_of_one_thread(void **state)
{
    uint64_t first;
    pthread_t t;

    while (clock_thread_usec() < 100000) continue;
    assert_int_equal(pthread_create(&t, NULL, first_reading, &first), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(first < clock_thread_usec());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_system),
        cmocka_unit_test(thread_time_is_of_one_thread),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
