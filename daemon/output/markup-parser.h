/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The parser of struct markup_format. It collects text in a buffer and takes from it as much as its state allows; the
 * rest waits for more text. markup-parser.c has text and thinking, call-parser.c the calls, tagged-args.c arguments in
 * tags.
 */
#include "daemon/output/envelope.h"
#include "daemon/output/mark.h"
#include "daemon/output/markup-format.h"
#include "daemon/text/markup/piece.h"

enum { MARKUP_NAME_MAX = 256 }; /* bytes of a name, an id, a key */

enum markup_state {
    AT_TEXT,
    AT_THINKING,
    AT_SECTION, /* between the calls of a section */
    AT_NAME,
    AT_ID,
    AT_ARGS, /* a literal */
    AT_ENVELOPE,
    AT_TAGS, /* between tagged arguments */
    AT_KEY,
    AT_VALUE,
    AT_CALL_END,
};

/* The result of a step, if it is not -ENOMEM. */
enum markup_step {
    STEP_WAIT, /* it needs more text */
    STEP_ON,   /* it took text or changed the state */
    STEP_BAD,  /* the call is malformed */
    STEP_STOP, /* the sink ends the answer */
};

/* The current call. */
struct parsed_call {
    bool open, begun; /* begun: CALL_BEGINS was sent */
    uint32_t index;   /* also the number of calls before it */
    size_t mark;      /* bytes of @raw that are the mark, or that of the section */
    struct buf raw;   /* its text, with the marks before it */
    struct buf name, id;
    struct buf args; /* to be sent */
    struct literal literal;
    struct envelope envelope;
};

/* The current tagged argument. */
struct parsed_argument {
    struct buf key;
    bool first, begun;
    bool string;    /* it is a string for sure, which streams */
    unsigned types; /* that it may have */
    size_t white;   /* bytes of white space in front that belong to the mark; counts down */
};

struct markup_parser {
    struct channel_parser base;
    const struct markup_format *format;
    enum markup_state at;
    bool calls;                  /* the answer may have calls */
    bool final;                  /* no text follows */
    struct buf hold;             /* text that waits, from byte used on */
    size_t used, scanned;        /* the next bytes, @scanned of them, are known not to end the value */
    size_t control, control_end; /* the last control token in hold: not shown as text */
    bool fresh;                  /* no text since the beginning of the answer, a thought or a call */
    bool skip_white;             /* a mark came last */
    bool thought;                /* a thought has ended */
    uint32_t white;              /* bytes of white space between the last mark and the text so far, at most */
    bool in_section, section_used;

    struct parsed_call call;
    struct parsed_argument arg;
};

static inline const char *unread(const struct markup_parser *p)
{
    return p->hold.data ? p->hold.data + p->used : "";
}

static inline size_t n_unread(const struct markup_parser *p)
{
    return p->hold.len - p->used;
}

static inline const struct markup_calls *calls_of(const struct markup_parser *p)
{
    return &p->format->markup->calls;
}

/* The step that corresponds to @r, a result of the sink. */
static inline int step_of(int r)
{
    return r < 0 ? r : r ? STEP_STOP : STEP_ON;
}

/* Takes @n bytes; an open call keeps them as raw text. 0 or -ENOMEM. */
int markup_take(struct markup_parser *p, size_t n);
int markup_take_white(struct markup_parser *p); /* all white space; likewise */

/* Does @text begin with @mark, perhaps after white space? At the end of the answer there is no MARK_PART. */
enum mark_match markup_mark(const struct markup_parser *p, const char *mark, const char *text, size_t len, size_t *end);

/* Does a section (*@section), or a call, begin at @text? */
enum mark_match call_mark(const struct markup_parser *p, const char *text, size_t len, size_t *end, bool *section);

/* Does the call end at @text, perhaps after white space? As markup_mark(). */
enum mark_match call_end_mark(const struct markup_parser *p, const char *text, size_t len, size_t *end);

/* Is a JSON object at the beginning of an answer a call without marks? */
bool call_is_bare(const struct markup_parser *p);

/* A call, or section, begins with the next @n bytes, the mark. */
int call_open(struct markup_parser *p, size_t n, bool section);

/* The steps of calls. */
int call_section(struct markup_parser *p, struct channel_sink *sink);
int call_name(struct markup_parser *p, struct channel_sink *sink);
int call_id(struct markup_parser *p, struct channel_sink *sink);
int call_args(struct markup_parser *p, struct channel_sink *sink);
int call_envelope(struct markup_parser *p, struct channel_sink *sink);
int call_end(struct markup_parser *p, struct channel_sink *sink);
int tagged_between(struct markup_parser *p, struct channel_sink *sink);
int tagged_key(struct markup_parser *p, struct channel_sink *sink);
int tagged_value(struct markup_parser *p, struct channel_sink *sink);

/* Sends p->call.args, if there are any. */
int call_send_args(struct markup_parser *p, struct channel_sink *sink);

/* After STEP_BAD: the call becomes text. */
int call_withdraw(struct markup_parser *p, struct channel_sink *sink);

/* markup-place.c: functions of struct channel_parser_ops. */
bool markup_answers(const struct channel_parser *base);
enum channel_before markup_before(const struct channel_parser *base);
bool markup_is_mark(const struct channel_parser *base, const char *text, size_t len);
int markup_call_text(const struct channel_parser *base, struct buf *out);
