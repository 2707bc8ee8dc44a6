/* SPDX-License-Identifier: MIT */
/* The kernel's files of a machine with several NUMA nodes, in a directory of our own. */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/backend/cpu/cpu-list.h"
#include "tests/support/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char root[FOLDER_PATH];

static int setup(void **state)
{
    return folder_make(root, "numa");
}

static int teardown(void **state)
{
    return folder_remove(root);
}

static void put(const char *name, const char *text)
{
    assert_int_equal(folder_put(root, name, text), 0);
}

static cpu_set_t cpus(int first, int end)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i < end; i++) CPU_SET((size_t)i, &set);
    return set;
}

/* Two nodes of 8 CPUs, number 0 and 2, and one with memory only. */
static void put_nodes(void)
{
    put("/sys/devices/system/node/online", "0-2\n");
    put("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
    put("/sys/devices/system/node/node1/cpulist", "\n");
    put("/sys/devices/system/node/node2/cpulist", "4-7,12-15\n");
}

static void test_lists(void **state)
{
    static const struct {
        const char *text;
        int n; /* -1: no list */
    } cases[] = {{"0\n", 1},  {"0-3\n", 4},   {"0-3,8-11\n", 8}, {"1,3,5", 3}, {"\n", 0},   {"1020-4000", 4},
                 {"x\n", -1}, {"0-3x\n", -1}, {"0,-3\n", -1},    {"3-1\n", 0}, {"0,\n", 1}, {"0--1\n", -1}};
    char path[FOLDER_PATH + 8];
    cpu_set_t set;
    snprintf(path, sizeof(path), "%s/list", root);
    assert_false(cpu_list_read(&set, path));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        put("/list", cases[i].text);
        assert_int_equal(cpu_list_read(&set, path), cases[i].n >= 0);
        if (cases[i].n >= 0) assert_int_equal(CPU_COUNT(&set), cases[i].n);
    }
}

static void test_nodes(void **state)
{
    struct numa m;
    cpu_set_t all = cpus(0, 16), expected = cpus(4, 8);
    put_nodes();
    numa_read(&m, &all, root);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.id[0], 0);
    assert_int_equal(m.id[1], 2);
    assert_int_equal(CPU_COUNT(&m.cpus[1]), 8);
    all = cpus(0, 8);
    numa_read(&m, &all, root);
    assert_int_equal(m.n, 2);
    assert_true(CPU_EQUAL(&m.cpus[1], &expected));
    all = cpus(0, 4); /* the process may use one node only */
    numa_read(&m, &all, root);
    assert_int_equal(m.n, 1);
}

static void test_no_nodes(void **state)
{
    struct numa m;
    cpu_set_t all = cpus(0, 16);
    numa_read(&m, &all, root); /* a kernel without NUMA */
    assert_int_equal(m.n, 0);
    put("/sys/devices/system/node/online", "0-1\n"); /* and without the nodes' lists */
    numa_read(&m, &all, root);
    assert_int_equal(m.n, 0);
}

/* Threads by CPUs: six of eight CPUs are in the first node. */
static void test_threads_by_cpus(void **state)
{
    struct numa m = {.n = 2, .id = {0, 1}, .cpus = {cpus(0, 6), cpus(6, 8)}};
    uint32_t first = 0;
    for (uint32_t t = 0; t < 8; t++) first += numa_node_of(&m, t, 8) == 0;
    assert_int_equal(first, 6);
    for (uint32_t threads = 1; threads < 40; threads++)
        for (uint32_t t = 0, last = 0; t < threads; t++) {
            assert_in_range(numa_node_of(&m, t, threads), last, 1);
            last = numa_node_of(&m, t, threads);
        }
}

struct places {
    const struct numa *nodes;
    uint32_t threads;
    _Atomic uint32_t wrong, workers;
};

static void look(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct places *p = ctx;
    cpu_set_t set;
    if (!thread) return;
    atomic_fetch_add(&p->workers, 1);
    const cpu_set_t *expected = &p->nodes->cpus[numa_node_of(p->nodes, thread, p->threads)];
    if (sched_getaffinity(0, sizeof(set), &set) || !CPU_EQUAL(&set, expected)) atomic_fetch_add(&p->wrong, 1);
}

/* Two CPUs stand for two nodes. */
static void test_workers_stay_on_their_node(void **state)
{
    cpu_set_t all;
    struct numa m = {.n = 2};
    struct compute_pool *pool = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    if (CPU_COUNT(&all) < 2) skip();
    for (int c = 0, n = 0; n < 2; c++)
        if (CPU_ISSET((size_t)c, &all)) CPU_SET((size_t)c, &m.cpus[n++]);
    assert_int_equal(compute_pool_new_on(&pool, 4, &m), 0);
    struct places p = {.nodes = &m, .threads = 4};
    for (int i = 0; i < 200000 && p.workers < 10; i++) compute_pool_run(pool, look, &p, 64, 1, 1);
    assert_int_equal(p.wrong, 0);
    assert_true(p.workers >= 10);
    char text[128];
    compute_pool_describe(pool, text, sizeof(text));
    assert_non_null(strstr(text, ", on 2 NUMA nodes"));
    assert_null(compute_pool_free(pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_nodes, setup, teardown),
        cmocka_unit_test(test_threads_by_cpus),
        cmocka_unit_test(test_workers_stay_on_their_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
