/* SPDX-License-Identifier: MIT */
#pragma once
/* Prints the thinking of the model: before the answer on standard output, or on standard error. */
#include "client/options.h"
#include "client/output.h"

struct thought {
    struct output *out; /* NULL: it is not printed */
    struct output err;  /* standard error */
    bool styled;        /* dim on this terminal */
    bool open;          /* text of it was printed, and the answer has not begun */
    char last;          /* its last byte */
    struct buf line;    /* scratch */
};

/* @out is the output of the answer. */
void thought_init(struct thought *t, const struct options *o, struct output *out);
void thought_fini(struct thought *t);

/* Print a piece. On a terminal control characters are replaced. 0 or negative as output_write. */
int thought_text(struct thought *t, const char *text, size_t len);

/* End it. @more: the answer follows, so an empty line comes between them. 0 or negative as output_write. */
int thought_end(struct thought *t, bool more);
