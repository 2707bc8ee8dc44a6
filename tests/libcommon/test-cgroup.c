/* SPDX-License-Identifier: MIT */
/* The kernel's files, as they may look, in a directory of our own. */
#include "libcommon/cgroup.h"
#include "tests/support/folder.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[FOLDER_PATH];

static int setup(void **state)
{
    return folder_make(root, "cgroup");
}

static int teardown(void **state)
{
    return folder_remove(root);
}

static void put(const char *name, const char *text)
{
    assert_int_equal(folder_put(root, name, text), 0);
}

static void assert_dir(const char *want)
{
    char dir[CGROUP_PATH_MAX];
    assert_int_equal(cgroup_dir(root, dir), 0);
    assert_int_equal(strncmp(dir, root, strlen(root)), 0);
    assert_string_equal(dir + strlen(root), want);
}

static void test_dir(void **state)
{
    char dir[CGROUP_PATH_MAX];
    assert_int_equal(cgroup_dir(root, dir), -ENOENT); /* no such file */
    put("/proc/self/cgroup", "4:memory:/old\n");
    assert_int_equal(cgroup_dir(root, dir), -ENOENT); /* version 1 only */
    put("/proc/self/cgroup", "4:memory:/old\n0::/system.slice/hob.service\n");
    assert_dir("/sys/fs/cgroup/system.slice/hob.service");
    put("/proc/self/cgroup", "0::/\n");
    assert_dir("/sys/fs/cgroup");
    put("/proc/self/cgroup", "0::/../../other\n"); /* not in our namespace */
    assert_int_equal(cgroup_dir(root, dir), -ENOENT);
}

static void test_room(void **state)
{
    assert_true(cgroup_room(root) == UINT64_MAX);
    put("/proc/self/cgroup", "0::/a/b\n");
    assert_true(cgroup_room(root) == UINT64_MAX);
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.high", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_true(cgroup_room(root) == UINT64_MAX);
    put("/sys/fs/cgroup/a/b/memory.max", "9000\n");
    assert_int_equal(cgroup_room(root), 8000);
    put("/sys/fs/cgroup/a/b/memory.high", "6000\n");
    assert_int_equal(cgroup_room(root), 5000);
    put("/sys/fs/cgroup/a/b/memory.stat", "anon 300\ninactive_file 700\nactive_file 0\n");
    assert_int_equal(cgroup_room(root), 5700);
    put("/sys/fs/cgroup/a/memory.high", "4000\n"); /* of the parent, whose other children count too */
    put("/sys/fs/cgroup/a/memory.current", "3500\n");
    assert_int_equal(cgroup_room(root), 500);
    put("/sys/fs/cgroup/a/memory.current", "4500\n");
    assert_int_equal(cgroup_room(root), 0);
    put("/sys/fs/cgroup/memory.max", "0\n"); /* a container's own root */
    put("/sys/fs/cgroup/a/memory.current", "0\n");
    assert_int_equal(cgroup_room(root), 0);
}

static void test_cpu_quota(void **state)
{
    assert_true(cgroup_cpu_quota(root) == UINT64_MAX); /* no such file */
    put("/proc/self/cgroup", "0::/a/b\n");
    assert_true(cgroup_cpu_quota(root) == UINT64_MAX);
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(cgroup_cpu_quota(root) == UINT64_MAX);
    put("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    assert_int_equal(cgroup_cpu_quota(root), 4000);
    put("/sys/fs/cgroup/a/cpu.max", "75000 50000\n"); /* of the parent */
    assert_int_equal(cgroup_cpu_quota(root), 1500);
    put("/sys/fs/cgroup/cpu.max", "10 1000000\n"); /* a container's own root */
    assert_int_equal(cgroup_cpu_quota(root), 1);
    put("/sys/fs/cgroup/cpu.max", "10 0\n");
    assert_int_equal(cgroup_cpu_quota(root), 1500);
    put("/sys/fs/cgroup/cpu.max", "18446744073709551615 1\n");
    assert_int_equal(cgroup_cpu_quota(root), 1500);
    put("/sys/fs/cgroup/cpu.max", "of another kind\n");
    assert_int_equal(cgroup_cpu_quota(root), 1500);
}

static void test_cpu_quota_of_version_1(void **state)
{
    put("/proc/self/cgroup", "9:cpuset:/s\n8:cpuacct,cpu:/a/b\n7:memory:/m\n0::/\n");
    assert_true(cgroup_cpu_quota(root) == UINT64_MAX);
    put("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    assert_true(cgroup_cpu_quota(root) == UINT64_MAX);
    put("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(cgroup_cpu_quota(root), 2500);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"); /* a container's own group is the top */
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_cpu_quota(root), 500);
    put("/proc/self/cgroup", "4:cpu:/docker/0123\n"); /* a path of the host */
    assert_int_equal(cgroup_cpu_quota(root), 500);
    put("/proc/self/cgroup", "4:cpuset,cpuacct:/a/b\n"); /* without the controller */
    assert_true(cgroup_cpu_quota(root) == UINT64_MAX);
}

/* What the default size of the KV pool is made from. */
static void test_available(void **state)
{
    assert_int_equal(cgroup_memory_available(root), 0); /* not known */
    put("/proc/meminfo", "MemTotal:  100 kB\nMemAvailable:    50 kB\n");
    assert_int_equal(cgroup_memory_available(root), 50 << 10);
    put("/proc/self/cgroup", "0::/x\n");
    put("/sys/fs/cgroup/x/memory.high", "20480\n");
    put("/sys/fs/cgroup/x/memory.current", "480\n");
    assert_int_equal(cgroup_memory_available(root), 20000);
    put("/sys/fs/cgroup/x/memory.high", "480\n"); /* nothing is left: not the same as unknown */
    assert_int_equal(cgroup_memory_available(root), 1);
    put("/sys/fs/cgroup/x/memory.high", "1000000000\n");
    assert_int_equal(cgroup_memory_available(root), 50 << 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_dir), TEST(test_room), TEST(test_cpu_quota),
                                       TEST(test_cpu_quota_of_version_1), TEST(test_available)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
