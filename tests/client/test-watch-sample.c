/* SPDX-License-Identifier: MIT */
/* What is taken from the daemon's status. */
#include "client/watch-view.h"
#include "libcommon/error.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void look(struct watch_sample *s, const char *json, int64_t at)
{
    assert_int_equal(watch_read(s, json, strlen(json), at), 0);
}

static void test_notes(void **state)
{
    struct watch_sample a;
    struct buf out = BUF_INIT;

    look(&a,
         "{\"state\":\"failed\",\"error\":\"no such\\u001b file\",\"model_changed\":\"it changed\","
         "\"restart_pending\":\"ctx, kv-type\",\"reload_failed\":\"x:3: what\"}",
         1);
    assert_int_equal(watch_draw(&out, &a, NULL, 80, 0), 0);
    assert_string_equal(out.data, "hobd: failed, up 0s\n"
                                  "! no such\u241b file\n"
                                  "! it changed\n"
                                  "! restart the daemon to apply the changes of ctx, kv-type\n"
                                  "! configuration reload failed: x:3: what\n");
    watch_fini(&a);
    buf_fini(&out);
}

static void test_bad_status(void **state)
{
    static const char *const bad[] = {"", "[]", "3", "{\"a\":}", "{\"uids\":[{\"uid\":1}"};
    static const char *const odd[] = {"{\"uids\":{\"uid\":1}}", "{\"uids\":[1,[2],{}]}",
                                      "{\"cache\":1,\"uptime_s\":\"x\"}",
                                      "{\"running\":1e300,\"parallel\":-1,\"uids\":[{\"uid\":1e300}]}"};
    struct watch_sample s;
    struct buf out = BUF_INIT;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(watch_read(&s, bad[i], strlen(bad[i]), 1), -EBADMSG);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        look(&s, odd[i], 1);
        assert_int_equal(watch_draw(&out, &s, NULL, 40, 10), 0);
        watch_fini(&s);
    }
    buf_fini(&out);
}

static void test_figures(void **state)
{
    struct watch_sample s;

    look(&s,
         "{\"a\":{\"running\":9,\"b\":{\"queued\":9}},\"running\":2,\"model\":\"m\\n\",\"cache\":{\"hit_rate\":0.5,"
         "\"running\":8},"
         "\"list\":[{\"queued\":7}],\"uids\":[{\"uid\":5,\"running\":1,\"x\":{\"uid\":6}},{\"uid\":7}],\"queue\":"
         "\"12\"}",
         77);
    assert_int_equal(s.at, 77);
    assert_true(s.figures[FIGURE_RUNNING] == 2);
    assert_true(isnan(s.figures[FIGURE_QUEUED]));
    assert_true(isnan(s.figures[FIGURE_QUEUE]));
    assert_true(s.figures[FIGURE_HIT_RATE] == 0.5);
    assert_string_equal(s.model.data, "m ");
    assert_int_equal(s.n_users, 2);
    assert_true(s.users[0].figures[USER_UID] == 5);
    assert_true(s.users[0].figures[USER_RUNNING] == 1);
    assert_true(isnan(s.users[1].figures[USER_RUNNING]));
    watch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_bad_status),
        cmocka_unit_test(test_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
