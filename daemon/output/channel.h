/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Channel parsers. Some models write an answer in parts: thinking, tool calls, the answer itself. A parser reads the
 * text and the control tokens of an answer in order, removes the marks of the format and names the channel of the rest.
 *
 * The parser of a new format embeds struct channel_parser as its first member and fills in the ops. The format is a
 * struct channel_format, which channel_format_of() chooses.
 */
#include "daemon/text/tokenizer/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of channels, static strings. The text of CHANNEL_ANSWER is what a session keeps. */
#define CHANNEL_ANSWER    "answer"
#define CHANNEL_THINKING  "thinking"
#define CHANNEL_TOOL_CALL "tool_call"

enum channel_call_step {
    CALL_BEGINS,    /* name, and id if the model wrote one by now */
    CALL_ARGUMENTS, /* the next piece of the arguments, JSON text of an object */
    CALL_ENDS,      /* the arguments are complete; id if the model wrote one. A call without this step is cut. */
    CALL_WITHDRAWN, /* the call is malformed and takes no part; its raw text follows as text of the answer */
};

/* A step of a tool call. Calls do not overlap. */
struct channel_call {
    uint32_t index; /* counts the calls of an answer, withdrawn ones included */
    enum channel_call_step step;
    const char *name, *id; /* valid during the call of the sink; NULL: not in this step */
    const char *text;      /* [len] */
    size_t len;
};

/* The consumer of a parser's text. Its functions return 0; 1: the answer ends here; -ENOMEM. */
struct channel_sink {
    /* Text of @channel, a static string. */
    int (*text)(struct channel_sink *s, const char *channel, const char *text, size_t len);
    /* NULL if the format has no tool calls. */
    int (*call)(struct channel_sink *s, const struct channel_call *call);
    /* Markup that the parser cannot read has become text. @warning: a static sentence. NULL as above. */
    int (*warn)(struct channel_sink *s, const char *warning);
};

struct channel_parser;

/* A place before the answer itself. */
enum channel_before {
    BEFORE_FREE, /* in another part: any text */
    BEFORE_TEXT, /* the answer may begin, or a mark */
    BEFORE_MARK, /* inside a mark */
};

struct channel_parser_ops {
    /* Text of tokens that are not control tokens, split anywhere between characters. The parser may hold text back. 0,
     * or the first result of @sink that is not 0, after which it is given no more text. */
    int (*text)(struct channel_parser *p, const char *text, size_t len, struct channel_sink *sink);
    /* A control token, with its text. The result is as for text(). */
    int (*control)(struct channel_parser *p, const char *piece, size_t len, struct channel_sink *sink);
    /* The part before the next control token, or the answer, ends: pass on the text that is held. The result is as for
     * text(). NULL: the parser holds none. */
    int (*finish)(struct channel_parser *p, struct channel_sink *sink);
    /* Does a control token now end a part of the answer? Asked before control(). */
    bool (*ends_part)(const struct channel_parser *p);
    /* The channel of text that comes now, a static string. */
    const char *(*channel)(const struct channel_parser *p);
    /* Has the answer itself begun, so that text that comes now is its text, and that of no other part? NULL: if
     * channel() is CHANNEL_ANSWER. */
    bool (*answers)(const struct channel_parser *p);
    /* Where it is while answers() is false. NULL: always BEFORE_FREE. */
    enum channel_before (*before)(const struct channel_parser *p);
    /* Unless BEFORE_FREE: may @text come next as a part of a mark, or as white space at it? */
    bool (*is_mark)(const struct channel_parser *p, const char *text, size_t len);
    /* In a call for sure: appends to @out the text behind its mark (or that of its section) so far, and returns 1; of
     * Harmony the tool's name, a newline, and the arguments. 0: in no call; -ENOMEM. NULL: never. */
    int (*call_text)(const struct channel_parser *p, struct buf *out);
    /* A parser in the same state, which the caller owns and which shares nothing with @p. 0 or -ENOMEM. */
    int (*clone)(const struct channel_parser *p, struct channel_parser **out);
    void (*free)(struct channel_parser *p);
};

struct channel_parser {
    const struct channel_parser_ops *ops;
};

struct channel_format {
    /* The parser of one answer; @f, its own format, must outlive it. 0, and the caller owns *out; or -ENOMEM. */
    int (*new_parser)(const struct channel_format *f, struct channel_parser **out);
};

extern const struct channel_format channel_plain; /* all text is of the channel "answer" */

/* The format of the model with tokenizer @t: Harmony if the vocabulary has its marks, otherwise the plain one. */
const struct channel_format *channel_format_of(const struct tokenizer *t);
