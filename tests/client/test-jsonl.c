/* SPDX-License-Identifier: MIT */
#include "client/jsonl.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

static void line_of(const struct proto_event *e, const char *text, bool logprobs, bool indexed, const char *want)
{
    struct answer_parts said = {0};
    struct buf out = BUF_INIT;

    assert_int_equal(buf_puts(&said.text, text), 0);
    assert_int_equal(jsonl_event(&out, e, &said, logprobs, indexed), 0);
    assert_string_equal(out.data ? out.data : "", want);
    buf_fini(&out);
    answer_parts_fini(&said);
}

static void line(const struct proto_event *e, const char *text, bool logprobs, const char *want)
{
    line_of(e, text, logprobs, false, want);
}

/* Also the first of several says which it is. */
static void test_one_of_several(void **state)
{
    struct proto_event e = {.type = PROTO_EV_TEXT, .text = {(char *)"a", 1}};

    line_of(&e, "", false, true, "{\"event\":\"text\",\"index\":0,\"text\":\"a\"}\n");
    e = (struct proto_event){.type = PROTO_EV_ERROR, .index = 2, .more = true, .code = EBUSY};
    line_of(&e, "", false, true, "{\"event\":\"error\",\"index\":2,\"code\":\"EBUSY\",\"message\":\"\"}\n");
    e = (struct proto_event){.type = PROTO_EV_DONE, .index = 1, .miss_at = -1};
    line_of(&e, "x", false, true,
            "{\"event\":\"done\",\"index\":1,\"reason\":\"stop\",\"text\":\"x\",\"usage\":{\"prompt\":0,\"cached\":0,"
            "\"completion\":0},\"timings\":{\"queue_ms\":0.000,\"prefill_ms\":0.000,\"decode_ms\":0.000,"
            "\"ttft_ms\":0.000},\"session\":null,\"miss_at\":null,\"seed\":0}\n");
}

static void test_progress(void **state)
{
    line(&(struct proto_event){.type = PROTO_EV_QUEUED, .position = 4}, "", false,
         "{\"event\":\"queued\",\"position\":4}\n");
    line(&(struct proto_event){.type = PROTO_EV_PREFILL, .done = 1, .total = 2, .cached = UINT64_MAX}, "", false,
         "{\"event\":\"prefill\",\"done\":1,\"total\":2,\"cached\":18446744073709551615}\n");
}

static void test_text(void **state)
{
    int32_t ids[] = {5, -1, 70000};
    float lps[] = {-0.5f, -0x1.fffffep-1f, -INFINITY};
    struct proto_event e = {.type = PROTO_EV_TEXT, .text = {(char *)"a\"\n", 3}};

    line(&e, "", false, "{\"event\":\"text\",\"text\":\"a\\\"\\n\"}\n");
    line(&e, "", true, "{\"event\":\"text\",\"text\":\"a\\\"\\n\",\"ids\":[],\"logprobs\":[]}\n");
    e = (struct proto_event){.type = PROTO_EV_TEXT, .tokens.ids = ids, .tokens.logprobs = lps, .tokens.n = 3};
    line(&e, "", true,
         "{\"event\":\"text\",\"text\":\"\",\"ids\":[5,-1,70000],\"logprobs\":[-0.5,-0.99999994,null]}\n");
}

static void test_reasoning(void **state)
{
    struct proto_event e = {.type = PROTO_EV_TEXT, .channel = "thinking", .text = {(char *)"hm", 2}};

    line(&e, "", false, "{\"event\":\"text\",\"channel\":\"thinking\",\"text\":\"hm\"}\n");
    e.channel = "answer";
    line(&e, "", false, "{\"event\":\"text\",\"text\":\"hm\"}\n");
}

static void test_calls(void **state)
{
    struct tool_call first = {.id = {(char *)"c1", 2}, .name = {(char *)"f", 1}};
    struct proto_event e = {.type = PROTO_EV_TOOL_CALL, .index = 1};
    struct answer_parts said = {0};
    struct buf out = BUF_INIT, result = BUF_INIT;

    assert_int_equal(proto_text_set(&e.part.call.id, "c1", 2), 0);
    assert_int_equal(proto_text_set(&e.part.call.name, "f", 1), 0);
    assert_int_equal(tool_calls_add(&said.calls, &e), 0);
    e.part.call.arguments = (struct proto_text){(char *)"{\"a", 3};
    assert_int_equal(tool_calls_add(&said.calls, &e), 0);
    assert_int_equal(jsonl_event(&out, &e, &said, false, false), 0);
    assert_string_equal(out.data, "{\"event\":\"tool_call\",\"index\":0,\"id\":\"c1\",\"name\":\"f\","
                                  "\"arguments\":\"{\\\"a\"}\n");
    buf_clear(&out);
    assert_int_equal(jsonl_event(&out, &e, &said, false, true), 0);
    assert_string_equal(out.data, "{\"event\":\"tool_call\",\"answer\":1,\"index\":0,\"id\":\"c1\",\"name\":\"f\","
                                  "\"arguments\":\"{\\\"a\"}\n");
    buf_clear(&out);
    assert_int_equal(buf_puts(&result, "so\n"), 0);
    assert_int_equal(jsonl_result(&out, &first, &result), 0);
    assert_string_equal(out.data, "{\"event\":\"tool_result\",\"id\":\"c1\",\"name\":\"f\",\"content\":\"so\\n\"}\n");
    e.part.call.arguments = (struct proto_text){0};
    proto_event_fini(&e);
    buf_fini(&out);
    buf_fini(&result);
    answer_parts_fini(&said);
}

