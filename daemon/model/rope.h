/* SPDX-License-Identifier: MIT */
#pragma once
/* The parameters of rotary embedding in a file, and the angles. */
#include "daemon/model/gguf.h"

#define ROPE_TENSOR       "rope_freqs.weight" /* [rot/2] each */
#define ROPE_SHORT_TENSOR "rope_factors_short.weight"
#define ROPE_LONG_TENSOR  "rope_factors_long.weight"

enum rope_kind {
    ROPE_LINEAR, /* scaling "none" and "linear": all frequencies are multiplied by scale */
    ROPE_YARN,   /* only slow frequencies are scaled, fast ones are not (YaRN, arXiv 2309.00071) */
    ROPE_LLAMA3, /* as YaRN with Llama 3's bounds; in a file as the tensor rope_freqs.weight, or as keys */
    ROPE_LONG    /* LongRoPE: factors for short and for long contexts, as tensors */
};

struct rope {
    enum rope_kind kind;
    float base, scale; /* scale: 1/factor */
    float magnitude;   /* factor of the cosines and sines */
    float spread;      /* factor of all of q and of k, in models with latent attention */
    uint32_t original; /* context length before the scaling */
    float fast, slow;  /* YaRN's bounds, in turns within the original context */
    float low, high;   /* Llama 3's */
};

static inline bool rope_equal(const struct rope *a, const struct rope *b)
{
    return a->kind == b->kind && a->base == b->base && a->scale == b->scale && a->magnitude == b->magnitude &&
           a->spread == b->spread && a->original == b->original && a->fast == b->fast && a->slow == b->slow &&
           a->low == b->low && a->high == b->high;
}

/* The @i-th supported scaling.type; NULL past the last. */
const char *rope_scaling_nth(uint32_t i);

/* *r = without any key, in a model with a context of @ctx. */
void rope_none(struct rope *r, uint32_t ctx);

/* Read the keys "@arch.rope.*" of a model with a context of @ctx. @multiplier: the key yarn_log_multiplier is
 * supported. 0; -EOPNOTSUPP for an unknown scaling, -EINVAL for an invalid value. Errors set the error message. */
int rope_read(struct rope *r, const struct gguf *g, const char *arch, uint32_t ctx, bool multiplier);

/* out[rot/2]: radians per position, slowest last, divided by @factors [rot/2] if not NULL. */
void rope_frequencies(const struct rope *r, uint32_t rot, const float *factors, double *out);
