/* SPDX-License-Identifier: MIT */
/* The energy of steps, on a clock and a counter of our own. */
#include "daemon/request/energy.h"
#include "daemon/request/request.h"
#include "libcommon/clock.h"
#include "tests/support/folder.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define ZONE "/sys/class/powercap/intel-rapl:0/"
#define MS   1000ull
#define S    1000000ull

/* Two sequences of a user each. */
struct fixture {
    char root[FOLDER_PATH];
    struct energy e;
    struct user users[2];
    struct request requests[2];
    struct seq seqs[2];
    struct seq_list all;
    double joules; /* of the counter */
    uint64_t now;
};

static struct fixture f;

static void put(const char *name, double v)
{
    char text[64];
    snprintf(text, sizeof(text), "%.0f\n", v);
    assert_int_equal(folder_put(f.root, name, text), 0);
}

/* Time passes with the packages at @watts. */
static void pass(uint64_t usec, double watts)
{
    f.now += usec;
    f.joules += watts * (double)usec * 1e-6;
    put(ZONE "energy_uj", f.joules * 1e6);
}

static int setup(void **state)
{
    f = (struct fixture){0};
    assert_int_equal(folder_make(f.root, "energy"), 0);
    assert_int_equal(folder_put(f.root, ZONE "name", "package-0\n"), 0);
    put(ZONE "max_energy_range_uj", 65e9);
    put(ZONE "energy_uj", 0);
    energy_open(&f.e, f.root);
    assert_true(energy_known(&f.e));
    f.now = f.e.read_at;
    for (int i = 0; i < 2; i++) {
        f.requests[i].user = &f.users[i];
        f.seqs[i].request = &f.requests[i];
        seq_list_push(&f.all, &f.seqs[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    energy_close(&f.e);
    return folder_remove(f.root);
}

static void assert_near(double a, double b)
{
    if (fabs(a - b) > 1e-5) fail_msg("%.9f is not %.9f", a, b);
}

/* @n tokens of a sequence are computed: of the answer, if it has begun, else of the prompt. */
static void computed(int i, uint32_t n)
{
    struct seq *s = &f.seqs[i];
    for (uint32_t left = s->generated ? n : 1; left; left--)
        energy_computed(&f.e, s, &(struct sched_run){.n = s->generated ? 1 : n, .logits = true});
}

/* A step of @usec at @watts with so many tokens of each. */
static void step(uint64_t usec, double watts, uint32_t first, uint32_t second, bool idle)
{
    energy_begin(&f.e, &f.all, f.now);
    pass(usec, watts);
    computed(0, first);
    computed(1, second);
    energy_end(&f.e, &f.all, f.now, idle);
}

static struct proto_energy done(int i)
{
    struct proto_event ev = {0};
    energy_done(&f.e, &f.all, &f.seqs[i], f.now, &ev);
    return ev.energy;
}

static void test_idle_power_is_taken_off(void **state)
{
    pass(10 * S, 40);
    step(100 * MS, 90, 50, 0, true);
    double idle = f.e.idle_watts;
    assert_near(idle, 10); /* ten seconds weigh a quarter against the first measurement, 0 W */
    assert_near(done(0).prompt_j, (90 - idle) * 0.1);
    pass(100 * MS, 1000); /* too short to be idle time */
    step(100 * MS, idle, 50, 0, true);
    assert_near(f.e.idle_watts, idle);
    assert_near(done(0).prompt_j, (90 - idle) * 0.1);
}

/* Loading takes all CPUs. */
static void test_loading_is_not_idle(void **state)
{
    pass(30 * S, 90);
    energy_skip(&f.e, f.now);
    pass(600 * MS, 0);
    step(100 * MS, 90, 50, 0, true);
    assert_near(f.e.idle_watts, 0);
    assert_near(done(0).prompt_j, 9);
}

static void test_tokens_share(void **state)
{
    f.seqs[1].generated = 1;
    step(100 * MS, 10, 30, 10, false);
    assert_near(f.seqs[0].energy.prompt, 0.75);
    assert_near(f.seqs[1].energy.answer, 0.25);
    assert_near(f.users[0].counts.joules, 0.75);
    f.seqs[1].generated = 4;
    const struct proto_energy e = done(1);
    assert_true(e.known);
    assert_near(e.token_j, 0.0625);
    assert_near(e.prompt_j, 0);
}

/* Short steps share one reading. */
static void test_readings_are_rare(void **state)
{
    f.seqs[0].generated = f.seqs[1].generated = 1;
    for (int i = 0; i < 4; i++) step(10 * MS, 10, 1, 1, false);
    assert_near(f.seqs[0].energy.answer, 0);
    step(10 * MS, 10, 1, 1, false);
    assert_near(f.seqs[0].energy.answer, 0.25);
    step(10 * MS, 10, 1, 0, false);
    assert_near(done(0).token_j, 0.35); /* the end of an answer reads too */
    assert_near(f.seqs[1].energy.answer, 0.25);
}

static void test_cached_tokens_save(void **state)
{
    f.seqs[1].cached = 1000;
    assert_near(done(1).saved_j, 0); /* what a token costs is not known */
    step(100 * MS, 20, 100, 0, false);
    assert_near(f.e.prompt_token, 0.02);
    f.seqs[0].generated = 1;
    step(100 * MS, 20, 2, 0, true);
    assert_near(f.e.prompt_token, 0.02);
    assert_near(f.e.answer_token, 1);
    assert_near(done(1).saved_j, 20);
    assert_near(f.users[1].counts.joules_saved, 20);
    f.seqs[1].nth = 1; /* another answer to the same prompt */
    assert_near(done(1).saved_j, 0);
}

/* After a preemption an answer's prompt and first tokens are computed again; only its last token is new. */
static void test_tokens_computed_again(void **state)
{
    f.seqs[0].generated = f.seqs[1].generated = 20;
    energy_begin(&f.e, &f.all, f.now);
    pass(100 * MS, 20);
    energy_computed(&f.e, &f.seqs[0], &(struct sched_run){.n = 64});
    energy_computed(&f.e, &f.seqs[0], &(struct sched_run){.n = 32, .logits = true});
    energy_computed(&f.e, &f.seqs[1], &(struct sched_run){.n = 4, .draft = 3, .logits = true});
    energy_end(&f.e, &f.all, f.now, true);
    struct proto_energy e = done(0);
    assert_near(e.prompt_j, 1.9);
    assert_near(e.token_j, 0.02 / 20);
    e = done(1);
    assert_near(e.prompt_j, 0);
    assert_near(e.token_j, 0.08 / 20); /* proposed tokens are the answer's */
    assert_near(f.e.prompt_token, 0.02);
    assert_near(f.e.answer_token, 0);
}

/* The daemon's own requests are on no account. */
static void test_internal_requests(void **state)
{
    f.requests[0].control.internal = true;
    step(100 * MS, 10, 10, 30, true);
    f.seqs[0].cached = 100;
    assert_near(done(0).saved_j, 2.5);
    assert_near(f.seqs[0].energy.prompt, 0.25);
    assert_near(f.users[0].counts.joules, 0);
    assert_near(f.users[0].counts.joules_saved, 0);
    assert_near(f.users[1].counts.joules, 0.75);
}

/* The tokens of a sequence that failed meanwhile are not others'. */
static void test_who_left_took_its_share(void **state)
{
    energy_begin(&f.e, &f.all, f.now);
    pass(100 * MS, 10);
    computed(0, 10);
    computed(1, 30);
    seq_list_remove(&f.all, &f.seqs[1]);
    energy_end(&f.e, &f.all, f.now, true);
    assert_near(f.seqs[0].energy.prompt, 0.25);
    assert_near(done(0).prompt_j, 0.25);
}

/* The counter may have started again any number of times. */
static void test_long_times_are_not_measured(void **state)
{
    pass(120 * S, 50);
    step(100 * MS, 50, 1, 0, true);
    assert_near(f.e.idle_watts, 0);
    assert_near(done(0).prompt_j, 5);
}

static void test_unreadable(void **state)
{
    assert_int_equal(folder_put(f.root, ZONE "energy_uj", "nothing"), 0);
    energy_begin(&f.e, &f.all, f.now + S);
    computed(0, 1);
    energy_end(&f.e, &f.all, f.now + 2 * S, true);
    assert_false(energy_known(&f.e));
    assert_false(done(0).known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle_power_is_taken_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loading_is_not_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tokens_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readings_are_rare, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cached_tokens_save, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tokens_computed_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_internal_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_left_took_its_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_times_are_not_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreadable, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
