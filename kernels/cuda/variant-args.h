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

/* The embeddings of tokens for the layers: e = (norm(e * scale) * w + rows * row_scale) * sqrt(1/2). One CTA for each
 * layer (x) and token (y); shared memory: k floats and one. */
struct cuda_layer_rows {
    float *e;          /* [n][layers][k] the product, in place */
    const float *rows; /* [n][layers][k] of the table */
    const float *w;    /* [k] */
    float scale, row_scale, eps;
    uint32_t k;
};

/* gelu(gate) * e -> f or q. The grid is that of cuda_gated. */
struct cuda_layer_gate {
    const float *gate;    /* [n][k] */
    const float *e;       /* [k] of the first token; @ld floats to that of the next */
    const uint32_t *list; /* [n] tokens of the rows, or NULL: the same numbers */
    float *f;             /* or NULL; it may be gate */
    struct cuda_acts q;   /* q.q NULL: not quantized */
    uint32_t k, ld;
};

/* gelu(max(gate - from, 0)) * up -> f or q, where @from is the row's mean and @factor times its deviation. One CTA for
 * each row; shared memory: k floats and one. */
struct cuda_sparse_gate {
    const float *gate, *up; /* [n][k] */
    float *f;               /* or NULL; it may be gate */
    struct cuda_acts q;     /* q.q NULL: not quantized */
    float factor;
    uint32_t k;
};

#define CUDA_STREAMS 4 /* most residual streams of a token */

/* A step of AltUp (daemon/backend/cpu/altup.c). One CTA for each token; shared memory: k floats and one. */
struct cuda_altup {
    float *streams;           /* [n][count][k] */
    float *x;                 /* [n][k] */
    float *h;                 /* [n][k], or NULL */
    float *side;              /* [n][k] of the product of a stream */
    struct cuda_acts q;       /* of what h gets; q.q NULL: not quantized */
    const float *post;        /* [k] of the norm of h, which joins the streams but the first; NULL: nothing does */
    const float *router_norm; /* [k] */
    const float *router;      /* [count][k] */
    const float *mix;         /* predict: [count][count][count]; correct: [count][count] */
    const float *scale;       /* [k] of what h gets */
    float eps, least;         /* least: of a magnitude that divides */
    uint32_t count, stream, k;
};
