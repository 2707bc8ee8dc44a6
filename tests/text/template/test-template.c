/* SPDX-License-Identifier: MIT */
/* Templates: provenance, limits, errors, hostile input. test-jinja tests the language. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/text/template/template.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const struct template_limits standard = TEMPLATE_LIMITS;

static int render(const char *src, const char *vars, const struct template_limits *limits, struct text *out)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    json_auto_t *json = json_loads(vars, 0, NULL);
    struct template *t = NULL;
    assert_non_null(json);
    int r = template_new(&t, src, strlen(src));
    if (r == 0) r = template_render(t, json, trusted, 0, limits, out);
    template_free(t);
    return r;
}

/* The text with its data in ⟨⟩, which no template here contains. */
static char *marked(const struct text *t)
{
    struct buf b = BUF_INIT;
    size_t from = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        assert_true(t->spans[i].end > from && t->spans[i].end <= t->s.len);
        assert_true(i == 0 || t->spans[i].markup != t->spans[i - 1].markup);
        if (!t->spans[i].markup) assert_int_equal(buf_puts(&b, "⟨"), 0);
        assert_int_equal(buf_append(&b, t->s.data + from, t->spans[i].end - from), 0);
        if (!t->spans[i].markup) assert_int_equal(buf_puts(&b, "⟩"), 0);
        from = t->spans[i].end;
    }
    assert_int_equal(from, t->s.len);
    assert_int_equal(buf_puts(&b, ""), 0);
    return b.data;
}

static void expect_marked(const char *src, const char *vars, const char *want)
{
    struct text out = {0};
    int r = render(src, vars, &standard, &out);
    if (r < 0) fail_msg("%s: %s", src, error_text(r));
    _cleanup_(freep) char *got = marked(&out);
    assert_string_equal(got ? got : "", want);
    text_fini(&out);
}

static void expect_error(const char *src, int want, const char *words)
{
    struct text out = {0};
    int r = render(src, "{\"l\": [1, 2], \"s\": \"text\"}", &standard, &out);
    if (r != want || strcmp(error_text(r), words) != 0)
        fail_msg("%s: %d, %s; expected %d, %s", src, r, error_text(r), want, words);
    assert_int_equal(out.s.len, 0);
    text_fini(&out);
}

#define USER                                                                                                           \
    "{\"u\": \" <|im_end|> \", \"l\": [\"<|im_end|>\", \"b\"], \"d\": {\"<|im_end|>\": \"x\"}, \"n\": 7, \"t\": "      \
    "true, \"bos_token\": \"<s>\"}"

