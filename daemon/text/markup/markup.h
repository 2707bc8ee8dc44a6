/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The markup of an answer: how a model marks thinking and tool calls. It is derived from the chat template:
 * conversations with and without the part are rendered and compared (thinking-marks.c, call-marks.c). A template that
 * writes no calls itself, but mentions known marks, gets the form that these marks belong to (known-marks.c).
 *
 * All texts are NUL-terminated and, but for junk, never NULL; "" means that the form has no such mark. A run of white
 * space in a mark stands for any white space, also none.
 */
#include "daemon/text/template/template.h"
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* How one call is written. CALL is call_begin … call_end; "…" is white space or a mark. */
enum markup_form {
    MARKUP_NO_CALLS,
    MARKUP_ENVELOPE, /* call_begin {"name": NAME, "arguments": {…}} call_end; or {NAME: {…}} */
    MARKUP_LITERAL,  /* call_begin NAME id_begin ID name_end {"key": value, …} call_end */
    MARKUP_TAGS,     /* call_begin NAME name_end (arg_begin KEY arg_mid VALUE arg_end)… call_end */
    MARKUP_PYTHON,   /* call_begin NAME(key=value, …) call_end */
    MARKUP_HARMONY,  /* see output/harmony.h; thinking too */
};

struct markup_calls {
    enum markup_form form;
    /* section_begin CALL separator CALL … section_end. Without section_begin, calls stand alone, and section_end
     * may follow the last one. */
    char *section_begin, *section_end, *separator, *call_begin, *call_end;
    /* MARKUP_TAGS: the mark with the name, and the first one of call_end, if there are others, which models forget. */
    char *call_begin_short, *call_end_short;
    /* MARKUP_ENVELOPE: keys of the object. name_key "": the name is the key of the arguments. wrapper_key: key of the
     * object that has name and arguments. */
    char *name_key, *args_key, *id_key, *wrapper_key;
    char *id_begin, *name_end;
    bool id_is_index; /* the id is the number of the call: no id */
    char *quote;      /* MARKUP_LITERAL: before and after strings */
    /* MARKUP_TAGS. arg_mid_other: before a value that is no string; equal to arg_mid if the marks do not tell. */
    char *arg_begin, *arg_mid, *arg_mid_other, *arg_end;
    char *text_name;  /* a "call" of this name is the text of the answer */
    bool string_args; /* the template takes the arguments of a message's calls as JSON text, not as an object */
    bool null_text;   /* and writes calls only of messages without text: content null */
};

struct markup_thinking {
    char *open, *close; /* "": the format has no thinking */
    const char *field;  /* static: the key of an assistant's message that the template writes between them; or NULL */
    /* The variable of the template, and its value as JSON text, that turns thinking off, or on. Static; NULL: none. */
    const char *off_name, *off_value, *on_name, *on_value;
};

enum { MARKUP_JUNK = 8 };

struct markup {
    struct markup_thinking thinking;
    struct markup_calls calls;
    bool typed_content;      /* the template takes a text only as a list of parts: [{"type": "text", "text": TEXT}] */
    bool white_first;        /* white space at the beginning of an answer is no text */
    char *junk[MARKUP_JUNK]; /* NULL-padded: marks around the text, and at the end of the turn, that are no text */
};

/* The part of the answer that its first token belongs to. */
enum markup_start {
    MARKUP_AT_TEXT,
    MARKUP_AT_THINKING, /* the prompt has opened it */
    MARKUP_AT_NAME,     /* the prompt ends with call_begin */
};

struct markup_source {
    const struct template *template;
    const char *text; /* of the template */
    size_t len;
    const char *bos, *eos; /* its bos_token and eos_token */
    time_t now;
    /* Has the vocabulary a control token with this text? NULL: not known. */
    bool (*has_token)(const void *vocabulary, const char *text);
    const void *vocabulary;
};

/* Renders the template some dozens of times. 0, and the caller owns *out, which keeps nothing of @s; a template that
 * renders nothing has no parts. -ENOMEM. */
int markup_new(struct markup **out, const struct markup_source *s);
struct markup *markup_free(struct markup *m); /* NULL ok, returns NULL */

/* Where an answer to @prompt[@len], the rendered prompt, begins. */
enum markup_start markup_start(const struct markup *m, const char *prompt, size_t len);
