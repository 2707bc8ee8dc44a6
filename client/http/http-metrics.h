/* SPDX-License-Identifier: MIT */
#pragma once
/* Counters of the gateway, and their text form for Prometheus. */
#include "libcommon/buf.h"
#include <stdint.h>

enum { METRICS_BUCKETS = 12, METRICS_STATUSES = 600 };

/* A histogram of seconds. */
struct histogram {
    uint64_t counts[METRICS_BUCKETS + 1]; /* the last one: above all limits */
    double sum;
};

struct http_metrics {
    uint64_t responses[METRICS_STATUSES]; /* by status */
    uint64_t disconnects;                 /* clients that closed the connection before the end of the response */
    uint64_t tokens_prompt, tokens_cached, tokens_completion;
    uint64_t tokens_drafted, tokens_accepted; /* proposed ones, of answers that ended */
    struct histogram first_token;             /* from the request to the first text */
    struct histogram next_token;              /* between two texts of an answer */
};

void metrics_response(struct http_metrics *m, int status);
void metrics_seconds(struct histogram *h, double seconds);

/* Connections and requests that are open now, and those of the requests that wait in the queue of a daemon. */
struct metrics_now {
    unsigned connections, requests, queued;
};

/* Append all counters. 0 or -ENOMEM. */
int metrics_put(struct buf *out, const struct http_metrics *m, const struct metrics_now *now);
