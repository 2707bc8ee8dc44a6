/* SPDX-License-Identifier: MIT */
#include "libcommon/clock.h"
#include <time.h>

static uint64_t usec_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_now_usec(void)
{
    return usec_of(CLOCK_MONOTONIC);
}

uint64_t clock_thread_usec(void)
{
    return usec_of(CLOCK_THREAD_CPUTIME_ID);
}
