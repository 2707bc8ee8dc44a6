/* SPDX-License-Identifier: MIT */
/* Answers that are not as the template writes them: broken, cut, mixed with text. test-round-trip.c has the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/output/harmony.h"
#include "libcommon/buf.h"
#include "tests/output/parsed.h"
#include "tests/text/markup/own-templates.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"b\":{\"type\":[\"string\",\"integer\"]}}}}}]";

/* What own template @name makes of @answer in pieces of one byte. Pieces of all kinds give the same, but that a call
 * which is malformed in the piece of its name never begins. */
static json_t *parse_with(const char *name, const char *tools, enum markup_start start, const char *answer)
{
    struct family f;
    const char *source = own_template(name) ? own_template(name) : name;
    json_auto_t *list = tools ? json_loads(tools, 0, NULL) : NULL;
    family_init(&f, source, strlen(source));
    struct markup_format format = format_of(&f, list, start);
    json_t *first = parsed(&format, answer, strlen(answer), (struct pieces){.most = 1});
    json_auto_t *common = json_copy(first);
    json_object_del(common, "withdrawn");
    for (uint32_t seed = 0; seed < 10; seed++) {
        json_auto_t *other =
            parsed(&format, answer, strlen(answer), (struct pieces){.most = seed, .seed = seed, .clones = seed % 2});
        json_object_del(other, "withdrawn");
        if (!json_equal(common, other)) fail_msg("%s in pieces: %s", json_dumps(common, 0), json_dumps(other, 0));
    }
    family_fini(&f);
    return first;
}

/* @calls: names of complete calls, separated by spaces. */
static void expect(const char *name, const char *answer, const char *content, const char *thinking, const char *calls)
{
    json_auto_t *got = parse_with(name, tools_text, MARKUP_AT_TEXT, answer);
    const json_t *call;
    struct buf names = BUF_INIT;
    size_t i;
    assert_string_equal(json_string_value(json_object_get(got, "content")), content);
    assert_string_equal(json_string_value(json_object_get(got, "thinking")), thinking);
    json_array_foreach(json_object_get(got, "tool_calls"), i, call)
    {
        const char *own = json_string_value(json_object_get(call, "name"));
        assert_int_equal(buf_printf(&names, i ? " %s" : "%s", own), 0);
    }
    assert_string_equal(names.data ? names.data : "", calls);
    buf_fini(&names);
}

/* The white space before a mark that is no text goes with it, in whatever pieces the answer comes. */
static void test_white_space_before_a_mark(void **state)
{
    json_auto_t *got = parse_with("plain", NULL, MARKUP_AT_TEXT, "x\n<a>y \n z\n");
    assert_string_equal(json_string_value(json_object_get(got, "content")), "xy \n z\n");
}

static void test_text_stays_as_it_is(void **state)
{
    expect("plain", "  a\n\n<b> {\"c\"} [d]  \n", "  a\n\n<b> {\"c\"} [d]  \n", "", "");
    expect("envelope", "  a\n\n<b> {\"c\"} <cal </call> <  \n", "  a\n\n<b> {\"c\"} <cal </call> <  \n", "", "");
    expect("bare", "{\"a\": 1}", "{\"a\": 1}", "", "");
    expect("bare", " [1] {\"name\": \"f\"}", " [1] {\"name\": \"f\"}", "", "");
    expect("tagged", "a </think> <parameter=x>", "a </think> <parameter=x>", "", "");
}

static void test_no_tools_no_calls(void **state)
{
    json_auto_t *got = parse_with("envelope", NULL, MARKUP_AT_TEXT, "<call>{\"name\":\"f\"}</call>\n");
    expect_member(got, "content", "\"<call>{\\\"name\\\":\\\"f\\\"}</call>\\n\"");
    expect_member(got, "tool_calls", "[]");
    expect_member(got, "warnings", "0");
}

static void test_thinking(void **state)
{
    expect("envelope", "\n<think>\na\n\nb \n</think>\n\nc", "c", "a\n\nb", "");
    expect("envelope", "</think>c", "c", "", "");
    expect("envelope", "a <think>b</think>", "a <think>b</think>", "", "");
    expect("envelope", "<think>a <call>{\"name\":\"f\"}</call>b", "b", "a", "f");
    expect("envelope", "<think>a</thin", "", "a</thin", "");
    json_auto_t *got = parse_with("envelope", tools_text, MARKUP_AT_THINKING, "<think>a</think>\n<think>b</think>c");
    expect_member(got, "thinking", "\"ab\"");
    expect_member(got, "content", "\"c\"");
}

