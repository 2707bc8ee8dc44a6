/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A limit of thinking: a logits processor that closes the thought of an answer after a number of tokens. The tokens of
 * the closing mark are then the only ones that can be sampled; the answer follows. The state is a function of the
 * tokens of the answer.
 */
#include "daemon/output/channel.h"
#include "daemon/sample/chain.h"

struct think_limit_config {
    const struct tokenizer *tokenizer; /* outlives the processor, as @format */
    const struct channel_format *format;
    const char *close; /* the closing mark, with the white space around it; not kept */
    uint32_t budget;   /* tokens of the thought */
};

/* 0, and the caller owns *out; or -ENOMEM. */
int think_limit_new(struct logits_processor **out, const struct think_limit_config *c);
