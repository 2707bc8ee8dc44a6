/* SPDX-License-Identifier: MIT */
/* Templates and vocabularies that are written to be slow. Each costs no more than its limit allows. Without the limits,
 * most take minutes or hours. */
#include "daemon/text/template/template.h"
#include "daemon/text/tokenizer/vocab.h"
#include "libcommon/error.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Renders @src with u = "y" and frees the text. */
static int render(const char *src, size_t len, size_t *made)
{
    struct template *t = NULL;
    struct text out = {0};
    json_t *vars = json_pack("{s:s}", "u", "y");
    int r = template_new(&t, src, len);
    if (r == 0) r = template_render(t, vars, NULL, 0, NULL, &out);
    if (made) *made = out.s.len;
    text_fini(&out);
    template_free(t);
    json_decref(vars);
    return r;
}

static void names_of_blocks(void **state)
{
    struct buf b = BUF_INIT;
    for (int i = 0; i < 36000; i++) assert_int_equal(buf_printf(&b, "{%%block b%d%%}{%%endblock%%}", i), 0);
    assert_int_equal(render(b.data, b.len, NULL), 0);
    for (int i = 0; i < 36000; i += 7777) { /* each block is still known at the end */
        size_t len = b.len;
        assert_int_equal(buf_printf(&b, "\n{%%block b%d%%}{%%endblock%%}", i), 0);
        assert_int_equal(render(b.data, b.len, NULL), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "template line 2: block 'b"));
        b.len = len;
    }
    buf_fini(&b);
}

static void length_of_the_source(void **state)
{
    char *src = malloc(TEMPLATE_SOURCE_MAX + 1);
    size_t made;
    assert_non_null(src);
    memset(src, 'x', TEMPLATE_SOURCE_MAX + 1);
    assert_int_equal(render(src, TEMPLATE_SOURCE_MAX, &made), 0);
    assert_int_equal(made, TEMPLATE_SOURCE_MAX);
    assert_int_equal(render(src, TEMPLATE_SOURCE_MAX + 1, NULL), -E2BIG);
    assert_string_equal(error_text(-E2BIG), "a template of 1048577 bytes is too long (at most 1048576)");

    /* 1<1<1<1…: two nodes for each two bytes */
    memcpy(src, "{{1", 3);
    for (size_t i = 3; i + 3 < TEMPLATE_SOURCE_MAX; i += 2) memcpy(src + i, "<1", 2);
    memcpy(src + TEMPLATE_SOURCE_MAX - 3, " }}", 3);
    assert_int_equal(render(src, TEMPLATE_SOURCE_MAX, NULL), -E2BIG);
    assert_string_equal(error_text(-E2BIG), "the template needs too much memory");
    free(src);
}

#define FOR(n, body) "{% for i in range(" #n ") %}" body "{% endfor %}"

