/* SPDX-License-Identifier: MIT */
/* Random texts of the grammar of calls, for each form of markup and for real templates: the parser of the markup reads
 * valid calls, and a free answer may have the same text (sequence/constrain-calls.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/request/tool-grammar.h"
#include "daemon/request/tools.h"
#include "daemon/sequence/constrain-calls.h"
#include "daemon/text/grammar/grammar.h"
#include "daemon/text/grammar/token-trie.h"
#include "libcommon/error.h"
#include "tests/output/parsed.h"
#include "tests/text/markup/own-templates.h"
#include "tests/text/markup/shared-templates.h"
#include "tests/text/tiny-tokenizer.h"
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char two_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":7},"
    "\"unit\":{\"enum\":[\"C\",\"F\"]}},\"required\":[\"city\"],\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

static struct tokenizer *new_tokenizer(void)
{
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    tiny_bpe(&m, "gpt-2", NULL, NULL, 0);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

static json_t *tools_of(const char *text)
{
    const struct proto_tools t = {.list = {(char *)text, strlen(text)}};
    json_t *list;
    int r = tools_parse(&list, &t);
    if (r < 0) fail_msg("%s", error_text(r));
    return list;
}

static struct grammar *grammar_of(const struct tool_grammar *t)
{
    struct grammar_builder *b;
    struct grammar *g;
    expr_t root;
    assert_int_equal(grammar_builder_new(&b), 0);
    int r = tool_grammar_expr(b, t, &root);
    if (r < 0) fail_msg("%s", error_text(r));
    assert_int_equal(grammar_build(&g, b, root), 0);
    grammar_builder_free(b);
    return g;
}

/* A text of @g: @most random bytes, then the shortest end. */
static void walk(struct grammar *g, size_t most, uint32_t *seed, struct buf *out)
{
    struct grammar_state *st;
    assert_int_equal(grammar_state_new(&st, g), 0);
    for (size_t i = 0; i < most && !grammar_state_must_end(st); i++) {
        uint8_t may[256];
        size_t n = 0;
        for (int b = 0x20; b < 0x7f; b++)
            if (grammar_state_may_follow(st, (uint8_t)b)) may[n++] = (uint8_t)b;
        if (grammar_state_may_follow(st, '\n')) may[n++] = '\n';
        if (n == 0 || (grammar_state_is_accepted(st) && *seed % 3 == 0)) break;
        *seed = *seed * 1664525 + 1013904223;
        char c = (char)may[(*seed >> 8) % n];
        assert_int_equal(grammar_state_accept_bytes(st, &c, 1), 1);
        assert_int_equal(buf_append(out, &c, 1), 0);
    }
    size_t from = out->len;
    assert_int_equal(grammar_state_shortest(st, out, 4096), 0);
    if (out->len > from) assert_int_equal(grammar_state_accept_bytes(st, out->data + from, out->len - from), 1);
    assert_true(grammar_state_is_accepted(st));
    grammar_state_free(st);
}

static void expect_valid(const json_t *call, const char *text)
{
    const char *name = json_string_value(json_object_get(call, "name"));
    const json_t *args = json_object_get(call, "arguments"), *days = json_object_get(args, "days");
    const json_t *unit = json_object_get(args, "unit");
    bool now = name && strcmp(name, "now") == 0, look = name && strcmp(name, "look") == 0;
    size_t known = !!days + !!unit + !!json_object_get(args, "city");
    bool valid = now ? json_object_size(args) == 0 : look && json_is_string(json_object_get(args, "city"));
    if (days) valid = valid && json_integer_value(days) >= 1 && json_integer_value(days) <= 7;
    if (unit) valid = valid && (strcmp(json_string_value(unit), "C") == 0 || strcmp(json_string_value(unit), "F") == 0);
    if (!valid || !json_is_object(args) || json_object_size(args) != known) fail_msg("not valid: %s", text);
}

/* Each byte of @text is a token. */
static void expect_free(const struct markup_format *format, struct grammar *rest, const struct token_trie *trie,
                        const struct tokenizer *k, const char *name, const struct buf *text)
{
    const struct constrain_calls_config c = {.grammar = rest, .trie = trie, .tokenizer = k, .format = &format->base};
    struct logits_processor *p;
    assert_int_equal(constrain_calls_new(&p, &c), 0);
    for (size_t i = 0; i < text->len; i++)
        if (p->ops->accept(p, (uint8_t)text->data[i]) != 0) fail_msg("%s: at byte %zu of %s", name, i, text->data);
    p->ops->free(p);
}

