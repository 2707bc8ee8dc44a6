/* SPDX-License-Identifier: MIT */
/* The whole pipeline, with vocabularies in which each byte is a token. */
#include "daemon/output/pipeline.h"
#include "libcommon/utf8.h"
#include "tests/text/tiny-tokenizer.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FFFD "\xef\xbf\xbd"

/* Ids 0 to 255 are the bytes; then these. */
enum { START = 256, CHANNEL, MESSAGE, END, EOG, OTHER, TAGS, CALL };

static const struct tiny_token extra[] = {
    {"<|start|>", TINY_CONTROL, 0}, {"<|channel|>", TINY_CONTROL, 0}, {"<|message|>", TINY_CONTROL, 0},
    {"<|end|>", TINY_CONTROL, 0},   {"<|return|>", TINY_CONTROL, 0},  {"<|other|>", TINY_CONTROL, 0},
    {"a<t>b</t>c", TINY_USER, 0},   {"<|call|>", TINY_CONTROL, 0},
};

static struct tokenizer *new_tokenizer(bool harmony)
{
    struct tiny_token own[sizeof(extra) / sizeof(*extra)];
    struct tiny_tokenizer m = {0};
    struct tokenizer *t;
    memcpy(own, extra, sizeof(own));
    if (!harmony) own[CHANNEL - 256].text = "<|no channel|>";
    tiny_bpe(&m, "gpt-2", NULL, own, sizeof(own) / sizeof(*own));
    assert_int_equal(tiny_tokenizer_new(&m, &t), 0);
    return t;
}

/* --- an answer --- */

struct said {
    struct output o;
    struct output_step step;
    struct buf shown; /* "channel:text|" for each event */
    struct buf raw;   /* [markup], {a tail} */
    int end;          /* of the last push */
};

static struct proto_text text_of(const char *s)
{
    return (struct proto_text){.data = (char *)s, .len = strlen(s)};
}

static void begin(struct said *a, const struct tokenizer *t, const char *stop, uint32_t lines)
{
    struct proto_text text = text_of(stop ? stop : "");
    *a = (struct said){.end = 0};
    struct output_request q = {
        .stop = &text, .n_stop = stop != NULL, .max_lines = lines, .format = channel_format_of(t)};
    assert_int_equal(output_init(&a->o, t, &q), 0);
}

static void finish(struct said *a)
{
    output_fini(&a->o);
    output_step_fini(&a->step);
    buf_fini(&a->shown);
    buf_fini(&a->raw);
}

static void take(struct said *a)
{
    struct output_step *s = &a->step;
    for (size_t i = 0; i < s->n; i++) {
        const struct buf *text = &s->events[i].text;
        assert_true(text->len > 0);
        assert_int_equal(utf8_check(text->data, text->len), text->len);
        assert_int_equal(buf_printf(&a->shown, "%s:%s|", s->events[i].channel, text->data), 0);
        if (i) assert_string_not_equal(s->events[i].channel, s->events[i - 1].channel);
    }
    if (s->tail.len) assert_int_equal(buf_printf(&a->raw, "{%s}", s->tail.data), 0);
    if (s->text.len) assert_int_equal(buf_printf(&a->raw, s->markup ? "[%s]" : "%s", s->text.data), 0);
    output_step_clear(s);
}

static void push(struct said *a, int32_t id)
{
    a->end = output_push(&a->o, id, &a->step);
    assert_true(a->end == 0 || a->end == 1);
    assert_non_null(a->step.channel);
    take(a);
}

/* Digits are the tokens from START on, other characters their bytes. */
static void say(struct said *a, const char *script)
{
    for (; *script && a->end == 0; script++)
        push(a, *script >= '0' && *script <= '9' ? START + *script - '0' : (unsigned char)*script);
}

static void stop(struct said *a)
{
    assert_int_equal(output_finish(&a->o, &a->step), 0);
    take(a);
}

static const char *text_in(const struct buf *b)
{
    return b->data ? b->data : "";
}

/* --- stages --- */

struct fixture {
    struct tokenizer *plain, *harmony;
};

static int setup(void **state)
{
    static struct fixture f;
    f.plain = new_tokenizer(false);
    f.harmony = new_tokenizer(true);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    tokenizer_free(f->plain);
    tokenizer_free(f->harmony);
    return 0;
}

static void expect(const struct tokenizer *t, const char *stop_string, uint32_t lines, const char *script,
                   const char *shown, const char *answer)
{
    struct said a;
    begin(&a, t, stop_string, lines);
    say(&a, script);
    if (!a.end) stop(&a);
    assert_string_equal(text_in(&a.shown), shown);
    assert_string_equal(text_in(&a.o.answer), answer);
    finish(&a);
}

