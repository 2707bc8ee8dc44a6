/* SPDX-License-Identifier: MIT */
#include "daemon/request/tool-grammar.h"
#include "daemon/output/mark.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_MAX = 40, WHITE_MAX = 2, WHITE_BARE_MAX = 64 };

/* While an expression is made. */
struct making {
    struct grammar_builder *b;
    const struct tool_grammar *t;
    int error; /* the first one, besides the builder's */
};

static expr_t bytes(struct making *m, const char *s)
{
    return expr_bytes(m->b, s, strlen(s));
}

static expr_t set_of(struct making *m, const char *characters)
{
    uint64_t set[4] = {0};
    for (const char *c = characters; *c; c++) set[(uint8_t)*c >> 6] |= UINT64_C(1) << ((uint8_t)*c & 63);
    return expr_byte_set(m->b, set);
}

/* A call in a free answer that is told from other JSON only by its name, so that it begins as the model likes. */
static bool is_bare(const struct making *m)
{
    const struct markup_calls *c = &m->t->markup->calls;
    return m->t->part == TOOL_CALLS_REST && c->form == MARKUP_ENVELOPE &&
           (*c->text_name || (mark_is_blank(c->section_begin) && mark_is_blank(c->call_begin)));
}

static expr_t white(struct making *m)
{
    if (is_bare(m)) return expr_repeat(m->b, set_of(m, " \n\t\r"), 0, WHITE_BARE_MAX);
    return expr_repeat(m->b, set_of(m, " \n"), 0, WHITE_MAX);
}

static expr_t optional(struct making *m, expr_t e)
{
    return expr_alt(m->b, (expr_t[]){expr_empty(m->b), e}, 2);
}

/* A mark: its control tokens, and its text between them. An end of generation ends it. */
static expr_t mark(struct making *m, const char *s)
{
    const struct tokenizer *k = m->t->tokenizer;
    struct text text = {0};
    struct tokens t = {0};
    expr_t all = expr_empty(m->b);
    int r = text_append(&text, s, strlen(s), true);
    if (r == 0) r = tokenizer_encode(k, &text, 0, false, &t);
    for (size_t i = 0, at = 0; r == 0 && i < t.n && !tokenizer_is_eog(k, t.ids[i]); at = t.ends[i++]) {
        expr_t e = tokenizer_is_control(k, t.ids[i]) ? expr_tokens(m->b, &t.ids[i], 1, false)
                                                     : expr_bytes(m->b, s + at, t.ends[i] - at);
        all = expr_seq(m->b, (expr_t[]){all, e}, 2);
    }
    if (r < 0 && m->error == 0) m->error = r;
    tokens_fini(&t);
    text_fini(&text);
    return all;
}

/* The same without white space in front: at the beginning of an answer. */
static expr_t first_mark(struct making *m, const char *s)
{
    return mark(m, s + strspn(s, " \n\t\r"));
}

/* As a JSON string. */
static expr_t quoted(struct making *m, const char *s)
{
    json_auto_t *text = json_string(s);
    char *json = json_dumps(text, JSON_ENCODE_ANY);
    expr_t e = json ? bytes(m, json) : expr_empty(m->b);
    if (!json) m->error = -ENOMEM;
    free(json);
    return e;
}

/* KEY: VALUE of an object. */
static expr_t member(struct making *m, const char *key, expr_t value)
{
    expr_t space = is_bare(m) ? white(m) : optional(m, bytes(m, " "));
    expr_t parts[] = {quoted(m, key), bytes(m, ":"), space, value};
    return expr_seq(m->b, parts, 4);
}

static expr_t object(struct making *m, expr_t members)
{
    return expr_seq(m->b, (expr_t[]){bytes(m, "{"), white(m), members, white(m), bytes(m, "}")}, 5);
}

static expr_t comma(struct making *m)
{
    return expr_seq(m->b, (expr_t[]){is_bare(m) ? white(m) : expr_empty(m->b), bytes(m, ","), white(m)}, 3);
}

