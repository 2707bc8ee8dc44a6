/* SPDX-License-Identifier: MIT */
#include "client/tool-result.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
/* after the above */
#include <cmocka.h>

static const struct child_limits limits = {.ms = 1500, .bytes = 8};

/* @status: as waitpid sets it. */
static void result(const char *out, const char *err, int status, bool cut, bool late, const char *want)
{
    struct child_result c = {.status = status, .cut = cut, .late = late};
    struct buf text = BUF_INIT;

    assert_int_equal(buf_puts(&c.out, out), 0);
    assert_int_equal(buf_puts(&c.err, err), 0);
    assert_int_equal(tool_result(&text, &c, &limits), 0);
    assert_string_equal(text.data ? text.data : "", want);
    buf_fini(&text);
    child_result_fini(&c);
}

static void test_results(void **state)
{
    result("sunny\n\n", "a note\n", 0, false, false, "sunny");
    result("", "", 0, false, false, "");
    result("a\n b\r\n", "", 0, false, false, "a\n b");
    result("", "no city\n", W_EXITCODE(1, 0), false, false, "error: exit status 1\nno city");
    result("half\n", "why\n", W_EXITCODE(2, 0), false, false, "error: exit status 2\nwhy\nhalf");
    result("half", "", W_EXITCODE(0, SIGSEGV), false, false, "error: ended with signal 11\nhalf");
    result("", "", W_EXITCODE(0, SIGTERM), false, true, "error: no result within 2 s");
}

/* hob closes the output at its limit, so that SIGPIPE and the exit status then are no failures of the tool. */
static void test_cut_output(void **state)
{
    result("12345678", "", W_EXITCODE(0, SIGPIPE), true, false, "12345678\n[the output was cut after 8 bytes]");
    result("12345678", "broken pipe", W_EXITCODE(1, 0), true, false, "12345678\n[the output was cut after 8 bytes]");
    result("12345678", "", W_EXITCODE(0, SIGKILL), true, true,
           "error: no result within 2 s\n12345678\n[the output was cut after 8 bytes]");
}

static void test_bytes_that_are_no_text(void **state)
{
    struct child_result c = {0};
    struct buf text = BUF_INIT;

    assert_int_equal(buf_append(&c.out, "a\0b\xff\xe2\x82\xac\xe2\x82", 9), 0);
    assert_int_equal(tool_result(&text, &c, &limits), 0);
    assert_string_equal(text.data, "a\xef\xbf\xbd"
                                   "b\xef\xbf\xbd\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd");
    buf_fini(&text);
    child_result_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_cut_output),
        cmocka_unit_test(test_bytes_that_are_no_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
