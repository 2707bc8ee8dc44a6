/* SPDX-License-Identifier: MIT */
#include "daemon/output/markup-parser.h"
#include "daemon/output/tool-types.h"
#include <errno.h>
#include <string.h>

/* A mark of a section or a call is at most this far behind the beginning of the section. */
enum { SECTION_HEAD = 512 };

bool call_is_bare(const struct markup_parser *p)
{
    const struct markup_calls *c = calls_of(p);
    return c->form == MARKUP_ENVELOPE && mark_is_blank(c->section_begin) && mark_is_blank(c->call_begin);
}

enum mark_match call_mark(const struct markup_parser *p, const char *text, size_t len, size_t *end, bool *section)
{
    const struct markup_calls *c = calls_of(p);
    enum mark_match m = mark_at(c->section_begin, text, len, end);
    *section = m == MARK_YES;
    if (m == MARK_YES) return m;
    enum mark_match call = mark_at(c->call_begin, text, len, end);
    if (call == MARK_NO) call = mark_at(c->call_begin_short, text, len, end);
    return call == MARK_NO ? m : call;
}

enum mark_match call_end_mark(const struct markup_parser *p, const char *text, size_t len, size_t *end)
{
    enum mark_match m = markup_mark(p, calls_of(p)->call_end, text, len, end);
    return m == MARK_NO ? markup_mark(p, calls_of(p)->call_end_short, text, len, end) : m;
}

/* The call itself begins; p->call.open was set before. */
static int start_call(struct markup_parser *p)
{
    struct buf *all[] = {&p->call.name, &p->call.id, &p->call.args};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) buf_clear(all[i]);
    p->call.begun = false;
    p->at = calls_of(p)->form == MARKUP_ENVELOPE ? AT_ENVELOPE : AT_NAME;
    envelope_start(&p->call.envelope, calls_of(p));
    return STEP_ON;
}

static void open_call(struct markup_parser *p)
{
    if (!p->call.open) buf_clear(&p->call.raw);
    p->call.open = true;
}

int call_open(struct markup_parser *p, size_t n, bool section)
{
    open_call(p);
    if (n && markup_take(p, n) < 0) return -ENOMEM;
    p->call.mark = p->call.raw.len;
    p->in_section = section;
    p->section_used = false;
    if (!section) return start_call(p);
    p->at = AT_SECTION;
    p->call.begun = false;
    return STEP_ON;
}

static void close_call(struct markup_parser *p)
{
    p->call.open = p->call.begun = false;
    p->fresh = p->skip_white = true;
}

static int leave_section(struct markup_parser *p)
{
    close_call(p);
    p->in_section = false;
    p->at = AT_TEXT;
    return STEP_ON;
}

/* --- what the client hears --- */

static int send_step(struct markup_parser *p, enum channel_call_step step, struct channel_sink *sink)
{
    struct channel_call c = {.index = p->call.index, .step = step};
    if (step == CALL_BEGINS) c.name = p->call.name.data;
    if (step != CALL_ARGUMENTS && p->call.id.len) c.id = p->call.id.data;
    if (step == CALL_ARGUMENTS) {
        c.text = p->call.args.data;
        c.len = p->call.args.len;
    }
    return sink->call ? sink->call(sink, &c) : 0;
}

int call_send_args(struct markup_parser *p, struct channel_sink *sink)
{
    int r = p->call.begun && p->call.args.len ? send_step(p, CALL_ARGUMENTS, sink) : 0;
    if (p->call.begun) buf_clear(&p->call.args);
    return step_of(r);
}

/* The name is known. Without marks, or if names stand for text too, only names of tools make a call. */
static int begin_call(struct markup_parser *p, struct channel_sink *sink)
{
    bool doubtful = call_is_bare(p) || *calls_of(p)->text_name;
    if (doubtful && !tool_exists(p->format->tools, p->call.name.data)) return STEP_BAD;
    p->call.begun = true;
    return step_of(send_step(p, CALL_BEGINS, sink));
}

int call_withdraw(struct markup_parser *p, struct channel_sink *sink)
{
    static const char warning[] = "a tool call in the answer is malformed; it is text";
    bool begun = p->call.begun;
    int r = begun ? send_step(p, CALL_WITHDRAWN, sink) : 0;
    if (r == 0 && sink->warn && (begun || !call_is_bare(p))) r = sink->warn(sink, warning);
    if (r == 0 && p->call.raw.len) r = sink->text(sink, CHANNEL_ANSWER, p->call.raw.data, p->call.raw.len);
    p->call.index += begun;
    leave_section(p);
    p->fresh = p->skip_white = false;
    return step_of(r);
}