static void test_warning(void **state)
{
    const struct proto_event e = {.type = PROTO_EV_WARNING, .index = 2, .message = {(char *)"odd", 3}};

    line(&e, "", false, "{\"event\":\"warning\",\"message\":\"odd\"}\n");
    line_of(&e, "", false, true, "{\"event\":\"warning\",\"index\":2,\"message\":\"odd\"}\n");
}

static void test_done(void **state)
{
    struct proto_event e = {.type = PROTO_EV_DONE,
                            .reason = PROTO_STOP_CONTEXT,
                            .usage_prompt = 3,
                            .usage_cached = 2,
                            .usage_completion = 1,
                            .queue_ms = 1.0005,
                            .decode_ms = NAN,
                            .session = {(char *)"s\"1", 3},
                            .miss_at = 17,
                            .seed = INT64_MAX};

    line(&e, "all\tof it", false,
         "{\"event\":\"done\",\"reason\":\"context\",\"text\":\"all\\tof it\",\"usage\":{\"prompt\":3,\"cached\":2,"
         "\"completion\":1},\"timings\":{\"queue_ms\":1.000,\"prefill_ms\":0.000,\"decode_ms\":null,\"ttft_ms\":0.000},"
         "\"session\":\"s\\\"1\",\"miss_at\":17,\"seed\":9223372036854775807}\n");
}

static void test_done_of_a_prompt_with_images(void **state)
{
    struct proto_media_usage media[] = {{PROTO_MEDIA_IMAGE, 576, true, 0}, {PROTO_MEDIA_SOUND, 30, false, 12.5}};
    struct proto_event e = {.type = PROTO_EV_DONE, .miss_at = -1, .seed = 3, .media = media, .n_media = 2};

    line(&e, "", false,
         "{\"event\":\"done\",\"reason\":\"stop\",\"text\":\"\",\"usage\":{\"prompt\":0,\"cached\":0,\"completion\":0,"
         "\"media_encoded\":1,\"media_cached\":1},\"timings\":{\"queue_ms\":0.000,\"prefill_ms\":0.000,"
         "\"decode_ms\":0.000,\"ttft_ms\":0.000},\"media\":[{\"kind\":\"image\",\"tokens\":576,\"cached\":true,"
         "\"encode_ms\":0.000},{\"kind\":\"audio\",\"tokens\":30,\"cached\":false,\"encode_ms\":12.500}],"
         "\"session\":null,\"miss_at\":null,\"seed\":3}\n");
}

static void test_done_of_a_prompt_that_was_cut(void **state)
{
    struct proto_event e = {.type = PROTO_EV_DONE, .miss_at = -1, .seed = 3, .cut.shifted = 512};

    line(&e, "", false,
         "{\"event\":\"done\",\"reason\":\"stop\",\"text\":\"\",\"usage\":{\"prompt\":0,\"cached\":0,\"completion\":0},"
         "\"timings\":{\"queue_ms\":0.000,\"prefill_ms\":0.000,\"decode_ms\":0.000,\"ttft_ms\":0.000},"
         "\"session\":null,\"miss_at\":null,\"seed\":3,\"shifted\":512}\n");
}

static void test_energy_of_a_done(void **state)
{
    struct proto_event e = {.type = PROTO_EV_DONE, .miss_at = -1, .energy = {true, 12.5, 0.0625, 100}};

    line(&e, "", false,
         "{\"event\":\"done\",\"reason\":\"stop\",\"text\":\"\",\"usage\":{\"prompt\":0,\"cached\":0,\"completion\":0},"
         "\"timings\":{\"queue_ms\":0.000,\"prefill_ms\":0.000,\"decode_ms\":0.000,\"ttft_ms\":0.000},"
         "\"energy\":{\"prompt_j\":12.500000,\"token_j\":0.062500,\"saved_j\":100.000000},"
         "\"session\":null,\"miss_at\":null,\"seed\":0}\n");
}

static void test_error(void **state)
{
    line(&(struct proto_event){.type = PROTO_EV_ERROR, .code = EBUSY, .message = {(char *)"later", 5}}, "", false,
         "{\"event\":\"error\",\"code\":\"EBUSY\",\"message\":\"later\"}\n");
}

static void test_others_have_no_line(void **state)
{
    line(&(struct proto_event){.type = PROTO_EV_HELLO}, "", false, "");
    line(&(struct proto_event){.type = PROTO_EV_UNKNOWN}, "", false, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_done),
        cmocka_unit_test(test_done_of_a_prompt_with_images),
        cmocka_unit_test(test_done_of_a_prompt_that_was_cut),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_one_of_several),
        cmocka_unit_test(test_energy_of_a_done),
        cmocka_unit_test(test_others_have_no_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