static void check_texts(const struct family *f, const struct tool_grammar *t, const char *name)
{
    struct grammar *g = grammar_of(t);
    struct tool_grammar free = *t;
    free.part = TOOL_CALLS_REST;
    struct grammar *rest = grammar_of(&free);
    struct token_trie *trie;
    assert_int_equal(token_trie_new(&trie, t->tokenizer), 0);
    struct markup_format format = format_of(f, t->tools, t->start);
    uint32_t seed = 5;
    for (unsigned i = 0; i < 60; i++) {
        struct buf text = BUF_INIT;
        walk(g, i * 5, &seed, &text);
        json_auto_t *p = parsed(&format, text.data, text.len, (struct pieces){3, i, true});
        const json_t *calls = json_object_get(p, "tool_calls"), *call;
        size_t k;
        if (json_integer_value(json_object_get(p, "withdrawn")) || json_integer_value(json_object_get(p, "warnings")) ||
            json_array_size(calls) == 0 || json_string_length(json_object_get(p, "content")))
            fail_msg("%s: %s", name, text.data);
        if (t->only) assert_int_equal(json_array_size(calls), 1);
        expect_free(&format, rest, trie, t->tokenizer, name, &text);
        json_array_foreach(calls, k, call)
        {
            expect_valid(call, text.data);
            if (t->only) assert_string_equal(json_string_value(json_object_get(call, "name")), t->only);
        }
        buf_fini(&text);
    }
    token_trie_free(trie);
    grammar_unref(rest);
    grammar_unref(g);
}

/* Returns true if the template has calls that are no Harmony's. */
static bool check_template(const char *name, const char *source, size_t len, const struct tokenizer *k,
                           const json_t *tools)
{
    struct family f;
    family_init(&f, source, len);
    struct tool_grammar t = {.markup = f.markup, .tokenizer = k, .tools = tools, .part = TOOL_CALLS_ANSWER};
    t.start = *f.markup->calls.text_name ? MARKUP_AT_NAME : MARKUP_AT_TEXT;
    bool calls = f.markup->calls.form != MARKUP_NO_CALLS && f.markup->calls.form != MARKUP_HARMONY;
    if (calls) check_texts(&f, &t, name);
    t.only = "look";
    if (calls) check_texts(&f, &t, name);
    family_fini(&f);
    return calls;
}

static void each_form_is_read_back(void **state)
{
    struct tokenizer *k = new_tokenizer();
    json_t *tools = tools_of(two_tools);
    for (int i = 0; i < N_OWN_TEMPLATES; i++) {
        const struct own_template *own = &own_templates[i];
        bool calls = check_template(own->name, own->source, strlen(own->source), k, tools);
        assert_int_equal(calls, strcmp(own->name, "plain") != 0 && strcmp(own->name, "harmony") != 0);
    }
    json_decref(tools);
    tokenizer_free(k);
}

struct shared {
    struct tokenizer *tokenizer;
    json_t *tools;
    int with_calls;
};

static void check_shared(void *ctx, const char *name, const struct buf *source)
{
    struct shared *x = ctx;
    x->with_calls += check_template(name, source->data, source->len, x->tokenizer, x->tools);
}

static void real_templates(void **state)
{
    struct shared x = {.tokenizer = new_tokenizer(), .tools = tools_of(two_tools)};
    each_shared_template(check_shared, &x);
    json_decref(x.tools);
    tokenizer_free(x.tokenizer);
    print_message("%d templates with calls\n", x.with_calls);
    assert_true(x.with_calls >= 46);
}

