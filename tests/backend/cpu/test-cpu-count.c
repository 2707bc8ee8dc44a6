/* SPDX-License-Identifier: MIT */
/* The kernel's files, as they may look, in a directory of our own. */
#include "daemon/backend/cpu/cpu-count.h"
#include "tests/support/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char root[FOLDER_PATH];

static int setup(void **state)
{
    return folder_make(root, "cpu-count");
}

static int teardown(void **state)
{
    return folder_remove(root);
}

static void put(const char *name, const char *text)
{
    assert_int_equal(folder_put(root, name, text), 0);
}

/* CPU @c is one of the hardware threads @siblings of its core. */
static void put_core(int c, const char *siblings)
{
    char name[96];
    snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c);
    put(name, siblings);
}

static void put_quota(const char *text)
{
    put("/proc/self/cgroup", "0::/hob\n");
    put("/sys/fs/cgroup/hob/cpu.max", text);
}

/* Count the CPUs [@first, @end). */
static struct cpu_count count(int first, int end)
{
    struct cpu_count c;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i < end; i++) CPU_SET(i, &set);
    cpu_count_of(&c, &set, root);
    return c;
}

static void check(const struct cpu_count *c, uint32_t allowed, uint32_t cores, uint32_t threads)
{
    assert_int_equal(c->allowed, allowed);
    assert_int_equal(c->cores, cores);
    assert_int_equal(c->threads, threads);
}

static void check_text(const struct cpu_count *c, const char *want)
{
    char text[96];
    cpu_count_describe(c, c->threads, text, sizeof(text));
    assert_string_equal(text, want);
}

static void test_no_files(void **state)
{
    struct cpu_count c = count(0, 3);
    check(&c, 3, 3, 3);
    assert_true(c.quota == UINT64_MAX);
    check_text(&c, "3 threads: 3 CPUs allowed");
    c = count(5, 6);
    check(&c, 1, 1, 1);
    check_text(&c, "1 thread: 1 CPU allowed");
    c = count(0, 0); /* the system call failed */
    check(&c, 1, 1, 1);
}

static void test_hardware_threads(void **state)
{
    for (int i = 0; i < 8; i++) put_core(i, i < 4 ? (i % 2 ? "1,3\n" : "0,2\n") : i < 6 ? "4-5\n" : "not a list\n");
    struct cpu_count c = count(0, 6);
    check(&c, 6, 3, 3);
    check_text(&c, "3 threads: 6 CPUs allowed on 3 cores");
    c = count(2, 4); /* one thread each of two cores */
    check(&c, 2, 2, 2);
    c = count(4, 6);
    check(&c, 2, 1, 1);
    check_text(&c, "1 thread: 2 CPUs allowed on 1 core");
    c = count(6, 8);
    check(&c, 2, 2, 2);
}

static void test_quota(void **state)
{
    static const struct {
        const char *quota;
        uint32_t threads;
    } cases[] = {{"10000 100000\n", 1},    {"100000 100000\n", 1}, {"149000 100000\n", 1},  {"150000 100000\n", 2},
                 {"1600000 100000\n", 16}, {"max 100000\n", 64},   {"9900000 100000\n", 64}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        put_quota(cases[i].quota);
        struct cpu_count c = count(0, 64);
        check(&c, 64, 64, cases[i].threads);
    }
    put_quota("150000 100000\n");
    struct cpu_count c = count(0, 64);
    check_text(&c, "2 threads: 64 CPUs allowed, quota 1.5");
    put_quota("50000 100000\n");
    c = count(0, 1);
    check_text(&c, "1 thread: 1 CPU allowed, quota 0.5");
}

/* The real affinity of this process. */
static void test_affinity(void **state)
{
    cpu_set_t old, one;
    struct cpu_count c;
    assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
    cpu_count(&c);
    assert_int_equal(c.allowed, CPU_COUNT(&old));
    assert_in_range(c.threads, 1, c.cores);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &old)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    cpu_count(&c);
    assert_int_equal(c.allowed, 1);
    assert_int_equal(c.threads, 1);
    assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hardware_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
        cmocka_unit_test(test_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
