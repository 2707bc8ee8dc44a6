/* SPDX-License-Identifier: MIT */
/* Calls that are JSON objects, and the types of their arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/output/envelope.h"
#include "daemon/output/mark.h"
#include "daemon/output/tool-types.h"
#include <cmocka.h>
#include <string.h>

/* "NAME ID ARGS", "!" behind it if the object is bad, "…" if it needs more. Clones continue. */
static const char *read(const struct markup_calls *keys, const char *text)
{
    static struct buf out;
    struct envelope e = {.calls = NULL}, clone;
    struct buf args = BUF_INIT;
    int r = LITERAL_MORE;
    envelope_start(&e, keys);
    for (; *text && r == LITERAL_MORE; text++) {
        assert_int_equal(envelope_clone(&clone, &e), 0);
        envelope_fini(&e);
        e = clone;
        r = envelope_feed(&e, *text, &args);
    }
    assert_true(r >= 0);
    buf_clear(&out);
    assert_int_equal(buf_printf(&out, "%s %s %s%s", e.name.data ? e.name.data : "", e.id.data ? e.id.data : "",
                                args.data ? args.data : "",
                                r == LITERAL_DONE   ? ""
                                : r == LITERAL_MORE ? "…"
                                                    : "!"),
                     0);
    envelope_fini(&e);
    buf_fini(&args);
    return out.data;
}

static const struct markup_calls usual = {.name_key = "tool", .args_key = "with", .id_key = "no", .wrapper_key = ""};
static const struct markup_calls wrapped = {
    .name_key = "name", .args_key = "arguments", .id_key = "", .wrapper_key = "function"};
static const struct markup_calls keyed = {.name_key = "", .args_key = "", .id_key = "", .wrapper_key = ""};

static void test_keys_in_any_order(void **state)
{
    assert_string_equal(read(&usual, "{\"tool\": \"f\", \"with\": {\"a\": [1]}, \"no\": \"7\"}"), "f 7 {\"a\":[1]}");
    assert_string_equal(read(&usual, "{\"no\":7,\"with\":{},\"tool\":\"f\\u0067\"}"), "fg 7 {}");
    assert_string_equal(read(&usual, "{\"x\": {\"tool\": \"g\"}, \"tool\": \"f\", \"y\": null}"), "f  ");
    assert_string_equal(
        read(&wrapped, "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}},\"id\":\"i\"}"),
        "f i {}");
    assert_string_equal(read(&keyed, "{\"f\": {\"name\": \"g\"}}"), "f  {\"name\":\"g\"}");
}

/* Keys in wide use are understood too, and arguments that are JSON text. */
static void test_other_spellings(void **state)
{
    assert_string_equal(read(&usual, "{\"name\":\"f\",\"parameters\":{\"a\":1},\"id\":null}"), "f  {\"a\":1}");
    assert_string_equal(read(&usual, "{\"tool\":\"f\",\"with\":\"{\\\"a\\\": 1}\"}"), "f  {\"a\":1}");
    assert_string_equal(read(&usual, "{\"tool\":\"f\",\"with\":\" {}\\n \"}"), "f  {}");
    assert_string_equal(read(&usual, "{\"tool\":\"f\",\"with\":null}"), "f  {}");
}

static void test_bad_objects(void **state)
{
    static const char *const bad[] = {"[",
                                      "{\"a\":1}",
                                      "{}",
                                      "{\"tool\":1,",
                                      "{\"tool\":\"\",",
                                      "{\"tool\":\"f\",\"with\":[1]",
                                      "{tool",
                                      "{\"tool\" \"f\"",
                                      "{\"tool\":\"f\",\"tool\":\"g\",",
                                      "{\"with\":1,",
                                      "{\"with\":\"x\"}",
                                      "{\"with\":\"{} x\"}",
                                      "{\"with\":\"{}{}\"}",
                                      "{\"with\":\"{\\\"a\\\":1\"}",
                                      "{\"with\":{},\"with\":{"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (!strchr(read(&usual, bad[i]), '!')) fail_msg("%s gives %s", bad[i], read(&usual, bad[i]));
    assert_non_null(strchr(read(&keyed, "{\"f\":{},\"g\":{"), '!'));
    assert_non_null(strstr(read(&usual, "{\"tool\":\"f\",\"with\":{"), "…"));
}

static void test_types(void **state)
{
    json_auto_t *tools =
        json_loads("[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},"
                   "\"n\":{\"type\":[\"integer\",\"null\"]},\"e\":{\"enum\":[1,\"x\"]},\"c\":{\"const\":true},"
                   "\"a\":{\"anyOf\":[{\"type\":\"array\"},{\"type\":\"object\"}]},\"r\":{\"$ref\":\"#/x\"}}}}},"
                   "{\"name\":\"g\",\"input_schema\":{\"properties\":{\"s\":{\"type\":\"boolean\"}}}}]",
                   0, NULL);
    assert_non_null(tools);
    assert_int_equal(tool_types(tools, "f", "s"), TYPE_STRING);
    assert_int_equal(tool_types(tools, "f", "n"), TYPE_NUMBER | TYPE_NULL);
    assert_int_equal(tool_types(tools, "f", "e"), TYPE_NUMBER | TYPE_STRING);
    assert_int_equal(tool_types(tools, "f", "c"), TYPE_BOOLEAN);
    assert_int_equal(tool_types(tools, "f", "a"), TYPE_ARRAY | TYPE_OBJECT);
    assert_int_equal(tool_types(tools, "f", "r"), TYPE_ANY);
    assert_int_equal(tool_types(tools, "f", "other"), TYPE_ANY);
    assert_int_equal(tool_types(tools, "g", "s"), TYPE_BOOLEAN);
    assert_int_equal(tool_types(NULL, "g", "s"), TYPE_ANY);
    assert_true(tool_exists(tools, "g"));
    assert_false(tool_exists(tools, "h"));
}

static void test_marks(void **state)
{
    size_t end;
    assert_int_equal(mark_at("\n<a>\n<b>\n", "<a><b>x", 7, &end), MARK_YES);
    assert_int_equal(end, 6);
    assert_int_equal(mark_at("<a>\n<b>", "<a> \n <b>", 9, &end), MARK_YES);
    assert_int_equal(end, 9);
    assert_int_equal(mark_at("<a>\n<b>", "<a> ", 4, &end), MARK_PART);
    assert_int_equal(mark_at("<a>", "", 0, &end), MARK_PART);
    assert_int_equal(mark_at("<a>", "< a>", 4, &end), MARK_NO);
    assert_int_equal(mark_at(" \n", " ", 1, &end), MARK_NO);
    assert_true(mark_is_blank(" \n") && mark_is_blank("") && !mark_is_blank(" x"));
    assert_int_equal(mark_white_begin("\n <a> "), 2);
    assert_int_equal(mark_white_end("\n <a> "), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_in_any_order),
        cmocka_unit_test(test_other_spellings),
        cmocka_unit_test(test_bad_objects),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
