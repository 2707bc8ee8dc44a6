/* SPDX-License-Identifier: MIT */
#include "libcommon/log.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int file = -1, stderr_copy = -1;
static char text[8192];

static int open_file(void **state)
{
    char path[] = "/tmp/hob-test-log-XXXXXX";

    file = mkstemp(path);
    stderr_copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    return file < 0 || stderr_copy < 0 ? -1 : unlink(path);
}

static int close_file(void **state)
{
    close(stderr_copy);
    return close(file);
}

static int plain(void **state)
{
    unsetenv("JOURNAL_STREAM");
    unsetenv("TERM");
    return 0;
}

static void capture(void)
{
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
}

static const char *captured(void)
{
    ssize_t n;

    dup2(stderr_copy, STDERR_FILENO);
    n = pread(file, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = 0;
    return text;
}

static void lines_have_the_programs_name(void **state)
{
    capture();
    log_init("hobd", LOG_INFO);
    log_error("it is %d", 7);
    log_info("and on");
    assert_string_equal(captured(), "hobd: it is 7\nhobd: and on\n");
}

static void levels_above_the_limit_are_silent(void **state)
{
    capture();
    log_init("hobd", LOG_WARNING);
    log_warning("w");
    log_info("i");
    log_debug("d");
    assert_string_equal(captured(), "hobd: w\n");
}

static void the_journal_gets_priorities_and_no_name(void **state)
{
    struct stat st;
    char stream[64];

    capture();
    assert_int_equal(fstat(file, &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_init("hobd", LOG_DEBUG);
    log_error("e");
    log_warning("w");
    log_info("i");
    log_debug("d");
    assert_string_equal(captured(), "<3>e\n<4>w\n<6>i\n<7>d\n");
}

static void a_journal_that_is_somebody_elses(void **state)
{
    capture();
    setenv("JOURNAL_STREAM", "1:1", 1);
    log_init("hob", LOG_INFO);
    log_info("i");
    assert_string_equal(captured(), "hob: i\n");
}

static void one_call_is_one_line(void **state)
{
    capture();
    log_init("hob", LOG_INFO);
    log_info("a\nb\033[31mc\rd\x7f"
             "e \xc3\xa4 \xc2\x9b"
             "f\xc2\xa0");
    assert_string_equal(captured(), "hob: a b\u241b[31mc d\u2421e \xc3\xa4 \ufffdf\xc2\xa0\n");
}

static void long_lines_are_cut_between_characters(void **state)
{
    char *s = malloc(9001);
    const char *line;

    for (size_t i = 0; i < 9000; i += 3) memcpy(s + i, "\xe2\x82\xac", 4);
    capture();
    log_init("hob", LOG_INFO);
    log_info("%s", s);
    line = captured();
    assert_true(strlen(line) > 4000 && strlen(line) <= 4096);
    assert_string_equal(line + strlen(line) - 4, "\xe2\x82\xac\n");
    free(s);
}

static void errno_is_left_alone(void **state)
{
    capture();
    log_init("hob", LOG_INFO);
    errno = ENOTTY;
    log_info("x");
    assert_int_equal(errno, ENOTTY);
    captured();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lines_have_the_programs_name, plain),
        cmocka_unit_test_setup(levels_above_the_limit_are_silent, plain),
        cmocka_unit_test_setup(the_journal_gets_priorities_and_no_name, plain),
        cmocka_unit_test_setup(a_journal_that_is_somebody_elses, plain),
        cmocka_unit_test_setup(one_call_is_one_line, plain),
        cmocka_unit_test_setup(long_lines_are_cut_between_characters, plain),
        cmocka_unit_test_setup(errno_is_left_alone, plain),
    };

    return cmocka_run_group_tests_name("log", tests, open_file, close_file);
}
