/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/compute-pool.h"
#include "libcommon/error.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

struct job {
    uint32_t n, least, most, threads;
    _Atomic uint32_t *seen;  /* [n] how often each item was done */
    _Atomic uint32_t wrong;  /* calls with a range or thread that cannot be */
    _Atomic uint32_t others; /* calls not by the caller's thread */
};

static void count(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct job *j = ctx;
    if (begin >= end || end > j->n || thread >= j->threads) atomic_fetch_add(&j->wrong, 1);
    if (j->threads > 1 && j->n > j->least && end - begin > j->most) atomic_fetch_add(&j->wrong, 1);
    if (begin % j->least || (end % j->least && end < j->n)) atomic_fetch_add(&j->wrong, 1);
    if (thread) atomic_fetch_add(&j->others, 1);
    for (uint32_t i = begin; i < end && i < j->n; i++) atomic_fetch_add(&j->seen[i], 1);
}

/* Every item exactly once, in pieces of the sizes asked for, and all of them done when compute_pool_run returns. */
static void check_run(struct compute_pool *p, uint32_t n, uint32_t least, uint32_t most)
{
    struct job j = {.n = n,
                    .least = least,
                    .most = most,
                    .threads = compute_pool_threads(p),
                    .seen = calloc(n + 1, sizeof(*j.seen))};
    assert_non_null(j.seen);
    compute_pool_run(p, count, &j, n, least, most);
    for (uint32_t i = 0; i < n; i++)
        if (j.seen[i] != 1) fail_msg("item %u of %u (%u to %u): %u times", i, n, least, most, j.seen[i]);
    assert_int_equal(j.wrong, 0);
    free(j.seen);
}

static void check_pool(uint32_t threads)
{
    static const uint32_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 16, 31, 100, 1000, 4097}, grains[] = {1, 2, 3, 8, 100, 5000};
    struct compute_pool *p = NULL;
    assert_int_equal(compute_pool_new(&p, threads), 0);
    assert_int_equal(compute_pool_threads(p), threads);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t k = 0; k < sizeof(grains) / sizeof(*grains); k++)
            for (size_t m = k; m < sizeof(grains) / sizeof(*grains); m++) check_run(p, sizes[i], grains[k], grains[m]);
    assert_null(compute_pool_free(p));
}

static void test_one_thread(void **state)
{
    check_pool(1);
}

static void test_two_threads(void **state)
{
    check_pool(2);
}

static void test_more_threads_than_cpus(void **state)
{
    check_pool((uint32_t)sysconf(_SC_NPROCESSORS_ONLN) * 2 + 3);
}

static void test_many_short_runs(void **state)
{
    struct compute_pool *p = NULL;
    assert_int_equal(compute_pool_new(&p, 3), 0);
    for (uint32_t i = 0; i < 3000; i++) check_run(p, i % 13, 1 + i % 3, 1 + i % 3 + i % 5);
    assert_null(compute_pool_free(p));
}

/* Workers sleep after a pause and must still hear of the next run. */
static void test_wakes_sleeping_workers(void **state)
{
    struct compute_pool *p = NULL;
    assert_int_equal(compute_pool_new(&p, 2), 0);
    for (int i = 0; i < 20; i++) {
        usleep(3000);
        check_run(p, 64, 1, 1);
    }
    assert_null(compute_pool_free(p));
}

struct meeting {
    _Atomic uint32_t arrived;
};

/* Returns only when both threads are inside at once. */
static void meet(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    struct meeting *m = ctx;
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < 2) sched_yield();
}

static void test_works_at_the_same_time(void **state)
{
    struct compute_pool *p = NULL;
    struct meeting m = {0};
    assert_int_equal(compute_pool_new(&p, 2), 0);
    compute_pool_run(p, meet, &m, 2, 1, 1);
    assert_int_equal(m.arrived, 2);
    assert_null(compute_pool_free(p));
}

static void test_default_is_within_affinity(void **state)
{
    cpu_set_t old, one;
    struct compute_pool *p = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
    assert_int_equal(compute_pool_new(&p, 0), 0);
    assert_in_range(compute_pool_threads(p), 1, CPU_COUNT(&old));
    compute_pool_free(p);
    CPU_ZERO(&one);
    for (int c = 0; c < CPU_SETSIZE && !CPU_COUNT(&one); c++)
        if (CPU_ISSET(c, &old)) CPU_SET(c, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(compute_pool_new(&p, 0), 0);
    assert_int_equal(compute_pool_threads(p), 1);
    compute_pool_free(p);
    assert_int_equal(compute_pool_new(&p, 3), 0); /* all on one CPU */
    for (uint32_t i = 0; i < 50; i++) check_run(p, 40, 1, 1);
    compute_pool_free(p);
    assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}

/* Every thread of this process may use the CPUs of @set only. */
static void bind_all(const cpu_set_t *set)
{
    struct dirent *e;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while ((e = readdir(d)))
        if (*e->d_name != '.') assert_int_equal(sched_setaffinity(atoi(e->d_name), sizeof(*set), set), 0);
    closedir(d);
}

/* As when an administrator or the kernel takes CPUs away: the threads take turns, and spread out again later. */
static void test_affinity_changes_while_it_runs(void **state)
{
    cpu_set_t old, one, now;
    struct compute_pool *p = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
    assert_int_equal(compute_pool_new(&p, 2), 0);
    for (int c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &old)) continue;
        CPU_ZERO(&one);
        CPU_SET(c, &one);
        bind_all(&one);
        for (uint32_t i = 0; i < 50; i++) check_run(p, 40 + i, 1, 1 + i % 3);
        assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
        assert_true(CPU_EQUAL(&now, &one));
        bind_all(&old);
        for (uint32_t i = 0; i < 50; i++) check_run(p, 40 + i, 1, 1 + i % 3);
    }
    assert_null(compute_pool_free(p));
    assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
    assert_true(CPU_EQUAL(&now, &old));
}

