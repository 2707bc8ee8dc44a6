/* SPDX-License-Identifier: MIT */
/* The daemon's JSON about sessions, as people read it. */
#include "client/sessions-view.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* after the above */
#include <cmocka.h>

#define NOW INT64_C(1750000000)

static void ago(int64_t seconds, const char *want)
{
    char out[16];

    assert_string_equal(sessions_view_age(out, NOW - seconds, NOW), want);
}

static void test_ages(void **state)
{
    ago(0, "just now");
    ago(4, "just now");
    ago(5, "5 s ago");
    ago(59, "59 s ago");
    ago(60, "1 min ago");
    ago(3599, "59 min ago");
    ago(3600, "1 h ago");
    ago(86399, "23 h ago");
    ago(86400, "1 day ago");
    ago(2 * 86400, "2 days ago");
    ago(60 * 86400 - 1, "59 days ago");
    ago(60 * 86400, "2025-04-16");
    ago(NOW, "1970-01-01");
    /* A clock that went backwards, and numbers that are none. */
    ago(-5000, "just now");
    ago(2 * NOW, "long ago");
    {
        char out[16];

        assert_string_equal(sessions_view_age(out, INT64_MAX, NOW), "just now");
        assert_string_equal(sessions_view_age(out, 1, INT64_MAX), "1970-01-01");
    }
}

static void lists(const char *json, unsigned width, const char *want)
{
    struct buf out = BUF_INIT;
    int r = sessions_view_list(&out, json, strlen(json), NOW, width);

    if (r < 0) fail_msg("%s: %s", json, error_text(r));
    assert_string_equal(out.data ? out.data : "", want);
    buf_fini(&out);
}

static const char three[] =
    "[{\"name\":\"review\",\"used\":1749999820,\"messages\":12,\"tokens\":3041,\"raw\":false,"
    "\"busy\":true,\"bytes\":8192,\"shared\":4500000},"
    "{\"bytes\":1,\"busy\":false,\"raw\":true,\"tokens\":17,\"messages\":0,\"used\":1749999820,"
    "\"name\":\"a raw one, whose name is rather long\"},"
    "{\"name\":\"\\u00e9\\u001b[2J\",\"used\":1740000000,\"tokens\":123456,\"new\":{\"x\":[1]}}]";

static void test_list(void **state)
{
    lists(three, 0,
          "NAME                                  MESSAGES  TOKENS     SIZE  LAST USED\n"
          "review                                      12    3041  8K+4.3M  in use\n"
          "a raw one, whose name is rather long       raw      17       1B  3 min ago\n"
          "\xc3\xa9\u241b[2J                                        0  123456       0B  2025-02-19\n");
    lists("[]", 0, "");
    lists(" [ ] ", 40, "");
}

static void test_list_fits_in_40_columns(void **state)
{
    lists(three, 40,
          "NAME                    SIZE  LAST USED\n"
          "review               8K+4.3M  in use\n"
          "a raw one, whose n…       1B  3 min ago\n"
          "\xc3\xa9\u241b[2J                     0B  2025-02-19\n");
}

static void sums(const char *json, const char *want)
{
    struct buf out = BUF_INIT;
    int r = sessions_view_sum(&out, json, strlen(json));

    if (r < 0) fail_msg("%s: %s", json, error_text(r));
    assert_string_equal(out.data ? out.data : "", want);
    buf_fini(&out);
}

static void test_sum(void **state)
{
    struct buf out = BUF_INIT;

    sums("{\"sessions\":99,\"sessions_bytes\":5,\"own\":{\"sessions\":12,\"sessions_bytes\":3565158,"
         "\"sessions_max_bytes\":1073741824},\"uids\":[{\"sessions\":1}]}",
         "12 sessions, 3.4M of 1G\n");
    sums("{\"own\":{\"sessions\":1,\"sessions_bytes\":4096,\"sessions_max_bytes\":0}}", "1 session, 4K\n");
    sums("{\"own\":{\"sessions\":0,\"sessions_bytes\":0,\"sessions_max_bytes\":5}}", "");
    sums("{\"state\":\"ready\"}", ""); /* an older daemon */
    assert_int_equal(sessions_view_sum(&out, "[", 1), -EBADMSG);
    buf_fini(&out);
}

static void test_list_refuses(void **state)
{
    static const char *const bad[] = {
        "", "{}", "3", "\"x\"", "[1]", "[[]]", "[", "[{\"used\":1}]", "[null]", "[{}]", "[{\"name\":7}]"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = BUF_INIT;
        int r = sessions_view_list(&out, bad[i], strlen(bad[i]), NOW, 0);

        if (r != -EBADMSG) fail_msg("%s: %d", bad[i], r);
        assert_non_null(strstr(error_text(r), "the daemon's sessions: "));
        buf_fini(&out);
    }
}

static void shows(const char *json, const char *want, size_t n)
{
    struct buf out = BUF_INIT;
    int r = sessions_view_show(&out, json, strlen(json));

    if (r < 0) fail_msg("%s: %s", json, error_text(r));
    assert_int_equal(out.len, n);
    if (n) assert_memory_equal(out.data, want, n);
    buf_fini(&out);
}

