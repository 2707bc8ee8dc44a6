/* SPDX-License-Identifier: MIT */
#pragma once
/* Time of the parts of a forward pass, measured in the calling thread. Collected only on request. */
#include <stdint.h>

enum timing_part {
    TIMING_PROJECTIONS, /* products with the layers' matrices, activation */
    TIMING_ATTENTION,   /* with the queries' RoPE */
    TIMING_VECTOR,      /* embedding, norms, the keys' RoPE, quantizing, adding */
    TIMING_LOGITS,      /* the product with the vocabulary */
    TIMING_PARTS
};

struct timing {
    uint64_t work_ns;  /* work of the calling thread */
    uint64_t wait_ns;  /* time it waited for the other threads */
    uint64_t barriers; /* number of waits */
};
