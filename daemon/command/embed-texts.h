/* SPDX-License-Identifier: MIT */
#pragma once
/* The texts of hobd embed: lines of standard input as tokens, and their rows. */
#include "daemon/command/tool.h"
#include "libcommon/buf.h"

struct embed_text {
    int32_t *ids;   /* [n] */
    uint8_t *types; /* [n] */
    uint32_t n;
};

struct embed_texts {
    struct embed_text *list; /* [n] */
    size_t n, cap;
};

/* The lines of @in: each a text, or with @jsonl a JSON value: a text, a list of token ids as they are, or a question
 * and a text. The model's tokens for the beginning and the end of a text are added. 0; the caller calls
 * embed_texts_fini. -errno and the error message, which names the line; *t is empty then. */
int embed_texts_read(struct embed_texts *t, const struct tool *l, const struct buf *in, bool jsonl);
void embed_texts_fini(struct embed_texts *t);

/* What a text has: the row that @kind and the head make of its tokens' rows, hparams_outputs values; or of POOLING_NONE
 * the @n rows [n][dim]. The function may change them. Returns 0, or -errno, which ends the run. */
typedef int embed_row_fn(void *ctx, size_t index, float *rows, size_t n);

/* Compute all texts, as many as a step holds at once, and call @fn for each, in order. A text of a causal model may
 * need several steps. 0, or -errno and the error message. */
int embed_run(struct tool *l, const struct embed_texts *t, enum pooling kind, embed_row_fn *fn, void *ctx);