static void test_calls_in_text(void **state)
{
    expect("envelope", "a\n<call>{\"name\":\"f\"}</call>\n\n<call>\n{\"name\":\"g\"}\n</call>\nb\n", "ab\n", "", "f g");
    expect("section", "a[CALLS][{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\"}]b", "ab", "", "f g");
    expect("fenced", "<call>tool<sep>f\n```json\n{}\n```</call>", "", "", "f"); /* without the section */
    expect("numbered", "<|begin|><|call|>tool.f<|args|>{}", "", "", "f");       /* without a number */
    expect("tagged", "a\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\nb", "ab", "", "f"); /* no <call> */
    expect("tagged", "<call><function=f>\n</function>", "", "", "f");
    expect("bare", "{\"name\": \"f\", \"parameters\": {}}", "", "", "f");
    expect("bare", "{\"name\": \"unknown\", \"parameters\": {}}", "{\"name\": \"unknown\", \"parameters\": {}}", "",
           "");
    expect("recipients", ">>>all\nhi\n>>>f\n{}", "hi", "", "f");
    expect("recipients", ">>> def f():", ">>> def f():", "", "");
}

/* A call that ends before its name is text; later its pieces are kept apart. */
static void test_cut_calls(void **state)
{
    expect("envelope", "a\n<call>{\"na", "a\n<call>{\"na", "", "");
    expect("section", "[CALLS][", "[CALLS][", "", "");
    json_auto_t *got =
        parse_with("envelope", tools_text, MARKUP_AT_TEXT, "a<call>{\"name\":\"f\",\"arguments\":{\"s\":\"x");
    expect_member(got, "content", "\"a\"");
    expect_member(got, "partial", "{\"name\":\"f\",\"arguments\":\"{\\\"s\\\":\\\"x\"}");
    json_auto_t *tagged = parse_with("tagged", tools_text, MARKUP_AT_TEXT,
                                     "<call><function=f><parameter=s>\nx\n</parameter>\n<parameter=n>\n12");
    expect_member(tagged, "partial", "{\"name\":\"f\",\"arguments\":\"{\\\"s\\\":\\\"x\\\",\\\"n\\\":\"}");
}

static void expect_withdrawn(const char *name, const char *answer, const char *content, const char *withdrawn)
{
    json_auto_t *got = parse_with(name, tools_text, MARKUP_AT_TEXT, answer);
    assert_string_equal(json_string_value(json_object_get(got, "content")), content);
    expect_member(got, "withdrawn", withdrawn);
    expect_member(got, "warnings", "1");
    expect_member(got, "partial", "null");
}

static void test_malformed_calls(void **state)
{
    expect_withdrawn("envelope", "a\n<call>{\"name\": 1} b", "a\n<call>{\"name\": 1} b", "0");
    expect_withdrawn("envelope", "<call>no {json}</call>", "<call>no {json}</call>", "0");
    expect_withdrawn("envelope", "<call>{\"name\":\"f\",\"arguments\":{\"a\" 1}}x",
                     "<call>{\"name\":\"f\",\"arguments\":{\"a\" 1}}x", "1");
    expect_withdrawn("section", "[CALLS][{\"name\":\"f\"}, {\"name\":\"g\"; ", "{\"name\":\"g\"; ", "0");
    expect_withdrawn("tagged", "<call><function=f>text</function></call>", "<call><function=f>text</function></call>",
                     "1");
    expect_withdrawn("tagged", "<call><function= two words>", "<call><function= two words>", "0");
    expect_withdrawn("named", "[CALL]f[ARGS]text", "[CALL]f[ARGS]text", "1");
    expect_withdrawn("harmony",
                     "<|channel|>analysis to=functions.f<|message|>{\"a\" 1}<|call|><|start|>assistant"
                     "<|channel|>final<|message|> b",
                     "{\"a\" 1} b", "1");
}

/* A malformed call does not hide the next one. */
static void test_after_a_malformed_call(void **state)
{
    json_auto_t *got = parse_with("envelope", tools_text, MARKUP_AT_TEXT, "<call>{]<call>{\"name\":\"f\"}</call>");
    expect_member(got, "content", "\"<call>{]\"");
    expect_member(got, "tool_calls", "[{\"name\":\"f\",\"arguments\":{}}]");
}

