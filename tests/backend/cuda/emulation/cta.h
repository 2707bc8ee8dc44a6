/* SPDX-License-Identifier: MIT */
#pragma once
/* The CTA that is computed: its threads, which are fibers, and its shared memory. */
#include "device.h"

#define WARP         32
#define MOST_THREADS 1024
#define MOST_WARPS   (MOST_THREADS / WARP)
#define MOST_STATICS 16
#define COPIES       4096 /* under way at most: of a thread, and bulk copies */
#define POISON       0xff /* what shared memory is filled with before each CTA */

/* A copy of a thread to shared memory. */
struct copy {
    void *to;
    const void *from;
    uint32_t bytes, group;
};

struct alignas(64) fiber {
    void *sp;
    const uint32_t *word; /* it waits until that is not @old; NULL: it can run */
    uint32_t old;
    bool ended;
    uint32_t first, n, group; /* copies under way; the number of the next group */
    struct copy *copies;      /* [COPIES] */
    const char *what;         /* it waits for */
};

/* What the lanes of a warp exchange. They wait for each other once in an operation: no lane is more than one ahead. */
struct warp {
    uint32_t words[2][8][WARP];
    uint32_t turn, arrived, lanes;
    const char *what;
};

struct cta {
    const struct emulated_kernel_of *kernel;
    const void *argument;
    struct fiber fibers[MOST_THREADS];
    struct warp warps[MOST_WARPS];
    uint8_t *stacks, *room, *room_end; /* room: dynamic shared memory */
    uint32_t room_bytes;
    struct fiber *now; /* NULL: none runs */
    void *scheduler;
    uint32_t barrier, arrived, alive; /* of __syncthreads */
    struct {
        uint32_t turn, arrived;
    } numbered[16]; /* barriers at which a part of the threads arrives */
    struct {
        uint8_t *at;
        size_t bytes;
    } statics[MOST_STATICS]; /* variables in shared memory that the CTA has come to */
    uint32_t n_statics;
    uint32_t order, random;
};
extern struct cta cta;

/* Fill shared memory; no copies are under way. */
void emulated_prepare_shared();
/* One more bulk copy arrives: when all threads wait or, in every second CTA, as soon as it has started. So a thread
 * that waits for too little is found, and one that fetches too early. False: none is under way. */
bool emulated_finish_bulk();
