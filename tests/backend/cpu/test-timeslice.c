/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/timeslice.h"
#include "libcommon/clock.h"
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void bind_to_one_cpu(cpu_set_t *old)
{
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof(*old), old), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, old)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* A process that never sleeps, on the caller's CPUs. */
static pid_t start_other(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile int i = 0;; i++) continue;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The CPU's loss is noticed, then slices end, and after a yield a new one begins. At last the CPU counts as its own. */
static void test_notices_another_process(void **state)
{
    struct timeslice t;
    cpu_set_t old;
    bind_to_one_cpu(&old);
    timeslice_init(&t);
    assert_false(timeslice_shared(&t));
    assert_false(timeslice_ends(&t));
    pid_t other = start_other();
    while (!timeslice_check(&t)) continue;
    assert_true(timeslice_shared(&t));
    for (int i = 0; i < 5; i++) {
        while (!timeslice_ends(&t)) timeslice_check(&t);
        uint64_t begin = t.begin;
        timeslice_yield(&t);
        assert_true(t.begin > begin);
        assert_true(t.begin == t.seen);
    }
    stop(other);
    t.seen = t.shared; /* nobody took the CPU for a while */
    assert_false(timeslice_shared(&t));
    assert_false(timeslice_ends(&t));
    assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}

/* Sleep of the thread's own will is no loss. */
static void test_sleep_is_no_loss(void **state)
{
    struct timeslice t;
    timeslice_init(&t);
    uint64_t seen = t.seen;
    usleep(5000);
    timeslice_woke(&t);
    assert_true(t.seen >= seen + 5000);
    assert_false(timeslice_shared(&t));
    assert_false(timeslice_ends(&t));
}

/* A slice that ended after fewer ticks than assumed is assumed to be as short from then on; one that ended in time
 * again and again is tried longer. */
static void test_length_is_learned(void **state)
{
    struct timeslice t;
    timeslice_init(&t);
    t.ticks = 5;
    t.begin = t.seen = t.ref = clock_now_usec() - 2 * t.tick - 10000; /* the CPU time does not cover these 10 ms */
    t.ref_cpu = clock_thread_usec() > 2 * t.tick ? clock_thread_usec() - 2 * t.tick : 0;
    t.shared = t.seen + 1000000;
    assert_true(timeslice_check(&t));
    assert_in_range(t.ticks, 1, 4);
    assert_int_equal(t.kept, 0);
    uint32_t ticks = t.ticks;
    t.kept = 100000;
    t.seen -= 1000; /* the yield took that long */
    timeslice_yield(&t);
    assert_int_equal(t.ticks, ticks + 1);
    assert_int_equal(t.kept, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notices_another_process),
        cmocka_unit_test(test_sleep_is_no_loss),
        cmocka_unit_test(test_length_is_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
