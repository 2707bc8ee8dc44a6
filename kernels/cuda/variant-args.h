/* SPDX-License-Identifier: MIT */
#pragma once
/* The arguments of the kernels that only some architectures need, as in cuda-args.h. */
#include "kernels/cuda/cuda-args.h"

/* cuda_norm with all that blocks of other kinds have: one CTA for each row. */
struct cuda_norm_any {
    struct cuda_norm n;       /* without gather; bias: of x, where there is no h */
    const float *w_bias;      /* [each][k] of the norm, or NULL */
    const float *beside;      /* [n][k] what joins x behind h, or NULL; with */
    const float *beside_bias; /* [k] this bias, or NULL */
    const float *side;        /* [n][k] what joins x last; the sum is divided by sqrt(2). NULL: there is none */
    const float *second, *second_bias; /* outer: [k] of the norm of x + the first one's result, or NULL */
    uint32_t each;                     /* rows of n.w, w_bias and n.bias: row i of x has number i % each */
    uint32_t layer;                    /* the norms are LayerNorm */
    uint32_t outer;                    /* x becomes the norm of x + h */
};

/* xIELU(gate) -> f or q. The grid is that of cuda_gated. */
struct cuda_xielu {
    struct cuda_gated g; /* up is not used */
    float by[4];
};

/* x * sigmoid(gate) -> f or q. The grid is that of cuda_gated. */
struct cuda_head_gate {
    const float *x, *gate; /* [n][k] */
    const uint32_t *list;  /* [n] rows of gate, or NULL: the same as of x */
    float *f;              /* or NULL; it may be x */
    struct cuda_acts q;    /* q.q NULL: not quantized */
    uint32_t k;
};

/* Attention with ALiBi, of K and V in f32. */
struct cuda_attn_alibi {
    struct cuda_attn a;
    const float *slopes;            /* [heads] */
    const struct cuda_token *token; /* of the batch */
};