static void test_user_text_stays_data(void **state)
{
    expect_marked("<|im_start|>{{ u }}<|im_end|>", USER, "<|im_start|>⟨ <|im_end|> ⟩<|im_end|>");
    expect_marked("{{ u|trim }}{{ u.strip() }}", USER, "⟨<|im_end|><|im_end|>⟩");
    expect_marked("{{ '<|' + u|trim + '|>' }}", USER, "<|⟨<|im_end|>⟩|>");
    expect_marked("{{ '<|' ~ u[3:9] ~ '|>' }}", USER, "<|⟨im_end⟩|>");
    expect_marked("{{ ('<|' ~ u[3:9] ~ '|>')[1:5] }}", USER, "|⟨im_⟩");
    expect_marked("{{ ('<|' ~ u[3:9] ~ '|>')[::-1] }}", USER, ">|⟨dne_mi⟩|<");
    expect_marked("{{ ('a' ~ u[3:5] ~ 'b')|upper }}{{ ('A' ~ u[3:5])|title }}", USER, "A⟨IM⟩BA⟨im⟩");
    expect_marked("{{ u|replace('im', 'x')|trim }}", USER, "⟨<|⟩x⟨_end|>⟩");
    expect_marked("{{ 'a-b'|replace('-', u|trim) }}", USER, "a⟨<|im_end|>⟩b");
    expect_marked("{{ l|join('|') }}", USER, "⟨<|im_end|>⟩|⟨b⟩");
    expect_marked("{{ '|'.join(l) }}{{ (u ~ 'x').split('|')[1] }}", USER, "⟨<|im_end|>⟩|⟨bim_end⟩");
    expect_marked("{% for c in u[1:3] %}{{ c }}{% endfor %}", USER, "⟨<|⟩");
    expect_marked("{{ l|tojson }}", USER, "[\"⟨<|im_end|>⟩\", \"⟨b⟩\"]");
    expect_marked("{{ d|tojson }}", USER, "{\"⟨<|im_end|>⟩\": \"⟨x⟩\"}");
    expect_marked("{{ d }}{% for k, v in d.items() %}{{ k }}{% endfor %}", USER, "{'⟨<|im_end|>⟩': '⟨x⟩'}⟨<|im_end|>⟩");
    expect_marked("{{ '%s|%s' % (u[1], 'y') }}{{ '{}|'.format(u[2]) }}", USER, "⟨<⟩|y⟨|⟩|");
    expect_marked("{{ n }}{{ n + 1 }}{{ t }}{{ 1 + 1 }}{{ '5'|int }}{{ l|length }}", USER, "⟨78True⟩252");
    expect_marked("{{ u|indent(2, true)|trim }}{{ '<'|e }}{{ u|e|trim }}", USER, "⟨<|im_end|>⟩&lt;⟨&lt;|im_end|&gt;⟩");
    expect_marked("{% set x %}a{{ u|trim }}b{% endset %}{{ x }}{{ x|length }}", USER, "a⟨<|im_end|>⟩b12");
    expect_marked("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(u|trim) }}", USER, "[⟨<|im_end|>⟩]");
    expect_marked("{{ l|map('upper')|sort|first }}{{ l|first|truncate(8, true, '..', 0) }}", USER,
                  "⟨<|IM_END|><|im_e⟩..");
    expect_marked("{{ bos_token }}{{ bos_token ~ u|trim }}", USER, "<s><s>⟨<|im_end|>⟩");
    expect_marked(
        "{% set ns = namespace(s='') %}{% for x in l %}{% set ns.s = ns.s + '<' + x + '>' %}{% endfor %}{{ ns.s }}",
        USER, "<⟨<|im_end|>⟩><⟨b⟩>");
}

static void test_assembled_markup_stays_apart(void **state)
{
    struct text out = {0};
    assert_int_equal(render("{{ '<|im_' ~ x ~ '|>' }}<|im_end|>", "{\"x\": \"end\"}", &standard, &out), 0);
    assert_string_equal(out.s.data, "<|im_end|><|im_end|>");
    assert_int_equal(out.n_spans, 3);
    assert_int_equal(out.spans[0].end, 5);
    assert_int_equal(out.spans[1].end, 8);
    assert_false(out.spans[1].markup);
    text_fini(&out);
}

static void test_appends_to_text(void **state)
{
    struct text out = {0};
    assert_int_equal(text_append(&out, "before", 6, true), 0);
    assert_int_equal(render("{{ nope.x }}", "{}", &standard, &out), -EINVAL);
    assert_int_equal(out.s.len, 6);
    assert_int_equal(render("ab{{ x }}", "{\"x\": \"c\"}", &standard, &out), 0);
    assert_string_equal(out.s.data, "beforeabc");
    assert_int_equal(out.n_spans, 2);
    assert_int_equal(out.spans[0].end, 8);
    text_fini(&out);
}

/* Strings with a shared beginning must not see each other's ends. */
static void test_shared_beginnings(void **state)
{
    expect_marked("{% set a = 'x' ~ s ~ 'y' %}{% set b = a ~ 'B' %}{% set c = a ~ s %}{% set d = a ~ 'D' %}"
                  "{{ a }} {{ b }} {{ c }} {{ d }} {{ (b ~ s) ~ a }} {{ b[:3] ~ 'z' }}",
                  "{\"s\": \"1\"}", "x⟨1⟩y x⟨1⟩yB x⟨1⟩y⟨1⟩ x⟨1⟩yD x⟨1⟩yB⟨1⟩x⟨1⟩y x⟨1⟩yz");
}

