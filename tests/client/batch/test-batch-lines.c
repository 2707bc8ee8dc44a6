/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-lines.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

struct ends {
    int in, out;
    struct batch_lines lines;
};

static void begin(struct ends *e, bool null)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    *e = (struct ends){.in = fds[1], .out = fds[0], .lines = {.fd = fds[0], .name = "test", .null = null}};
}

static void end(struct ends *e)
{
    batch_lines_fini(&e->lines);
    if (e->in >= 0) close(e->in);
    close(e->out);
}

static void put(struct ends *e, const char *s, size_t n)
{
    assert_int_equal(write(e->in, s, n), n);
}

static void expect(struct ends *e, const char *want, uint64_t number)
{
    assert_int_equal(batch_lines_next(&e->lines), BATCH_LINE_WHOLE);
    assert_string_equal(e->lines.line.data ? e->lines.line.data : "", want);
    assert_int_equal(e->lines.number, number);
}

static void test_lines_in_pieces(void **state)
{
    struct ends e;
    begin(&e, false);
    assert_int_equal(batch_lines_next(&e.lines), BATCH_LINE_WAIT);
    put(&e, "on", 2);
    assert_int_equal(batch_lines_next(&e.lines), BATCH_LINE_WAIT);
    put(&e, "e\n\ntwo\nthr", 10);
    expect(&e, "one", 1);
    assert_int_equal(e.lines.bytes, 4);
    expect(&e, "", 2);
    expect(&e, "two", 3);
    assert_int_equal(batch_lines_next(&e.lines), BATCH_LINE_WAIT);
    assert_false(e.lines.torn);
    close(e.in);
    e.in = -1;
    expect(&e, "thr", 4);
    assert_true(e.lines.torn);
    assert_int_equal(batch_lines_next(&e.lines), BATCH_LINE_END);
    assert_int_equal(batch_lines_next(&e.lines), BATCH_LINE_END);
    end(&e);
}

static void test_nuls(void **state)
{
    struct ends e;
    begin(&e, true);
    put(&e, "a\nb\0c\0", 6);
    expect(&e, "a\nb", 1);
    expect(&e, "c", 2);
    end(&e);
}

/* A line over the limit is counted, and its memory is not kept. */
static void test_a_line_that_is_too_long(void **state)
{
    char path[] = "/tmp/hob-test-lines-XXXXXX", piece[65536];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    memset(piece, 'x', sizeof(piece));
    for (unsigned i = 0; i < BATCH_LINE_MAX / sizeof(piece) + 2; i++)
        assert_int_equal(write(fd, piece, sizeof(piece)), sizeof(piece));
    assert_int_equal(write(fd, "\nshort\n", 7), 7);
    lseek(fd, 0, SEEK_SET);
    struct batch_lines in = {.fd = fd, .name = "test"};
    assert_int_equal(batch_lines_next(&in), BATCH_LINE_WHOLE);
    assert_true(in.too_long && in.line.len <= BATCH_LINE_MAX && in.bytes > BATCH_LINE_MAX);
    assert_int_equal(batch_lines_next(&in), BATCH_LINE_WHOLE);
    assert_true(!in.too_long && strcmp(in.line.data, "short") == 0 && in.number == 2);
    assert_int_equal(batch_lines_next(&in), BATCH_LINE_END);
    batch_lines_fini(&in);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines_in_pieces), cmocka_unit_test(test_nuls),
                                       cmocka_unit_test(test_a_line_that_is_too_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
