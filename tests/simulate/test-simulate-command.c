/* SPDX-License-Identifier: MIT */
/* The program hobd simulate: table, JSON, picture, errors, exit codes. */
#include "tests/support/command.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char trace[] = "/tmp/hob-test-XXXXXX", picture[] = "/tmp/hob-test-XXXXXX";
static struct buf out, err;

#define RUN(...) command_run((const char *const[]){__VA_ARGS__, NULL}, "", &out, &err)

static int setup(void **state)
{
    int fd = mkstemp(trace), other = mkstemp(picture);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f || other < 0) return -1;
    for (int i = 0; i < 50; i++)
        fprintf(f, "{\"timestamp\": %d, \"input_length\": 1000, \"output_length\": 20, \"hash_ids\": [%d, %d]}\n",
                i * 100, i % 10, 100 + i);
    fclose(f);
    close(other);
    return 0;
}

static int teardown(void **state)
{
    unlink(trace);
    unlink(picture);
    buf_fini(&out);
    buf_fini(&err);
    return 0;
}

static void test_table(void **state)
{
    assert_int_equal(RUN(trace), 0);
    assert_string_equal(err.data, "");
    assert_non_null(strstr(out.data, "50 requests of 8 users"));
    assert_non_null(strstr(out.data, "fcfs"));
    assert_non_null(strstr(out.data, "hob"));
    assert_non_null(strstr(out.data, "Jain's index"));
    assert_int_equal(RUN(trace, "--policy", "fcfs"), 0);
    assert_null(strstr(out.data, " hob\n"));
}

static void test_json(void **state)
{
    assert_int_equal(RUN(trace, "--json", "--room", "inf", "--requests", "40", "--stretch", "100000"), 0);
    json_t *j = json_loads(out.data, 0, NULL), *hob = json_object_get(json_object_get(j, "policies"), "hob");
    assert_non_null(hob);
    assert_non_null(json_object_get(json_object_get(j, "policies"), "fcfs"));
    assert_int_equal(json_integer_value(json_object_get(j, "requests")), 40);
    assert_int_equal(json_integer_value(json_object_get(j, "distinct_blocks")), 50);
    /* 30 of 40 find their first block */
    double rate = json_real_value(json_object_get(j, "infinite_hit_rate"));
    assert_true(rate > 0.3839 && rate < 0.3841);
    double hit = json_real_value(json_object_get(hob, "hit_rate_over_infinite"));
    assert_true(hit > 0.9999 && hit < 1.0001);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(hob, "ttft_ms"), "n")), 40);
    assert_int_equal(json_array_size(json_object_get(hob, "users_ttft_ms")), 8);
    json_decref(j);
}

static void test_caches(void **state)
{
    assert_int_equal(RUN(trace, "--caches", "--room", "100"), 0);
    assert_non_null(strstr(out.data, "lru                          1.0000"));
    assert_int_equal(RUN(trace, "--caches", "--room", "10", "--json"), 0);
    json_t *j = json_loads(out.data, 0, NULL);
    double lru = json_real_value(json_object_get(j, "lru")), oracle = json_real_value(json_object_get(j, "oracle"));
    assert_true(lru >= 0 && lru < oracle && oracle < 1);
    json_decref(j);
}

static void test_picture(void **state)
{
    static char svg[65536];
    assert_int_equal(RUN(trace, "--plot", picture), 0);
    FILE *f = fopen(picture, "r");
    assert_non_null(f);
    svg[fread(svg, 1, sizeof(svg) - 1, f)] = 0;
    fclose(f);
    assert_int_equal(strncmp(svg, "<svg ", 5), 0);
    assert_non_null(strstr(svg, "</svg>"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf "));
    assert_int_equal(RUN(trace, "--plot", "/nowhere/at/all.svg"), 1);
    assert_non_null(strstr(err.data, "/nowhere/at/all.svg"));
}

static void test_errors(void **state)
{
    assert_int_equal(RUN("--help"), 0);
    assert_non_null(strstr(out.data, "usage: hobd simulate"));
    assert_int_equal(command_run((const char *const[]){NULL}, "", &out, &err), 2);
    assert_int_equal(RUN(trace, trace), 2);
    assert_int_equal(RUN(trace, "--policy", "lifo"), 2);
    assert_non_null(strstr(err.data, "lifo"));
    assert_int_equal(RUN(trace, "--block", "33"), 2);
    assert_int_equal(RUN(trace, "--step-ms", "1,2,3"), 2);
    assert_int_equal(RUN(trace, "--step-ms", "0,0,0,0,0"), 2);
    assert_int_equal(RUN(trace, "--parallel", "0"), 2);
    assert_int_equal(RUN(trace, "--room", "-3"), 2);
    assert_int_equal(RUN("/nowhere/at/all"), 1);
    assert_non_null(strstr(err.data, "/nowhere/at/all"));
    assert_int_equal(RUN("/dev/null"), 1);
    assert_non_null(strstr(err.data, "no request"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),   cmocka_unit_test(test_json),   cmocka_unit_test(test_caches),
        cmocka_unit_test(test_picture), cmocka_unit_test(test_errors),
    };
    if (argc != 2) return 2;
    command_init(argv[1], "simulate");
    return cmocka_run_group_tests(tests, setup, teardown);
}
