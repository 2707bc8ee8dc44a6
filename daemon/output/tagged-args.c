/* SPDX-License-Identifier: MIT */
/* Arguments in tags: arg_begin KEY arg_mid VALUE arg_end. */
#include "daemon/output/markup-parser.h"
#include "daemon/output/tool-types.h"
#include <errno.h>
#include <string.h>

int tagged_between(struct markup_parser *p, struct channel_sink *sink)
{
    const struct markup_calls *c = calls_of(p);
    size_t end;
    enum mark_match begin = markup_mark(p, c->arg_begin, unread(p), n_unread(p), &end);
    if (begin == MARK_YES) {
        p->at = AT_KEY;
        buf_clear(&p->arg.key);
        return markup_take(p, end) < 0 ? -ENOMEM : STEP_ON;
    }
    enum mark_match close = call_end_mark(p, unread(p), n_unread(p), &end);
    if (begin == MARK_PART || close == MARK_PART || (p->final && close == MARK_NO)) return STEP_WAIT;
    if (close == MARK_NO && !mark_is_blank(c->call_end)) return STEP_BAD;
    if (buf_puts(&p->call.args, p->arg.first ? "{}" : "}") < 0) return -ENOMEM;
    p->at = AT_CALL_END;
    return call_send_args(p, sink);
}

/* The key is complete: the types that its value may have. */
static void set_types(struct markup_parser *p, bool other)
{
    const struct markup_calls *c = calls_of(p);
    const char *mid = other ? c->arg_mid_other : c->arg_mid;
    p->arg.types = tool_types(p->format->tools, p->call.name.data, p->arg.key.data);
    if (strcmp(c->arg_mid, c->arg_mid_other) != 0) p->arg.types = other ? TYPE_ANY & ~TYPE_STRING : TYPE_STRING;
    p->arg.string = p->arg.types == TYPE_STRING;
    p->arg.begun = false;
    p->arg.white = mark_white_end(mid);
}

int tagged_key(struct markup_parser *p, struct channel_sink *sink)
{
    const struct markup_calls *c = calls_of(p);
    if (markup_take_white(p) < 0) return -ENOMEM;
    size_t n = n_unread(p), end;
    for (size_t i = 0; i < n && i <= MARKUP_NAME_MAX; i++) {
        const char *s = unread(p) + i;
        enum mark_match mid = mark_at(c->arg_mid, s, n - i, &end), other = MARK_NO;
        if (mid != MARK_YES) other = mark_at(c->arg_mid_other, s, n - i, &end);
        if (mid == MARK_NO && other == MARK_NO) continue;
        if (mid != MARK_YES && other != MARK_YES) return STEP_WAIT;
        size_t len = i;
        while (len && is_white(unread(p)[len - 1])) len--;
        if (len == 0) return STEP_BAD;
        if (buf_append(&p->arg.key, unread(p), len) < 0 || markup_take(p, i + end) < 0) return -ENOMEM;
        set_types(p, other == MARK_YES);
        p->at = AT_VALUE;
        if (buf_puts(&p->call.args, p->arg.first ? "{\"" : ",\"") < 0 ||
            literal_escape(&p->call.args, p->arg.key.data, p->arg.key.len) < 0 || buf_puts(&p->call.args, "\":") < 0)
            return -ENOMEM;
        p->arg.first = false;
        return call_send_args(p, sink);
    }
    return n > MARKUP_NAME_MAX ? STEP_BAD : STEP_WAIT;
}

/* --- values --- */

/* Does the value end at @s? The end of an argument counts only if an argument or the end of the call follows, because
 * the value may contain the mark. *@end: of the argument. */
static enum mark_match value_ends(const struct markup_parser *p, const char *s, size_t n, size_t *end)
{
    const struct markup_calls *c = calls_of(p);
    enum mark_match m = mark_at(c->arg_end, s, n, end);
    if (m != MARK_YES || mark_is_blank(c->call_end)) return m;
    size_t next = *end + mark_white(s + *end, n - *end);
    if (next - *end > MARK_WHITE_MAX) return MARK_NO;
    enum mark_match begin = mark_at(c->arg_begin, s + next, n - next, &(size_t){0});
    enum mark_match close =
        mark_at(*c->call_end_short ? c->call_end_short : c->call_end, s + next, n - next, &(size_t){0});
    if (begin == MARK_YES || close == MARK_YES) return MARK_YES;
    if (begin == MARK_NO && close == MARK_NO) return MARK_NO;
    return p->final ? MARK_YES : MARK_PART;
}