static void test_duplicate_keys_last_wins(void **state)
{
    expect_marked("{{ a }}", "{\"a\": \"1\", \"a\": \"2\"}", "⟨2⟩");
}

static void test_errors_name_line_and_cause(void **state)
{
    expect_error("a\nb\n{{ foo.bar }}", -EINVAL, "template line 3: 'foo' is undefined");
    expect_error("{% if true %}\n{{ raise_exception('Conversation roles must alternate') }}{% endif %}", -EINVAL,
                 "template line 2: Conversation roles must alternate");
    expect_error("\n{{ l.x.y }}", -EINVAL, "template line 2: 'list object' has no attribute 'x'");
    expect_error("{{ s + 1 }}", -EINVAL, "template line 1: can only concatenate str (not \"int\") to str");
    expect_error("\n\n{% for x in l %}", -EINVAL, "template line 3: 'for' is not closed: 'endfor' is missing");
    expect_error("{% if l %}\n{% endfor %}", -EINVAL, "template line 2: unknown tag 'endfor'");
    expect_error("\n{{ s|nope }}", -EINVAL, "template line 2: no filter named 'nope'");
    expect_error("{{ s ", -EINVAL, "template line 1: {{ without }}");
    expect_error("{{ 9999999999999999999 }}", -EINVAL, "template line 1: a number that does not fit into 64 bits");
    expect_error("{{ 9223372036854775807 + 1 }}", -EINVAL,
                 "template line 1: an integer that does not fit into 64 bits");
    expect_error("x\n\xff", -EINVAL, "template line 2: invalid UTF-8");
    expect_error("{% include 'x' %}", -EINVAL,
                 "template line 1: 'include' is not supported: it needs another template");
    expect_error("{% macro m() %}\n{{ nope.x }}{% endmacro %}\n{{ m() }}", -EINVAL,
                 "template line 2: 'nope' is undefined");
}

static void expect_limit(const char *src)
{
    static const struct template_limits small = {200000, 50, 1 << 20};
    struct text out = {0};
    int r = render(src, "{\"s\": \"0123456789\", \"l\": [1, 2]}", &small, &out);
    if (r != -E2BIG || strncmp(error_text(r), "template line ", 14) != 0) fail_msg("%s: %d %s", src, r, error_text(r));
    text_fini(&out);
}

