/* SPDX-License-Identifier: MIT */
/* Turns with thinking, text and tool calls, rendered by a chat template and parsed back: own templates of each form,
 * and the real ones of the shared data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "libcommon/buf.h"
#include "libcommon/utf8.h"
#include "tests/output/parsed.h"
#include "tests/text/markup/own-templates.h"
#include "tests/text/markup/shared-templates.h"
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"d\",\"parameters\":{\"type\":"
    "\"object\","
    "\"additionalProperties\":{\"type\":\"string\"},\"properties\":{"
    "\"city\":{\"type\":\"string\",\"description\":\"d\"},\"note\":{\"type\":\"string\",\"description\":\"d\"},"
    "\"days\":{\"type\":\"integer\",\"description\":\"d\"},\"ratio\":{\"type\":\"number\",\"description\":\"d\"},"
    "\"flag\":{\"type\":\"boolean\",\"description\":\"d\"},\"tags\":{\"type\":\"array\",\"description\":\"d\","
    "\"items\":{\"type\":\"string\"}},"
    "\"more\":{\"type\":\"object\",\"description\":\"d\",\"properties\":{},\"additionalProperties\":{\"type\":"
    "\"string\"}}},"
    "\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"search-docs\",\"description\":\"d\",\"parameters\":{\"type\":"
    "\"object\","
    "\"additionalProperties\":{\"type\":\"string\"},\"properties\":{\"query\":{\"type\":\"string\",\"description\":"
    "\"d\"},"
    "\"limit\":{\"type\":\"integer\",\"description\":\"d\"}},\"required\":[]}}}]";

/* Arguments of the two calls. */
static const char *const args[][2] = {
    {"{\"city\": \"Oslo\", \"days\": 3, \"more\": {\"deep\": [1, \"x\"]}}", "{\"query\": \"two words\"}"},
    {"{\"city\": \"a \\\"b\\\" \\\\ c\\n  line {two}\", \"note\": \"42\", \"ratio\": -0.5, \"flag\": true}",
     "{\"query\": \"it's <b>bold</b>, [x] & y = (z)\", \"limit\": 0}"},
    {"{\"city\": \"\", \"tags\": [\"a, b\", \"\\u00e9\\u20ac\"], \"flag\": false}", "{}"},
    {"{\"city\": \"</value> </parameter> </arg> true\", \"note\": \"null\"}",
     "{\"query\": \" spaces \", \"limit\": -7}"},
};
enum { N_ARGS = sizeof(args) / sizeof(*args) };

struct turn {
    const char *text, *field, *thought; /* NULL: none */
    bool string_args;
    int calls, args;
    const char *var; /* a variable that is true, or NULL */
};

static json_t *assistant(const struct turn *t)
{
    static const char *const names[] = {"get_weather", "search-docs"}, *const ids[] = {"abcdefgh1", "abcdefgh2"};
    json_t *m = json_pack("{s:s, s:s?}", "role", "assistant", "content", t->text), *list = json_array();
    if (t->field && strcmp(t->field, "content") == 0)
        json_object_set_new(m, "content",
                            json_pack("[{s:s, s:s}, {s:s, s:s}]", "type", "thinking", "thinking", t->thought, "type",
                                      "text", "text", t->text));
    else if (t->field && strcmp(t->field, "blocks") == 0)
        json_object_set_new(m, "content",
                            json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "blocks", "type", "thoughts", "text", t->thought,
                                      "type", "response", "text", t->text));
    else if (t->field)
        json_object_set_new(m, t->field, json_string(t->thought));
    for (int i = 0; i < t->calls; i++) {
        json_t *a = t->string_args ? json_string(args[t->args][i]) : json_loads(args[t->args][i], 0, NULL);
        json_array_append_new(list, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", ids[i], "type", "function", "function",
                                              "name", names[i], "arguments", a));
    }
    if (t->calls)
        json_object_set_new(m, "tool_calls", list);
    else
        json_decref(list);
    return m;
}

/* @t NULL: the prompt. False: the template refuses. */
static bool render(const struct family *f, const json_t *tools, const struct turn *t, const char *var, struct text *out)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "What is it?");
    if (t) json_array_append_new(messages, assistant(t));
    json_auto_t *vars =
        json_pack("{s:o, s:O?, s:b, s:s, s:s, s:s, s:s}", "messages", messages, "tools", tools, "add_generation_prompt",
                  t == NULL, "bos_token", "<s>", "eos_token", "</s>", "functions", "[]", "datetime", "today");
    assert_non_null(vars);
    if (var) json_object_set_new(vars, var, json_true());
    return template_render(f->template, vars, NULL, 1700000000, NULL, out) == 0 && out->s.len;
}

static bool starts(const char *text, const char *with, size_t n)
{
    return strncmp(text, with, n) == 0;
}

static size_t without_end(const char *s, size_t n, const char *end)
{
    size_t len = strlen(end);
    return len && n >= len && memcmp(s + n - len, end, len) == 0 ? n - len : n;
}

static size_t without_white(const char *s, size_t n)
{
    while (n && strchr(" \n", s[n - 1])) n--;
    return n;
}