static void test_show_a_failure(void **state)
{
    static const char want[] = "[user]\nx\n\n[failed]\ntoo late\n", alone[] = "[failed]\ntoo late\n";

    shows("{\"failed\":\"too late\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", want, sizeof want - 1);
    shows("{\"messages\":[],\"failed\":\"too late\"}", alone, sizeof alone - 1);
    shows("{\"text\":\"x\",\"failed\":\"too late\"}", "x\n\n[failed]\ntoo late\n", 21);
}

static void test_show_a_conversation(void **state)
{
    static const char want[] = "[system]\nBe brief.\n\n[user]\ntwo\nlines\n\n[assist ant]\n";

    shows("{\"name\":\"review\",\"used\":1,\"raw\":false,\"context\":\"refuse\",\"tokens\":40,\"messages\":["
          "{\"role\":\"system\",\"content\":\"Be brief.\"},{\"content\":\"two\\nlines\\n\",\"role\":\"user\"},"
          "{\"role\":\"assist\\nant\",\"content\":\"\"}],\"text\":null,\"later\":[{\"role\":\"x\"}]}",
          want, sizeof want - 1);
    shows("{\"messages\":[]}", "", 0);
}

static void test_show_media(void **state)
{
    static const char want[] =
        "[user]\n[image: 12345 bytes]\n[audio: 7 bytes]\nand?\n\n[assistant]\nno\n\n[user]\n[image: 1 "
        "bytes]\n";

    shows("{\"messages\":[{\"role\":\"user\",\"content\":\"and?\",\"media\":[{\"kind\":\"image\",\"at\":0,"
          "\"bytes\":12345,\"width\":3},{\"bytes\":7,\"kind\":\"audio\"}]},{\"role\":\"assistant\",\"content\":\"no\"},"
          "{\"role\":\"user\",\"content\":\"\",\"media\":[{\"kind\":\"image\",\"bytes\":1}]}]}",
          want, sizeof want - 1);
}

static void test_show_thinking_and_calls(void **state)
{
    static const char want[] =
        "[user]\nhi\n\n[thinking]\nhm\n\n[assistant]\nLet me see.\n\n[call up per]\n{\"a\":1}\n\n"
        "[call lower]\n{}\n\n[tool up per]\nA\n\n[call x]\n\n[assistant]\ndone\n";

    shows("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"Let me see.\","
          "\"thinking\":\"hm\",\"tool_calls\":[{\"id\":\"c0\",\"name\":\"up\\nper\",\"arguments\":\"{\\\"a\\\":1}\"},"
          "{\"name\":\"lower\",\"arguments\":\"{}\"}]},{\"role\":\"tool\",\"content\":\"A\",\"tool_call_id\":\"c0\","
          "\"name\":\"up\\nper\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"name\":\"x\"}]},"
          "{\"role\":\"assistant\",\"content\":\"done\",\"later\":[{\"x\":{\"name\":\"no\"}}]}]}",
          want, sizeof want - 1);
}

static void test_show_a_raw_one(void **state)
{
    shows("{\"name\":\"r\",\"raw\":true,\"text\":\"Once \\u0000upon\\n \"}", "Once \0upon\n ", 12);
}

static void test_show_refuses(void **state)
{
    static const char *const bad[] = {"", "[]", "7", "\"{\"", "{\"text\":\"a", "{\"messages\":[{]}"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = BUF_INIT;
        int r = sessions_view_show(&out, bad[i], strlen(bad[i]));

        if (r != -EBADMSG) fail_msg("%s: %d", bad[i], r);
        buf_fini(&out);
    }
}

/* Never past the end, whatever is cut off; exactly as long, so that valgrind and ASan see a step too far. */
static void test_every_prefix_is_refused(void **state)
{
    static const char show[] =
        "{\"raw\":false,\"messages\":[{\"role\":\"us\\u0065r\",\"content\":\"\\ud83d\\ude00\"}]}";

    for (int which = 0; which < 2; which++) {
        const char *json = which ? show : three;

        for (size_t n = 0; n < strlen(json); n++) {
            char *copy = malloc(n ? n : 1);
            struct buf out = BUF_INIT;

            assert_non_null(copy);
            memcpy(copy, json, n);
            assert_int_equal(which ? sessions_view_show(&out, copy, n) : sessions_view_list(&out, copy, n, NOW, 40),
                             -EBADMSG);
            free(copy);
            buf_fini(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ages),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_fits_in_40_columns),
        cmocka_unit_test(test_list_refuses),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_show_a_conversation),
        cmocka_unit_test(test_show_a_failure),
        cmocka_unit_test(test_show_media),
        cmocka_unit_test(test_show_thinking_and_calls),
        cmocka_unit_test(test_show_a_raw_one),
        cmocka_unit_test(test_show_refuses),
        cmocka_unit_test(test_every_prefix_is_refused),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
