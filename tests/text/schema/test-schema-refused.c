/* SPDX-License-Identifier: MIT */
/* Malformed and hostile schemas: refused by name, within the limits. Also tests schema-words.c and schema.c. */
#include "daemon/text/grammar/builder.h"
#include "daemon/text/grammar/grammar-inside.h"
#include "daemon/text/schema/json-tree.h"
#include "libcommon/buf.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include "tests/text/schema/schema-check.h"
#include <string.h>

static void malformed_keywords(void **state)
{
    (void)state;
    static const char *const bad[] = {"[]",
                                      "1",
                                      "{'type':'any'}",
                                      "{'type':1}",
                                      "{'type':['x']}",
                                      "{'minimum':'1'}",
                                      "{'multipleOf':0}",
                                      "{'multipleOf':-1}",
                                      "{'minLength':-1}",
                                      "{'maxItems':1.5}",
                                      "{'required':true}",
                                      "{'required':[1]}",
                                      "{'properties':[]}",
                                      "{'enum':1}",
                                      "{'allOf':{}}",
                                      "{'anyOf':1}",
                                      "{'pattern':1}",
                                      "{'items':3}",
                                      "{'properties':{'a':1}}",
                                      "{'dependentRequired':{'a':[1]}}",
                                      "{'not':'x'}",
                                      "{'format':1}",
                                      "{'a':1,'a':2}",
                                      "{",
                                      "{'minLength':'x'}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) schema_check_refused(bad[i], -EBADMSG, "");
    schema_check_refused("{'properties':{'a':{'items':{'minimum':'1'}}}}", -EBADMSG, "#/properties/a/items/minimum");
}

static int compile(const struct buf *schema, bool lenient, struct buf *ignored)
{
    struct grammar_builder *b;
    expr_t e;
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = schema_expr(b, schema->data, schema->len, &(struct schema_options){.lenient = lenient}, ignored, &e);
    grammar_builder_free(b);
    return r;
}

static void repeat(struct buf *s, const char *text, int n)
{
    for (int i = 0; i < n; i++) assert_int_equal(buf_puts(s, text), 0);
}

static void long_chains_of_references(void **state)
{
    (void)state;
    struct buf s = BUF_INIT;
    assert_int_equal(buf_puts(&s, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{"), 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf_printf(&s, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1), 0);
    assert_int_equal(buf_puts(&s, "\"d10000\":true}}"), 0);
    assert_int_equal(compile(&s, false, NULL), -E2BIG);
    buf_clear(&s);
    repeat(&s, "{\"items\":", TREE_DEPTH_MAX - 1);
    assert_int_equal(buf_puts(&s, "{}"), 0);
    repeat(&s, "}", TREE_DEPTH_MAX - 1);
    assert_int_equal(compile(&s, false, NULL), -E2BIG);
    buf_fini(&s);
}

/* Each reference looks for the URI of its own place among all. */
static void many_references(void **state)
{
    (void)state;
    struct buf s = BUF_INIT;
    assert_int_equal(buf_puts(&s, "{\"$id\":\"http://x/\",\"$defs\":{"), 0);
    for (int i = 0; i < 3000; i++) assert_int_equal(buf_printf(&s, "\"d%d\":{\"$id\":\"i%d\"},", i, i), 0);
    assert_int_equal(buf_puts(&s, "\"d\":true},\"allOf\":["), 0);
    repeat(&s, "{\"$ref\":\"i2999\"},", 1000);
    assert_int_equal(buf_puts(&s, "true]}"), 0);
    assert_int_equal(compile(&s, false, NULL), -E2BIG);
    assert_non_null(strstr(error_text(-E2BIG), "steps"));
    buf_fini(&s);
}

static void combinations_that_grow_exponentially(void **state)
{
    (void)state;
    struct buf s = BUF_INIT;
    for (int all = 0; all < 2; all++) { /* each schema twice the next */
        buf_clear(&s);
        assert_int_equal(buf_puts(&s, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{"), 0);
        for (int i = 0; i < 60; i++)
            assert_int_equal(buf_printf(&s, "\"d%d\":{\"%s\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},",
                                        i, all ? "allOf" : "anyOf", i + 1, i + 1),
                             0);
        assert_int_equal(buf_puts(&s, "\"d60\":{\"type\":\"integer\"}}}"), 0);
        assert_int_equal(compile(&s, false, NULL), -E2BIG);
    }
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "{\"type\":\"object\",\"allOf\":["), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(
            buf_printf(&s, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i ? "," : "", i, i), 0);
    assert_int_equal(buf_puts(&s, "]}"), 0);
    assert_int_equal(compile(&s, false, NULL), -E2BIG);
    buf_fini(&s);
}

static void long_texts(void **state)
{
    (void)state;
    struct buf s = BUF_INIT;
    assert_int_equal(buf_puts(&s, "{\"enum\":["), 0);
    repeat(&s, "0,", TREE_BYTES_MAX / 2);
    assert_int_equal(buf_puts(&s, "0]}"), 0);
    assert_int_equal(compile(&s, false, NULL), -E2BIG);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "{\"enum\":["), 0);
    repeat(&s, "0,", 200000);
    assert_int_equal(buf_puts(&s, "0]}"), 0);
    int r = compile(&s, false, NULL);
    assert_true(r == 0 || r == -E2BIG);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "{\"pattern\":\""), 0);
    repeat(&s, "(a*)*", 4000);
    assert_int_equal(buf_puts(&s, "\"}"), 0);
    assert_int_equal(compile(&s, false, NULL), -ENOTSUP);
    buf_fini(&s);
}

/* All pairs of elements are compared. */
static void many_different_elements(void **state)
{
    (void)state;
    struct buf s = BUF_INIT;
    assert_int_equal(buf_puts(&s, "{\"uniqueItems\":true,\"const\":["), 0);
    for (int i = 0; i < 3000; i++) assert_int_equal(buf_printf(&s, "%d,", i), 0);
    assert_int_equal(buf_puts(&s, "2999]}"), 0);
    assert_int_equal(compile(&s, false, NULL), -E2BIG);
    assert_non_null(strstr(error_text(-E2BIG), "steps"));
    buf_fini(&s);
}

/* Parses and builds. The work and the memory of both stay below their limits, whatever comes of it. */
static int build(const struct buf *schema)
{
    struct grammar_builder *b;
    struct grammar *g = NULL;
    expr_t e;
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = schema_expr(b, schema->data, schema->len, &(struct schema_options){0}, NULL, &e);
    assert_true(b->store.work <= REGEX_BUILD_WORK + 100000 && b->store.bytes <= REGEX_BYTES_MAX);
    if (r == 0) r = grammar_build(&g, b, e);
    grammar_builder_free(b);
    if (g) assert_true(g->rows.bytes + g->rows.dfa.store.bytes <= REGEX_BYTES_MAX + ROWS_BYTES_CALL);
    grammar_unref(g);
    return r;
}

static void patterns_whose_combinations_are_hard(void **state)
{
    (void)state;
    static const char *const parts[] = {"ab1", "[a|b]", "b.*12", "\\\\d\\\\d", "[\\\\w]*x", "(a|b.{3,9})+c"};
    struct buf s = BUF_INIT;
    assert_int_equal(buf_puts(&s, "{\"type\":\"string\",\"minLength\":10,\"maxLength\":20,\"allOf\":["), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(buf_puts(&s, i ? ",{\"anyOf\":[" : "{\"anyOf\":["), 0);
        for (int k = 0; k < 6; k++)
            assert_int_equal(buf_printf(&s, "%s{\"%s\":{\"pattern\":\"%s.{%d,%d}%s\"}}", k ? "," : "", "not",
                                        parts[(i + k) % 6], i, i + k, parts[(i * k) % 6]),
                             0);
        assert_int_equal(buf_puts(&s, "]}"), 0);
    }
    assert_int_equal(buf_puts(&s, "]}"), 0);
    int r = build(&s);
    assert_true(r == 0 || r == -ETIME || r == -E2BIG);
    if (r < 0) assert_non_null(strstr(error_text(r), "more than"));
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "{\"anyOf\":["), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(buf_printf(&s,
                                    "%s{\"type\":\"string\",\"pattern\":\"[\\\\u{%x}-\\\\u{10ffff}].*[^\\\\u{%x}]\"}",
                                    i ? "," : "", 0x10000 + i * 4001, 0x80 + i * 97),
                         0);
    assert_int_equal(buf_puts(&s, "]}"), 0);
    r = build(&s);
    assert_true(r == 0 || r == -ETIME || r == -E2BIG);
    buf_clear(&s);
    assert_int_equal(
        buf_puts(&s, "{\"pattern\":\"^(([a-z])+.)+[A-Z]([a-z])+$\",\"not\":{\"pattern\":\"(a+)+(b|b)*(.*)*c\"}}"), 0);
    assert_int_equal(build(&s), 0);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "{\"$ref\":\"#\"}"), 0);
    assert_true(build(&s) < 0);
    buf_clear(&s);
    assert_int_equal(buf_puts(&s, "{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"],\"type\":\"object\"}"),
                     0);
    assert_int_equal(build(&s), -EDOM); /* only an infinite value */
    buf_fini(&s);
}

static void lenient_schemas_list_what_they_ignore(void **state)
{
    (void)state;
    struct buf s = BUF_INIT, ignored = BUF_INIT;
    assert_int_equal(buf_puts(&s, "{\"items\":{\"format\":\"regex\",\"type\":\"string\"},\"uniqueItems\":true,"
                                  "\"minItems\":1,\"type\":\"array\"}"),
                     0);
    assert_int_equal(compile(&s, false, NULL), -ENOTSUP);
    assert_int_equal(compile(&s, true, &ignored), 0);
    assert_non_null(strstr(ignored.data, "#/uniqueItems: uniqueItems: only for elements"));
    assert_non_null(strstr(ignored.data, "#/items/format: format: the format \"regex\"\n"));
    buf_fini(&s);
    buf_fini(&ignored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_keywords),
        cmocka_unit_test(long_chains_of_references),
        cmocka_unit_test(many_references),
        cmocka_unit_test(combinations_that_grow_exponentially),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(many_different_elements),
        cmocka_unit_test(patterns_whose_combinations_are_hard),
        cmocka_unit_test(lenient_schemas_list_what_they_ignore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
