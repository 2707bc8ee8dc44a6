/* SPDX-License-Identifier: MIT */
#pragma once
/* NUMA nodes: CPUs, and the memory that they reach fastest. */
#include <sched.h>
#include <stdint.h>

#define NUMA_MOST 64

/* The nodes with CPUs that this process may use; those beyond NUMA_MOST are left out. */
struct numa {
    uint32_t n; /* 0: the kernel names none; then, as with 1, there is nothing to spread */
    uint32_t id[NUMA_MOST];
    cpu_set_t cpus[NUMA_MOST]; /* that this process may use */
};

/* The nodes of @allowed, with @root before the paths in /sys. */
void numa_read(struct numa *out, const cpu_set_t *allowed, const char *root);

/* The index of the node that suits thread @thread of @threads: each node gets threads by its CPUs. @m->n > 0. */
uint32_t numa_node_of(const struct numa *m, uint32_t thread, uint32_t threads);

/* Put the memory that this thread, and those that it starts, will touch first on all nodes in turn. 0; -errno and the
 * error message. */
int numa_interleave(const struct numa *m);