/* A free answer may begin a call without marks as programs write JSON. */
static void bare_calls_have_any_white_space(void **state)
{
    static const char *const texts[] = {
        "{\n    \"name\": \"look\",\n    \"arguments\": {\"city\": \"x\"}\n}",
        "{\t\"name\":   \"look\"\r\n, \"arguments\":{\"city\":\"x\"}}",
    };
    struct tokenizer *k = new_tokenizer();
    struct token_trie *trie;
    struct family f;
    json_t *tools = tools_of(two_tools);
    family_init(&f, own_template("bare"), strlen(own_template("bare")));
    const struct tool_grammar t = {.markup = f.markup, .tokenizer = k, .tools = tools, .part = TOOL_CALLS_REST};
    struct grammar *g = grammar_of(&t);
    struct markup_format format = format_of(&f, tools, MARKUP_AT_TEXT);
    assert_int_equal(token_trie_new(&trie, k), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        const struct buf text = {.data = (char *)texts[i], .len = strlen(texts[i])};
        expect_free(&format, g, trie, k, "bare", &text);
    }
    grammar_unref(g);
    token_trie_free(trie);
    family_fini(&f);
    json_decref(tools);
    tokenizer_free(k);
}

/* A schema that cannot be enforced: the message has tool and place. */
static void schemas_are_refused_by_name(void **state)
{
    static const struct {
        const char *template, *parameters, *says;
    } bad[] = {
        {"envelope", "{\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}",
         "#/properties/a/uniqueItems"},
        {"envelope", "{\"type\":\"array\"}", "#/type: arguments must be an object"},
        {"envelope", "false", "#: no value satisfies the schema"},
        {"tagged", "{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(x)\\\\1\"}}}", "#/properties/a"},
        {"tagged", "{\"properties\":{\"a\":{\"type\":\"string\",\"format\":\"idn-email\"}}}",
         "the format \"idn-email\""},
        {"tagged", "{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"</parameter>\",\"maxLength\":12}}}",
         "#/properties/a: no value satisfies the schema"},
        {"tagged", "{\"anyOf\":[]}", "#/anyOf: cannot be enforced"},
        {"call", "{\"required\":[\"b\"]}", "#/required/0: names no property"},
    };
    struct tokenizer *k = new_tokenizer();
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct family f;
        struct buf text = BUF_INIT;
        struct grammar_builder *b;
        expr_t root;
        assert_int_equal(buf_printf(&text, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":%s}}]",
                                    bad[i].parameters),
                         0);
        json_t *tools = tools_of(text.data);
        family_init(&f, own_template(bad[i].template), strlen(own_template(bad[i].template)));
        const struct tool_grammar t = {.markup = f.markup, .tokenizer = k, .tools = tools};
        assert_int_equal(grammar_builder_new(&b), 0);
        assert_int_equal(tool_grammar_expr(b, &t, &root), -EDOM);
        if (strncmp(error_text(-EDOM), "tools[0].function.parameters (f): ", 34) != 0 ||
            !strstr(error_text(-EDOM), bad[i].says))
            fail_msg("%s", error_text(-EDOM));
        grammar_builder_free(b);
        family_fini(&f);
        json_decref(tools);
        buf_fini(&text);
    }
    tokenizer_free(k);
}