/* The end of the value that can be known now: *@m tells whether it is the end of the whole value. */
static size_t find_value_end(const struct markup_parser *p, enum mark_match *m, size_t *end)
{
    size_t n = n_unread(p);
    for (size_t i = p->scanned; i < n; i++) {
        *m = value_ends(p, unread(p) + i, n - i, end);
        if (*m != MARK_NO) return i;
    }
    *m = MARK_NO;
    return n;
}

/* The length of the value without the white space that belongs to the mark behind it. */
static size_t without_white(const struct markup_parser *p, size_t n)
{
    const char *mark = calls_of(p)->arg_end;
    size_t white = mark_white_begin(mark);
    return n >= white && memcmp(unread(p) + n - white, mark, white) == 0 ? n - white : n;
}

/* The value of a type that is not known, as JSON. */
static int convert(struct markup_parser *p, size_t n)
{
    struct literal l;
    size_t from = p->call.args.len, i = 0;
    int r = LITERAL_MORE;
    literal_start(&l, "", false);
    while (i < n && r == LITERAL_MORE) r = literal_feed(&l, unread(p)[i++], &p->call.args);
    if (r == LITERAL_MORE) r = literal_end(&l, &p->call.args);
    while (i < n && is_white(unread(p)[i])) i++;
    if (r < 0) return r;
    if ((r == LITERAL_DONE || r == LITERAL_BEHIND) && i == n) {
        unsigned type = type_of_json(p->call.args.data[from]);
        if (type != TYPE_STRING && (type & p->arg.types)) return 0;
        if (!(p->arg.types & TYPE_STRING)) return 0;
    }
    p->call.args.len = from;
    if (buf_puts(&p->call.args, "\"") < 0 || literal_escape(&p->call.args, unread(p), n) < 0) return -ENOMEM;
    return buf_puts(&p->call.args, "\"");
}

/* The first @n bytes of the value, of which the end (@whole) is known or not. */
static int add_value(struct markup_parser *p, size_t n, bool whole)
{
    struct buf *args = &p->call.args;
    if (!p->arg.string) return whole ? convert(p, n) : 0;
    if (!p->arg.begun && buf_puts(args, "\"") < 0) return -ENOMEM;
    p->arg.begun = true;
    if (literal_escape(args, unread(p), n) < 0) return -ENOMEM;
    return whole ? buf_puts(args, "\"") : 0;
}

/* White space in front that belongs to arg_mid: taken as far as the text has it. */
static int take_front(struct markup_parser *p)
{
    const char *mid = calls_of(p)->arg_mid, *end = mid + strlen(mid);
    while (p->arg.white && n_unread(p)) {
        if (*unread(p) != end[-(ptrdiff_t)p->arg.white])
            p->arg.white = 1; /* the text has less */
        else if (markup_take(p, 1) < 0)
            return -ENOMEM;
        p->arg.white--;
    }
    return 0;
}

int tagged_value(struct markup_parser *p, struct channel_sink *sink)
{
    enum mark_match m;
    size_t end = 0;
    if (take_front(p) < 0) return -ENOMEM;
    if (n_unread(p) == 0) return STEP_WAIT;
    size_t at = find_value_end(p, &m, &end), n = at;
    if (m == MARK_YES) {
        if (add_value(p, without_white(p, at), true) < 0 || markup_take(p, at + end) < 0) return -ENOMEM;
        p->at = AT_TAGS;
        return call_send_args(p, sink);
    }
    size_t white = mark_white_begin(calls_of(p)->arg_end); /* may belong to the mark */
    for (; n && white && is_white(unread(p)[n - 1]); white--) n--;
    if (!p->arg.string || n == 0) {
        p->scanned = at;
        return STEP_WAIT;
    }
    if (add_value(p, n, false) < 0 || markup_take(p, n) < 0) return -ENOMEM;
    int r = call_send_args(p, sink);
    return r == STEP_ON ? STEP_WAIT : r;
}
