/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "libcommon/buf.h"
#include "libcommon/error.h"
#include "tests/output/parsed.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

void family_init(struct family *f, const char *source, size_t len)
{
    int r = template_new(&f->template, source, len);
    if (r < 0) fail_msg("%s", error_text(r));
    const struct markup_source s = {
        .template = f->template, .text = source, .len = len, .bos = "<s>", .eos = "</s>", .now = 1700000000};
    assert_int_equal(markup_new(&f->markup, &s), 0);
}

void family_fini(struct family *f)
{
    f->markup = markup_free(f->markup);
    f->template = template_free(f->template);
}

struct markup_format format_of(const struct family *f, const json_t *tools, enum markup_start start)
{
    struct markup_format format = {.markup = f->markup, .tools = tools, .start = start, .marks_in_text = true};
    markup_format_init(&format);
    return format;
}

struct sink {
    struct channel_sink base;
    struct buf content, thinking, args;
    json_t *calls, *open; /* open: the call that has begun */
    json_int_t withdrawn, warnings;
    uint32_t next; /* index of the next call */
};

static int on_text(struct channel_sink *base, const char *channel, const char *text, size_t len)
{
    struct sink *s = (struct sink *)base;
    bool thinking = strcmp(channel, CHANNEL_THINKING) == 0;
    assert_true(len > 0);
    assert_true(thinking || strcmp(channel, CHANNEL_ANSWER) == 0);
    assert_null(s->open);
    assert_int_equal(buf_append(thinking ? &s->thinking : &s->content, text, len), 0);
    return 0;
}

static void on_begin(struct sink *s, const struct channel_call *c)
{
    assert_null(s->open);
    assert_int_equal(c->index, s->next++);
    assert_non_null(c->name);
    s->open = json_pack("{s:s}", "name", c->name);
    assert_non_null(s->open);
    buf_clear(&s->args);
}

static void on_end(struct sink *s, const struct channel_call *c)
{
    json_t *args = json_loadb(s->args.data, s->args.len, JSON_ALLOW_NUL, NULL);
    if (!args) fail_msg("these arguments are not JSON: %s", s->args.data);
    assert_int_equal(json_object_set_new(s->open, "arguments", args), 0);
    if (c->id) assert_int_equal(json_object_set_new(s->open, "id", json_string(c->id)), 0);
    assert_int_equal(json_array_append_new(s->calls, s->open), 0);
    s->open = NULL;
}

static int on_call(struct channel_sink *base, const struct channel_call *c)
{
    struct sink *s = (struct sink *)base;
    if (c->step == CALL_BEGINS) {
        on_begin(s, c);
        return 0;
    }
    assert_non_null(s->open);
    assert_int_equal(c->index + 1, s->next);
    if (c->step == CALL_ARGUMENTS) {
        assert_int_equal(buf_append(&s->args, c->text, c->len), 0);
    } else if (c->step == CALL_ENDS) {
        on_end(s, c);
    } else {
        json_decref(s->open);
        s->open = NULL;
        s->withdrawn++;
    }
    return 0;
}

static int on_warning(struct channel_sink *base, const char *warning)
{
    assert_true(strlen(warning) > 10);
    ((struct sink *)base)->warnings++;
    return 0;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

static void feed(struct channel_parser **p, const char *answer, size_t len, struct pieces how, struct sink *s)
{
    for (size_t i = 0; i < len;) {
        size_t n = how.most ? 1 + next_random(&how.seed) % how.most : len;
        if (n > len - i) n = len - i;
        /* The piece is a copy, so that a checker sees reads beyond it. */
        char *piece = malloc(n);
        assert_non_null(piece);
        memcpy(piece, answer + i, n);
        assert_int_equal((*p)->ops->text(*p, piece, n, &s->base), 0);
        free(piece);
        i += n;
        if (how.clones && next_random(&how.seed) % 4 == 0) {
            struct channel_parser *clone;
            assert_int_equal((*p)->ops->clone(*p, &clone), 0);
            (*p)->ops->free(*p);
            *p = clone;
        }
    }
    for (int i = 0; i < 2; i++) assert_int_equal((*p)->ops->finish(*p, &s->base), 0);
}

static json_t *string_of(const struct buf *b)
{
    return json_stringn_nocheck(b->data ? b->data : "", b->len);
}

json_t *parsed(const struct markup_format *f, const char *answer, size_t len, struct pieces pieces)
{
    struct sink s = {.base = {on_text, on_call, on_warning}, .calls = json_array()};
    struct channel_parser *p;
    assert_int_equal(f->base.new_parser(&f->base, &p), 0);
    feed(&p, answer, len, pieces, &s);
    p->ops->free(p);
    if (s.open) assert_int_equal(json_object_set_new(s.open, "arguments", string_of(&s.args)), 0);
    json_t *out = json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "content", string_of(&s.content), "thinking",
                            string_of(&s.thinking), "tool_calls", s.calls, "partial", s.open ? s.open : json_null(),
                            "withdrawn", s.withdrawn, "warnings", s.warnings);
    buf_fini(&s.content);
    buf_fini(&s.thinking);
    buf_fini(&s.args);
    assert_non_null(out);
    return out;
}

void expect_member(const json_t *parsed, const char *key, const char *want)
{
    const json_t *got = json_object_get(parsed, key);
    json_auto_t *expected = json_loads(want, JSON_DECODE_ANY, NULL);
    if (!expected) fail_msg("not JSON: %s", want);
    if (!json_equal(got, expected)) fail_msg("%s is %s, not %s", key, json_dumps(got, JSON_ENCODE_ANY), want);
}