static void test_types_of_tagged_values(void **state)
{
    json_auto_t *got =
        parse_with("tagged", tools_text, MARKUP_AT_TEXT,
                   "<call><function=f><parameter=s>12</parameter><parameter=n>12</parameter>"
                   "<parameter=b>\n\n12\n\n</parameter><parameter=o>{'a': True}</parameter>"
                   "<parameter=p>\"q\"</parameter><parameter=q>x</parameter> y</parameter></function></call>");
    expect_member(
        got, "tool_calls",
        "[{\"name\":\"f\",\"arguments\":{\"s\":\"12\",\"n\":12,\"b\":12,\"o\":{\"a\":true},\"p\":\"\\\"q\\\"\","
        "\"q\":\"x</parameter> y\"}}]");
}

static void test_ids(void **state)
{
    json_auto_t *named = parse_with("named", tools_text, MARKUP_AT_TEXT, "[CALL]f[ID]i7[ARGS]{}[CALL]f[ARGS]{}");
    expect_member(named, "tool_calls",
                  "[{\"name\":\"f\",\"arguments\":{},\"id\":\"i7\"},{\"name\":\"f\",\"arguments\":{}}]");
    json_auto_t *keys = parse_with("section", tools_text, MARKUP_AT_TEXT, "[CALLS][{\"name\":\"f\",\"id\":\"i8\"}]");
    expect_member(keys, "tool_calls", "[{\"name\":\"f\",\"arguments\":{},\"id\":\"i8\"}]");
    json_auto_t *numbers =
        parse_with("numbered", tools_text, MARKUP_AT_TEXT, "<|begin|><|call|>tool.f#0<|args|>{}<|done|>");
    expect_member(numbers, "tool_calls", "[{\"name\":\"f\",\"arguments\":{}}]");
}

/* Forms that a template mentions without writing them. */
static void test_known_forms(void **state)
{
    expect("List of tools: [{{ tools }}]{% for m in messages %}{{ m.content }}{% endfor %}",
           "a<|tool_call_start|>[f(s='x', n=1), f()]<|tool_call_end|>b", "ab", "", "f f");
    expect("<|tool_call|>{% for m in messages %}{{ m.content }}{% endfor %}",
           "<|tool_call|>[{\"name\":\"f\",\"arguments\":{}}]", "", "", "f");
    expect("<use_mcp_tool>{% for m in messages %}{{ m.content }}{% endfor %}",
           "a\n<use_mcp_tool>\n<server_name>s</server_name>\n<tool_name>f</tool_name>\n<arguments>\n{}\n</arguments>\n"
           "</use_mcp_tool>",
           "a", "", "f");
    expect("<tool_call>{% for m in messages %}{{ m.content }}{% endfor %}", "<tool_call>{\"name\":\"f\"}</tool_call>",
           "", "", "f");
}

/* --- control tokens --- */

struct keeper {
    struct channel_sink base;
    struct buf text;
};

static int keep_text(struct channel_sink *base, const char *channel, const char *text, size_t len)
{
    return buf_append(&((struct keeper *)base)->text, text, len);
}

/* The marks may be control tokens; other control tokens are no text. */
static void test_control_tokens(void **state)
{
    struct family f;
    struct keeper k = {.base = {.text = keep_text}};
    struct channel_parser *p;
    const char *source = own_template("envelope");
    family_init(&f, source, strlen(source));
    struct markup_format format = format_of(&f, NULL, MARKUP_AT_TEXT);
    assert_int_equal(format.base.new_parser(&format.base, &p), 0);
    assert_int_equal(p->ops->control(p, "<think>", 7, &k.base), 0);
    assert_string_equal(p->ops->channel(p), "thinking");
    assert_int_equal(p->ops->text(p, "a ", 2, &k.base), 0);
    assert_int_equal(p->ops->control(p, "<|pad|>", 7, &k.base), 0);
    assert_int_equal(p->ops->text(p, "b", 1, &k.base), 0);
    assert_int_equal(p->ops->control(p, "</think>", 8, &k.base), 0);
    assert_string_equal(p->ops->channel(p), "answer");
    assert_int_equal(p->ops->text(p, "c", 1, &k.base), 0);
    assert_int_equal(p->ops->finish(p, &k.base), 0);
    assert_int_equal(p->ops->control(p, "<|end|>", 7, &k.base), 0);
    p->ops->free(p);
    assert_string_equal(k.text.data, "a bc");
    buf_fini(&k.text);
    family_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_stays_as_it_is),
        cmocka_unit_test(test_white_space_before_a_mark),
        cmocka_unit_test(test_no_tools_no_calls),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_calls_in_text),
        cmocka_unit_test(test_cut_calls),
        cmocka_unit_test(test_malformed_calls),
        cmocka_unit_test(test_after_a_malformed_call),
        cmocka_unit_test(test_types_of_tagged_values),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_known_forms),
        cmocka_unit_test(test_control_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
