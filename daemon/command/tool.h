/* SPDX-License-Identifier: MIT */
#pragma once
/* A model for the commands that measure and check: everything loaded, one sequence's blocks laid out in order. */
#include "daemon/model/backend.h"
#include "daemon/text/tokenizer/tokenizer.h"

struct tool {
    struct gguf *gguf;
    struct shape shape;
    struct tokenizer *tokenizer;
    struct backend *backend;
    double seconds; /* to load the backend */
};

/* @model: a path or a name. The config's kv_bytes is filled in for @sequences of c->ctx tokens each, c->ctx 0 being the
 * model's. 0 or -errno with a sentence; tool_close is needed in both cases. */
int tool_open(struct tool *l, const char *model, struct backend_config *c, uint32_t sequences);
void tool_close(struct tool *l);

/* Run tokens [n] at positions pos… of sequence @seq (blocks seq*ceil(ctx/32) …), reading logits of every one from
 * @first on into @logits [n-first][vocab] (NULL: none). Longer runs are cut to batch_tokens. */
int tool_forward(struct tool *l, uint32_t seq, const int32_t *tokens, uint32_t pos, uint32_t n, uint32_t first,
                 float *logits);

/* A whole file, at most 1 GiB; NUL-terminated, *len without it. */
int tool_read_file(const char *path, char **out, size_t *len);

/* Ids of plain text, BOS in front when the file asks for it. */
int tool_tokens(const struct tool *l, const char *text, size_t len, struct tokens *out);

/* "12,3,4" -> @out[max]; returns the count, 0 for text that is not such a list. */
uint32_t tool_parse_list(const char *s, uint32_t *out, uint32_t max);

/* The value of option @name, from @min to @max; the sentence of a failure begins with @name. */
int tool_parse_number(const char *name, const char *s, uint64_t min, uint64_t max, uint64_t *out);

double tool_now(void); /* seconds, monotonic */