/* The offset of the assistant's part in @turn: behind the prompt; or behind the prompt without the thinking that it
 * opens or closes; or behind their common part, from the mark on in which they differ. */
static size_t cut(const struct family *f, const char *prompt, const char *turn)
{
    size_t n = strlen(prompt);
    if (starts(turn, prompt, n)) return n;
    n = without_end(prompt, without_white(prompt, n), f->markup->thinking.close);
    n = without_end(prompt, without_white(prompt, n), f->markup->thinking.open);
    if (starts(turn, prompt, n)) return n;
    for (n = 0; prompt[n] && prompt[n] == turn[n];) n++;
    while (n && turn[n] != '<' && turn[n] != '[') n--;
    return n;
}

/* What the template appends to every conversation is no part of the answer. */
static size_t cut_end(const struct family *f, const json_t *tools, const char *var, const char *turn)
{
    struct text other = {0};
    const struct turn plain = {.text = "other"};
    size_t len = strlen(turn), n = 0;
    if (render(f, tools, &plain, var, &other))
        while (n < other.s.len && n < len && other.s.data[other.s.len - 1 - n] == turn[len - 1 - n]) n++;
    text_fini(&other);
    return n > 100 ? len - n : len;
}

struct answer {
    char *text;
    size_t len;
    enum markup_start start;
    json_t *want; /* as parsed() has it, without ids */
};

static void answer_fini(struct answer *a)
{
    free(a->text);
    json_decref(a->want);
}

static json_t *expected_calls(const struct turn *t, const char *answer)
{
    json_t *list = json_array();
    static const char *const names[] = {"get_weather", "search-docs"};
    for (int i = 0; i < t->calls; i++)
        if (strstr(answer, names[i]))
            json_array_append_new(
                list, json_pack("{s:s, s:o}", "name", names[i], "arguments", json_loads(args[t->args][i], 0, NULL)));
    return list;
}

/* False: the template does not write such a turn. */
static bool answer_of(const struct family *f, const json_t *tools, const struct turn *t, struct answer *a)
{
    struct text prompt = {0}, turn = {0};
    const char *content = "", *thinking = "";
    bool ok = render(f, tools, NULL, t->var, &prompt) && render(f, tools, t, t->var, &turn);
    if (ok) {
        size_t from = cut(f, prompt.s.data, turn.s.data), to = cut_end(f, tools, t->var, turn.s.data);
        a->text = strndup(turn.s.data + from, to - from);
        assert_non_null(a->text);
        a->len = to - from;
        a->start = markup_start(f->markup, prompt.s.data, prompt.s.len);
        ok = (t->calls == 0 || strstr(a->text, "get_weather")) && (!t->thought || strstr(a->text, t->thought));
        if (t->text && strstr(a->text, t->text)) content = t->text;
        if (!t->text && strstr(a->text, "None")) content = "None";
        if (t->thought) thinking = t->thought;
        /* A prompt that opens the thinking, and a turn that does not close it: the text is thinking. */
        bool open = a->start == MARKUP_AT_THINKING && !strstr(a->text, f->markup->thinking.close);
        if (f->markup->calls.form == MARKUP_HARMONY) open = strstr(a->text, "final") == NULL;
        if (open && !t->thought) thinking = content, content = "";
        a->want = json_pack("{s:s, s:s, s:o, s:n, s:i, s:i}", "content", content, "thinking", thinking, "tool_calls",
                            expected_calls(t, a->text), "partial", "withdrawn", 0, "warnings", 0);
        if (!ok) answer_fini(a);
    }
    text_fini(&prompt);
    text_fini(&turn);
    return ok;
}

static void drop_ids(json_t *parsed)
{
    json_t *c;
    size_t i;
    json_array_foreach(json_object_get(parsed, "tool_calls"), i, c) json_object_del(c, "id");
}

static bool equal_in_pieces(const char *name, const struct markup_format *f, const struct answer *a, struct pieces p)
{
    json_auto_t *got = parsed(f, a->text, a->len, p);
    drop_ids(got);
    if (json_equal(got, a->want)) return true;
    char *is = json_dumps(got, 0), *want = json_dumps(a->want, 0);
    print_message("%s: the answer %s\n  is    %s\n  wants %s\n", name, a->text, is, want);
    free(is);
    free(want);
    return false;
}

/* The first @n bytes give a part of what the whole answer gives: whole calls are the same. */
static void expect_truncated(const char *name, const struct markup_format *f, const struct answer *a, size_t n)
{
    json_auto_t *got = parsed(f, a->text, n, (struct pieces){.most = 7, .seed = (uint32_t)n});
    const json_t *want = json_object_get(a->want, "tool_calls"), *call;
    const json_t *partial = json_object_get(json_object_get(got, "partial"), "name");
    size_t i;
    drop_ids(got);
    json_array_foreach(json_object_get(got, "tool_calls"), i, call)
    {
        if (!json_equal(call, json_array_get(want, i)))
            fail_msg("%s: %.*s gives call %s", name, (int)n, a->text, json_dumps(call, 0));
    }
    if (!partial) return;
    const json_t *cut_call = json_array_get(want, json_array_size(json_object_get(got, "tool_calls")));
    assert_true(json_equal(partial, json_object_get(cut_call, "name")));
}

