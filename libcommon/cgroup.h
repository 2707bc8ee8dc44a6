/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The control group (version 2) in which this process's memory is counted, and what its limits leave: see
 * Documentation/admin-guide/cgroup-v2.rst of the kernel. @root stands before every path: "", but in tests.
 */
#include <stdint.h>

#define CGROUP_PATH_MAX 4096

/* The own group's directory. 0; -ENOENT: no such group is to be seen from here; -ENAMETOOLONG. */
int cgroup_dir(const char *root, char out[static CGROUP_PATH_MAX]);

/* Bytes that memory.max and memory.high of the own group and of those above it leave: beyond the one processes are
 * killed, beyond the other they are slowed down. File pages that were not used lately count as room. UINT64_MAX: there
 * is no limit. */
uint64_t cgroup_room(const char *root);

/* Bytes of memory available without swapping: MemAvailable of /proc/meminfo, or less if the limits of the own group
 * leave less. 0: not known. */
uint64_t cgroup_memory_available(const char *root);
