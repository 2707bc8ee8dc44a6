/* SPDX-License-Identifier: MIT */
/* Marks in use, for templates that do not write calls themselves; and marks that are no text. */
#include "daemon/text/markup/derive.h"
#include <stdint.h>
#include <string.h>

enum { WHOLE_END_MAX = 128 };

static const struct known {
    const char *mark;  /* in the template, or a control token */
    const char *token; /* a control token that tells it too, or NULL */
    enum markup_form form;
    const char *section_begin, *section_end, *call_begin, *call_end, *id_begin, *name_end;
} forms[] = {
    {"<use_mcp_tool>", NULL, MARKUP_LITERAL, "<use_mcp_tool>", "</use_mcp_tool>", "<tool_name>", "</arguments>", "",
     "</tool_name>\n<arguments>\n"},
    {"<tool_call>", "<tool_call>", MARKUP_ENVELOPE, "", "", "<tool_call>\n", "\n</tool_call>", "", ""},
    {"<|tool_list_start|>", "<|tool_call_start|>", MARKUP_PYTHON, "<|tool_call_start|>[", "]<|tool_call_end|>", "", "",
     "", ""},
    {"List of tools: [", NULL, MARKUP_PYTHON, "<|tool_call_start|>[", "]<|tool_call_end|>", "", "", "", ""},
    {"<|tool_call|>", "<|tool_call|>", MARKUP_ENVELOPE, "<|tool_call|>[", "]", "", "", "", ""},
};

/* Marks around an answer or before a call that templates mention, but do not write. */
static const char *const known_junk[] = {"<response>", "</response>", "<|python_tag|>"};

static int set_text(char **to, const char *text)
{
    return piece_set(to, piece_of(text, 0, strlen(text)));
}

static int set_form(struct markup_calls *c, const struct known *k)
{
    int r = set_text(&c->section_begin, k->section_begin);
    if (r == 0) r = set_text(&c->section_end, k->section_end);
    if (r == 0) r = set_text(&c->call_begin, k->call_begin);
    if (r == 0) r = set_text(&c->call_end, k->call_end);
    if (r == 0) r = set_text(&c->id_begin, k->id_begin);
    if (r == 0) r = set_text(&c->name_end, k->name_end);
    if (r == 0) r = set_text(&c->quote, "\"");
    if (r == 0) r = set_text(&c->name_key, "name");
    if (r == 0) r = set_text(&c->args_key, "arguments");
    if (r == 0) r = set_text(&c->separator, *k->section_begin ? "," : "");
    if (r == 0) c->form = k->form;
    return r;
}

int known_calls(struct markup *m, const struct markup_source *s)
{
    struct piece text = piece_of(s->text, 0, s->len);
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (piece_find(text, forms[i].mark) != SIZE_MAX ||
            (forms[i].token && s->has_token && s->has_token(s->vocabulary, forms[i].token)))
            return set_form(&m->calls, &forms[i]);
    return 0;
}

/* --- marks that are no text --- */

/* Does @mark belong to another part? */
static bool is_used(const struct markup *m, struct piece mark)
{
    const char *others[] = {m->thinking.open, m->thinking.close, m->calls.section_begin, m->calls.call_begin};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (*others[i] && piece_find(mark, others[i]) != SIZE_MAX) return true;
    for (int i = 0; i < MARKUP_JUNK && m->junk[i]; i++)
        if (strlen(m->junk[i]) == mark.n && memcmp(m->junk[i], mark.p, mark.n) == 0) return true;
    return false;
}

static int add_junk(struct markup *m, struct piece mark)
{
    int i = 0;
    if (mark.n == 0 || is_used(m, mark)) return 0;
    while (i < MARKUP_JUNK && m->junk[i]) i++;
    return i < MARKUP_JUNK ? piece_set(&m->junk[i], mark) : 0;
}

/* The first @most groups of @text. */
static int add_groups(struct markup *m, struct piece text, int most)
{
    int r = 0;
    while (r == 0 && most-- > 0) {
        struct piece mark = piece_first_group(text);
        if (mark.n == 0) return 0;
        r = add_junk(m, mark);
        text = piece_of(mark.p, mark.n, (size_t)(text.p + text.n - mark.p));
    }
    return r;
}

/* The end of a turn: as a whole, if it is short, because there may be words between its groups; and the first @most
 * groups. */
static int add_end(struct markup *m, struct piece end, int most)
{
    struct piece whole = piece_trim(end);
    bool one = piece_first_group(whole).n == whole.n;
    int r = most > 1 && !one && whole.n <= WHOLE_END_MAX && *whole.p == '<' ? add_junk(m, whole) : 0;
    return r == 0 ? add_groups(m, end, most) : r;
}

/* The end of the answer in @turn. */
static int junk_behind(struct markup *m, const struct probe *p, const struct probe_turn *turn, int most)
{
    struct buf b = BUF_INIT;
    int r = probe_render(p, turn, &b);
    if (r == 0) {
        struct piece reply = probe_reply(&b);
        size_t text = piece_find(reply, PROBE_TEXT);
        bool calls_follow = text != SIZE_MAX && piece_find_last(reply, PROBE_NAME1) != SIZE_MAX &&
                            piece_find_last(reply, PROBE_NAME1) > text;
        if (text != SIZE_MAX && !calls_follow)
            r = add_end(m, piece_of(reply.p, text + strlen(PROBE_TEXT), reply.n), most);
    }
    buf_fini(&b);
    return r < 0 ? r : 0;
}

/* The last mark of the header of a turn, and marks between it and the text. */
static int junk_before(struct markup *m, const struct probe *p)
{
    const struct probe_turn plain = {.calls = 0};
    struct buf turn = BUF_INIT, prompt = BUF_INIT;
    int r = probe_render(p, &plain, &turn);
    if (r == 0) r = probe_render(p, NULL, &prompt);
    if (r == 0) {
        struct piece reply = probe_reply(&turn);
        size_t text = piece_find(reply, PROBE_TEXT);
        struct piece head = piece_of(reply.p, 0, text == SIZE_MAX ? 0 : text);
        size_t common = piece_common_begin(head, probe_reply(&prompt));
        struct piece header = piece_of(head.p, 0, common), role = piece_last_group(header);
        struct piece rest = piece_of(head.p, common, head.n);
        m->white_first = text != SIZE_MAX && rest.n && piece_is_blank(rest) && common == probe_reply(&prompt).n;
        if (piece_ends_with(header, role)) r = add_junk(m, role);
        if (r == 0) r = add_groups(m, rest, 2);
    }
    buf_fini(&turn);
    buf_fini(&prompt);
    return r < 0 ? r : 0;
}

int derive_junk(struct markup *m, const struct markup_source *s)
{
    const struct probe p = {.source = s, .typed = m->typed_content};
    const struct probe_turn plain = {.calls = 0}, calls = {.calls = 1}, followed = {.followed = true};
    int r = junk_behind(m, &p, &plain, 3);
    if (r == 0) r = junk_behind(m, &p, &followed, 1);
    if (r == 0) r = junk_behind(m, &p, &calls, 1);
    if (r == 0) r = junk_before(m, &p);
    for (size_t i = 0; r == 0 && i < sizeof(known_junk) / sizeof(*known_junk); i++)
        if (piece_find(piece_of(s->text, 0, s->len), known_junk[i]) != SIZE_MAX)
            r = add_groups(m, piece_of(known_junk[i], 0, strlen(known_junk[i])), 1);
    return r;
}
