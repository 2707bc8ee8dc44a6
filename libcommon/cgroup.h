/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The control group (version 2) that accounts for this process's memory and CPU time, and the rest of its limits: see
 * Documentation/admin-guide/cgroup-v2.rst of the kernel. @root is prepended to every path: "" except in tests.
 */
#include <stdint.h>

#define CGROUP_PATH_MAX 4096

/* The directory of the process's own group. 0; -ENOENT: the group is not visible here; -ENAMETOOLONG. */
int cgroup_dir(const char *root, char out[static CGROUP_PATH_MAX]);

/* Bytes that the process's own group and its ancestors may still use, by memory.max (the kernel kills processes above
 * it) and memory.high (the kernel slows them down above it). Inactive file pages count as free. UINT64_MAX: no limit.
 */
uint64_t cgroup_room(const char *root);

/* Bytes of memory available without swapping: MemAvailable of /proc/meminfo, or less if the limits of the process's own
 * group leave less. 0: unknown. */
uint64_t cgroup_memory_available(const char *root);

/* Thousandths of a CPU that the process's own group may use, the least of its own quota and its ancestors': cpu.max, or
 * cpu.cfs_quota_us in a hierarchy of version 1. At least 1. UINT64_MAX: no limit. */
uint64_t cgroup_cpu_quota(const char *root);
