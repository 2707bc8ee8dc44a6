/* SPDX-License-Identifier: MIT */
#pragma once
/* Inside the reference pass. */
#include "daemon/model/reference-weights.h"
#include "daemon/model/reference.h"

struct reference {
    const struct gguf *g;
    struct shape s;
    struct blas blas;
    uint32_t ctx;  /* LongRoPE's factors are chosen by it */
    float *matrix; /* scratch: one dequantized matrix at a time */
    size_t matrix_cap;
};

/* Activations of one pass, n tokens. */
struct pass {
    struct reference *r;
    uint32_t n, layer;
    uint32_t sinks, window; /* window 0: none */
    float *x, *h;           /* [n][dim] residual stream, normed */
    float *q, *k, *v;       /* [n][heads or kv_heads][head_dim] */
    float *att;             /* [n][heads][head_dim] */
    float *score;           /* [n][n] */
    float *gate, *up;       /* [n][ffn] */
    float *sink_k;          /* [sinks][kv_heads][head_dim] keys before they are rotated */
    double *freqs[2];       /* [rope_dim/2] radians per position; of sliding layers */
};

/* q, k, v, not yet rotated -> att. */
void reference_attention(struct pass *p);

/* p->freqs. 0 or -errno with a sentence. */
int reference_frequencies(struct pass *p);
