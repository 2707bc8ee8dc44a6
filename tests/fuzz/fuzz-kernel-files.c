/* SPDX-License-Identifier: MIT */
/* Files of the kernel that hob reads: groups, their limits, memory, energy counters. A line "PATH" begins each file of
 * the input; the lines up to the next one that begins with "/" are its content. */
#include "libcommon/cgroup.h"
#include "libcommon/powercap.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fuzz_seeds[] = {
    "/0\n0::/a/b\n/1\n9000\n/2\nmax\n/3\n1000\n/4\nanon 3\ninactive_file 700\n/5\n4000\n/6\n3500\n/8\n50000 100000\n",
    "/0\n4:memory:/old\n4:cpu,cpuacct:/a/b\n/7\nMemTotal: 9 kB\nMemAvailable:   123456 kB\n/9\n70000\n/a\n100000\n",
    "/0\n0::/../../x\n/b\n1000000\n/c\n262143328850\n/d\npackage-0\n",
    "/0\n0::/\n/1\n0\n/8\nmax 100000\n/b\n18446744073709551615\n/c\n5\n/d\npackage-1\n",
    NULL,
};

static const char *const places[] = {
    "proc/self/cgroup",
    "sys/fs/cgroup/a/b/memory.max",
    "sys/fs/cgroup/a/b/memory.high",
    "sys/fs/cgroup/a/b/memory.current",
    "sys/fs/cgroup/a/b/memory.stat",
    "sys/fs/cgroup/a/memory.high",
    "sys/fs/cgroup/a/memory.current",
    "proc/meminfo",
    "sys/fs/cgroup/a/b/cpu.max",
    "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us",
    "sys/class/powercap/intel-rapl:0/energy_uj",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
    "sys/class/powercap/intel-rapl:0/name",
};
enum { PLACES = sizeof(places) / sizeof(*places) };

static char root[64];

static void path_of(char out[256], size_t i)
{
    snprintf(out, 256, "%s/%s", root, places[i]);
}

static void make_folders(void)
{
    fuzz_folder(root);
    for (size_t i = 0; i < PLACES; i++) {
        char path[256];
        path_of(path, i);
        for (char *s = strchr(path + strlen(root) + 1, '/'); s; s = strchr(s + 1, '/')) {
            *s = 0;
            mkdir(path, 0700);
            *s = '/';
        }
    }
}

static void use(void)
{
    char dir[CGROUP_PATH_MAX];
    struct powercap p;
    cgroup_dir(root, dir);
    uint64_t room = cgroup_room(root), all = cgroup_memory_available(root);
    FUZZ_CHECK(all <= room || all == 1); /* 1: none is left */
    FUZZ_CHECK(cgroup_cpu_quota(root) >= 1);
    powercap_open(&p, root);
    FUZZ_CHECK(p.n <= POWERCAP_ZONES_MAX);
    powercap_read(&p);
    powercap_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[256];
    const char *s = (const char *)data, *end = s + size;
    unsigned made = 0;
    if (!root[0]) make_folders();
    while (end - s > 2 && s[0] == '/') {
        size_t i = (size_t)(s[1] <= '9' ? s[1] - '0' : s[1] - 'a' + 10) % PLACES;
        const char *next = memmem(s + 2, (size_t)(end - s) - 2, "\n/", 2);
        const char *to = next ? next + 1 : end;
        path_of(path, i);
        fuzz_write(path, s + 3 < to ? s + 3 : to, s + 3 < to ? (size_t)(to - s) - 3 : 0);
        made |= 1u << i;
        s = to;
    }
    use();
    for (size_t i = 0; i < PLACES; i++) {
        path_of(path, i);
        if (made >> i & 1) unlink(path);
    }
    return 0;
}
