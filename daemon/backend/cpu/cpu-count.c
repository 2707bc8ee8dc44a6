/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/cpu-count.h"
#include "daemon/backend/cpu/cpu-list.h"
#include "libcommon/cgroup.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* @cpu is the first of its core's threads among @allowed. */
static bool leads_core(int cpu, const cpu_set_t *allowed, const char *root)
{
    char path[4096];
    cpu_set_t siblings;
    snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root, cpu);
    if (!cpu_list_read(&siblings, path)) return true;
    for (int c = 0; c < cpu; c++)
        if (CPU_ISSET(c, &siblings) && CPU_ISSET(c, allowed)) return false;
    return true;
}

void cpu_count_of(struct cpu_count *out, const cpu_set_t *allowed, const char *root)
{
    *out = (struct cpu_count){.quota = cgroup_cpu_quota(root)};
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, allowed)) {
            out->allowed++;
            out->cores += leads_core(c, allowed, root);
        }
    if (!out->allowed) out->allowed = 1;
    if (!out->cores) out->cores = 1;
    uint64_t whole = out->quota / 1000 + (out->quota % 1000 >= 500);
    out->threads = whole >= out->cores ? out->cores : whole ? (uint32_t)whole : 1;
}

void cpu_count(struct cpu_count *out)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set)) /* the machine has more CPUs than a set: count those that are online */
        for (long c = 0; c < CPU_SETSIZE && c < sysconf(_SC_NPROCESSORS_ONLN); c++) CPU_SET((size_t)c, &set);
    cpu_count_of(out, &set, "");
}

void cpu_count_describe(const struct cpu_count *c, uint32_t threads, char *out, size_t size)
{
    char cores[48] = "", quota[48] = "";
    if (c->cores < c->allowed) snprintf(cores, sizeof(cores), " on %u core%s", c->cores, c->cores == 1 ? "" : "s");
    if (c->quota != UINT64_MAX) snprintf(quota, sizeof(quota), ", quota %.1f", (double)c->quota / 1000);
    snprintf(out, size, "%u thread%s: %u CPU%s allowed%s%s", threads, threads == 1 ? "" : "s", c->allowed,
             c->allowed == 1 ? "" : "s", cores, quota);
}
