/* SPDX-License-Identifier: MIT */
#pragma once
/* The compute pool: n threads, the caller's included, that run one function over a range of work items. Workers spin
 * briefly, then sleep on a futex. One caller at a time. */
#include "daemon/backend/cpu/numa.h"
#include "daemon/model/timing.h"
#include <stddef.h>

struct compute_pool;

/* @fn is called with disjoint [begin, end) that together cover [0, n); @thread is 0 … threads-1. */
typedef void (*compute_fn)(void *ctx, uint32_t begin, uint32_t end, uint32_t thread);

/* @threads 0: as many as suit the CPUs that this process may use (cpu-count.h). On 0 *out is owned by the caller; else
 * -errno. */
int compute_pool_new(struct compute_pool **out, uint32_t threads);
/* The same; with several nodes, each worker stays on the CPUs of one. @nodes is copied. */
int compute_pool_new_on(struct compute_pool **out, uint32_t threads, const struct numa *nodes);
struct compute_pool *compute_pool_free(struct compute_pool *p); /* NULL ok, returns NULL */
uint32_t compute_pool_threads(const struct compute_pool *p);
/* Write a line for the log: the threads, and the CPUs they may use. */
void compute_pool_describe(const struct compute_pool *p, char *out, size_t size);

/* Run @fn over [0, n); returns when all items are done. Items are given out in multiples of @least (but for the last),
 * at most @most at a time, fewer near the end. The caller alone does @n <= @least. */
void compute_pool_run(struct compute_pool *p, compute_fn fn, void *ctx, uint32_t n, uint32_t least, uint32_t most);

/* compute_pool_run adds its time to @timing, which must stay valid until the next call of this function; NULL: no
 * timing. */
void compute_pool_time(struct compute_pool *p, struct timing *timing);
