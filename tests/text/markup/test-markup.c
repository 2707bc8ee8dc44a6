/* SPDX-License-Identifier: MIT */
/* What is learned from templates. tests/output/test-round-trip.c parses with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/text/markup/markup.h"
#include "tests/text/markup/own-templates.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static bool has_token(const void *vocabulary, const char *text)
{
    return strcmp(vocabulary, text) == 0;
}

/* @token: the only control token of the vocabulary, or NULL: no vocabulary. */
static struct markup *learn(const char *name, const char *token)
{
    const char *source = own_template(name) ? own_template(name) : name;
    struct template *t;
    struct markup *m;
    assert_int_equal(template_new(&t, source, strlen(source)), 0);
    const struct markup_source s = {.template = t,
                                    .text = source,
                                    .len = strlen(source),
                                    .bos = "<s>",
                                    .eos = "</s>",
                                    .has_token = token ? has_token : NULL,
                                    .vocabulary = token};
    assert_int_equal(markup_new(&m, &s), 0);
    template_free(t);
    return m;
}

static void expect_frame(const char *name, enum markup_form form, const char *frame)
{
    struct markup *m = learn(name, NULL);
    const struct markup_calls *c = &m->calls;
    char got[512];
    snprintf(got, sizeof(got), "%s|%s|%s|%s|%s", c->section_begin, c->call_begin, c->call_end, c->separator,
             c->section_end);
    assert_int_equal(c->form, form);
    assert_string_equal(got, frame);
    markup_free(m);
}

static void test_marks_around_calls(void **state)
{
    expect_frame("plain", MARKUP_NO_CALLS, "||||");
    expect_frame("envelope", MARKUP_ENVELOPE, "|<call>\n|\n</call>||");
    expect_frame("section", MARKUP_ENVELOPE, "[CALLS][|||,|]");
    expect_frame("bare", MARKUP_ENVELOPE, "||||");
    expect_frame("keyed", MARKUP_ENVELOPE, "<|calls|>[|||,|]<|end calls|>");
    expect_frame("wrapped", MARKUP_ENVELOPE, "|<fn>|</fn>||");
    expect_frame("named", MARKUP_LITERAL, "|[CALL]|||");
    expect_frame("numbered", MARKUP_LITERAL, "<|begin|>|<|call|>tool.|<|done|>||<|end|>");
    expect_frame("fenced", MARKUP_LITERAL, "<calls>|<call>tool<sep>|\n```</call>||</calls>");
    expect_frame("quoted", MARKUP_LITERAL, "|<do|>|<|do>||");
    expect_frame("tagged", MARKUP_TAGS, "|<call>\n<function=|\n</function>\n</call>||");
    expect_frame("attributes", MARKUP_TAGS, "<all>|\n<invoke name=\"|\n</invoke>||</all>");
    expect_frame("recipients", MARKUP_LITERAL, "|>>>|||");
    expect_frame("call", MARKUP_PYTHON, "<calls>[|||,|]</calls>");
    expect_frame("harmony", MARKUP_HARMONY, "||||");
}

static void test_parts_of_a_call(void **state)
{
#define PART(member) offsetof(struct markup_calls, member)
    static const struct {
        const char *name;
        size_t part;
        const char *text;
    } cases[] = {
        {"section", PART(name_key), "name"},
        {"section", PART(args_key), "arguments"},
        {"section", PART(id_key), "id"},
        {"wrapped", PART(wrapper_key), "function"},
        {"keyed", PART(name_key), ""},
        {"named", PART(id_begin), "[ID]"},
        {"named", PART(name_end), "[ARGS]"},
        {"numbered", PART(id_begin), "#"},
        {"quoted", PART(quote), "<q>"},
        {"attributes", PART(arg_begin), "\n<arg name=\""},
        {"attributes", PART(arg_mid), "\" string=\"true\">"},
        {"attributes", PART(arg_mid_other), "\" string=\"false\">"},
        {"attributes", PART(arg_end), "</arg>"},
        {"attributes", PART(call_begin_short), ""},
        {"tagged", PART(call_begin_short), "<function="},
        {"tagged", PART(call_end_short), "</function>"},
        {"recipients", PART(text_name), "all"},
    };
#undef PART
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct markup *m = learn(cases[i].name, NULL);
        assert_string_equal(*(char **)((char *)&m->calls + cases[i].part), cases[i].text);
        markup_free(m);
    }
}

static void test_numbers_of_calls(void **state)
{
    struct markup *named = learn("named", NULL), *numbered = learn("numbered", NULL);
    assert_false(named->calls.id_is_index);
    assert_true(numbered->calls.id_is_index);
    markup_free(named);
    markup_free(numbered);
}

