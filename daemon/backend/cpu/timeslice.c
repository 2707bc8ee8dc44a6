/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/timeslice.h"
#include "libcommon/clock.h"
#include <sched.h>
#include <string.h>
#include <time.h>

#define USUAL_TICK  4000   /* 250 Hz */
#define GAP         500    /* between two checks, before it is worth a system call to read the CPU time */
#define TAKEN       300    /* off the CPU for so long: by another process, not by an interrupt */
#define SHARED      200000 /* a CPU counts as shared for so long after the thread lost it */
#define MARGIN      150    /* of a slice, for ticks that come early and for pieces that take longer than others */
#define KEPT_SLICES 128    /* slices that ended as expected, before a longer one is tried */

static void refer(struct timeslice *t, uint64_t now)
{
    t->ref = now;
    t->ref_cpu = clock_thread_usec();
}

/* The coarse clock advances once a tick. */
void timeslice_init(struct timeslice *t)
{
    struct timespec r;
    memset(t, 0, sizeof(*t));
    t->tick = USUAL_TICK;
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &r) == 0 && r.tv_sec == 0 && r.tv_nsec >= 500000)
        t->tick = (uint64_t)r.tv_nsec / 1000;
    t->ticks = 1;
    timeslice_woke(t);
}

void timeslice_woke(struct timeslice *t)
{
    t->seen = clock_now_usec();
    if (!timeslice_shared(t)) t->begin = t->seen;
    refer(t, t->seen);
}

/* The slice ended before the thread yielded, at @end. */
static void ended_early(struct timeslice *t, uint64_t end)
{
    uint64_t ticks = (end - t->begin + t->tick / 8) / t->tick;
    if (ticks < t->ticks) t->ticks = ticks ? (uint32_t)ticks : 1;
    t->kept = 0;
}

bool timeslice_check(struct timeslice *t)
{
    uint64_t now = clock_now_usec(), before = t->seen, gap = now - before;
    t->seen = now;
    if (gap <= GAP) {
        if (gap > t->piece) t->piece = gap;
        return false;
    }
    uint64_t ref = t->ref, ref_cpu = t->ref_cpu;
    refer(t, now);
    uint64_t wall = now - ref, cpu = t->ref_cpu - ref_cpu, off = wall > cpu ? wall - cpu : 0;
    if (off <= TAKEN) return false;
    uint64_t end = now - off > before ? now - off : before;
    if (before < t->shared) ended_early(t, end);
    t->begin = now;
    t->shared = now + SHARED;
    t->piece = 0;
    return true;
}

bool timeslice_ends(const struct timeslice *t)
{
    return timeslice_shared(t) && t->seen - t->begin + t->piece + MARGIN > t->ticks * t->tick;
}

void timeslice_yield(struct timeslice *t)
{
    uint64_t before = t->seen;
    sched_yield();
    t->seen = clock_now_usec();
    if (t->seen - before > TAKEN) {
        t->shared = t->seen + SHARED;
        if (++t->kept >= KEPT_SLICES) t->kept = 0, t->ticks++;
    }
    t->begin = t->seen;
    t->piece = 0;
    refer(t, t->seen);
}
