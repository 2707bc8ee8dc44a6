/* SPDX-License-Identifier: MIT */
#include "daemon/output/markup-parser.h"
#include "daemon/output/harmony.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int markup_take(struct markup_parser *p, size_t n)
{
    if (p->call.open && n && buf_append(&p->call.raw, unread(p), n) < 0) return -ENOMEM;
    p->used += n;
    p->scanned = 0;
    return 0;
}

int markup_take_white(struct markup_parser *p)
{
    size_t n = 0;
    while (n < n_unread(p) && is_white(unread(p)[n])) n++;
    return n ? markup_take(p, n) : 0;
}

enum mark_match markup_mark(const struct markup_parser *p, const char *mark, const char *text, size_t len, size_t *end)
{
    size_t white = mark_white(text, len);
    if (white > MARK_WHITE_MAX) return MARK_NO;
    enum mark_match m = mark_at(mark, text + white, len - white, end);
    if (m == MARK_YES) *end += white;
    return m == MARK_PART && p->final ? MARK_NO : m;
}

/* --- text and thinking --- */

enum found { FOUND_NOTHING, FOUND_PART, FOUND_CALL, FOUND_SECTION, FOUND_OPEN, FOUND_CLOSE, FOUND_JUNK };

/* @what if @mark is at @s. */
static enum found look(const struct markup_parser *p, const char *mark, enum found what, struct piece s, size_t *end)
{
    enum mark_match m = markup_mark(p, mark, s.p, s.n, end);
    return m == MARK_YES ? what : m == MARK_PART ? FOUND_PART : FOUND_NOTHING;
}

static enum found look_for_call(const struct markup_parser *p, const char *s, size_t n, size_t *end)
{
    bool section;
    if (!p->calls) return FOUND_NOTHING;
    if (p->fresh && p->at == AT_TEXT && *s == '{' && call_is_bare(p)) {
        *end = 0;
        return FOUND_CALL;
    }
    enum mark_match m = call_mark(p, s, n, end, &section);
    if (m == MARK_YES) return section ? FOUND_SECTION : FOUND_CALL;
    return m == MARK_PART && !p->final ? FOUND_PART : FOUND_NOTHING;
}

/* The mark at @s. A mark that may still become a longer one is FOUND_PART. */
static enum found look_at(const struct markup_parser *p, const char *s, size_t n, size_t *end)
{
    const struct markup *m = p->format->markup;
    const struct piece text = {s, n};
    enum found f = look_for_call(p, s, n, end);
    if (f == FOUND_NOTHING && (p->fresh || p->at == AT_THINKING))
        f = look(p, m->thinking.close, FOUND_CLOSE, text, end);
    if (p->at == AT_THINKING) return f;
    if (f == FOUND_NOTHING && p->fresh) f = look(p, m->thinking.open, FOUND_OPEN, text, end);
    for (int i = 0; f == FOUND_NOTHING && p->format->marks_in_text && i < MARKUP_JUNK && m->junk[i]; i++)
        f = look(p, m->junk[i], FOUND_JUNK, text, end);
    if (f == FOUND_NOTHING && p->calls && !*m->calls.section_begin)
        f = look(p, m->calls.section_end, FOUND_JUNK, text, end);
    return f;
}

/* The offset of the next mark, or the end of the text. */
static size_t find_mark(const struct markup_parser *p, enum found *what, size_t *end)
{
    const char *s = unread(p);
    size_t n = n_unread(p);
    *what = FOUND_NOTHING;
    for (size_t i = 0; i < n; i++) {
        if (is_white(s[i])) continue;
        *what = look_at(p, s + i, n - i, end);
        if (*what != FOUND_NOTHING) return i;
    }
    return n;
}

static size_t within(size_t at, size_t from, size_t to)
{
    return at < from ? from : at > to ? to : at;
}

/* Passes on @n bytes, without the control token in them. */
static int send_text(struct markup_parser *p, const char *channel, size_t n, struct channel_sink *sink)
{
    size_t from = p->used, to = from + n, control = within(p->control, from, to);
    size_t control_end = within(p->control_end, from, to);
    int r = control > from ? sink->text(sink, channel, p->hold.data + from, control - from) : 0;
    if (r == 0 && to > control_end) r = sink->text(sink, channel, p->hold.data + control_end, to - control_end);
    p->used = to;
    return step_of(r);
}

