/* SPDX-License-Identifier: MIT */
#pragma once
/* Where the time of a forward pass goes, seen from the thread that called it. Collected only for who asks. */
#include <stdint.h>

enum timing_part {
    TIMING_PROJECTIONS, /* products with the layers' matrices */
    TIMING_ATTENTION,
    TIMING_VECTOR, /* embedding, norms, RoPE, activation, quantizing, adding */
    TIMING_LOGITS, /* the product with the vocabulary */
    TIMING_PARTS
};

struct timing {
    uint64_t work_ns;  /* the caller's own share of the work */
    uint64_t wait_ns;  /* until the other threads had done theirs */
    uint64_t barriers; /* how often it waited */
};
