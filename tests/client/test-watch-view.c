/* SPDX-License-Identifier: MIT */
/* How a look at a daemon is drawn. */
#include "client/watch-view.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#define STATUS(uptime, cached, generated)                                                                              \
    "{\"state\":\"ready\",\"model\":\"tiny\",\"uptime_s\":" uptime                                                     \
    ",\"parallel\":16,\"queue\":256,\"kv_blocks\":200,\"kv_blocks_free\":100,\"kv_blocks_unused\":50,"                 \
    "\"step_ms\":12.5,\"running\":2,\"queued\":1,\"sessions\":3,\"requests\":12345,"                                   \
    "\"tokens_prompt\":100000,\"tokens_cached\":" cached ",\"tokens_generated\":" generated                            \
    ",\"cache\":{\"blocks_memory\":10,\"blocks_disk\":20,\"bytes_memory\":10485760,\"bytes_disk\":20971520,"           \
    "\"hit_rate\":0.75},\"uids\":[{\"uid\":1000,\"running\":0,\"queued\":0,\"sessions\":1,\"tokens_generated\":50,"    \
    "\"blocks_memory\":4,\"blocks_disk\":8,\"tokens_found\":1,\"tokens_asked\":2},"                                    \
    "{\"uid\":1001,\"running\":2,\"queued\":1,\"sessions\":2,\"tokens_generated\":" generated                          \
    ",\"blocks_memory\":6,\"blocks_disk\":12,\"tokens_found\":0,\"tokens_asked\":0}]}"

static void look(struct watch_sample *s, const char *json, int64_t at)
{
    assert_int_equal(watch_read(s, json, strlen(json), at), 0);
}

static void test_wide(void **state)
{
    struct watch_sample a, b;
    struct buf out = BUF_INIT;

    look(&a, STATUS("3599", "90000", "1000"), 1000);
    look(&b, STATUS("3725", "89000", "1100"), 3000);
    assert_int_equal(watch_draw(&out, &b, &a, 80, 0), 0);
    assert_string_equal(out.data, "tiny: ready, up 1h02m\n"
                                  "running        2/16  queued        1/256  prefill/s       500\n"
                                  "decode/s       50.0  step ms        12.5  KV used         25%\n"
                                  "in RAM       10/10M  on disk      20/20M  hit rate        75%\n"
                                  "requests      12.3k  sessions          3\n"
                                  "\n"
                                  " uid  run  wait  tok/s  hits  RAM  disk  sessions\n"
                                  "1001    2     1   50.0     -   6M   12M         2\n"
                                  "1000    0     0    0.0   50%   4M    8M         1\n");
    buf_clear(&out);
    /* Of a first look there is no speed. */
    assert_int_equal(watch_draw(&out, &b, NULL, 80, 2), 0);
    assert_string_equal(out.data, "tiny: ready, up 1h02m\n"
                                  "running        2/16  queued        1/256  prefill/s         -\n");
    watch_fini(&a);
    watch_fini(&b);
    buf_fini(&out);
}

static void test_narrow(void **state)
{
    struct watch_sample a;
    struct buf out = BUF_INIT;

    look(&a, STATUS("59", "90000", "1000"), 1000);
    assert_int_equal(watch_draw(&out, &a, NULL, 40, 0), 0);
    assert_string_equal(out.data, "tiny: ready, up 59s\n"
                                  "running        2/16  queued        1/256\n"
                                  "prefill/s         -  decode/s          -\n"
                                  "step ms        12.5  KV used         25%\n"
                                  "in RAM       10/10M  on disk      20/20M\n"
                                  "hit rate        75%  requests      12.3k\n"
                                  "sessions          3\n"
                                  "\n"
                                  " uid  run  wait  tok/s  hits  RAM  disk\n"
                                  "1001    2     1      -     -   6M   12M\n"
                                  "1000    0     0      -   50%   4M    8M\n");
    watch_fini(&a);
    buf_fini(&out);
}

static size_t characters(const char *s, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

/* Whatever the window is, no line is wider and there are no more of them. */
static void test_any_size(void **state)
{
    struct watch_sample a, b;
    struct buf out = BUF_INIT;

    look(&a, STATUS("1", "1", "1000"), 1000);
    look(&b, "{\"state\":\"ready\",\"model\":\"grüße und ein sehr langer Name eines Modells\",\"running\":1}", 2000);
    for (unsigned columns = 1; columns < 130; columns++) {
        for (unsigned rows = 1; rows < 24; rows++) {
            unsigned lines = 0;

            buf_clear(&out);
            assert_int_equal(watch_draw(&out, rows & 1 ? &a : &b, &a, columns, rows), 0);
            for (const char *p = out.data; *p; lines++) {
                size_t n = strcspn(p, "\n");

                assert_int_equal(p[n], '\n');
                assert_in_range(characters(p, n), 0, columns);
                p += n + 1;
            }
            assert_in_range(lines, 1, rows);
        }
    }
    watch_fini(&a);
    watch_fini(&b);
    buf_fini(&out);
}

static void test_what_another_user_sees(void **state)
{
    struct watch_sample a;
    struct buf out = BUF_INIT;

    look(&a, "{\"state\":\"ready\",\"model\":\"tiny\",\"uptime_s\":100000,\"running\":0,\"queued\":0,\"sessions\":1}",
         1);
    assert_int_equal(watch_draw(&out, &a, NULL, 80, 0), 0);
    assert_non_null(strstr(out.data, "tiny: ready, up 1d03h\n"));
    assert_null(strstr(out.data, "step"));
    assert_null(strstr(out.data, "uid"));
    assert_null(strstr(out.data, "nan"));
    watch_fini(&a);
    buf_fini(&out);
}

/* A daemon that was restarted counts from 0; a clock that stands is no division by it. */
static void test_no_speed(void **state)
{
    struct watch_sample a, b;
    struct buf out = BUF_INIT;

    look(&a, STATUS("5", "90000", "1000"), 1000);
    look(&b, STATUS("5", "90000", "10"), 2000);
    assert_int_equal(watch_draw(&out, &b, &a, 40, 3), 0);
    assert_non_null(strstr(out.data, "decode/s          -"));
    buf_clear(&out);
    assert_int_equal(watch_draw(&out, &a, &a, 40, 3), 0);
    assert_non_null(strstr(out.data, "decode/s          -"));
    watch_fini(&a);
    watch_fini(&b);
    buf_fini(&out);
}

/* The daemon's own figures come first, and with the first look. */
static void test_rolling(void **state)
{
    struct watch_sample a;
    struct buf out = BUF_INIT;

    look(&a,
         "{\"state\":\"ready\",\"running\":1,\"tokens_generated\":5,\"rolling\":{\"step_ms\":3.25,\"batch\":40.5,"
         "\"prefill_tok_s\":1234.5,\"decode_tok_s\":67.89}}",
         1);
    assert_int_equal(watch_draw(&out, &a, &a, 80, 3), 0);
    assert_string_equal(out.data, "hobd: ready, up 0s\n"
                                  "running         1/-  queued          -/-  prefill/s      1234\n"
                                  "decode/s       67.9  step ms         3.2  batch          40.5\n");
    watch_fini(&a);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wide),     cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_any_size), cmocka_unit_test(test_what_another_user_sees),
        cmocka_unit_test(test_no_speed), cmocka_unit_test(test_rolling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