/* @white bytes of white space and a mark of @end bytes come next. */
static int take_mark(struct markup_parser *p, enum found what, size_t white, size_t end)
{
    if (what == FOUND_CALL || what == FOUND_SECTION) return call_open(p, white + end, what == FOUND_SECTION);
    p->used += white + end;
    p->skip_white = true;
    if (what == FOUND_OPEN) p->at = AT_THINKING;
    p->white = 0;
    if (what == FOUND_CLOSE) {
        p->at = AT_TEXT;
        p->fresh = p->thought = true;
    }
    return STEP_ON;
}

/* Text up to the next mark. White space waits if a mark may follow, and is then a part of the mark. */
static int pass_text(struct markup_parser *p, struct channel_sink *sink)
{
    bool thinking = p->at == AT_THINKING;
    enum found what;
    size_t end, at = find_mark(p, &what, &end), n = at;
    bool junk = p->format->marks_in_text && p->format->markup->junk[0];
    bool waits = what != FOUND_NOTHING || (!p->final && (thinking || p->calls || p->fresh || junk));
    while (waits && n && at - n < MARK_WHITE_MAX && is_white(unread(p)[n - 1])) n--;
    if (n) {
        int r = send_text(p, thinking ? CHANNEL_THINKING : CHANNEL_ANSWER, n, sink);
        p->skip_white = false;
        if (!thinking) p->fresh = false;
        return r;
    }
    if (what == FOUND_NOTHING || what == FOUND_PART) return STEP_WAIT;
    return take_mark(p, what, at - n, end);
}

static int text_step(struct markup_parser *p, struct channel_sink *sink)
{
    size_t end, before = n_unread(p);
    if (p->skip_white && markup_take_white(p) < 0) return -ENOMEM;
    p->white += (uint32_t)(before - n_unread(p));
    if (p->at == AT_THINKING && p->skip_white) { /* the model repeats the mark of the prompt */
        enum mark_match m = mark_at(p->format->markup->thinking.open, unread(p), n_unread(p), &end);
        if (m == MARK_PART && !p->final) return STEP_WAIT;
        if (m == MARK_YES) return markup_take(p, end) < 0 ? -ENOMEM : STEP_ON;
    }
    return n_unread(p) ? pass_text(p, sink) : STEP_WAIT;
}

/* --- the parser --- */

static int step(struct markup_parser *p, struct channel_sink *sink)
{
    static int (*const steps[])(struct markup_parser *, struct channel_sink *) = {
        [AT_TEXT] = text_step, [AT_THINKING] = text_step, [AT_SECTION] = call_section,   [AT_NAME] = call_name,
        [AT_ID] = call_id,     [AT_ARGS] = call_args,     [AT_ENVELOPE] = call_envelope, [AT_TAGS] = tagged_between,
        [AT_KEY] = tagged_key, [AT_VALUE] = tagged_value, [AT_CALL_END] = call_end,
    };
    int r = steps[p->at](p, sink);
    return r == STEP_BAD ? call_withdraw(p, sink) : r;
}

/* 0, 1 or -ENOMEM. */
static int run(struct markup_parser *p, struct channel_sink *sink)
{
    int r;
    do r = step(p, sink);
    while (r == STEP_ON);
    size_t used = p->used;
    buf_consume(&p->hold, used);
    p->control = p->control > used ? p->control - used : 0;
    p->control_end = p->control_end > used ? p->control_end - used : 0;
    p->used = 0;
    return r < 0 ? r : r == STEP_STOP;
}

static int parser_text(struct channel_parser *base, const char *text, size_t len, struct channel_sink *sink)
{
    struct markup_parser *p = (struct markup_parser *)base;
    if (p->final) return 0;
    if (buf_append(&p->hold, text, len) < 0) return -ENOMEM;
    return run(p, sink);
}