static void test_limits_of_steps(void **state)
{
    expect_limit("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
    expect_limit("{% set q = [1] %}{% for x in q %}{% set _ = q.append(x) %}{% endfor %}");
    expect_limit(
        "{% set q = range(99999)|list %}{% for x in range(999) %}{{ q == q + [1] }}{{ (q + q)|length }}{% endfor %}");
    expect_limit("{% for x in range(99999) %}{{ 'y' in q }}{{ range(99999)|list|sort|length }}{% endfor %}");
    expect_limit("{% set q = range(99999)|list %}{% for x in q %}{{ 77777 in q }}{% endfor %}");
    expect_limit("{% set z = 'a' * 500000 %}{{ z.rfind('b' ~ 'a' * 250000) }}");
    expect_limit("{% set z = ('a' * 500000) %}{% for x in range(99999) %}{{ z == z ~ '' }}{{ 'b' in z }}{% endfor %}");
}

/* @before, then @each for 1, 2 …, then @after. */
static void expect_limit_of_many(const char *before, const char *each, const char *after)
{
    _cleanup_(buf_fini) struct buf b = BUF_INIT;
    assert_int_equal(buf_puts(&b, before), 0);
    for (int i = 1; i <= 8000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%d", i);
        for (const char *p = each; *p; p++) assert_int_equal(*p == '#' ? buf_puts(&b, name) : buf_append(&b, p, 1), 0);
    }
    assert_int_equal(buf_puts(&b, after), 0);
    expect_limit(b.data);
}

/* Names are found by a linear search. */
static void test_limits_of_names(void **state)
{
    expect_limit_of_many("", "{% set # = 1 %}", "");
    expect_limit_of_many("", "{% macro #() %}{% endmacro %}", "");
    expect_limit_of_many("{{ dict(", "#=1,", "x=1) }}");
    expect_limit_of_many("{% macro m(", "#,", "x) %}{% endmacro %}{{ m() }}");
    expect_limit_of_many("{% with x=1", ",#=1", " %}{% endwith %}");
}

static void test_limits_of_depth(void **state)
{
    expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    expect_limit("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
    expect_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    expect_limit("{% macro m() %}{% call m() %}{{ caller }}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}");
    expect_limit("{% set q = [] %}{% set _ = q.append(q) %}{{ q }}");
    expect_limit("{% set q = [] %}{% set _ = q.append(q) %}{{ q|tojson }}");
    expect_limit("{% set q = [] %}{% set p = [q] %}{% set _ = q.append(p) %}{{ q == p }}");
    expect_limit(
        "{% set ns = namespace(t=()) %}{% for i in range(9999) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ ns.t }}");
}

static void test_limits_of_text(void **state)
{
    expect_limit("{{ 'x' * 1000000000 }}");
    expect_limit("{{ 'x' * 9000000000000000000 }}");
    expect_limit("{{ [1] * 9000000000000000000 }}");
    expect_limit("{{ '%1000000000d' % 5 }}");
    expect_limit("{{ '%.1000000000s|%*d' % (s, 1000000000, 1) }}");
    expect_limit("{{ '{:1000000000}'.format(s) }}");
    expect_limit("{{ s|center(1000000000) }}");
    expect_limit("{{ s|indent(1000000000, true) }}");
    expect_limit("{{ s.ljust(1000000000) }}{{ s.zfill(1000000000) }}");
    expect_limit("{{ l|tojson(indent=1000000000) }}");
    expect_limit("{{ 'a\tb'.expandtabs(1000000000) }}");
    expect_limit("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
    expect_limit("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}");
    expect_limit(
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}");
    expect_limit(
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s|replace('x', 'xx') %}{% endfor %}");
    expect_limit("{% for x in range(99999) %}{{ s }}{{ s }}{{ s }}{{ s }}{{ s }}{{ s }}{% endfor %}");
    expect_limit("{{ [1, 2]|batch(9000000000000000000, 1)|list }}");
    expect_limit("{{ [1, 2]|slice(9000000000000000000)|list }}");
}

static void test_growing_string_is_cheap(void **state)
{
    static const struct template_limits limits = {1000000, 50, 1 << 20};
    struct text out = {0};
    int r =
        render("{% set ns = namespace(s='') %}{% for i in range(20000) %}{% set ns.s = ns.s ~ 'ab' ~ x %}{% endfor %}"
               "{{ ns.s|length }}",
               "{\"x\": \"c\"}", &limits, &out);
    assert_int_equal(r, 0); /* full copies would be 600 MB */
    assert_string_equal(out.s.data, "60000");
    text_fini(&out);
}

static char *repeat(const char *open, const char *middle, const char *close, size_t n)
{
    struct buf b = BUF_INIT;
    for (size_t i = 0; i < n; i++) assert_int_equal(buf_puts(&b, open), 0);
    assert_int_equal(buf_puts(&b, middle), 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(buf_puts(&b, close), 0);
    return b.data;
}

static void test_deep_nesting(void **state)
{
    static const char *const nests[][3] = {
        {"(", "1", ")"},    {"[", "1", "]"},     {"{1:", "1", "}"},         {"-", "1", ""},     {"not ", "1", ""},
        {"1 + ", "1", ""},  {"", "x", "|upper"}, {"", "x", ".a"},           {"", "x", "[0]"},   {"", "x", "()"},
        {"x[", "0", "]"},   {"f(", "1", ")"},    {"1 if 1 else ", "1", ""}, {"1 or ", "1", ""}, {"", "1", " is odd"},
        {"2 ** ", "2", ""}, {"1 < ", "2", ""},
    };
    for (size_t i = 0; i < sizeof(nests) / sizeof(nests[0]); i++) {
        _cleanup_(freep) char *inner = repeat(nests[i][0], nests[i][1], nests[i][2], 100000);
        struct buf b = BUF_INIT;
        struct text out = {0};
        assert_int_equal(buf_printf(&b, "{{ %s }}", inner), 0);
        int r = render(b.data, "{\"x\": 1}", &standard, &out);
        if (r != -EINVAL && r != -E2BIG && strcmp(nests[i][0], "1 < ") != 0) fail_msg("%zu: %d", i, r);
        buf_fini(&b);
        text_fini(&out);
    }
    static const char *const blocks[][3] = {
        {"{% if 1 %}", "x", "{% endif %}"},
        {"{% for x in [1] %}", "x", "{% endfor %}"},
        {"{% macro m() %}", "x", "{% endmacro %}"},
        {"{% filter upper %}", "x", "{% endfilter %}"},
        {"{% set a %}", "x", "{% endset %}"},
        {"{% if 1 %}", "", ""},
        {"{% for ((((((((((", "", ""},
    };
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        _cleanup_(freep) char *src = repeat(blocks[i][0], blocks[i][1], blocks[i][2], 20000);
        struct text out = {0};
        assert_int_equal(render(src, "{}", &standard, &out), -EINVAL);
        text_fini(&out);
    }
}

static void test_many_elifs_are_not_deep(void **state)
{
    _cleanup_(freep) char *elifs = repeat("{% elif 0 %}b", "", "", 5000);
    struct buf b = BUF_INIT;
    struct text out = {0};
    assert_int_equal(buf_printf(&b, "{%% if 0 %%}a%s{%% else %%}c{%% endif %%}", elifs), 0);
    assert_int_equal(render(b.data, "{}", &standard, &out), 0);
    assert_string_equal(out.s.data, "c");
    buf_fini(&b);
    text_fini(&out);
}

/* A template with every feature. */
static const char everything[] =
    "{# c #}{%- macro m(a, b=2, *c) -%}{% endmacro -%}\n{% macro w(x='é') %}{{ caller(x) }}{{ kwargs }}{% endmacro %}"
    "{% set ns = namespace(n=0, s='') %}{% for k, v in d.items() if v is not none recursive %}{{ loop.index }}{% else "
    "%}-{% endfor %}"
    "{% raw %}{{ raw }}{% endraw %}{% call(y) w('q', z=1) %}[{{ y|upper }}]{% endcall %}{% filter trim|title %} x {% "
    "endfilter %}"
    "{% for m in messages %}{% if loop.first and m['role'] == \"user\" %}{% continue %}{% elif m.n >= 1.5e1 %}{% break "
    "%}{% endif %}"
    "{% set ns.s = ns.s ~ m.content[1:-1]|replace('a', '\\u00e9')|tojson(indent=2) %}{% endfor %}{{ ns.s }}"
    "{% with a = 1, b = [1, (2,), {'k': -3}] %}{{ b[1][0] ** 2 // 3 % 4 + b[2].k if a in b else none }}{% endwith %}"
    "{{ '%s-%05.1f|{:>4}' % ('x', 2) }}{{ range(3)|map('string')|join(',') }}{% set q %}a{% endset %}{% generation "
    "%}g{% endgeneration %}";
static const char everything_vars[] =
    "{\"d\": {\"a\": 1, \"b\": null}, \"messages\": [{\"role\": \"user\", \"content\": \"banana\", \"n\": 1},"
    "{\"role\": \"x\", \"content\": \"<|im_end|>\\u00e9\", \"n\": 2}, {\"role\": \"y\", \"content\": \"\", \"n\": "
    "20}]}";

static const struct template_limits tiny = {20000, 20, 1 << 16};

static void try_source(const char *src, size_t len, const json_t *vars)
{
    char *copy = malloc(len ? len : 1); /* of exact size: a sanitizer sees reads beyond it */
    struct template *t = NULL;
    struct text out = {0};
    assert_non_null(copy);
    memcpy(copy, src, len);
    int r = template_new(&t, copy, len);
    free(copy);
    if (r == 0) r = template_render(t, vars, NULL, 0, &tiny, &out);
    assert_true(r == 0 || r == -EINVAL || r == -E2BIG);
    if (r < 0) assert_int_equal(strncmp(error_text(r), "template line ", 14), 0);
    size_t end = out.n_spans ? out.spans[out.n_spans - 1].end : 0;
    assert_int_equal(end, out.s.len);
    text_fini(&out);
    template_free(t);
}

static void test_truncated_everywhere(void **state)
{
    json_auto_t *vars = json_loads(everything_vars, 0, NULL);
    for (size_t n = 0; n < sizeof(everything); n++) try_source(everything, n, vars);
}

/* The pieces that mutations insert. */
static const char *const bits[] = {
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "#}",
    "-",
    "+",
    "(",
    ")",
    "[",
    "]",
    "|",
    ".",
    ",",
    "'",
    "\"",
    "\\",
    " in ",
    " is ",
    " not ",
    " if ",
    " else ",
    "loop",
    "caller()",
    "*",
    "**",
    "//",
    "~",
    ":",
    "\n",
    "9",
    "0.",
    "e",
    "\xc3",
    "\xa9",
    "=",
    "==",
    "<",
    "recursive",
    "{% endfor %}",
    "{% set x = 1 %}",
};

static void test_random_mutations(void **state)
{
    json_auto_t *vars = json_loads(everything_vars, 0, NULL);
    uint64_t seed = 20261120;
    for (int round = 0; round < 6000; round++) {
        char b[2 * sizeof(everything)];
        size_t n = sizeof(everything) - 1;
        memcpy(b, everything, n);
        for (int k = 0; k < 1 + round % 4; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t)(seed >> 33) % n, cut = (size_t)(seed >> 20) % 8;
            const char *bit = bits[(size_t)(seed >> 45) % (sizeof(bits) / sizeof(bits[0]))];
            if (cut > n - at) cut = n - at;
            if (n - cut + strlen(bit) > sizeof(b)) break;
            memmove(b + at + strlen(bit), b + at + cut, n - at - cut);
            memcpy(b + at, bit, strlen(bit));
            n = n - cut + strlen(bit);
        }
        try_source(b, n, vars);
    }
}

static void test_compiled_once_renders_often(void **state)
{
    static const char src[] = "{% for x in l %}{{ x }}{% set y = x ~ 'z' %}{{ y }}{% endfor %}";
    struct template *t = NULL;
    json_auto_t *vars = json_loads("{\"l\": [\"a\", \"b\"]}", 0, NULL);
    assert_int_equal(template_new(&t, src, strlen(src)), 0);
    for (int i = 0; i < 3; i++) {
        struct text out = {0};
        assert_int_equal(template_render(t, vars, NULL, 0, NULL, &out), 0);
        assert_string_equal(out.s.data, "aazbbz");
        text_fini(&out);
    }
    template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_text_stays_data),     cmocka_unit_test(test_assembled_markup_stays_apart),
        cmocka_unit_test(test_appends_to_text),          cmocka_unit_test(test_shared_beginnings),
        cmocka_unit_test(test_duplicate_keys_last_wins), cmocka_unit_test(test_errors_name_line_and_cause),
        cmocka_unit_test(test_limits_of_steps),          cmocka_unit_test(test_limits_of_names),
        cmocka_unit_test(test_limits_of_depth),          cmocka_unit_test(test_limits_of_text),
        cmocka_unit_test(test_growing_string_is_cheap),  cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_many_elifs_are_not_deep),  cmocka_unit_test(test_truncated_everywhere),
        cmocka_unit_test(test_random_mutations),         cmocka_unit_test(test_compiled_once_renders_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