/* An administrator who, after the first change of a worker's set of CPUs, lets it use @cpu only. */
static struct {
    int cpu;             /* negative: nobody interferes, and the next two functions do as in libc */
    _Atomic int meddled; /* the thread; 0: none yet */
} admin = {.cpu = -1};

int sched_getcpu(void)
{
    unsigned cpu = 0;
    return admin.cpu >= 0 ? admin.cpu : syscall(SYS_getcpu, &cpu, NULL, NULL) ? -1 : (int)cpu;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    cpu_set_t one;
    int none = 0;
    if (syscall(SYS_sched_setaffinity, pid, size, set) < 0) return -1;
    if (admin.cpu < 0 || !atomic_compare_exchange_strong(&admin.meddled, &none, gettid())) return 0;
    CPU_ZERO(&one);
    CPU_SET(admin.cpu, &one);
    return (int)syscall(SYS_sched_setaffinity, pid, sizeof(one), &one);
}

static void test_affinity_set_by_others_stays(void **state)
{
    cpu_set_t old, now;
    struct compute_pool *p = NULL;
    int first = 0, calls = 0;
    assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
    if (CPU_COUNT(&old) < 2) {
        print_message("skipped: a single CPU\n");
        skip();
    }
    while (!CPU_ISSET(first, &old)) first++;
    assert_int_equal(compute_pool_new(&p, 2), 0);
    admin.cpu = first; /* every thread believes itself on it */
    while (!atomic_load(&admin.meddled) && calls++ < 10000) {
        usleep(1000); /* the worker sleeps, and looks for another CPU when it wakes */
        check_run(p, 64, 1, 1);
    }
    pid_t worker = atomic_load(&admin.meddled);
    assert_true(worker > 0 && worker != gettid());
    for (int i = 0; i < 20; i++) check_run(p, 64, 1, 1);
    assert_int_equal(sched_getaffinity(worker, sizeof(now), &now), 0);
    admin.cpu = -1;
    assert_null(compute_pool_free(p));
    assert_int_equal(CPU_COUNT(&now), 1);
    assert_true(CPU_ISSET(first, &now));
}

static void test_describes_itself(void **state)
{
    struct compute_pool *p = NULL;
    char text[96];
    assert_int_equal(compute_pool_new(&p, 2), 0);
    compute_pool_describe(p, text, sizeof(text));
    assert_int_equal(strncmp(text, "2 threads: ", 11), 0);
    assert_non_null(strstr(text, " allowed"));
    assert_null(compute_pool_free(p));
}

static void test_time_is_counted_while_asked(void **state)
{
    struct compute_pool *p = NULL;
    struct timing t = {0};
    assert_int_equal(compute_pool_new(&p, 2), 0);
    check_run(p, 100, 1, 1);
    assert_int_equal(t.work_ns + t.wait_ns + t.barriers, 0);
    compute_pool_time(p, &t);
    check_run(p, 100, 1, 1);
    check_run(p, 100, 100, 100); /* one piece: no other thread has work */
    assert_true(t.work_ns > 0);
    assert_int_equal(t.barriers, 1);
    struct timing before = t;
    compute_pool_time(p, NULL);
    check_run(p, 100, 1, 1);
    assert_memory_equal(&t, &before, sizeof(t));
    compute_pool_free(p);
}

static void test_too_many_threads(void **state)
{
    struct compute_pool *p = NULL;
    assert_int_equal(compute_pool_new(&p, 100000), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "100000 compute threads; at most"));
    assert_null(p);
    assert_null(compute_pool_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_more_threads_than_cpus),
        cmocka_unit_test(test_many_short_runs),
        cmocka_unit_test(test_wakes_sleeping_workers),
        cmocka_unit_test(test_works_at_the_same_time),
        cmocka_unit_test(test_default_is_within_affinity),
        cmocka_unit_test(test_affinity_changes_while_it_runs),
        cmocka_unit_test(test_affinity_set_by_others_stays),
        cmocka_unit_test(test_describes_itself),
        cmocka_unit_test(test_time_is_counted_while_asked),
        cmocka_unit_test(test_too_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
