/* SPDX-License-Identifier: MIT */
#pragma once
/* Vectors of texts, from the daemon or, in tests, from elsewhere. */
#include "libcommon/proto.h"

/* Take the next @n vectors [n][dim] of a call, of length 1. 0 or a negative error, which ends the call. */
typedef int (*embedder_sink)(void *ctx, const float *vectors, size_t n, uint32_t dim);

struct embedder {
    /* Give the vectors of @texts [@n], UTF-8, to @sink, in order. 0; what @sink returned; -ECANCELED: they are not to
     * be had, the error is printed, and @e->status is the exit status. */
    int (*run)(struct embedder *e, const struct proto_text *texts, size_t n, embedder_sink sink, void *ctx);
    void *ctx;
    int status;
};
