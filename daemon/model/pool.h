/* SPDX-License-Identifier: MIT */
#pragma once
/* The compute pool: n threads (the caller's is one of them) that run one function over a range of work items. Workers
 * spin briefly, then sleep on a futex. One caller at a time. */
#include "daemon/model/timing.h"

struct pool;

/* @fn is called with disjoint [begin, end) that together cover [0, n); @thread is 0 … threads-1. */
typedef void (*pool_fn)(void *ctx, uint32_t begin, uint32_t end, uint32_t thread);

int pool_new(struct pool **out, uint32_t threads); /* 0 threads: physical cores this process may run on */
struct pool *pool_free(struct pool *p);            /* NULL ok, returns NULL */
uint32_t pool_threads(const struct pool *p);

/* Runs to the end before it returns. @grain: items handed out at a time, at least 1; fewer near the end. */
void pool_run(struct pool *p, pool_fn fn, void *ctx, uint32_t n, uint32_t grain);

/* From now on pool_run adds its time to @timing, which stays valid until this is called again; NULL: to nothing. */
void pool_time(struct pool *p, struct timing *timing);
