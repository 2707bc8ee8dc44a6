/* SPDX-License-Identifier: MIT */
/*
 * Random schedules: arrivals, cancels, stalls, preemptions, restarts; what must hold is asserted after each step. The
 * environment's HOB_SCHED_STEPS says how many steps (a million), HOB_SCHED_SEED where to begin.
 */
#include "tests/sched/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

static struct fixture g;

static void test_random_schedules(void **state)
{
    uint64_t steps = from_env("HOB_SCHED_STEPS", 1000000), seed = from_env("HOB_SCHED_SEED", 1);
    while (g.steps < steps) {
        fixture_init(&g, seed++);
        for (uint64_t until = g.steps + 5000; g.steps < until;) fixture_step(&g);
        fixture_drain(&g);
    }
    print_message("# %llu requests started, %llu ended by themselves, %llu cancelled, %llu stalled, %llu restarts\n",
                  (unsigned long long)g.starts, (unsigned long long)g.finished, (unsigned long long)g.cancels,
                  (unsigned long long)g.stalls, (unsigned long long)g.restarts);
    print_message("# preempted: slow reader %llu, class %llu, even slots %llu, quantum %llu; resumed %llu\n",
                  (unsigned long long)g.preemptions[SCHED_YIELD], (unsigned long long)g.preemptions[SCHED_CLASS],
                  (unsigned long long)g.preemptions[SCHED_EVEN], (unsigned long long)g.preemptions[SCHED_QUANTUM],
                  (unsigned long long)g.resumed);
    print_message("# largest lead %.1f%% of the bound; %llu of %llu mixed steps over 1.25 times their limit\n",
                  (double)g.lead / 10, (unsigned long long)g.slow, (unsigned long long)g.mixed);
    print_message("# %llu whole stretches, %llu of them when they were due\n", (unsigned long long)g.runs,
                  (unsigned long long)g.due);
    assert_true(g.slow * 50 <= g.mixed);
    assert_true(g.too_few * 500 <= g.starts); /* blocks that two counted on */
    if (steps < 100000) return;               /* too few to see everything */
    assert_true(g.due > 0 && g.runs > g.due);
    assert_true(g.finished > 0 && g.cancels > 0 && g.stalls > 0 && g.resumed > 0 && g.restarts > 0);
    for (int why = SCHED_YIELD; why <= SCHED_QUANTUM; why++) assert_true(g.preemptions[why] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