static void expect_thinking(const char *name, const char *open, const char *close, const char *field, const char *off)
{
    struct markup *m = learn(name, NULL);
    const struct markup_thinking *t = &m->thinking;
    assert_string_equal(t->open, open);
    assert_string_equal(t->close, close);
    assert_string_equal(t->field ? t->field : "", field);
    assert_string_equal(t->off_name ? t->off_name : "", off);
    if (*off) assert_string_equal(t->off_value, "false");
    markup_free(m);
}

static void test_thinking(void **state)
{
    expect_thinking("plain", "", "", "", "");
    expect_thinking("envelope", "<think>", "</think>", "reasoning_content", "enable_thinking");
    expect_thinking("section", "[MUSE]", "[/MUSE]", "thinking", "thinking"); /* marks that nobody has seen before */
    expect_thinking("tagged", "<think>", "</think>", "reasoning_content", "");
    /* Not written, but removed from earlier turns. */
    expect_thinking("{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}", "<think>", "</think>",
                    "", "");
    expect_thinking("{% for m in messages %}{{ m.content }}{% endfor %}"
                    "{% if add_generation_prompt %}<seed:think>{% endif %}",
                    "<seed:think>", "</seed:think>", "", "");
}

static void expect_start(const char *name, const char *prompt, enum markup_start start)
{
    struct markup *m = learn(name, NULL);
    assert_int_equal(markup_start(m, prompt, strlen(prompt)), start);
    markup_free(m);
}

static void test_start(void **state)
{
    expect_start("plain", "<a>", MARKUP_AT_TEXT);
    expect_start("plain", "", MARKUP_AT_TEXT);
    expect_start("envelope", "<a>", MARKUP_AT_TEXT);
    expect_start("envelope", "<a><think>\n", MARKUP_AT_THINKING);
    expect_start("envelope", "<a><think>\n\n</think>\n\n", MARKUP_AT_TEXT);
    expect_start("recipients", "<a>>>>", MARKUP_AT_NAME);
}

static bool has_junk(const struct markup *m, const char *mark)
{
    for (int i = 0; i < MARKUP_JUNK && m->junk[i]; i++)
        if (strcmp(m->junk[i], mark) == 0) return true;
    return false;
}

static void test_marks_that_are_no_text(void **state)
{
    struct markup *m = learn("envelope", NULL);
    assert_true(has_junk(m, "</a>") && has_junk(m, "<a>"));
    assert_false(has_junk(m, "<think>") || has_junk(m, "<call>") || m->white_first);
    markup_free(m);
    m = learn("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
              "{% if add_generation_prompt %}assistant:{% endif %}",
              NULL);
    assert_true(m->white_first);
    markup_free(m);
}

/* A vocabulary tells what the template does not. */
static void test_vocabulary(void **state)
{
    static const char plain[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    struct markup *m = learn(plain, "<|tool_call_start|>");
    assert_int_equal(m->calls.form, MARKUP_PYTHON);
    assert_string_equal(m->calls.section_end, "]<|tool_call_end|>");
    markup_free(m);
    m = learn(plain, "<other>");
    assert_int_equal(m->calls.form, MARKUP_NO_CALLS);
    markup_free(m);
}

/* Templates that refuse, say nothing, or never end. */
static void test_other_templates(void **state)
{
    static const char *const sources[] = {
        "",
        "text",
        "{{ raise_exception('no') }}",
        "{{ undefined.attribute }}",
        "{% for i in range(99999999) %}{{ i }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls }}{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m | tojson }}{% endfor %}"};
    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
        struct markup *m = learn(sources[i], NULL);
        assert_non_null(m->calls.call_begin);
        assert_string_equal(m->thinking.open, "");
        markup_free(m);
    }
}

/* Does the template take texts only in lists of parts? */
static void test_typed_content(void **state)
{
    static const struct {
        const char *source;
        bool typed;
    } cases[] = {
        {"plain", false},
        {"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", true},
        {"{% for m in messages %}{{ m.content[0].text }}{% endfor %}", true},
        {"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
         "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
         false},
        {"{% for m in messages %}{% if m.content is string %}{{ raise_exception('parts!') }}{% endif %}"
         "{{ m.content[0].text }}{% endfor %}",
         true},
        {"{% for m in messages %}{{ m.content | capitalize }}{% endfor %}", false},
        {"{% for m in messages %}{{ m.content[:4] }}{% endfor %}", false},
        {"{% for m in messages %}{{ m.content[:4] | tojson }}{% endfor %}", false},
        {"text", false},
        {"{{ raise_exception('no') }}", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct markup *m = learn(cases[i].source, NULL);
        assert_int_equal(m->typed_content, cases[i].typed);
        markup_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_around_calls),
        cmocka_unit_test(test_parts_of_a_call),
        cmocka_unit_test(test_numbers_of_calls),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_marks_that_are_no_text),
        cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_other_templates),
        cmocka_unit_test(test_typed_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
