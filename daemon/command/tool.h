/* SPDX-License-Identifier: MIT */
#pragma once
/* A loaded model for the commands that measure and check. The blocks of each sequence are in order; its state is that
 * of its number. */
#include "daemon/model/backend.h"
#include "daemon/text/tokenizer/tokenizer.h"

struct tool {
    struct gguf *gguf;
    struct hparams hparams;
    struct tokenizer *tokenizer;
    struct backend *backend;
    double seconds; /* time to load the backend */
};

/* Opens @model, a path or a name. Sets c->kv_bytes for @sequences of c->ctx tokens each; c->ctx 0 is the model's
 * context. 0 or -errno; sets the error message. Call tool_close in both cases. */
int tool_open(struct tool *l, const char *model, struct backend_config *c, uint32_t sequences);
void tool_close(struct tool *l);

/* Runs tokens [n] at positions pos… of sequence @seq (blocks seq*ceil(ctx/32) …). @logits [n-first][vocab] receives the
 * logits of every token from @first on (NULL: none). Longer runs are split at batch_tokens. */
int tool_forward(struct tool *l, uint32_t seq, const int32_t *tokens, uint32_t pos, uint32_t n, uint32_t first,
                 float *logits);

/* Reads a whole file of at most 1 GiB. *out is NUL-terminated and the caller's; *len does not count the NUL. */
int tool_read_file(const char *path, char **out, size_t *len);

/* Appends the ids of plain text, with a BOS in front if the file requires it. */
int tool_tokens(const struct tool *l, const char *text, size_t len, struct tokens *out);

/* "12,3,4" -> @out[max]. Returns the count, 0 if the text is not such a list. */
uint32_t tool_parse_list(const char *s, uint32_t *out, uint32_t max);

/* Parses the value of option @name, from @min to @max. The error message begins with @name. */
int tool_parse_number(const char *name, const char *s, uint64_t min, uint64_t max, uint64_t *out);

double tool_now(void); /* seconds, monotonic */
