/* SPDX-License-Identifier: MIT */
#include "daemon/output/harmony.h"
#include "daemon/output/literal.h"
#include "daemon/output/mark.h"
#include "daemon/output/markup-format.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 512 };

static const char recipient[] = " to=";
static const char *const marks[] = {"<|start|>",     "<|end|>",    "<|message|>", HARMONY_CHANNEL,
                                    "<|constrain|>", "<|return|>", "<|call|>"};

/* Zero at the beginning of an answer. */
struct harmony {
    struct channel_parser base;
    bool begun; /* there was a <|channel|> */
    enum { HARMONY_TEXT, HARMONY_HEADER, HARMONY_NAME, HARMONY_CALL } at;
    bool thinking;
    char name[8]; /* the channel's, its first bytes; longer than "final" */
    size_t n;

    bool calls, marks_in_text, final;
    bool undecided;    /* the answer begins with text that may be a header */
    struct buf header; /* role and name of the message */
    struct buf hold;   /* the beginning of a mark in text */
    uint32_t index;    /* of the call */
    struct buf tool;   /* its name */
    bool whole;        /* its arguments are complete */
    struct literal literal;
    struct buf raw, args; /* of the call: its text, and JSON to be sent */
};

static bool equals(const char *piece, size_t len, const char *s)
{
    return len == strlen(s) && memcmp(piece, s, len) == 0;
}

static const char *harmony_channel(const struct channel_parser *p)
{
    const struct harmony *h = (const struct harmony *)p;
    return h->at == HARMONY_CALL ? CHANNEL_TOOL_CALL : h->thinking ? CHANNEL_THINKING : CHANNEL_ANSWER;
}

static bool harmony_answers(const struct channel_parser *p)
{
    const struct harmony *h = (const struct harmony *)p;
    return h->begun && h->at == HARMONY_TEXT && !h->thinking;
}

static bool harmony_ends_part(const struct channel_parser *p)
{
    return ((const struct harmony *)p)->begun;
}

/* --- calls --- */

static int send(struct harmony *h, enum channel_call_step step, const char *name, struct channel_sink *sink)
{
    const struct channel_call c = {
        .index = h->index, .step = step, .name = name, .text = h->args.data, .len = h->args.len};
    return sink->call ? sink->call(sink, &c) : 0;
}

/* <|message|>: 1: the header names no function. */
static int begin_call(struct harmony *h, struct channel_sink *sink)
{
    static const char function[] = "to=functions.";
    char *name = h->calls && h->header.data ? strstr(h->header.data, function) : NULL;
    if (!name) return 1;
    name += strlen(function);
    name[strcspn(name, " \n\t<")] = '\0';
    if (!*name) return 1;
    buf_clear(&h->tool);
    if (buf_puts(&h->tool, name) < 0) return -ENOMEM;
    h->at = HARMONY_CALL;
    h->begun = true;
    h->whole = false;
    buf_clear(&h->raw);
    buf_clear(&h->args);
    literal_start(&h->literal, "", false);
    return send(h, CALL_BEGINS, name, sink);
}

static int withdraw(struct harmony *h, struct channel_sink *sink)
{
    int r = send(h, CALL_WITHDRAWN, NULL, sink);
    h->at = HARMONY_TEXT;
    h->thinking = false;
    h->index++;
    if (r == 0 && sink->warn) r = sink->warn(sink, "a tool call in the answer is malformed; it is text");
    return r == 0 && h->raw.len ? sink->text(sink, CHANNEL_ANSWER, h->raw.data, h->raw.len) : r;
}

static int call_text(struct harmony *h, const char *text, size_t len, struct channel_sink *sink)
{
    int r = LITERAL_MORE;
    if (buf_append(&h->raw, text, len) < 0) return -ENOMEM;
    for (size_t i = 0; i < len; i++) {
        if (h->whole && is_white(text[i])) continue;
        if (h->literal.at == LITERAL_START && !is_white(text[i]) && text[i] != '{') return withdraw(h, sink);
        r = h->whole ? LITERAL_BAD : literal_feed(&h->literal, text[i], &h->args);
        if (r < 0) return r;
        if (r != LITERAL_MORE && r != LITERAL_DONE) return withdraw(h, sink);
        h->whole = r == LITERAL_DONE;
    }
    r = h->args.len ? send(h, CALL_ARGUMENTS, NULL, sink) : 0;
    buf_clear(&h->args);
    return r;
}

