/* SPDX-License-Identifier: MIT */
#pragma once
/* The CPUs that this process may use, and the number of compute threads that suits them. */
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

struct cpu_count {
    uint32_t allowed; /* CPUs, by affinity and cpuset; at least 1 */
    uint32_t cores;   /* physical cores among them */
    uint64_t quota;   /* thousandths of a CPU, by the control group; UINT64_MAX: none */
    uint32_t threads; /* one a core, no more than the quota, rounded to a whole CPU; at least 1 */
};

/* Now, as the calling thread is allowed. */
void cpu_count(struct cpu_count *out);

/* The same for @allowed, with @root before the paths in /proc and /sys, for tests. */
void cpu_count_of(struct cpu_count *out, const cpu_set_t *allowed, const char *root);

/* Write "4 threads: 8 CPUs allowed, on 4 cores, quota 4.0". */
void cpu_count_describe(const struct cpu_count *c, uint32_t threads, char *out, size_t size);
