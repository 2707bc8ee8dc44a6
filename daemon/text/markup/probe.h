/* SPDX-License-Identifier: MIT */
#pragma once
/* Conversations that are rendered to learn a template's markup. Their texts are words that no template contains. */
#include "daemon/text/markup/markup.h"
#include "daemon/text/markup/piece.h"
#include "libcommon/buf.h"

/* For one of some dozens of renders of a short conversation. */
#define PROBE_LIMITS                                                                                                   \
    {                                                                                                                  \
        .steps = 200000, .depth = 200, .output = 4u << 20                                                              \
    }

#define PROBE_USER    "hobaquestion"
#define PROBE_NEXT    "hobanother"
#define PROBE_TEXT    "hobananswer"
#define PROBE_THOUGHT "hobathought"
#define PROBE_NAME1   "hobfnone"
#define PROBE_NAME2   "hobfntwo"
#define PROBE_KEY1    "hobalpha"
#define PROBE_KEY2    "hobbeta"
#define PROBE_KEY3    "hobgamma"
#define PROBE_VALUE1  "hobvalone"
#define PROBE_VALUE2  "917"
#define PROBE_VALUE4  "hobvaltwo" /* the argument of the second call: a string */
#define PROBE_ID1     "hobidoneq"
#define PROBE_ID2     "hobidtwoq"

enum probe_text { PROBE_WITH_TEXT, PROBE_EMPTY_TEXT, PROBE_NULL_TEXT };

/* An assistant's turn. The first call has three arguments: a string, a number, an object; the second call has one. */
struct probe_turn {
    enum probe_text text;
    unsigned calls;    /* 0, 1 or 2 */
    bool string_args;  /* the arguments are JSON text */
    bool followed;     /* by another question */
    const char *field; /* of the thought, or NULL; "content": a list of chunks, "blocks": in the content */
};

struct probe {
    const struct markup_source *source;
    const char *var, *value; /* a variable and its value, JSON text; NULL: none */
    bool no_tools;
    bool typed; /* contents are lists of parts */
};

/* Renders the question, and then @turn, or the generation prompt if @turn is NULL. 0: @out has the text; 1: the
 * template refuses; -ENOMEM. */
int probe_render(const struct probe *p, const struct probe_turn *turn, struct buf *out);

/* The text behind the question. */
struct piece probe_reply(const struct buf *rendered);
