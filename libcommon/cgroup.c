/* SPDX-License-Identifier: MIT */
#include "libcommon/cgroup.h"
#include "libcommon/cleanup.h"
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static const char mount[] = "/sys/fs/cgroup";

int cgroup_dir(const char *root, char out[static CGROUP_PATH_MAX])
{
    char path[CGROUP_PATH_MAX], line[CGROUP_PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= (int)sizeof(path)) return -ENAMETOOLONG;
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "0::/", 4) != 0) continue;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line + 3, "/..", 3) == 0)
            return -ENOENT; /* the group is outside of the hierarchy that is mounted here */
        const char *group = line[4] ? line + 3 : "";
        return snprintf(out, CGROUP_PATH_MAX, "%s%s%s", root, mount, group) < CGROUP_PATH_MAX ? 0 : -ENAMETOOLONG;
    }
    return -ENOENT;
}

/* Read the number behind @key at the beginning of a line ("": of the first line). False: no such number ("max" is
 * none). */
static bool read_number(const char *dir, const char *name, const char *key, uint64_t *v)
{
    char path[CGROUP_PATH_MAX + 32], line[256];
    size_t n = strlen(key);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, key, n) == 0) return sscanf(line + n, "%" SCNu64, v) == 1;
    return false;
}

static uint64_t room_of(const char *dir)
{
    uint64_t max = UINT64_MAX, high = UINT64_MAX, current = 0, files = 0;
    read_number(dir, "memory.max", "", &max);
    read_number(dir, "memory.high", "", &high);
    if (high < max) max = high;
    if (max == UINT64_MAX) return max;
    read_number(dir, "memory.current", "", &current);
    read_number(dir, "memory.stat", "inactive_file ", &files);
    current -= files < current ? files : current;
    return current < max ? max - current : 0;
}

/* The least value of @dir and its ancestors, up to the path of @top characters. Changes @dir. */
static uint64_t least_of(char *dir, size_t top, uint64_t (*value)(const char *dir))
{
    for (uint64_t least = UINT64_MAX;;) {
        uint64_t v = value(dir);
        if (v < least) least = v;
        if (strlen(dir) <= top) return least;
        *strrchr(dir, '/') = '\0';
    }
}

uint64_t cgroup_room(const char *root)
{
    char dir[CGROUP_PATH_MAX];
    if (cgroup_dir(root, dir) < 0) return UINT64_MAX;
    return least_of(dir, strlen(root) + strlen(mount), room_of);
}

static uint64_t thousandths(uint64_t quota, uint64_t period)
{
    if (!period || quota > UINT64_MAX / 1000) return UINT64_MAX;
    return quota * 1000 < period ? 1 : quota * 1000 / period;
}

/* "150000 100000", or "max 100000" */
static uint64_t quota_of(const char *dir)
{
    char path[CGROUP_PATH_MAX + 32];
    uint64_t quota, period = 0;
    snprintf(path, sizeof(path), "%s/cpu.max", dir);
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    return f && fscanf(f, "%" SCNu64 " %" SCNu64, &quota, &period) == 2 ? thousandths(quota, period) : UINT64_MAX;
}

/* Version 1 has a file for each. No quota: -1, which a reader of unsigned numbers takes for a large one. */
static uint64_t old_quota_of(const char *dir)
{
    uint64_t quota, period;
    if (!read_number(dir, "cpu.cfs_quota_us", "", &quota)) return UINT64_MAX;
    return read_number(dir, "cpu.cfs_period_us", "", &period) ? thousandths(quota, period) : UINT64_MAX;
}

/* Version 1 names the hierarchy by its controllers: "4:cpu,cpuacct:/path". In a container its path can be one that is
 * mounted as the top. */
static uint64_t old_quota(const char *root)
{
    char path[CGROUP_PATH_MAX], line[CGROUP_PATH_MAX], dir[CGROUP_PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >= (int)sizeof(path)) return UINT64_MAX;
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *group = names ? strchr(++names, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        snprintf(path, sizeof(path), ",%s,", names);
        if (!strstr(path, ",cpu,")) continue;
        if (strstr(group, "/..") || strcmp(group, "/") == 0) group = "";
        int top = snprintf(dir, sizeof(dir), "%s%s/cpu", root, mount);
        if (top >= (int)sizeof(dir) ||
            snprintf(dir + top, sizeof(dir) - (size_t)top, "%s", group) >= (int)sizeof(dir) - top)
            return UINT64_MAX;
        return least_of(dir, (size_t)top, old_quota_of);
    }
    return UINT64_MAX;
}

uint64_t cgroup_cpu_quota(const char *root)
{
    char dir[CGROUP_PATH_MAX];
    uint64_t quota = UINT64_MAX, old = old_quota(root);
    if (cgroup_dir(root, dir) == 0) quota = least_of(dir, strlen(root) + strlen(mount), quota_of);
    return quota < old ? quota : old;
}

static uint64_t mem_available(const char *root)
{
    char path[CGROUP_PATH_MAX], line[256];
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    _cleanup_(fclosep) FILE *f = fopen(path, "re");
    uint64_t kib;
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) return kib << 10;
    return 0;
}

uint64_t cgroup_memory_available(const char *root)
{
    uint64_t free = mem_available(root), room = cgroup_room(root);
    return room >= free ? free : room ? room : 1;
}
