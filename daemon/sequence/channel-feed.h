/* SPDX-License-Identifier: MIT */
#pragma once
/* Tokens through a channel parser, for logits processors that follow the parts of an answer. */
#include "daemon/output/channel.h"
#include "daemon/sample/chain.h"

/* Parser and detokenizer read token @id. 0, a result of @sink, or -ENOMEM. */
int channel_feed(struct channel_parser *p, struct detok *d, const struct tokenizer *t, int32_t id,
                 struct channel_sink *sink);

/* {0} owns nothing. */
struct channel_reader {
    const struct tokenizer *tokenizer;
    struct channel_parser *parser;
    struct detok detok;
    uint32_t ended; /* calls */
};

/* @f must outlive the reader. 0; -ENOMEM, and @r is {0}. */
int channel_reader_init(struct channel_reader *r, const struct tokenizer *t, const struct channel_format *f);
void channel_reader_fini(struct channel_reader *r);
int channel_reader_clone(struct channel_reader *to, const struct channel_reader *from); /* likewise */

int channel_reader_feed(struct channel_reader *r, int32_t id); /* reads token @id; 0 or -ENOMEM: @r is of no use */
bool channel_reader_is_at(const struct channel_reader *r, const char *channel);

/* The rollback of a processor, which is at its start: it accepts again all tokens that it has noted in *past, but for
 * the last @n. It appends them to *past. 0 or the error of accept. */
int channel_replay(struct logits_processor *p, struct tokens *past, size_t n);