static void test_plain_text(void **state)
{
    const struct fixture *f = *state;
    expect(f->plain, NULL, 0, "ok4x", "answer:o|answer:k|", "ok");
    expect(f->plain, NULL, 0, "1ana2o5k", "answer:a|answer:n|answer:a|answer:o|answer:k|", "anaok");
    expect(f->plain, NULL, 0, "\xc3\xa9\xf0", "answer:é|answer:" FFFD "|", "é" FFFD);
    expect(f->plain, NULL, 0,
           "\xf0\x9f"
           "5a",
           "answer:" FFFD "|answer:a|", FFFD "a");
}

static void test_stop_strings_over_tokens(void **state)
{
    const struct fixture *f = *state;
    expect(f->plain, "bcd", 0, "abcx", "answer:a|answer:bcx|", "abcx");
    expect(f->plain, "bcd", 0, "abcdx", "answer:a|", "a");
    expect(f->plain, "bcd", 0, "ab5cdx", "answer:a|", "a"); /* a control token has no text */
    expect(f->plain, "bcd", 0, "abc", "answer:a|answer:bc|", "abc");
    expect(f->plain, "bcd", 0, "abc4", "answer:a|answer:bc|", "abc");
    expect(f->plain, "é", 0, "a\xc3\xa9x", "answer:a|", "a");
    expect(f->plain, FFFD, 0,
           "a\xc3"
           "5x",
           "answer:a|", "a"); /* a control token completes it */
    expect(f->plain, FFFD, 0, "a\xc3", "answer:a|", "a");
}

static void test_line_limit(void **state)
{
    const struct fixture *f = *state;
    expect(f->plain, NULL, 1, "\na\nb", "answer:\n|answer:a|", "\na");
    expect(f->plain, "\nb", 2, "a\nc\nd", "answer:a|answer:\nc|", "a\nc");
    expect(f->plain, "c\nd", 1, "abc\n", "answer:a|answer:b|answer:c|", "abc");
}

/* Text that a stop string holds back belongs to the part in which it stands. */
static void test_harmony(void **state)
{
    const struct fixture *f = *state;
    expect(f->harmony, NULL, 0, "1ana2hm301final2ok4", "thinking:h|thinking:m|answer:o|answer:k|", "ok");
    expect(f->harmony, NULL, 0, "ok4", "answer:o|answer:k|", "ok");
    expect(f->harmony, "mo", 0, "1ana2hm301final2ok4", "thinking:h|thinking:m|answer:o|answer:k|", "ok");
    expect(f->harmony, "oo", 0, "1ana2ho301final2oko4", "thinking:h|thinking:o|answer:ok|answer:o|", "oko");
    expect(f->harmony, "k", 0, "1ana2h301final2oko4", "thinking:h|answer:o|", "o");
    expect(f->harmony, "ana", 0, "1ana2x", "thinking:x|", "");
    expect(f->harmony, "xy", 0, "x1final2y", "answer:x|answer:y|", "xy");
}

/* The channel of a control token is the one before it. */
static void test_channel_of_a_token(void **state)
{
    const struct fixture *f = *state;
    struct said a;
    begin(&a, f->harmony, NULL, 0);
    assert_null(a.step.channel);
    const struct {
        int32_t id;
        const char *channel;
    } tokens[] = {{CHANNEL, "answer"}, {'a', "answer"},   {MESSAGE, "answer"},
                  {'x', "thinking"},   {END, "thinking"}, {EOG, "thinking"}};
    for (size_t i = 0; i < sizeof(tokens) / sizeof(*tokens); i++) {
        a.end = output_push(&a.o, tokens[i].id, &a.step);
        assert_string_equal(a.step.channel, tokens[i].channel);
        assert_int_equal(a.end, tokens[i].id == EOG);
        take(&a);
    }
    assert_int_equal(a.o.thought, 3);
    finish(&a);
}