/* Text between tags is checked like a string in JSON, and is written without escapes. */
static void strings_between_tags(void **state)
{
    static const struct {
        const char *schema, *good[3], *bad[4];
    } cases[] = {
        {"\"minLength\":2,\"maxLength\":3", {"ab", "a\"\\", "äö€"}, {"a", "abcd", "", "äöüß"}},
        {"\"pattern\":\"^[a-z]+ \\\\d$\"", {"ab 1", "z 9", NULL}, {"ab", "1 a", "ab 12", ""}},
        {"\"pattern\":\"[<\\n]\"", {"<", "x\ny", "a</p>"}, {"x", "", "</parameter>", NULL}},
        {"\"format\":\"date\"", {"2024-02-29", NULL}, {"2023-02-29", "2024-2-1", "x2024-02-28", NULL}},
        {"\"enum\":[\"a\\\"b\",\"c\\n\",3]", {"a\"b", "c\n", NULL}, {"a\\\"b", "3", "c", NULL}},
        {"\"not\":{\"const\":\"x\"},\"maxLength\":2", {"xx", "", "y"}, {"x", "xyz", NULL}},
        {"\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]", {"ab", "ba", NULL}, {"a", "b", NULL}},
    };
    struct tokenizer *k = new_tokenizer();
    struct family f;
    family_init(&f, own_template("tagged"), strlen(own_template("tagged")));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buf list = BUF_INIT;
        assert_int_equal(buf_printf(&list,
                                    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                                    "\"properties\":{\"a\":{\"type\":\"string\",%s}},\"required\":[\"a\"]}}}]",
                                    cases[i].schema),
                         0);
        json_t *tools = tools_of(list.data);
        const struct tool_grammar t = {.markup = f.markup, .tokenizer = k, .tools = tools, .only = "f"};
        struct markup_format format = format_of(&f, tools, MARKUP_AT_TEXT);
        struct grammar *g = grammar_of(&t);
        for (size_t n = 0; n < 7; n++) {
            const char *value = n < 3 ? cases[i].good[n] : cases[i].bad[n - 3];
            struct grammar_state *st;
            char text[256];
            if (!value) continue;
            snprintf(text, sizeof(text), "<call>\n<function=f>\n<parameter=a>\n%s\n</parameter>\n</function>\n</call>",
                     value);
            assert_int_equal(grammar_state_new(&st, g), 0);
            bool whole = grammar_state_accept_bytes(st, text, strlen(text)) == 1 && grammar_state_is_accepted(st);
            if (whole != (n < 3)) fail_msg("%s: '%s' is%s accepted", cases[i].schema, value, whole ? "" : " not");
            grammar_state_free(st);
            if (!whole) continue;
            json_auto_t *p = parsed(&format, text, strlen(text), (struct pieces){3, 7, true});
            const json_t *call = json_array_get(json_object_get(p, "tool_calls"), 0);
            assert_string_equal(json_string_value(json_object_get(json_object_get(call, "arguments"), "a")), value);
        }
        grammar_unref(g);
        json_decref(tools);
        buf_fini(&list);
    }
    family_fini(&f);
    tokenizer_free(k);
}

/* References of a property are those of the whole schema. */
static void references(void **state)
{
    static const char list[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"parameters\":{\"type\":\"object\",\"properties\":"
        "{\"city\":{\"type\":\"string\"},\"days\":{\"$ref\":\"#/$defs/d\"}},\"required\":[\"city\"],"
        "\"$defs\":{\"d\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":7}}}}}]";
    static const char *const names[] = {"envelope", "call"};
    struct tokenizer *k = new_tokenizer();
    json_t *tools = tools_of(list);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct family f;
        family_init(&f, own_template(names[i]), strlen(own_template(names[i])));
        const struct tool_grammar t = {.markup = f.markup, .tokenizer = k, .tools = tools, .only = "look"};
        struct grammar *g = grammar_of(&t);
        struct grammar_state *st;
        const char *good = i ? "<calls>[look(city=\"x\", days=7)]</calls>"
                             : "<call>\n{\"name\": \"look\", \"arguments\": {\"city\": \"x\", \"days\": 7}}\n</call>";
        char text[128];
        for (int bad = 0; bad < 2; bad++) {
            snprintf(text, sizeof(text), "%s", good);
            if (bad) *strchr(text, '7') = '8';
            assert_int_equal(grammar_state_new(&st, g), 0);
            assert_int_equal(grammar_state_accept_bytes(st, text, strlen(text)), !bad);
            grammar_state_free(st);
        }
        grammar_unref(g);
        family_fini(&f);
    }
    json_decref(tools);
    tokenizer_free(k);
}

/* Of Harmony, whose marks are tokens: does the grammar allow @text, as the tokenizer reads it? */
static bool accepts(struct grammar *g, const struct tokenizer *k, const struct token_trie *trie, const char *text)
{
    struct grammar_state *st;
    struct text t = {0};
    struct tokens ids = {0};
    assert_int_equal(text_append(&t, text, strlen(text), true), 0);
    assert_int_equal(tokenizer_encode(k, &t, 0, true, &ids), 0);
    assert_int_equal(grammar_state_new(&st, g), 0);
    int r = 1;
    for (size_t i = 0; r == 1 && i < ids.n; i++) r = grammar_state_accept_token(st, trie, ids.ids[i]);
    assert_true(r >= 0);
    bool whole = r == 1 && grammar_state_is_accepted(st);
    grammar_state_free(st);
    tokens_fini(&ids);
    text_fini(&t);
    return whole;
}

