/* SPDX-License-Identifier: MIT */
#pragma once
/* An answer on its way to the user: events in, standard output, notes on standard error and an exit status out. */
#include "client/extract.h"
#include "client/options.h"
#include "client/output.h"
#include "client/progress.h"
#include "client/render.h"
#include "libcommon/proto.h"

struct answer {
    const struct options *opt;
    struct output *out;
    struct buf whole; /* the text so far; only kept for --jsonl, or if keep */
    bool keep;
    struct buf line, safe; /* scratch */
    struct progress progress;
    struct extract extract;
    struct render render;
    bool rendering;  /* what goes to the terminal is marked up */
    bool begun;      /* an event of this request has come: it must not be sent again */
    bool spoke;      /* some text has come, */
    bool thought;    /* and some that is not of the answer */
    bool cancelled;  /* we asked for the end */
    bool more;       /* it is not the last of several answers, */
    uint64_t others; /* of which those before had so many tokens */
    char last;       /* the text's last byte */
    int status;      /* exit status, once it has ended */
};

void answer_init(struct answer *a, const struct options *opt, struct output *out);
void answer_fini(struct answer *a);

/* 0: go on; 1: ended, a->status says how; negative as output_write. */
int answer_event(struct answer *a, const struct proto_event *e);

/*
 * The answer ends here for a reason that no event tells: the negative errno @r with its sentence. It is said, @status
 * is the exit status. Returns as answer_event does, never 0.
 */
int answer_fail(struct answer *a, int r, int status);

/* We were interrupted: leave the terminal tidy. 0 or negative as output_write. */
int answer_interrupt(struct answer *a);