/* The raw text has everything that the tokens say, marks too, shown or not. */
static void test_raw_text(void **state)
{
    const struct fixture *f = *state;
    struct said a;
    begin(&a, f->harmony, "st", 0);
    say(&a, "1fi2\xc3");
    assert_string_equal(text_in(&a.raw), "[<|channel|>]fi[<|message|>]");
    push(&a, 0xe2);
    assert_int_equal(a.o.detok.n_pending, 1);
    say(&a, "3s4");
    assert_int_equal(a.end, 1);
    assert_string_equal(text_in(&a.raw), "[<|channel|>]fi[<|message|>]" FFFD "{" FFFD "}[<|end|>]s[<|return|>]");
    finish(&a);
    begin(&a, f->plain, NULL, 0);
    assert_int_equal(output_push(&a.o, 0xe2, &a.step), 0);
    assert_int_equal(a.step.pending, 1);
    take(&a);
    assert_int_equal(output_push(&a.o, 0x82, &a.step), 0);
    assert_int_equal(a.step.pending, 2);
    assert_int_equal(output_finish(&a.o, &a.step), 0); /* into the same step */
    take(&a);
    assert_string_equal(text_in(&a.raw), "{" FFFD "}");
    assert_string_equal(text_in(&a.shown), "answer:" FFFD "|");
    finish(&a);
}

/* --- a parser of the test's own: <t> and </t> in the text --- */

struct tags {
    struct channel_parser base;
    bool thinking;
    char held[8];
    size_t n;
};

static const char *tags_channel(const struct channel_parser *p)
{
    return ((const struct tags *)p)->thinking ? "thought" : CHANNEL_ANSWER;
}

static int tags_finish(struct channel_parser *p, struct channel_sink *sink)
{
    struct tags *t = (struct tags *)p;
    size_t n = t->n;
    t->n = 0;
    return n ? sink->text(sink, tags_channel(p), t->held, n) : 0;
}

static int tags_text(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink)
{
    struct tags *t = (struct tags *)p;
    int r = 0;
    for (size_t i = 0; i < len && r == 0; i++) {
        t->held[t->n++] = text[i];
        if (t->n <= 3 && memcmp(t->held, "<t>", t->n) == 0) {
            if (t->n == 3) t->thinking = true, t->n = 0;
        } else if (t->n <= 4 && memcmp(t->held, "</t>", t->n) == 0) {
            if (t->n == 4) t->thinking = false, t->n = 0;
        } else {
            r = tags_finish(p, sink);
        }
    }
    return r;
}

static int tags_control(struct channel_parser *p, const char *piece, size_t len, struct channel_sink *sink)
{
    return 0;
}

static bool tags_ends_part(const struct channel_parser *p)
{
    return false;
}

static int tags_clone(const struct channel_parser *p, struct channel_parser **out)
{
    struct tags *t = malloc(sizeof(*t));
    if (!t) return -ENOMEM;
    *t = *(const struct tags *)p;
    *out = &t->base;
    return 0;
}

static void tags_free(struct channel_parser *p)
{
    free(p);
}

static const struct channel_parser_ops tags_ops = {.text = tags_text,
                                                   .control = tags_control,
                                                   .finish = tags_finish,
                                                   .ends_part = tags_ends_part,
                                                   .channel = tags_channel,
                                                   .clone = tags_clone,
                                                   .free = tags_free};

static int tags_new(const struct channel_format *f, struct channel_parser **out)
{
    struct tags *t = calloc(1, sizeof(*t));
    if (!t) return -ENOMEM;
    t->base.ops = &tags_ops;
    *out = &t->base;
    return 0;
}

static const struct channel_format tags_format = {.new_parser = tags_new};

static void begin_tags(struct said *a, const struct tokenizer *t, const char *stop_string)
{
    struct proto_text text = text_of(stop_string);
    struct output_request q = {.stop = &text, .n_stop = 1, .format = &tags_format};
    *a = (struct said){.end = 0};
    assert_int_equal(output_init(&a->o, t, &q), 0);
}

static void expect_tags(const struct tokenizer *t, const char *script, const char *shown, const char *answer)
{
    struct said a;
    begin_tags(&a, t, "xyz");
    say(&a, script);
    if (!a.end) stop(&a);
    assert_string_equal(text_in(&a.shown), shown);
    assert_string_equal(text_in(&a.o.answer), answer);
    finish(&a);
}

static void test_a_parser_of_ones_own(void **state)
{
    const struct fixture *f = *state;
    expect_tags(f->plain, "6", "answer:a|thought:b|answer:c|", "ac"); /* one token, three events */
    expect_tags(f->plain, "a<t>b</t>c", "answer:a|thought:b|answer:c|", "ac");
    expect_tags(f->plain, "x<t>yz</t>", "answer:x|thought:y|thought:z|", "x"); /* no stop string across parts */
    expect_tags(f->plain, "<t>xyza", "", "");
    expect_tags(f->plain, "a<t", "answer:a|answer:<t|", "a<t");
    expect_tags(f->plain, "<u>4", "answer:<u|answer:>|", "<u>");
    expect_tags(f->plain, "x6", "answer:xa|thought:b|answer:c|", "xac");
}

/* --- random answers --- */

static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % n;
}

