/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The scheduler: a pure function from the state of all sequences to who is admitted and what the next batch is. No
 * clock, no locks, no model, no memory of its own. First come, first served.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A sequence that has its blocks. */
struct sched_seq {
    uint32_t computed; /* tokens whose K and V are there */
    uint32_t
        known; /* tokens there are; computed < known. One more than computed and @decoding: its newest answer token */
    bool decoding;      /* it has sampled a token */
    bool paused;        /* its reader is slow: leave it out */
    uint64_t last_step; /* when it was last in a batch; 0: never */
    uint64_t arrival;   /* unique */
};

/* A part of the batch: @n tokens of sequence @index from position computed on. */
struct sched_run {
    uint32_t index, n;
    bool logits; /* its last token is the last one known: a token can be sampled */
};

/*
 * Fill @out [n] with the next batch of at most @batch_tokens tokens, each sequence at most once, and return its length:
 * first one token for every decoding sequence (the longest waiting first, when they are more than fit), then prefill
 * chunks by arrival, each as long as fits. @order is scratch [n].
 */
size_t sched_batch(const struct sched_seq *s, size_t n, uint32_t batch_tokens, uint32_t *order, struct sched_run *out);

/* A request that waits for blocks. */
struct sched_wait {
    uint32_t blocks; /* it needs beyond those it holds */
    bool paused;     /* nobody reads: others may pass it */
};

enum sched_verdict {
    SCHED_ADMIT, /* it starts now */
    SCHED_WAIT,  /* it is its turn, and it waits: nobody overtakes, so a large request is not starved by small ones */
    SCHED_PASS,  /* it is not its turn: the next by arrival is asked */
};

/* Asked of the waiting requests by arrival, with @slots and @free_blocks to give. */
enum sched_verdict sched_admit(const struct sched_wait *w, uint32_t slots, uint32_t free_blocks);