/* --- between calls --- */

/* Unknown text before the first call of a section belongs to the section, if the mark of a call follows soon. */
static int skip_head(struct markup_parser *p)
{
    const char *begin = calls_of(p)->call_begin;
    size_t n = n_unread(p), end;
    if (mark_is_blank(begin)) return STEP_BAD;
    for (size_t i = 0; i < n && i < SECTION_HEAD; i++)
        if (mark_at(begin, unread(p) + i, n - i, &end) == MARK_YES) return markup_take(p, i) < 0 ? -ENOMEM : STEP_ON;
    return n < SECTION_HEAD && !p->final ? STEP_WAIT : STEP_BAD;
}

static bool begins_bare_call(const struct markup_parser *p, char c)
{
    if (!mark_is_blank(calls_of(p)->call_begin)) return false;
    if (calls_of(p)->form == MARKUP_ENVELOPE) return c == '{';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

int call_section(struct markup_parser *p, struct channel_sink *sink)
{
    const struct markup_calls *c = calls_of(p);
    size_t close_end, begin_end, next_end;
    if (markup_take_white(p) < 0) return -ENOMEM;
    const char *s = unread(p);
    size_t n = n_unread(p);
    if (n == 0) return STEP_WAIT;
    enum mark_match close = markup_mark(p, c->section_end, s, n, &close_end);
    enum mark_match begin = markup_mark(p, c->call_begin, s, n, &begin_end);
    enum mark_match next = markup_mark(p, c->separator, s, n, &next_end);
    if (close == MARK_YES) return markup_take(p, close_end) < 0 ? -ENOMEM : leave_section(p);
    if (begin == MARK_YES || begins_bare_call(p, *s)) {
        open_call(p);
        if (begin == MARK_YES && markup_take(p, begin_end) < 0) return -ENOMEM;
        return start_call(p);
    }
    if (close == MARK_PART || begin == MARK_PART || next == MARK_PART) return STEP_WAIT;
    if (next == MARK_YES || *s == ',') return markup_take(p, next == MARK_YES ? next_end : 1) < 0 ? -ENOMEM : STEP_ON;
    return p->section_used ? leave_section(p) : skip_head(p);
}

/* --- names and ids --- */

/* Marks that may follow a name. */
static enum mark_match name_ends(const struct markup_parser *p, const char *s, size_t n, bool *id, size_t *end)
{
    const struct markup_calls *c = calls_of(p);
    enum mark_match m = markup_mark(p, c->id_begin, s, n, end), part = m;
    *id = m == MARK_YES;
    if (m == MARK_YES) return m;
    m = markup_mark(p, c->name_end, s, n, end);
    if (m != MARK_NO || !mark_is_blank(c->name_end)) return m == MARK_NO ? part : m;
    size_t white = mark_white(s, n);
    if (c->form == MARKUP_TAGS) {
        enum mark_match begin = markup_mark(p, c->arg_begin, s, n, end), close = call_end_mark(p, s, n, end);
        *end = 0;
        if (begin == MARK_YES || close == MARK_YES) return MARK_YES;
        return begin == MARK_PART || close == MARK_PART ? MARK_PART : MARK_NO;
    }
    if (white == n) return p->final ? MARK_NO : MARK_PART;
    *end = white + (c->form == MARKUP_PYTHON);
    if (white && *c->name_end) return MARK_YES;
    return s[white] == (c->form == MARKUP_PYTHON ? '(' : '{') ? MARK_YES : part;
}

static bool in_name(char c)
{
    return (unsigned char)c > ' ' && !strchr("\"{}()<>[]", c);
}

/* The name, or with @is_id the id, is before the mark that follows it. STEP_ON: @to has it, and the mark is taken. */
static int read_name(struct markup_parser *p, struct buf *to, bool is_id, bool *id)
{
    size_t n, end;
    if (markup_take_white(p) < 0) return -ENOMEM;
    n = n_unread(p);
    for (size_t i = 0; i < n && i <= MARKUP_NAME_MAX; i++) {
        const char *s = unread(p) + i;
        enum mark_match m =
            is_id ? markup_mark(p, calls_of(p)->name_end, s, n - i, &end) : name_ends(p, s, n - i, id, &end);
        if (m == MARK_PART) return STEP_WAIT;
        if (m == MARK_NO && in_name(*s)) continue;
        if (m == MARK_NO || (i == 0 && !is_id)) return STEP_BAD;
        return (i && buf_append(to, unread(p), i) < 0) || markup_take(p, i + end) < 0 ? -ENOMEM : STEP_ON;
    }
    return n > MARKUP_NAME_MAX ? STEP_BAD : STEP_WAIT;
}

static int begin_args(struct markup_parser *p, struct channel_sink *sink)
{
    bool tags = calls_of(p)->form == MARKUP_TAGS;
    p->at = tags ? AT_TAGS : AT_ARGS;
    p->arg.first = true;
    literal_start(&p->call.literal, calls_of(p)->quote, calls_of(p)->form == MARKUP_PYTHON);
    return begin_call(p, sink);
}

int call_name(struct markup_parser *p, struct channel_sink *sink)
{
    bool id = false;
    int r = read_name(p, &p->call.name, false, &id);
    if (r != STEP_ON) return r;
    if (strcmp(p->call.name.data, calls_of(p)->text_name) == 0) return leave_section(p);
    if (!id) return begin_args(p, sink);
    p->at = AT_ID;
    return STEP_ON;
}

int call_id(struct markup_parser *p, struct channel_sink *sink)
{
    bool id;
    int r = read_name(p, &p->call.id, true, &id);
    if (r != STEP_ON) return r;
    if (calls_of(p)->id_is_index) buf_clear(&p->call.id);
    return begin_args(p, sink);
}

/* --- arguments --- */

int call_args(struct markup_parser *p, struct channel_sink *sink)
{
    int r = LITERAL_MORE;
    size_t i = 0;
    if (p->call.literal.at == LITERAL_START && !p->call.literal.call) {
        if (markup_take_white(p) < 0) return -ENOMEM;
        if (n_unread(p) && *unread(p) != '{') return STEP_BAD;
    }
    size_t n = n_unread(p);
    if (n == 0) return STEP_WAIT;
    while (i < n && r == LITERAL_MORE) r = literal_feed(&p->call.literal, unread(p)[i++], &p->call.args);
    if (r < 0 || markup_take(p, i) < 0) return -ENOMEM;
    if (r != LITERAL_MORE && r != LITERAL_DONE) return STEP_BAD;
    if (r == LITERAL_DONE) p->at = AT_CALL_END;
    return call_send_args(p, sink);
}

int call_envelope(struct markup_parser *p, struct channel_sink *sink)
{
    struct envelope *e = &p->call.envelope;
    int r = LITERAL_MORE;
    size_t i = 0, n = n_unread(p);
    if (n == 0) return STEP_WAIT;
    while (i < n && r == LITERAL_MORE) r = envelope_feed(e, unread(p)[i++], &p->call.args);
    if (r < 0 || markup_take(p, i) < 0) return -ENOMEM;
    if (r != LITERAL_MORE && r != LITERAL_DONE) return STEP_BAD;
    if (e->id.len && p->call.id.len == 0 && buf_append(&p->call.id, e->id.data, e->id.len) < 0) return -ENOMEM;
    if (e->has_name && !p->call.begun) {
        if (buf_append(&p->call.name, e->name.data, e->name.len) < 0) return -ENOMEM;
        int s = begin_call(p, sink);
        if (s != STEP_ON) return s;
    }
    if (r == LITERAL_DONE) {
        if (!e->has_args && *calls_of(p)->name_key && buf_puts(&p->call.args, "{}") < 0) return -ENOMEM;
        p->at = AT_CALL_END;
    }
    return call_send_args(p, sink);
}

int call_end(struct markup_parser *p, struct channel_sink *sink)
{
    size_t end = 0;
    enum mark_match m = call_end_mark(p, unread(p), n_unread(p), &end);
    if (m == MARK_PART) return STEP_WAIT;
    if (m == MARK_YES && markup_take(p, end) < 0) return -ENOMEM;
    int r = send_step(p, CALL_ENDS, sink);
    p->call.index++;
    p->section_used = true;
    close_call(p);
    p->at = p->in_section ? AT_SECTION : AT_TEXT;
    return step_of(r);
}
