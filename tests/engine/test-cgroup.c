/* SPDX-License-Identifier: MIT */
/* The kernel's files, as they may look, in a directory of our own. */
#include "daemon/engine/cgroup.h"
#include "daemon/engine/load.h"
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/hob-cgroup-XXXXXX";

static int setup(void **state)
{
    strcpy(root, "/tmp/hob-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static int teardown(void **state)
{
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, const char *text)
{
    char path[512];
    int n = snprintf(path, sizeof(path), "%s%s", root, name);
    assert_in_range(n, 1, sizeof(path) - 1);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
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

/* What the default size of the KV pool is made from. */
static void test_available(void **state)
{
    assert_int_equal(load_memory_available(root), 0); /* not known */
    put("/proc/meminfo", "MemTotal:  100 kB\nMemAvailable:    50 kB\n");
    assert_int_equal(load_memory_available(root), 50 << 10);
    put("/proc/self/cgroup", "0::/x\n");
    put("/sys/fs/cgroup/x/memory.high", "20480\n");
    put("/sys/fs/cgroup/x/memory.current", "480\n");
    assert_int_equal(load_memory_available(root), 20000);
    put("/sys/fs/cgroup/x/memory.high", "480\n"); /* nothing is left: not the same as unknown */
    assert_int_equal(load_memory_available(root), 1);
    put("/sys/fs/cgroup/x/memory.high", "1000000000\n");
    assert_int_equal(load_memory_available(root), 50 << 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_dir), TEST(test_room), TEST(test_available)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