/* A mark ends the message. A call that is not whole is malformed. */
static int end_call(struct harmony *h, struct channel_sink *sink)
{
    if (h->at != HARMONY_CALL) return 0;
    int r = h->whole ? send(h, CALL_ENDS, NULL, sink) : withdraw(h, sink);
    h->index += h->whole;
    h->at = HARMONY_HEADER;
    return r;
}

/* --- text and marks --- */

/* The text at the beginning of the answer was no header. */
static int decide(struct harmony *h, struct channel_sink *sink)
{
    if (!h->undecided) return 0;
    h->undecided = false;
    int r = h->header.len ? sink->text(sink, CHANNEL_ANSWER, h->header.data, h->header.len) : 0;
    buf_clear(&h->header);
    return r;
}

static bool may_be_header(const struct harmony *h)
{
    size_t n = h->header.len < strlen(recipient) ? h->header.len : strlen(recipient);
    return memcmp(h->header.data, recipient, n) == 0 && h->header.len <= HEADER_MAX;
}

static int message(struct harmony *h, struct channel_sink *sink)
{
    int r = begin_call(h, sink);
    buf_clear(&h->header);
    if (r != 1 || h->at == HARMONY_CALL) return r;
    h->thinking = h->at != HARMONY_NAME || !equals(h->name, h->n, "final");
    h->at = HARMONY_TEXT;
    return 0;
}

static int harmony_control(struct channel_parser *p, const char *piece, size_t len, struct channel_sink *sink)
{
    struct harmony *h = (struct harmony *)p;
    bool channel = equals(piece, len, HARMONY_CHANNEL), start = equals(piece, len, "<|start|>");
    int r = 0;
    if (h->final) return 0;
    if (channel)
        h->undecided = false; /* a header it was */
    else if (!equals(piece, len, "<|constrain|>"))
        r = decide(h, sink);
    if (r == 0) r = end_call(h, sink);
    if (r != 0) return r;
    if (channel) {
        h->begun = true;
        h->at = HARMONY_NAME;
        h->n = 0;
    } else if (h->begun && equals(piece, len, "<|message|>")) {
        return message(h, sink);
    } else if (h->begun && (start || equals(piece, len, "<|end|>"))) {
        h->at = HARMONY_HEADER;
    }
    if (start) buf_clear(&h->header);
    return h->calls && (channel || equals(piece, len, "<|constrain|>")) && buf_puts(&h->header, " ") < 0 ? -ENOMEM : 0;
}

static int plain_text(struct harmony *h, const char *text, size_t len, struct channel_sink *sink)
{
    if (len == 0) return 0;
    if (h->at == HARMONY_CALL) return call_text(h, text, len, sink);
    bool in_header = h->undecided || h->at != HARMONY_TEXT;
    if (h->calls && in_header && h->header.len <= HEADER_MAX && buf_append(&h->header, text, len) < 0) return -ENOMEM;
    if (h->undecided) return may_be_header(h) ? 0 : decide(h, sink);
    if (h->at == HARMONY_TEXT) return sink->text(sink, harmony_channel(&h->base), text, len);
    for (size_t i = 0; h->at == HARMONY_NAME && i < len && h->n < sizeof(h->name); i++) h->name[h->n++] = text[i];
    return 0;
}

/* The mark at @s, MARK_PART of one, or MARK_NO. */
static enum mark_match find_mark(const char *s, size_t n, size_t *end)
{
    enum mark_match found = MARK_NO;
    for (size_t i = 0; found != MARK_YES && i < sizeof(marks) / sizeof(*marks); i++) {
        enum mark_match m = mark_at(marks[i], s, n, end);
        if (m != MARK_NO) found = m;
    }
    return found;
}