/* Work that neither evaluates nodes nor makes text is charged too. */
static void steps_that_were_free(void **state)
{
    static const struct {
        const char *name, *src;
    } all[] = {
        {"startswith of a tuple", "{% set s = 'a' * 60000 + 'b' %}{% set t = ('a' * 60000 + 'c',) * 100000 %}" FOR(
                                      1000, "{{ 'x' if s.startswith(t) }}")},
        {"an update that changes nothing",
         "{% set d = dict() %}" FOR(50000, "{{ d.update({i: i}) or '' }}") FOR(100000, "{{ d.update(d) or '' }}")},
        {"a format of time that makes no text", "{% set f = '%z' * 500000 %}" FOR(5000, "{{ strftime_now(f) }}")},
        {"flags of %", "{% set f = '%' + '-' * 1000000 + 's' %}" FOR(20000, "{{ f % '' }}")},
        {"a tuple of itself as a key",
         "{% set n = namespace(t=(1, 2)) %}" FOR(31, "{% set n.t = (n.t, n.t) %}") "{% set d = {n.t: 1} %}"},
        {"a tuple of itself as an index",
         "{% set n = namespace(t=(1, 2)) %}" FOR(31, "{% set n.t = (n.t, n.t) %}") "{{ {}[n.t] }}"},
        {"a tuple of long strings as a key", "{% set t = ('a' * 1000000,) * 1000 %}" FOR(1000, "{% set d = {t: 1} %}")},
        {"one keyword of many",
         "{% set d = dict() %}" FOR(
             5000, "{{ d.update({'k%05d' % i: i}) or '' }}") "{{ ('{k04999}' * 500000).format(**d) }}"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        int r = render(all[i].src, strlen(all[i].src), NULL);
        if (r != -E2BIG || !strstr(error_text(r), "more than 4000000 steps"))
            fail_msg("%s: %d %s", all[i].name, r, error_text(r));
    }
}

/* {% set a, a, a, … = list %} and long names that are almost equal. */
static void names_without_end(void **state)
{
    struct buf b = BUF_INIT;
    assert_int_equal(buf_puts(&b, "{% set l = [1] * 100000 %}{% for i in range(100000) %}{% set a"), 0);
    for (int i = 1; i < 100000; i++) assert_int_equal(buf_puts(&b, ",a"), 0);
    assert_int_equal(buf_puts(&b, " = l %}{% endfor %}"), 0);
    assert_int_equal(render(b.data, b.len, NULL), -E2BIG);

    b.len = 0;
    for (int i = 0; i < 900; i++) assert_int_equal(buf_printf(&b, "{%% set %01000d%d = 1 %%}", 0, i), 0);
    for (char *p = b.data; (p = strstr(p, "set 0")); p += 4) memset(p + 4, 'a', 1000);
    assert_int_equal(buf_puts(&b, FOR(100000, "{{ zz }}") FOR(100000, "{{ zz }}")), 0);
    assert_int_equal(render(b.data, b.len, NULL), -E2BIG);
    buf_fini(&b);
}

/* A text whose provenance changes with every character. */
static void strings_of_many_spans(void **state)
{
    static const char *const uses[] = {"n.s.expandtabs()|length", "n.s|list|length", "n.s|replace('', '')|length",
                                       "n.s.split('x')|length"};

    for (size_t i = 0; i < sizeof(uses) / sizeof(*uses); i++) {
        char src[256];
        size_t made;
        snprintf(src, sizeof(src),
                 "{%% set n = namespace(s='') %%}{%% for i in range(60000) %%}{%% set n.s = n.s ~ 'x' ~ u %%}{%% "
                 "endfor %%}{{ %s }}",
                 uses[i]);
        assert_int_equal(render(src, strlen(src), &made), 0);
    }
}

/* Merges whose pairs had the same slot of the table while the hash was predictable. */
static void merges_made_to_collide(void **state)
{
    enum { PAIRS = 150000, SLOTS = 1 << 18 };
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    struct merge_table m;
    uint32_t inverse = 1, low = (uint32_t)golden;
    for (int i = 0; i < 5; i++) inverse *= 2 - low * inverse; /* inverse of low, modulo 2^32 */
    assert_int_equal(merge_table_init(&m, PAIRS), 0);
    assert_int_equal(m.mask + 1, SLOTS);
    for (uint32_t right = 0; right < PAIRS; right++) {
        uint32_t left = (0 - (uint32_t)(right * golden >> 32)) * inverse & (SLOTS - 1);
        merge_table_add(&m, (int32_t)left, (int32_t)right, right, (int32_t)right);
    }
    for (uint32_t right = 0; right < PAIRS; right++) {
        uint32_t left = (0 - (uint32_t)(right * golden >> 32)) * inverse & (SLOTS - 1);
        assert_int_equal(merge_table_find(&m, (int32_t)left, (int32_t)right)->id, (int32_t)right);
    }
    size_t run = 0, longest = 0; /* of used slots, which is what a search may have to pass */
    for (size_t i = 0; i < SLOTS; i++) {
        run = m.slots[i].rank1 ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    assert_in_range(longest, 1, 2000); /* 150000 with the hash of before */
    free(m.slots);
}

/* A SentencePiece vocabulary of bytes and @n user-defined tokens, all of which are in @text. */
static struct tokenizer *with_specials(size_t n, struct text *text)
{
    size_t all = TINY_SPM_EXTRA + n;
    const char **texts = calloc(all, sizeof(*texts));
    int32_t *kinds = calloc(all, sizeof(*kinds));
    float *scores = calloc(all, sizeof(*scores));
    char(*names)[8] = calloc(all, sizeof(*names));
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    assert_true(texts && kinds && scores && names);
    for (size_t i = 0; i < all; i++) {
        size_t k = i - TINY_SPM_EXTRA;
        kinds[i] = i < TINY_SPM_BYTES ? TINY_CONTROL : i < TINY_SPM_EXTRA ? TINY_BYTE : TINY_USER;
        if (i < TINY_SPM_BYTES)
            snprintf(names[i], sizeof(*names), "<%zu>", i);
        else if (i < TINY_SPM_EXTRA)
            snprintf(names[i], sizeof(*names), "<0x%02X>", (unsigned)(i - TINY_SPM_BYTES));
        else
            snprintf(names[i], sizeof(*names), "<%c%c%c>", 'a' + (char)(k % 26), 'a' + (char)(k / 26 % 26),
                     '!' + (char)(k / 676));
        texts[i] = names[i];
        if (i >= TINY_SPM_EXTRA) assert_int_equal(text_append(text, names[i], strlen(names[i]), true), 0);
    }
    tiny_str(&m, "tokenizer.ggml.model", "llama");
    tiny_strs(&m, "tokenizer.ggml.tokens", texts, all);
    tiny_i32s(&m, "tokenizer.ggml.token_type", kinds, all);
    tiny_f32s(&m, "tokenizer.ggml.scores", scores, all);
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    free(texts);
    free(kinds);
    free(scores);
    free(names);
    return t;
}

static void specials(size_t n, int expected)
{
    struct text text = {0};
    struct tokens ids = {0};
    struct tokenizer *t = with_specials(n, &text);
    int r = tokenizer_encode(t, &text, 0, true, &ids);
    assert_int_equal(r, expected);
    assert_int_equal(ids.n, expected ? 0 : n);
    if (expected) assert_non_null(strstr(error_text(expected), "special tokens"));
    tokens_fini(&ids);
    text_fini(&text);
    tokenizer_free(t);
}

/* All tokens occur in the text, so the text is searched for each. */
static void special_tokens_without_end(void **state)
{
    specials(5000, 0);
    specials(50000, -E2BIG);
}

/* A token longer than any real one is ordinary text. A search for it at each place would cost the product of the
 * lengths. */
static void special_tokens_of_any_length(void **state)
{
    char longest[SPECIAL_BYTES_MAX + 2];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;

    for (int over = 0; over < 2; over++) {
        const struct tiny_token extra = {longest + !over, TINY_USER, 0};
        struct tiny_tokenizer m = {0};
        struct tokenizer *t;
        size_t n;
        tiny_bpe(&m, "gpt-2", NULL, &extra, 1);
        assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
        free(tiny_encode(t, extra.text, NULL, &n));
        assert_int_equal(n, over ? SPECIAL_BYTES_MAX + 1 : 1);
        tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_blocks),
        cmocka_unit_test(length_of_the_source),
        cmocka_unit_test(steps_that_were_free),
        cmocka_unit_test(names_without_end),
        cmocka_unit_test(strings_of_many_spans),
        cmocka_unit_test(merges_made_to_collide),
        cmocka_unit_test(special_tokens_without_end),
        cmocka_unit_test(special_tokens_of_any_length),
    };

    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