static int parser_control(struct channel_parser *base, const char *piece, size_t len, struct channel_sink *sink)
{
    struct markup_parser *p = (struct markup_parser *)base;
    p->control = p->hold.len;
    p->control_end = p->hold.len + len;
    return parser_text(base, piece, len, sink);
}

static int parser_finish(struct channel_parser *base, struct channel_sink *sink)
{
    struct markup_parser *p = (struct markup_parser *)base;
    p->final = true;
    int r = run(p, sink);
    if (r != 0 || !p->call.open || p->call.begun) return r;
    /* The call has no name yet. */
    p->call.open = false;
    p->at = AT_TEXT;
    if (p->call.raw.len) r = sink->text(sink, CHANNEL_ANSWER, p->call.raw.data, p->call.raw.len);
    if (r == 0 && p->hold.len) r = sink->text(sink, CHANNEL_ANSWER, p->hold.data, p->hold.len);
    buf_clear(&p->hold);
    return r;
}

static bool parser_ends_part(const struct channel_parser *p)
{
    return false;
}

static const char *parser_channel(const struct channel_parser *base)
{
    const struct markup_parser *p = (const struct markup_parser *)base;
    return p->at == AT_TEXT ? CHANNEL_ANSWER : p->at == AT_THINKING ? CHANNEL_THINKING : CHANNEL_TOOL_CALL;
}

static void parser_free(struct channel_parser *base)
{
    struct markup_parser *p = (struct markup_parser *)base;
    struct buf *all[] = {&p->hold, &p->call.raw, &p->call.name, &p->call.id, &p->call.args, &p->arg.key};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) buf_fini(all[i]);
    envelope_fini(&p->call.envelope);
    free(p);
}

static int parser_clone(const struct channel_parser *base, struct channel_parser **out)
{
    const struct markup_parser *from = (const struct markup_parser *)base;
    struct markup_parser *p = malloc(sizeof(*p));
    if (!p) return -ENOMEM;
    *p = *from;
    struct buf *all[] = {&p->hold, &p->call.raw, &p->call.name, &p->call.id, &p->call.args, &p->arg.key};
    struct buf old[sizeof(all) / sizeof(*all)];
    int r = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        old[i] = *all[i];
        *all[i] = (struct buf)BUF_INIT;
    }
    for (size_t i = 0; r == 0 && i < sizeof(all) / sizeof(*all); i++)
        if (old[i].len) r = buf_append(all[i], old[i].data, old[i].len);
    p->call.envelope = (struct envelope){.at = ENVELOPE_START};
    if (r == 0) r = envelope_clone(&p->call.envelope, &from->call.envelope);
    if (r < 0) {
        parser_free(&p->base);
        return -ENOMEM;
    }
    *out = &p->base;
    return 0;
}

static const struct channel_parser_ops markup_ops = {.text = parser_text,
                                                     .control = parser_control,
                                                     .finish = parser_finish,
                                                     .ends_part = parser_ends_part,
                                                     .channel = parser_channel,
                                                     .answers = markup_answers,
                                                     .before = markup_before,
                                                     .is_mark = markup_is_mark,
                                                     .call_text = markup_call_text,
                                                     .clone = parser_clone,
                                                     .free = parser_free};

static int parser_new(const struct channel_format *f, struct channel_parser **out)
{
    struct markup_parser *p = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;
    p->base.ops = &markup_ops;
    p->format = (const struct markup_format *)f;
    p->calls = calls_of(p)->form != MARKUP_NO_CALLS && json_array_size(p->format->tools) > 0;
    p->fresh = true;
    p->skip_white = p->format->start == MARKUP_AT_THINKING || p->format->markup->white_first;
    if (p->format->start == MARKUP_AT_THINKING) p->at = AT_THINKING;
    if (p->format->start == MARKUP_AT_NAME && call_open(p, 0, false) < 0) {
        parser_free(&p->base);
        return -ENOMEM;
    }
    *out = &p->base;
    return 0;
}

void markup_format_init(struct markup_format *f)
{
    f->base.new_parser = f->markup->calls.form == MARKUP_HARMONY ? channel_harmony.new_parser : parser_new;
}
