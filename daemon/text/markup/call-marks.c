/* SPDX-License-Identifier: MIT */
/* The marks around calls, from a rendered turn with two calls, or one if the template refuses two. */
#include "daemon/text/markup/derive.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* The rendered turns that are compared. */
struct turns {
    struct buf text, calls; /* without and with calls; both have the same generation settings */
    struct piece plain;     /* the reply of the first; empty: it could not be rendered */
};

/* The part of the reply that is before the first call and does not belong to it: header, thought, text. */
static size_t before_calls(const struct markup *m, const struct turns *t, struct piece reply, size_t call)
{
    struct piece before = piece_of(reply.p, 0, call);
    size_t text = piece_find(before, PROBE_TEXT);
    if (text != SIZE_MAX) return text + strlen(PROBE_TEXT);
    size_t close = *m->thinking.close ? piece_find_last(before, m->thinking.close) : SIZE_MAX;
    if (close != SIZE_MAX) return close + strlen(m->thinking.close);
    size_t plain = piece_find(t->plain, PROBE_TEXT);
    if (plain == SIZE_MAX) plain = 0;
    return piece_common_begin(before, piece_of(t->plain.p, 0, plain));
}

/* The end of the part behind the last call, which ends at @from, that belongs to the calls. */
static size_t behind_calls(const struct turns *t, struct piece reply, size_t from)
{
    struct piece rest = piece_of(reply.p, from, reply.n);
    size_t plain = piece_find(t->plain, PROBE_TEXT), text = piece_find(rest, PROBE_TEXT);
    if (plain == SIZE_MAX) return reply.n;
    struct piece turn_end = piece_of(t->plain.p, plain + strlen(PROBE_TEXT), t->plain.n);
    if (text == SIZE_MAX) return reply.n - piece_common_end(rest, turn_end);
    /* The text follows the calls, perhaps in a turn of its own. */
    struct piece between = piece_of(rest.p, 0, text), header = piece_of(t->plain.p, 0, plain);
    between.n -= piece_common_end(between, header);
    between.n -= piece_common_end(between, turn_end);
    return from + between.n;
}

/* @first, @between, @last: the texts before the first call, between the calls and behind the last one. @two: there are
 * two calls. */
static int set_frame(struct markup_calls *c, struct piece first, struct piece between, struct piece last, bool two)
{
    size_t begin = two ? piece_common_end(first, between) : first.n;
    between.n -= two ? begin : 0;
    size_t end = two ? piece_common_begin(between, last) : last.n;
    struct piece section = piece_trim(piece_of(first.p, 0, first.n - begin));
    int r = piece_set(&c->call_begin, piece_of(first.p, first.n - begin, first.n));
    if (r == 0) r = piece_set(&c->call_end, piece_of(last.p, 0, end));
    if (r == 0) r = piece_set(&c->section_begin, section);
    if (r < 0 || !two) return r;
    r = piece_set(&c->separator, piece_trim(piece_of(between.p, end, between.n)));
    if (r == 0) r = piece_set(&c->section_end, piece_trim(piece_of(last.p, end, last.n)));
    return r;
}

/* 1: the turn in t->calls does not show its calls. */
static int describe(struct markup *m, const struct turns *t, unsigned n_calls)
{
    struct markup_calls *c = &m->calls;
    struct call_text one = {.end = 0}, two = {.end = 0};
    struct piece reply = probe_reply(&t->calls);
    size_t name = piece_find(reply, PROBE_NAME1);
    if (name == SIZE_MAX) return 1;
    enum markup_form form = locate_call(reply, name, true, &one);
    if (form == MARKUP_NO_CALLS) return 1;
    if (n_calls == 2) {
        size_t other = piece_find(reply, PROBE_NAME2);
        if (other == SIZE_MAX || locate_call(reply, other, false, &two) != form || two.begin < one.end) return 1;
    }
    size_t last_end = n_calls == 2 ? two.end : one.end;
    struct piece first = piece_of(reply.p, before_calls(m, t, reply, one.begin), one.begin);
    struct piece between = piece_of(reply.p, one.end, two.begin);
    struct piece last = piece_of(reply.p, last_end, behind_calls(t, reply, last_end));
    struct piece rest = n_calls == 2 ? between : last;
    int r = form == MARKUP_ENVELOPE ? describe_envelope(c, &one)
            : form == MARKUP_TAGS   ? describe_tags(c, &one, &rest, &last)
                                    : describe_literal(c, &one, &two);
    if (r != 0) return r;
    if (form == MARKUP_ENVELOPE && !*c->args_key && *c->name_key) return 1;
    r = set_frame(c, first, rest, last, n_calls == 2);
    if (r == 0) c->form = form;
    return r;
}

