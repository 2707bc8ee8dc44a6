/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The time slices of a thread that shares its CPU with other processes. The scheduler takes the CPU away at a timer
 * tick. A thread that is inside a piece of work then keeps all others waiting until it runs again, some milliseconds
 * later. A thread that knows when its slice ends yields between two pieces instead, and nobody waits for it.
 *
 * A thread finds out that it was off its CPU by comparing the clock with its own CPU time. From then on, until it has
 * had the CPU to itself for a while, it counts ticks since it came back.
 */
#include <stdbool.h>
#include <stdint.h>

/* All times in microseconds. Only its thread accesses it. */
struct timeslice {
    uint64_t seen;    /* the last call of timeslice_check */
    uint64_t begin;   /* the thread came back to its CPU */
    uint64_t shared;  /* until then the CPU counts as shared with others */
    uint64_t ref;     /* when @ref_cpu was read */
    uint64_t ref_cpu; /* CPU time of the thread */
    uint64_t tick;    /* period of the timer tick */
    uint64_t piece;   /* longest piece of work in this slice */
    uint32_t ticks;   /* a slice has at least as many */
    uint32_t kept;    /* slices since one ended early */
};

/* By the thread itself, before its first work. */
void timeslice_init(struct timeslice *t);

/* The thread has slept of its own will; the time does not count as taken away. */
void timeslice_woke(struct timeslice *t);

/* Call this often, between pieces of work and while waiting. True: the thread was off its CPU since the last call. */
bool timeslice_check(struct timeslice *t);

/* As of the last check: other processes want this CPU. */
static inline bool timeslice_shared(const struct timeslice *t)
{
    return t->seen < t->shared;
}

/* As of the last check: the slice may end before another piece is done. */
bool timeslice_ends(const struct timeslice *t);

/* Give the rest of the slice to the others. */
void timeslice_yield(struct timeslice *t);
