/* SPDX-License-Identifier: MIT */
#pragma once
/* Shows an answer to the user: turns events into standard output, notes on standard error and an exit status. */
#include "client/answer-parts.h"
#include "client/extract.h"
#include "client/options.h"
#include "client/output.h"
#include "client/progress.h"
#include "client/render.h"
#include "client/thought.h"
#include "libcommon/proto.h"

struct answer {
    const struct options *opt;
    struct output *out;
    struct answer_parts parts; /* text: only kept for --jsonl, or if keep; thinking: only if keep */
    bool keep;
    struct buf line, safe; /* scratch */
    struct progress progress;
    struct extract extract;
    struct render render;
    struct thought thought_view;
    bool rendering; /* Markdown is styled */
    bool begun;     /* an event of this request arrived: no retry */
    bool spoke;     /* a text event of the answer arrived */
    bool thought;   /* a text event of another channel arrived */
    bool cancelled; /* hob canceled the request */
    bool more;      /* other answers to the same prompt follow */
    struct {
        uint64_t tokens;
        double prompt_j, answer_j, saved_j;
    } others;   /* sums of the earlier answers to the same prompt */
    char last;  /* the text's last byte */
    int status; /* exit status, once it has ended */
};

void answer_init(struct answer *a, const struct options *opt, struct output *out);
void answer_fini(struct answer *a);

/* 0: the answer continues; 1: it ended, a->status is the exit status; negative as output_write. May take the texts of
 * @e. */
int answer_event(struct answer *a, struct proto_event *e);

/* Answer @e, a done event, is one of the earlier ones from now on. */
void answer_add(struct answer *a, const struct proto_event *e);

/* Print the line of --verbose at the end of the last answer, whose done event is @e. */
void answer_usage(const struct answer *a, const struct proto_event *e);

/* End the answer without an event: print the error message of @r (negative errno), set the exit status to @status.
 * Returns as answer_event does, never 0. */
int answer_fail(struct answer *a, int r, int status);

/* After an interrupt: restore the terminal and end the line. 0 or negative as output_write. */
int answer_interrupt(struct answer *a);
