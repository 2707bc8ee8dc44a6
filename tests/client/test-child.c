/* SPDX-License-Identifier: MIT */
#include "client/child.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

static const struct child_limits wide = {.ms = 30000, .bytes = 1 << 20};

static int sh(struct child_result *c, const char *script, const char *input, const struct child_limits *l)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};

    *c = (struct child_result){0};
    return child_run(c, argv, input, strlen(input), l);
}

static void test_streams_and_status(void **state)
{
    struct child_result c;

    assert_int_equal(sh(&c, "cat; echo oops >&2; exit 3", "in\n", &wide), 0);
    assert_string_equal(c.out.data, "in\n");
    assert_string_equal(c.err.data, "oops\n");
    assert_int_equal(WEXITSTATUS(c.status), 3);
    assert_false(c.cut || c.late);
    child_result_fini(&c);
    assert_int_equal(sh(&c, "kill -9 $$", "", &wide), 0);
    assert_true(WIFSIGNALED(c.status));
    child_result_fini(&c);
}

/* More input than a pipe holds, to a child that reads none of it and to one that reads all. */
static void test_large_input(void **state)
{
    size_t n = 300000;
    char *input = malloc(n + 1);
    struct child_result c;

    assert_non_null(input);
    memset(input, 'x', n);
    input[n] = 0;
    assert_int_equal(sh(&c, "echo no", input, &wide), 0);
    assert_string_equal(c.out.data, "no\n");
    child_result_fini(&c);
    assert_int_equal(sh(&c, "cat", input, &wide), 0);
    assert_int_equal(c.out.len, n);
    child_result_fini(&c);
    free(input);
}

static void test_output_is_bounded(void **state)
{
    const struct child_limits l = {.ms = 30000, .bytes = 1000};
    struct child_result c;

    assert_int_equal(sh(&c, "yes", "", &l), 0);
    assert_true(c.cut);
    assert_int_equal(c.out.len, 1000);
    child_result_fini(&c);
    assert_int_equal(sh(&c, "head -c 1000 /dev/zero; head -c 100000 /dev/zero >&2", "", &l), 0);
    assert_false(c.cut);
    assert_int_equal(c.out.len, 1000);
    assert_int_equal(c.err.len, CHILD_ERR_MAX);
    child_result_fini(&c);
}

/* Run a script that says "begun" and is late, with a limit that is long enough for it to begin. */
static void late(struct child_result *c, const char *script)
{
    struct child_limits l = {.ms = 200, .bytes = 1000};

    for (; l.ms < 60000; l.ms *= 2) {
        assert_int_equal(sh(c, script, "", &l), 0);
        assert_true(c->late);
        if (c->out.len) break;
        child_result_fini(c);
    }
    assert_string_equal(c->out.data, "begun\n");
}

/* The time limit ends the whole process group, also one that ignores SIGTERM. */
static void test_time_is_bounded(void **state)
{
    struct child_result c;

    late(&c, "echo begun; sleep 1000 & wait");
    child_result_fini(&c);
    late(&c, "trap '' TERM; echo begun; while :; do sleep 1000; done");
    assert_true(WIFSIGNALED(c.status) && WTERMSIG(c.status) == SIGKILL);
    child_result_fini(&c);
}

/* A process that the child leaves behind, with its standard output, does not delay the result; it is killed. */
static void test_nothing_is_left(void **state)
{
    struct child_result c;

    assert_int_equal(sh(&c, "sleep 1000 & echo $!", "", &wide), 0);
    pid_t left = (pid_t)strtol(c.out.data, NULL, 10);
    assert_true(left > 1);
    for (int i = 0; kill(left, 0) == 0 && i < 2000; i++) usleep(5000); /* init reaps it */
    child_result_fini(&c);
}

static void test_signals_are_those_of_a_shell(void **state)
{
    struct child_result c;

    /* SIGPIPE is not ignored, and nothing is blocked. */
    assert_int_equal(sh(&c, "grep -E 'Sig(Blk|Ign)' /proc/self/status", "", &wide), 0);
    assert_non_null(strstr(c.out.data, "SigBlk:\t0000000000000000"));
    const char *ignored = strstr(c.out.data, "SigIgn:\t");
    assert_non_null(ignored);
    assert_int_equal(strtoull(ignored + 8, NULL, 16) >> (SIGPIPE - 1) & 1, 0);
    child_result_fini(&c);
}

static void test_an_interrupt_ends_it(void **state)
{
    struct child_result c;

    assert_int_equal(sh(&c, "kill -INT $PPID; sleep 1000", "", &wide), -EINTR);
    child_result_fini(&c);
    interrupt_clear();
    interrupt_init();
}

static void test_no_such_program(void **state)
{
    char *argv[] = {(char *)"/nonexistent/tool", NULL};
    struct child_result c = {0};

    assert_int_equal(child_run(&c, argv, "", 0, &wide), -ENOENT);
    assert_string_equal(error_text(-ENOENT), "cannot run /nonexistent/tool: No such file or directory");
    child_result_fini(&c);
}

static int setup(void **state)
{
    interrupt_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_and_status),   cmocka_unit_test(test_large_input),
        cmocka_unit_test(test_output_is_bounded),    cmocka_unit_test(test_time_is_bounded),
        cmocka_unit_test(test_nothing_is_left),      cmocka_unit_test(test_signals_are_those_of_a_shell),
        cmocka_unit_test(test_an_interrupt_ends_it), cmocka_unit_test(test_no_such_program),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