/* Bytes of the answer are lost, doubled, moved or changed: parsed() checks that complete calls are valid. */
static void parse_damaged(const struct markup_format *f, const struct answer *a)
{
    uint32_t seed = (uint32_t)a->len;
    for (int i = 0; i < 40; i++) {
        char *text = strndup(a->text, a->len);
        assert_non_null(text);
        size_t len = a->len;
        for (int damage = 0; damage <= i % 3; damage++) {
            seed = seed * 1664525 + 1013904223;
            size_t at = (seed >> 8) % len, from = (seed >> 16) % len;
            if (seed % 3 == 0)
                text[at] = text[from];
            else if (seed % 3 == 1)
                memmove(text + at, text + at + 1, --len - at);
            else
                memmove(text + at, text + from, len - (at > from ? at : from));
            if (len == 0) len = 1;
        }
        /* The parser is given whole characters; other text would only fail as JSON here. */
        len = utf8_check(text, len);
        json_decref(parsed(f, text, len, (struct pieces){.most = 9, .seed = seed, .clones = i % 2}));
        free(text);
    }
}

static bool check(const char *name, const struct family *f, const json_t *tools, const struct answer *a)
{
    struct markup_format format = format_of(f, tools, a->start);
    bool ok = equal_in_pieces(name, &format, a, (struct pieces){.most = 0});
    for (uint32_t seed = 1; ok && seed <= 12; seed++)
        ok = equal_in_pieces(name, &format, a,
                             (struct pieces){.most = seed % 3 ? 5 : 40, .seed = seed, .clones = seed % 2});
    for (size_t n = 0; ok && n < a->len; n++) expect_truncated(name, &format, a, n);
    if (ok && a->len) parse_damaged(&format, a);
    return ok;
}

/* The turns of one kind in all spellings that the template may want; the first that it writes is checked. 1: equal; 0:
 * different; -1: it writes none. */
static int check_turn(const char *name, const struct family *f, const json_t *tools, struct turn t)
{
    static const char *const vars[] = {NULL, "enable_thinking", "thinking"};
    struct answer a = {.text = NULL};
    for (int calls = t.calls; calls >= (t.calls ? 1 : 0); calls--)
        for (int strings = 0; strings < 2; strings++)
            for (int var = 0; var < 6; var++) {
                t.calls = calls;
                t.string_args = strings;
                t.var = vars[var % 3];
                /* Some templates cannot render a list of tools. */
                if (!answer_of(f, var < 3 ? tools : NULL, &t, &a)) continue;
                bool ok = check(name, f, tools, &a);
                answer_fini(&a);
                return ok;
            }
    return -1;
}

/* The number of turns that were equal, in *equal, and of those that were different. */
static int check_template(const char *name, const char *source, size_t len, int *equal)
{
    struct family f;
    json_auto_t *tools = json_loads(tools_text, 0, NULL);
    int different = 0;
    *equal = 0;
    assert_non_null(tools);
    family_init(&f, source, len);
    const char *field = f.markup->calls.form == MARKUP_HARMONY ? "thinking" : f.markup->thinking.field;
    for (int i = 0; i < N_ARGS * 6; i++) {
        static const char *const texts[] = {"Let me look.", "", NULL};
        struct turn t = {.text = texts[i % 3], .args = i / 6, .calls = 2};
        if (i / 3 % 2) {
            if (!field || (!t.text && strcmp(field, "content") == 0)) continue;
            t.field = field;
            t.thought = "Hmm, I see.\n\nTwo paragraphs.";
        }
        int r = check_turn(name, &f, tools, t);
        *equal += r > 0;
        different += r == 0;
    }
    family_fini(&f);
    return different;
}

static void test_own_templates(void **state)
{
    for (int i = 0; i < N_OWN_TEMPLATES; i++) {
        const struct own_template *t = &own_templates[i];
        int equal;
        assert_int_equal(check_template(t->name, t->source, strlen(t->source), &equal), 0);
        /* The plain template writes no calls. */
        if (i ? equal < N_ARGS * 2 : equal != 0) fail_msg("%s: %d turns", t->name, equal);
    }
}

struct counts {
    int with_calls, different;
};

static void check_shared(void *ctx, const char *name, const struct buf *source)
{
    struct counts *c = ctx;
    int equal, bad = check_template(name, source->data, source->len, &equal);
    if (bad || equal == 0) print_message("%s: %d turns equal, %d different\n", name, equal, bad);
    c->with_calls += equal > 0;
    c->different += bad;
}

/* Templates that write no calls: they are those of models without tools, or leave the calls to the client's text. */
static void test_shared_templates(void **state)
{
    struct counts c = {0};
    each_shared_template(check_shared, &c);
    print_message("%d templates write calls\n", c.with_calls);
    assert_int_equal(c.different, 0);
    assert_true(c.with_calls >= 46);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_templates),
        cmocka_unit_test(test_shared_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
