/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/trace.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int read_text(struct trace *t, const char *text, size_t most)
{
    char path[] = "/tmp/hob-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int r = trace_read(t, path, most);
    unlink(path);
    return r;
}

#define FIRST  "{\"timestamp\": 0, \"input_length\": 1300, \"output_length\": 5, \"hash_ids\": [7, 8, 9]}\n"
#define SECOND "{\"timestamp\": 20, \"input_length\": 1100, \"output_length\": 0, \"hash_ids\": [7, 8, 3]}\n\n"
#define THIRD  "{\"timestamp\": 20, \"input_length\": 1300, \"output_length\": 2, \"hash_ids\": [7, 8, 9]}"

static void test_reads(void **state)
{
    struct trace t;
    assert_int_equal(read_text(&t, FIRST SECOND THIRD, 0), 0);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.distinct, 4);
    assert_int_equal(t.prompt_tokens, 3700);
    assert_int_equal(t.infinite_tokens, 1024 + 1300);
    assert_int_equal(t.requests[1].answer, 1);
    assert_int_equal(t.requests[1].n, 3);
    assert_int_equal(t.ids[t.requests[1].first + 2], 3);
    assert_true(t.requests[2].ms == 20);
    trace_fini(&t);
    assert_int_equal(read_text(&t, FIRST SECOND THIRD, 2), 0);
    assert_int_equal(t.n, 2);
    trace_fini(&t);
}

static void refused(const char *text, const char *why)
{
    struct trace t;
    int r = read_text(&t, text, 0);
    assert_true(r < 0);
    if (!strstr(error_text(r), why)) fail_msg("'%s' does not say '%s'", error_text(r), why);
}

static void test_refuses(void **state)
{
    struct trace t;
    refused("", "no request");
    refused("\n\n", "no request");
    refused(FIRST "{", ":2: ");
    refused(FIRST "[]", ":2: timestamp");
    refused("{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}", ":1: timestamp");
    refused("{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 1, \"hash_ids\": []}", "input_length");
    refused("{\"timestamp\": 1, \"input_length\": 99999999999, \"output_length\": 1, \"hash_ids\": []}",
            "input_length");
    refused("{\"timestamp\": 1, \"input_length\": 1.5, \"output_length\": 1, \"hash_ids\": [1]}", "input_length");
    refused("{\"timestamp\": 1, \"input_length\": 1, \"output_length\": \"x\", \"hash_ids\": [1]}", "output_length");
    refused("{\"timestamp\": 1, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": [1]}", "hash_ids");
    refused("{\"timestamp\": 1, \"input_length\": 13, \"output_length\": 1}", "hash_ids");
    refused("{\"timestamp\": 1, \"input_length\": 13, \"output_length\": 1, \"hash_ids\": [-1]}", "hash id");
    refused(SECOND FIRST, "before");
    int r = trace_read(&t, "/nowhere/at/all", 0);
    assert_int_equal(r, -ENOENT);
    assert_non_null(strstr(error_text(r), "/nowhere/at/all"));
}

/* A conversation belongs to one user. The first user gets the most. */
static void test_deal(void **state)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    for (int i = 0; i < 1000; i++)
        fprintf(f, "{\"timestamp\": %d, \"input_length\": 1500, \"output_length\": 1, \"hash_ids\": [0, %d, %d]}\n", i,
                1 + i % 500, 1000 + i);
    fclose(f);
    struct trace t;
    assert_int_equal(read_text(&t, text, 0), 0);
    free(text);
    uint32_t got[4] = {0};
    trace_deal(&t, 4);
    for (size_t i = 0; i < t.n; i++) {
        assert_true(t.requests[i].user < 4);
        assert_int_equal(t.requests[i].user, t.requests[i % 500].user);
        got[t.requests[i].user]++;
    }
    for (int i = 0; i < 3; i++) assert_true(got[i] > got[i + 1] && got[i + 1] > 0);
    trace_deal(&t, 1);
    for (size_t i = 0; i < t.n; i++) assert_int_equal(t.requests[i].user, 0);
    trace_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_deal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
