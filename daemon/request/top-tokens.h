/* SPDX-License-Identifier: MIT */
#pragma once
/* The most likely tokens of a position, for 'top_logprobs' of a request. */
#include "daemon/text/tokenizer/tokenizer.h"
#include "libcommon/proto.h"

/* The logits of a position, with the results of backend_logsumexp. */
struct top_row {
    const float *logits; /* [vocab] */
    uint32_t vocab;
    float max, lse;
};

/* Set top of @e: the token @id, which was sampled (without text if it is a control token), then the @n (at most
 * PROTO_TOP_MAX) most likely ones, the most likely first, and of equal ones the one with the lower id. 0; -ENOMEM: @e
 * has none, or a part of them. */
int top_tokens(struct proto_event *e, const struct tokenizer *t, const struct top_row *row, int32_t id, uint32_t n);