static expr_t id_text(struct making *m, bool index)
{
    static const char digits[] = "0123456789",
                      all[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";
    return expr_repeat(m->b, set_of(m, index ? digits : all), 1, index ? 4 : ID_MAX);
}

static expr_t arguments(struct making *m, const json_t *f)
{
    expr_t e = expr_none(m->b);
    int r = m->error < 0 ? 0 : tool_arguments_json(m->b, f, &e);
    if (r < 0) m->error = r;
    return e;
}

static expr_t envelope(struct making *m, const char *name, expr_t args)
{
    const struct markup_calls *c = &m->t->markup->calls;
    if (!*c->name_key) return object(m, member(m, name, args));
    expr_t quote = bytes(m, "\""), id = expr_seq(m->b, (expr_t[]){quote, id_text(m, false), quote}, 3);
    expr_t parts[] = {member(m, c->name_key, quoted(m, name)), comma(m), member(m, c->args_key, args)};
    expr_t members = expr_seq(m->b, parts, 3);
    if (*c->id_key) {
        expr_t with = member(m, c->id_key, id);
        members = expr_alt(m->b,
                           (expr_t[]){members, expr_seq(m->b, (expr_t[]){with, comma(m), members}, 3),
                                      expr_seq(m->b, (expr_t[]){members, comma(m), with}, 3)},
                           3);
    }
    if (!*c->wrapper_key) return object(m, members);
    expr_t type = expr_seq(m->b, (expr_t[]){member(m, "type", bytes(m, "\"function\"")), comma(m)}, 2);
    return object(m, expr_seq(m->b, (expr_t[]){optional(m, type), member(m, c->wrapper_key, object(m, members))}, 2));
}

static expr_t literal(struct making *m, const char *name, expr_t args)
{
    const struct markup_calls *c = &m->t->markup->calls;
    expr_t id = expr_empty(m->b);
    if (*c->id_begin) id = optional(m, expr_seq(m->b, (expr_t[]){mark(m, c->id_begin), id_text(m, c->id_is_index)}, 2));
    return expr_seq(m->b, (expr_t[]){bytes(m, name), id, mark(m, c->name_end), args}, 4);
}

static expr_t each(struct making *m, const json_t *f, const struct tool_argument_form *form)
{
    expr_t e = expr_none(m->b);
    int r = m->error < 0 ? 0 : tool_arguments_each(m->b, f, form, &e);
    if (r < 0) m->error = r;
    return e;
}

static expr_t tags(struct making *m, const char *name, const json_t *f)
{
    const struct markup_calls *c = &m->t->markup->calls;
    const struct tool_argument_form form = {.open = mark(m, c->arg_begin),
                                            .mid = mark(m, c->arg_mid),
                                            .close = mark(m, c->arg_end),
                                            .separator = expr_empty(m->b),
                                            .end = c->arg_end};
    return expr_seq(m->b, (expr_t[]){bytes(m, name), mark(m, c->name_end), each(m, f, &form)}, 3);
}

static expr_t python(struct making *m, const char *name, const json_t *f)
{
    expr_t empty = expr_empty(m->b);
    const struct tool_argument_form form = {.open = empty, .mid = bytes(m, "="), .close = empty, .separator = comma(m)};
    return expr_seq(m->b, (expr_t[]){bytes(m, name), bytes(m, "("), each(m, f, &form), bytes(m, ")")}, 4);
}

/* A call of one tool, without the marks around it. */
static expr_t body(struct making *m, const json_t *f)
{
    const char *name = json_string_value(json_object_get(f, "name"));
    switch (m->t->markup->calls.form) {
    case MARKUP_ENVELOPE:
        return envelope(m, name, arguments(m, f));
    case MARKUP_LITERAL:
        return literal(m, name, arguments(m, f));
    case MARKUP_TAGS:
        return tags(m, name, f);
    case MARKUP_PYTHON:
        return python(m, name, f);
    case MARKUP_HARMONY:
        if (m->t->part == TOOL_CALLS_REST) /* as the parser gives it */
            return expr_seq(m->b, (expr_t[]){bytes(m, name), bytes(m, "\n"), arguments(m, f)}, 3);
        return expr_seq(m->b,
                        (expr_t[]){bytes(m, "commentary to=functions."), bytes(m, name), bytes(m, " "),
                                   mark(m, "<|constrain|>"), bytes(m, "json"), mark(m, "<|message|>"), arguments(m, f)},
                        7);
    case MARKUP_NO_CALLS:
        break;
    }
    return expr_none(m->b);
}

/* A call of any tool that may be called. */
static expr_t any_body(struct making *m)
{
    expr_t all = expr_none(m->b);
    const json_t *tool;
    size_t i;
    json_array_foreach(m->t->tools, i, tool)
    {
        const json_t *f = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        if (m->t->only && strcmp(m->t->only, name) != 0) continue;
        all = expr_alt(m->b, (expr_t[]){all, body(m, f)}, 2);
        if (m->error < 0 && m->error != -ENOMEM)
            m->error = error_in(m->error, "tools[%zu].function.parameters (%s)", i, name);
        if (m->error < 0) break;
    }
    return all;
}

/* An answer of Harmony thinks first. */
static expr_t harmony(struct making *m, expr_t call)
{
    expr_t text = expr_repeat(m->b, expr_tokens(m->b, NULL, 0, true), 0, EXPR_UNLIMITED);
    expr_t channel = mark(m, "<|channel|>");
    expr_t thought[] = {channel,
                        bytes(m, "analysis"),
                        mark(m, "<|message|>"),
                        text,
                        mark(m, "<|end|>"),
                        mark(m, "<|start|>"),
                        bytes(m, "assistant")};
    return expr_seq(m->b, (expr_t[]){optional(m, expr_seq(m->b, thought, 7)), channel, call}, 3);
}

/* White space behind @mark and before @next, as the template writes it or short. */
static expr_t white_behind(struct making *m, const char *mark, const char *next)
{
    size_t end = strlen(mark) - mark_white_end(mark);
    expr_t own[] = {bytes(m, mark + end), expr_bytes(m->b, next, mark_white_begin(next))};
    return expr_alt(m->b, (expr_t[]){white(m), expr_seq(m->b, own, 2)}, 2);
}

/* @call, with its end, and others behind it. */
static expr_t several(struct making *m, expr_t call)
{
    const struct markup_calls *c = &m->t->markup->calls;
    expr_t next[] = {mark(m, c->separator), mark(m, c->call_begin), call};
    return expr_seq(m->b, (expr_t[]){call, expr_repeat(m->b, expr_seq(m->b, next, 3), 0, EXPR_UNLIMITED)}, 2);
}

static expr_t calls(struct making *m)
{
    const struct markup_calls *c = &m->t->markup->calls;
    expr_t call = any_body(m), section_end = *c->section_begin ? mark(m, c->section_end) : expr_empty(m->b);
    if (c->form == MARKUP_HARMONY) return m->t->part == TOOL_CALLS_REST ? call : harmony(m, call);
    call = expr_seq(m->b, (expr_t[]){call, mark(m, c->call_end)}, 2);
    expr_t all = m->t->only ? call : several(m, call);
    if (m->t->part == TOOL_CALLS_ANSWER) {
        expr_t begin = m->t->start == MARKUP_AT_NAME ? white(m)
                       : *c->section_begin
                           ? expr_seq(m->b, (expr_t[]){first_mark(m, c->section_begin), mark(m, c->call_begin)}, 2)
                           : first_mark(m, c->call_begin);
        return expr_seq(m->b, (expr_t[]){begin, all, section_end}, 3);
    }
    expr_t one = expr_seq(m->b, (expr_t[]){white_behind(m, c->call_begin, ""), call}, 2);
    if (!*c->section_begin) return one;
    expr_t section[] = {white_behind(m, c->section_begin, c->call_begin), first_mark(m, c->call_begin), all,
                        section_end};
    return expr_alt(m->b, (expr_t[]){one, expr_seq(m->b, section, 4)}, 2);
}

int tool_grammar_expr(struct grammar_builder *b, const struct tool_grammar *t, expr_t *out)
{
    struct making m = {b, t, 0};
    *out = calls(&m);
    int r = m.error < 0 ? m.error : builder_status(b);
    if (r == 0 || r == -ENOMEM) return r;
    char why[1024];
    snprintf(why, sizeof(why), "%s", error_text(r));
    return error_say(-EDOM, "%s", why);
}
