/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A trace of real requests, one JSON object per line: {"timestamp": ms, "input_length": tokens, "output_length":
 * tokens, "hash_ids": [a number for each 512 tokens of the prompt; equal numbers: equal prompts up to there]}. The
 * format is Mooncake's (Qin et al.: "Mooncake: Trading More Storage for Less Computation", FAST'25).
 */
#include <stddef.h>
#include <stdint.h>

#define TRACE_BLOCK 512

struct trace_request {
    double ms; /* from the start of the trace */
    uint32_t prompt, answer;
    uint32_t first; /* its hash ids: ids[first … first + n - 1] */
    uint32_t n;
    uint32_t user;
};

struct trace {
    struct trace_request *requests; /* [n] in order of time */
    uint64_t *ids;                  /* [n_ids] */
    size_t n, n_ids;
    uint64_t distinct;        /* number of distinct ids */
    uint64_t prompt_tokens;   /* tokens of all prompts */
    uint64_t infinite_tokens; /* of those, hits in an infinite cache */
};

/* Reads the first @most requests (0: all) of @path. 0; -EBADMSG, -E2BIG with the error message "PATH:LINE: cause";
 * -errno; -ENOMEM. On error @out is empty. */
int trace_read(struct trace *out, const char *path, size_t most);
void trace_fini(struct trace *t);

/* Deals the requests to @users artificial users. A conversation (same second hash id, or first) belongs to one user.
 * The k-th user gets about 1/k as many as the first. */
void trace_deal(struct trace *t, uint32_t users);
