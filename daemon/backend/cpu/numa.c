/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/numa.h"
#include "daemon/backend/cpu/cpu-list.h"
#include "libcommon/error.h"
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDS  1024 /* numbers of nodes that are looked at; the kernel's limit */
#define BITS (8 * sizeof(unsigned long))

void numa_read(struct numa *out, const cpu_set_t *allowed, const char *root)
{
    char path[4096];
    cpu_set_t online, node;
    memset(out, 0, sizeof(*out));
    snprintf(path, sizeof(path), "%s/sys/devices/system/node/online", root);
    if (!cpu_list_read(&online, path)) return; /* numbers of nodes */
    for (uint32_t i = 0; i < IDS && out->n < NUMA_MOST; i++) {
        if (!CPU_ISSET(i, &online)) continue;
        snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%u/cpulist", root, i);
        if (!cpu_list_read(&node, path)) continue;
        CPU_AND(&out->cpus[out->n], &node, allowed);
        if (CPU_COUNT(&out->cpus[out->n])) out->id[out->n++] = i;
    }
}

uint32_t numa_node_of(const struct numa *m, uint32_t thread, uint32_t threads)
{
    uint64_t all = 0, seen = 0;
    for (uint32_t i = 0; i < m->n; i++) all += (uint64_t)CPU_COUNT(&m->cpus[i]);
    for (uint32_t i = 0; i < m->n; i++) {
        seen += (uint64_t)CPU_COUNT(&m->cpus[i]);
        if (thread * all < seen * threads) return i;
    }
    return m->n - 1;
}

int numa_interleave(const struct numa *m)
{
    unsigned long mask[IDS / BITS] = {0};
    for (uint32_t i = 0; i < m->n; i++) mask[m->id[i] / BITS] |= 1ul << m->id[i] % BITS;
    if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, mask, (unsigned long)IDS + 1) < 0)
        return error_say(-errno, "cannot interleave memory over %u NUMA nodes: %s", m->n, strerror(errno));
    return 0;
}