/* Takes the marks out of h->hold, and the text between them. */
static int split(struct harmony *h, struct channel_sink *sink)
{
    size_t from = 0, i = 0, end = 0;
    int r = 0;
    const char *s = h->hold.data;
    for (; r == 0 && i < h->hold.len; i++) {
        enum mark_match m = find_mark(s + i, h->hold.len - i, &end);
        if (m == MARK_NO || (m == MARK_PART && h->final)) continue;
        r = plain_text(h, s + from, i - from, sink);
        from = i;
        if (m == MARK_PART) break;
        if (r == 0) r = harmony_control(&h->base, s + i, end, sink);
        from = i + end;
        i = from - 1;
    }
    if (r == 0 && from < i) {
        r = plain_text(h, s + from, i - from, sink);
        from = i;
    }
    buf_consume(&h->hold, from);
    return r;
}

static int harmony_text(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink)
{
    struct harmony *h = (struct harmony *)p;
    if (h->final) return 0;
    if (!h->marks_in_text) return plain_text(h, text, len, sink);
    return buf_append(&h->hold, text, len) < 0 ? -ENOMEM : split(h, sink);
}

/* Asked before each control token too: only text that is held by the end of the answer comes now. */
static int harmony_finish(struct channel_parser *p, struct channel_sink *sink)
{
    struct harmony *h = (struct harmony *)p;
    if (!h->marks_in_text && !h->undecided) return 0;
    h->final = h->marks_in_text;
    int r = h->hold.len ? split(h, sink) : 0;
    if (r == 0 && h->at == HARMONY_CALL && h->whole) r = end_call(h, sink);
    return r == 0 ? decide(h, sink) : r;
}

static int harmony_call_text(const struct channel_parser *p, struct buf *out)
{
    const struct harmony *h = (const struct harmony *)p;
    if (h->at != HARMONY_CALL) return 0;
    if (buf_printf(out, "%s\n", h->tool.data) < 0) return -ENOMEM;
    return h->raw.len && buf_append(out, h->raw.data, h->raw.len) < 0 ? -ENOMEM : 1;
}

static int harmony_clone(const struct channel_parser *p, struct channel_parser **out)
{
    const struct harmony *from = (const struct harmony *)p;
    struct harmony *h = malloc(sizeof(*h));
    if (!h) return -ENOMEM;
    *h = *from;
    h->header = h->hold = h->raw = h->args = h->tool = (struct buf)BUF_INIT;
    if ((from->header.len && buf_append(&h->header, from->header.data, from->header.len) < 0) ||
        (from->hold.len && buf_append(&h->hold, from->hold.data, from->hold.len) < 0) ||
        (from->tool.len && buf_append(&h->tool, from->tool.data, from->tool.len) < 0) ||
        (from->raw.len && buf_append(&h->raw, from->raw.data, from->raw.len) < 0)) {
        p->ops->free(&h->base);
        return -ENOMEM;
    }
    *out = &h->base;
    return 0;
}

static void harmony_free(struct channel_parser *p)
{
    struct harmony *h = (struct harmony *)p;
    buf_fini(&h->header);
    buf_fini(&h->hold);
    buf_fini(&h->raw);
    buf_fini(&h->args);
    buf_fini(&h->tool);
    free(h);
}

static const struct channel_parser_ops harmony_ops = {.text = harmony_text,
                                                      .control = harmony_control,
                                                      .finish = harmony_finish,
                                                      .ends_part = harmony_ends_part,
                                                      .channel = harmony_channel,
                                                      .answers = harmony_answers,
                                                      .call_text = harmony_call_text,
                                                      .clone = harmony_clone,
                                                      .free = harmony_free};

static int harmony_new(const struct channel_format *f, struct channel_parser **out)
{
    const struct markup_format *format = f == &channel_harmony ? NULL : (const struct markup_format *)f;
    struct harmony *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->base.ops = &harmony_ops;
    h->calls = h->undecided = format && json_array_size(format->tools) > 0;
    h->marks_in_text = format && format->marks_in_text;
    *out = &h->base;
    return 0;
}

const struct channel_format channel_harmony = {.new_parser = harmony_new};
