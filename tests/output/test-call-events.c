/* SPDX-License-Identifier: MIT */
/* Thinking and tool calls through the whole pipeline, with a vocabulary in which each byte is a token and some marks
 * are control tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/output/pipeline.h"
#include "tests/output/parsed.h"
#include "tests/text/markup/own-templates.h"
#include "tests/text/tiny-tokenizer.h"
#include <cmocka.h>
#include <string.h>

/* Ids 0 to 255 are the bytes; the script has a digit for each of these: 0, 1, … */
static const struct tiny_token extra[] = {{"<call>", TINY_CONTROL, 0},
                                          {"</call>", TINY_CONTROL, 0},
                                          {"<think>", TINY_CONTROL, 0},
                                          {"</think>", TINY_CONTROL, 0},
                                          {"<other>", TINY_CONTROL, 0}};

struct fixture {
    struct tokenizer *tokenizer;
    struct family family;
    json_t *tools;
    struct markup_format format;
};

static int setup(void **state)
{
    static struct fixture f;
    struct tiny_tokenizer m = {0};
    struct tiny_token own[sizeof(extra) / sizeof(*extra)];
    const char *source = own_template("envelope");
    memcpy(own, extra, sizeof(own));
    tiny_bpe(&m, "gpt-2", NULL, own, sizeof(own) / sizeof(*own));
    assert_int_equal(tiny_tokenizer_new(&m, &f.tokenizer), 0);
    family_init(&f.family, source, strlen(source));
    f.tools = json_loads("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", 0, NULL);
    f.format = format_of(&f.family, f.tools, MARKUP_AT_TEXT);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    tokenizer_free(f->tokenizer);
    family_fini(&f->family);
    json_decref(f->tools);
    return 0;
}

/* Appends the events of @step: "CHANNEL:TEXT|"; of calls "+NAME|", "ARGUMENTS|", ".|" at the end, "-|" withdrawn; "!|".
 */
static void show(const struct output_step *step, struct buf *shown)
{
    int r = 0;
    for (size_t i = 0; i < step->n; i++) {
        const struct output_event *e = &step->events[i];
        const char *text = e->text.data ? e->text.data : "";
        if (strcmp(e->channel, CHANNEL_TOOL_CALL) != 0)
            r |= buf_printf(shown, "%s:%s|", e->channel, text);
        else if (e->call.step == CALL_BEGINS)
            r |= buf_printf(shown, "%u+%s|", e->call.index, e->call.name.data);
        else
            r |= buf_printf(shown, "%u%s|", e->call.index,
                            e->call.step == CALL_ENDS        ? "."
                            : e->call.step == CALL_WITHDRAWN ? "-"
                                                             : text);
    }
    if (step->warning) r |= buf_puts(shown, "!|");
    assert_int_equal(r, 0);
}

static void expect(const struct fixture *f, const char *stop, const char *script, const char *want, const char *answer)
{
    const struct proto_text text = {.data = (char *)stop, .len = strlen(stop)};
    const struct output_request q = {.stop = &text, .n_stop = *stop != '\0', .format = &f->format.base};
    struct output o, clone;
    struct output_step step = {0};
    struct buf shown = BUF_INIT;
    int r = 0;
    assert_int_equal(output_init(&o, f->tokenizer, &q), 0);
    for (; *script && r == 0; script++) {
        assert_int_equal(output_clone(&clone, &o), 0);
        output_fini(&o);
        o = clone;
        output_step_clear(&step);
        r = output_push(&o, *script >= '0' && *script <= '4' ? 256 + *script - '0' : (unsigned char)*script, &step);
        assert_in_range(r, 0, 1);
        show(&step, &shown);
    }
    output_step_clear(&step);
    if (r == 0) assert_int_equal(output_finish(&o, &step), 0);
    show(&step, &shown);
    assert_string_equal(shown.data ? shown.data : "", want);
    assert_string_equal(o.answer.data ? o.answer.data : "", answer);
    buf_fini(&shown);
    output_step_fini(&step);
    output_fini(&o);
}

static void test_events(void **state)
{
    expect(*state, "", "2a3b", "thinking:a|answer:b|", "b");
    expect(*state, "", "a\n0{\"name\":\"f\",\"arguments\":{\"k\":7}}1b",
           "answer:a|0+f|0{|0\"|0k|0\"|0:|07}|0.|answer:b|", "ab");
    expect(*state, "", "0{\"name\":\"f\"}1\n0{\"name\":\"g\"}1", "0+f|0{}|0.|1+g|1{}|1.|", "");
}

/* The whole calls and the thought are kept; ids are made of the seed. */
static void test_kept(void **state)
{
    const struct fixture *f = *state;
    const struct output_request q = {.format = &f->format.base};
    static const char script[] =
        "2hm30{\"name\":\"f\",\"arguments\":{\"k\":7}}10{\"name\":\"g\"}10{\"name\":\"h\",\"arg";
    struct output o, copy;
    struct output_step step = {0};
    assert_int_equal(output_init(&o, f->tokenizer, &q), 0);
    o.call_seed = 7;
    for (const char *c = script; *c; c++) {
        output_step_clear(&step);
        assert_int_equal(output_push(&o, *c >= '0' && *c <= '4' ? 256 + *c - '0' : (unsigned char)*c, &step), 0);
    }
    assert_int_equal(output_clone(&copy, &o), 0);
    output_fini(&o);
    assert_string_equal(copy.thinking.data, "hm");
    assert_int_equal(copy.calls.n, 3);
    assert_int_equal(call_list_whole(&copy.calls), 2);
    assert_string_equal(copy.calls.calls[0].name.data, "f");
    assert_string_equal(copy.calls.calls[0].arguments.data, "{\"k\":7}");
    assert_string_equal(copy.calls.calls[1].name.data, "g");
    char id[CALL_ID_BYTES + 1], other[CALL_ID_BYTES + 1];
    call_id_make(id, 7, 1);
    call_id_make(other, 8, 1);
    assert_string_equal(copy.calls.calls[1].id.data, id);
    assert_string_not_equal(id, other);
    assert_string_not_equal(copy.calls.calls[0].id.data, id);
    output_fini(&copy);
    output_step_fini(&step);
}

/* The marks as text, and control tokens that are no marks. */
static void test_other_tokens(void **state)
{
    expect(*state, "", "<call>{\"name\":\"f\"}</call>", "0+f|0{}|0.|", "");
    expect(*state, "", "a4b", "answer:a|answer:b|", "ab");
    expect(*state, "", "2a4b3", "thinking:a|thinking:b|", "");
}

static void test_malformed(void **state)
{
    expect(*state, "", "0x", "answer:<call>x|!|", "<call>x");
    expect(*state, "", "0{\"name\":\"f\",;", "0+f|0-|answer:<call>{\"name\":\"f\",;|!|", "<call>{\"name\":\"f\",;");
}

/* Stop strings are searched in text only, and not across calls. */
static void test_stop_strings(void **state)
{
    expect(*state, "name", "0{\"name\":\"f\"}1aname", "0+f|0{}|0.|answer:a|", "a");
    expect(*state, "ab", "a0{\"name\":\"f\"}1b", "answer:a|0+f|0{}|0.|answer:b|", "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),    cmocka_unit_test(test_kept),         cmocka_unit_test(test_other_tokens),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_stop_strings),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