/* The text before the stop string that is complete first, of several the longest, and before the last newline. */
static void expected(struct buf *out, const char *text, const char *const *stops, size_t n, uint32_t lines)
{
    size_t end = strlen(text), begins = end;
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(text, stops[i]);
        if (!at) continue;
        size_t b = (size_t)(at - text), e = b + strlen(stops[i]);
        if (e < end || (e == end && b < begins)) end = e, begins = b;
    }
    for (size_t i = 0, seen = 0, begun = 0; lines && i < begins; i++) {
        begun |= text[i] != '\n' && text[i] != ' ';
        if (text[i] == '\n' && begun && ++seen == lines) begins = i;
    }
    buf_clear(out);
    assert_int_equal(buf_append(out, text, begins), 0);
}

/* Some tokens go to the original, which is then replaced by its clone from before. */
static void wander(struct said *a)
{
    struct output before;
    struct output_step lost = {0};
    assert_int_equal(output_clone(&before, &a->o), 0);
    for (uint32_t n = rnd(12); n > 0; n--)
        if (output_push(&a->o, (int32_t)(rnd(8) ? rnd(256) : START + rnd(7)), &lost) != 0) break;
    output_step_fini(&lost);
    output_fini(&a->o);
    a->o = before;
}

static void test_random_plain(void **state)
{
    static const char *const alphabet[] = {"a", "b", "é", "€", "🙂", "\n", " "};
    const struct fixture *f = *state;
    for (int round = 0; round < 2000; round++) {
        char text[256] = "", s1[16] = "", s2[16] = "";
        const char *const stops[] = {s1, s2};
        for (uint32_t i = rnd(40); i-- > 0;) strcat(text, alphabet[rnd(7)]);
        for (uint32_t i = 1 + rnd(3); i-- > 0;) strcat(s1, alphabet[rnd(5)]);
        for (uint32_t i = 1 + rnd(3); i-- > 0;) strcat(s2, alphabet[rnd(6)]);
        struct proto_text texts[] = {text_of(s1), text_of(s2)};
        uint32_t lines = rnd(3), n_stop = rnd(3);
        struct said a = {.end = 0};
        struct buf want = BUF_INIT;
        struct output_request q = {.stop = texts, .n_stop = n_stop, .max_lines = lines};
        assert_int_equal(output_init(&a.o, f->plain, &q), 0);
        for (const char *c = text; *c && !a.end; c++) {
            if (rnd(4) == 0) wander(&a);
            push(&a, (unsigned char)*c);
        }
        if (!a.end) stop(&a);
        expected(&want, text, stops, n_stop, lines);
        assert_string_equal(text_in(&a.o.answer), text_in(&want));
        if (!a.end) assert_string_equal(text_in(&a.raw), text);
        buf_fini(&want);
        finish(&a);
    }
}

/* Any tokens, with and without wandering. */
static void test_random_tokens(void **state)
{
    static const char bytes[] = "ab<t/>\n\xc3\xa9\xe2\x82\xac\xff";
    const struct fixture *f = *state;
    for (int round = 0; round < 1500; round++) {
        struct said a, b;
        int kind = round % 3;
        if (kind == 2) {
            begin_tags(&a, f->plain, "ab");
            begin_tags(&b, f->plain, "ab");
        } else {
            begin(&a, kind ? f->harmony : f->plain, "ab", 0);
            begin(&b, kind ? f->harmony : f->plain, "ab", 0);
        }
        for (uint32_t n = rnd(60); n > 0 && !a.end; n--) {
            int32_t id = rnd(3) ? (unsigned char)bytes[rnd(sizeof(bytes) - 1)] : (int32_t)(START + rnd(7));
            if (id == EOG && rnd(4)) id = OTHER;
            if (rnd(3) == 0) wander(&b);
            push(&a, id);
            push(&b, id);
        }
        if (!a.end) {
            stop(&a);
            stop(&b);
        }
        assert_int_equal(a.end, b.end);
        assert_string_equal(text_in(&a.shown), text_in(&b.shown));
        assert_string_equal(text_in(&a.raw), text_in(&b.raw));
        assert_string_equal(text_in(&a.o.answer), text_in(&b.o.answer));
        finish(&a);
        finish(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_text),           cmocka_unit_test(test_stop_strings_over_tokens),
        cmocka_unit_test(test_line_limit),           cmocka_unit_test(test_harmony),
        cmocka_unit_test(test_channel_of_a_token),   cmocka_unit_test(test_raw_text),
        cmocka_unit_test(test_a_parser_of_ones_own), cmocka_unit_test(test_random_plain),
        cmocka_unit_test(test_random_tokens),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
