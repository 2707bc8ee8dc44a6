/* SPDX-License-Identifier: MIT */
#pragma once
/* Clocks in microseconds. */
#include <stdint.h>

/* Time since an unspecified start (CLOCK_MONOTONIC). It never goes back. */
uint64_t clock_now_usec(void);
/* CPU time of the calling thread. */
uint64_t clock_thread_usec(void);
