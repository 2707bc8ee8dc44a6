/* SPDX-License-Identifier: MIT */
#pragma once
/* Rotary embedding as a file describes it, and its angles. */
#include "daemon/model/gguf.h"

#define ROPE_TENSOR       "rope_freqs.weight" /* [rot/2] each */
#define ROPE_SHORT_TENSOR "rope_factors_short.weight"
#define ROPE_LONG_TENSOR  "rope_factors_long.weight"

enum rope_kind {
    ROPE_LINEAR, /* scaling "none" and "linear": all frequencies are multiplied by scale */
    ROPE_YARN,   /* the slow ones are, the fast ones are not (YaRN, arXiv 2309.00071) */
    ROPE_LLAMA3, /* likewise with Llama 3's bounds; files have it as the tensor rope_freqs.weight, or as keys */
    ROPE_LONG    /* LongRoPE: factors for short and for long contexts, as tensors */
};

struct rope {
    enum rope_kind kind;
    float base, scale; /* scale: 1/factor */
    float magnitude;   /* of the cosines and sines */
    uint32_t original; /* context before the scaling */
    float fast, slow;  /* YaRN's bounds, in turns within the original context */
    float low, high;   /* Llama 3's */
};

/* The @i-th scaling.type that is known; NULL past the last. */
const char *rope_scaling_nth(uint32_t i);

/* The keys of "@arch.rope.", for a model with contexts of @ctx. -EOPNOTSUPP for a scaling that is not known, -EINVAL;
 * with a sentence. */
int rope_read(struct rope *r, const struct gguf *g, const char *arch, uint32_t ctx);

/* out[rot/2]: radians per position, slowest last. @factors [rot/2]: what they are divided by, or NULL. */
void rope_frequencies(const struct rope *r, uint32_t rot, const float *factors, double *out);