static int try_turn(struct markup *m, const struct probe *p, const struct probe_turn *turn, struct turns *t)
{
    int r = probe_render(p, turn, &t->calls);
    return r == 0 ? describe(m, t, turn->calls) : r;
}

/* call_begin ends with an open group, which the name closes. */
static int find_short_marks(struct markup_calls *c)
{
    struct piece begin = piece_trim(piece_of(c->call_begin, 0, strlen(c->call_begin)));
    struct piece end = piece_trim(piece_of(c->call_end, 0, strlen(c->call_end)));
    struct piece with_name = piece_last_group(begin), first = piece_first_group(end);
    if (c->form != MARKUP_TAGS || with_name.n == 0 || with_name.p[with_name.n - 1] == '>') return 0;
    int r = with_name.n < begin.n ? piece_set(&c->call_begin_short, with_name) : 0;
    return r == 0 && first.p == end.p && first.n < end.n ? piece_set(&c->call_end_short, first) : r;
}

/* The prompt ends with call_begin, and a turn with text begins with a name: calls of this name are text. */
static int find_text_name(struct markup *m, const struct markup_source *s, const struct turns *t)
{
    const struct probe p = {.source = s, .typed = m->typed_content};
    struct buf prompt = BUF_INIT;
    struct piece begin = piece_trim(piece_of(m->calls.call_begin, 0, strlen(m->calls.call_begin)));
    size_t text = piece_find(t->plain, PROBE_TEXT);
    if (m->calls.form == MARKUP_ENVELOPE || begin.n == 0 || text == SIZE_MAX) return 0;
    int r = probe_render(&p, NULL, &prompt);
    if (r == 0) {
        struct piece reply = probe_reply(&prompt), head = piece_of(t->plain.p, 0, text);
        size_t common = piece_common_begin(reply, head);
        if (common == reply.n && piece_ends_with(piece_trim(reply), begin))
            r = piece_set(&m->calls.text_name, piece_trim(piece_of(head.p, common, head.n)));
    }
    buf_fini(&prompt);
    return r < 0 ? r : 0;
}

int derive_calls(struct markup *m, const struct markup_source *s)
{
    const struct probe p = {.source = s, .typed = m->typed_content};
    const struct probe_turn plain = {.calls = 0};
    struct turns t = {.plain = {"", 0}};
    int r = probe_render(&p, &plain, &t.text);
    if (r == 0) t.plain = probe_reply(&t.text);
    if (r >= 0) r = 1;
    for (unsigned i = 0; r == 1 && i < 12; i++) {
        const struct probe_turn turn = {
            .calls = i < 6 ? 2 : 1, .string_args = i / 3 % 2, .text = (enum probe_text)(i % 3)};
        r = try_turn(m, &p, &turn, &t);
        m->calls.string_args = r == 0 && turn.string_args;
        m->calls.null_text = r == 0 && turn.text == PROBE_NULL_TEXT;
    }
    if (r == 0) r = find_short_marks(&m->calls);
    if (r == 0) r = find_text_name(m, s, &t);
    buf_fini(&t.text);
    buf_fini(&t.calls);
    return r < 0 ? r : 0;
}
