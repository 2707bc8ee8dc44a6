/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Limits of a key: requests at the same time, requests a minute and tokens a minute. The tokens are those that are
 * computed: of prompts without their cached part, and of answers. Requests and tokens may come in a burst of a minute's
 * amount, and each frees its place evenly over the minute after it. The tokens of a request are known only when it
 * ends, so that one request may exceed the amount; the next ones wait for it.
 */
#include "client/http/fault.h"
#include <stdint.h>

/* 0: no limit. */
struct key_limits {
    uint32_t running;  /* requests at the same time */
    uint32_t requests; /* a minute */
    uint32_t tokens;   /* a minute */
};

/* Use of a key; zero at first. */
struct key_use {
    uint32_t running;
    double requests_usec, tokens_usec; /* time until all requests, or tokens, of the last minute are paid */
    uint64_t at_usec;                  /* the time for which these hold */
};

/* Set the limit that @word names: "running=N", "requests=N" or "tokens=N", N from 1 to 10^9. 0; -EINVAL with the error
 * message; 1: the word names no limit. */
int key_limits_read(struct key_limits *l, const char *word);

/* One more request begins at @now. 0: key_limits_end follows; -EINVAL: over a limit, with *f, whose status is 429. */
int key_limits_begin(const struct key_limits *l, struct key_use *u, uint64_t now, struct fault *f);
void key_limits_end(struct key_use *u);

/* @n tokens were computed. */
void key_limits_tokens(const struct key_limits *l, struct key_use *u, uint64_t n, uint64_t now);
