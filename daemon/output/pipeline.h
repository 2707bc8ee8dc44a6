/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The output pipeline of one answer: token -> detokenizer -> channel parser -> stop strings -> line limit -> events.
 * Every stage works on pieces of text and holds back only what the next token may change. Stop strings are matched
 * within one part of the answer, after the parser has removed the marks of its format.
 *
 * The whole state can be cloned; a clone that was made before some tokens replaces the original to take them back. It
 * is a function of the tokens, so that the ones that stay can also be pushed to a clone in the first state.
 */
#include "daemon/output/call-list.h"
#include "daemon/output/channel.h"
#include "daemon/output/line-limit.h"
#include "daemon/output/stop.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"

/* {0} owns nothing. */
struct output {
    const struct tokenizer *tokenizer;
    struct detok detok;
    const struct channel_format *format;
    struct channel_parser *parser; /* of that format */
    struct stop stop;
    struct line_limit lines;
    const char *held;  /* static: the channel of the text that the stop matcher holds */
    struct buf answer; /* all text shown of CHANNEL_ANSWER */
    struct buf thinking;
    struct call_list calls;
    uint64_t call_seed; /* for the ids of calls */
    uint64_t thought;   /* tokens of CHANNEL_THINKING */
    struct buf shown;   /* scratch: a piece on its way through the last stages */
};

struct output_request {
    const struct proto_text *stop; /* [n_stop], none of them empty; copied */
    size_t n_stop;
    uint32_t max_lines;                  /* 0: no limit */
    const struct channel_format *format; /* NULL: channel_plain */
};

/* Text to be shown, or a step of a tool call. */
struct output_event {
    const char *channel; /* static; CHANNEL_TOOL_CALL: a step of a call */
    struct buf text;     /* not empty; of a call: a piece of the arguments, or empty */
    struct {
        enum channel_call_step step;
        uint32_t index;
        struct buf name, id; /* both when the call begins; empty: not in this step */
    } call;
};

/* The output of one token, or of the end of the answer. {0} is empty; one object may be used for all tokens. */
struct output_step {
    struct output_event *events; /* [n] in order; neighbours differ in their channel, or are steps of calls */
    size_t n, cap;
    const char *warning; /* static: a sentence about markup that became text; or NULL */
    const char *channel; /* static: the one that the token belongs to; NULL before any token */

    /* The raw text, shown or not, which continues the text of the tokens before. */
    struct buf tail; /* completes the previous token: its incomplete character, now U+FFFD */
    struct buf text; /* of this token */
    bool markup;     /* it is a control token */
    size_t pending;  /* bytes of this token that wait for the rest of their character */
};

/* @t must outlive @o. 0; -ENOMEM, and @o is {0}. */
int output_init(struct output *o, const struct tokenizer *t, const struct output_request *q);
void output_fini(struct output *o);

/* Before any token: the answer has another format, which must outlive @o. 0; -ENOMEM, and @o is as before. */
int output_set_format(struct output *o, const struct channel_format *format);

/* @to becomes a copy in the same state that shares nothing but the tokenizer with @from. 0; -ENOMEM, and @to is {0}. */
int output_clone(struct output *to, const struct output *from);

/* The same, but @to is in the state that @from had before any token. */
int output_clone_start(struct output *to, const struct output *from);

/* Token @id joins the answer; adds its output to @out, which output_step_clear() has emptied. 0; 1: the answer ends
 * with it (an end token, a stop string, the last line); -ENOMEM. */
int output_push(struct output *o, int32_t id, struct output_step *out);

/* No token follows: adds the text that is still held to events and tail of @out. 0 or -ENOMEM. */
int output_finish(struct output *o, struct output_step *out);

/* Empties @out, keeps its memory. */
void output_step_clear(struct output_step *out);
void output_step_fini(struct output_step *out);