static void harmony_thinks_first(void **state)
{
    static const struct tiny_token extra[] = {
        {"<|channel|>", TINY_CONTROL, 0},   {"<|message|>", TINY_CONTROL, 0}, {"<|end|>", TINY_CONTROL, 0},
        {"<|start|>", TINY_CONTROL, 0},     {"<|return|>", TINY_CONTROL, 0},  {"<|call|>", TINY_CONTROL, 0},
        {"<|constrain|>", TINY_CONTROL, 0},
    };
    static const char think[] = "<|channel|>analysis<|message|>Well, {}<|end|><|start|>assistant";
    static const char look[] = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"city\": \"x\"}";
    struct tiny_tokenizer m = {0};
    struct tokenizer *k;
    struct token_trie *trie;
    struct family f;
    char text[512];
    tiny_bpe(&m, "gpt-2", NULL, extra, sizeof(extra) / sizeof(*extra));
    assert_int_equal(tiny_tokenizer_new(&m, &k), 0);
    assert_int_equal(token_trie_new(&trie, k), 0);
    json_t *tools = tools_of(two_tools);
    family_init(&f, own_template("harmony"), strlen(own_template("harmony")));
    struct tool_grammar t = {.markup = f.markup, .tokenizer = k, .tools = tools, .part = TOOL_CALLS_ANSWER};
    struct grammar *g = grammar_of(&t);
    assert_true(accepts(g, k, trie, look));
    snprintf(text, sizeof(text), "%s%s", think, look);
    assert_true(accepts(g, k, trie, text));
    assert_false(accepts(g, k, trie, think));
    snprintf(text, sizeof(text), "%s%s", look, look);
    assert_false(accepts(g, k, trie, text));
    assert_false(accepts(g, k, trie, "<|channel|>final<|message|>x"));
    grammar_unref(g);
    t.part = TOOL_CALLS_REST; /* as the parser gives it */
    g = grammar_of(&t);
    assert_true(accepts(g, k, trie, "look\n{\"city\": \"x\"}"));
    assert_true(accepts(g, k, trie, "now\n{}"));
    assert_false(accepts(g, k, trie, "look\n{}"));
    grammar_unref(g);
    family_fini(&f);
    json_decref(tools);
    token_trie_free(trie);
    tokenizer_free(k);
}

static void lists_of_tools(void **state)
{
    static const char *const bad[][2] = {
        {"{", "tools: not JSON: line 1"},
        {"{}", "tools: must be an array"},
        {"[]", "tools: must be an array of one or more tools"},
        {"[1]", "tools[0]: must be an object"},
        {"[{\"type\":\"function\"}]", "tools[0].function: must be an object"},
        {"[{\"type\":\"web\",\"function\":{}}]", "tools[0].type: must be 'function'"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", "tools[0].function.name: must be"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":1}}]", "tools[0].function.parameters: "},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"args\":1}}]", "tools[0].function: unknown key 'args'"},
        {"[{\"type\":\"function\",\"name\":\"a\"}]", "tools[0]: unknown key 'name'"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\",\"function\":{\"name\":\"a\"}}"
         "]",
         "tools[1].function.name: 'a' is the name of two tools"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const struct proto_tools t = {.list = {(char *)bad[i][0], strlen(bad[i][0])}};
        json_t *list;
        assert_int_equal(tools_parse(&list, &t), -EINVAL);
        if (strncmp(error_text(-EINVAL), bad[i][1], strlen(bad[i][1])) != 0) fail_msg("%s", error_text(-EINVAL));
    }
    const struct proto_tools named = {.list = {(char *)two_tools, strlen(two_tools)}, .name = {(char *)"no", 2}};
    json_t *list;
    assert_int_equal(tools_parse(&list, &named), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "tool_name: there is no tool 'no'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_is_read_back),
        cmocka_unit_test(real_templates),
        cmocka_unit_test(schemas_are_refused_by_name),
        cmocka_unit_test(strings_between_tags),
        cmocka_unit_test(references),
        cmocka_unit_test(harmony_thinks_first),
        cmocka_unit_test(lists_of_tools),
        cmocka_unit_test(bare_calls_have_any_white_space),
    };

    return cmocka_run_group_tests_name("tool-grammar", tests, NULL, NULL);
}
