/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arguments of the kernels of recurrent layers, as in cuda-args.h. An entry of the batch is a run: its tokens
 * follow each other, and its state is a block. A state of a layer is as daemon/model/hparams.h has it: the last inputs
 * of the convolution, then what the kind adds.
 */
#include "kernels/cuda/cuda-args.h"

#define CUDA_TAPS 8 /* RECURRENT_TAPS_MAX */

struct cuda_run {
    uint32_t row, n;        /* its first token in the batch; tokens */
    uint32_t fresh;         /* the state before is 0 */
    uint32_t block;         /* of the state */
    uint32_t save, n_saves; /* in saves, of n ascending */
};

/* Store the state after the first @n tokens of the run to @block, too. */
struct cuda_save {
    uint32_t n, block;
};

struct cuda_states {
    const struct cuda_run *runs;
    const struct cuda_save *saves;
    float *mem;      /* of the layer, in block 0 */
    uint64_t stride; /* floats from one block to the next */
};

/* Causal convolution of channels: out = act(w * inputs + bias), times gate if there is one. cuda_conv: a thread for
 * each channel (x) of a token (y). cuda_conv_keep, behind it: of a run (y); it brings the inputs in the states up to
 * date. */
struct cuda_conv {
    struct cuda_states s;
    const uint32_t *run_of;       /* [tokens] */
    const float *x, *by;          /* inputs: x, or x * by; rows of ld */
    const float *w, *bias, *gate; /* [taps][channels], [channels] or NULL, rows of ld or NULL */
    float *out;                   /* [tokens][channels] */
    uint32_t ld, channels, taps, silu;
};

/* The scan of Mamba-2 (kernels/ref/recurrent.c, ssm). A CTA for each head (x) and run (y), a thread for each value of
 * the head; shared memory: the head's state. */
struct cuda_ssm {
    struct cuda_states s;         /* mem: behind the convolution's inputs */
    const float *x;               /* [tokens][channels] the convolution's: x, b, c */
    const float *dt;              /* [tokens] rows of ld_dt */
    const float *dt_bias, *a, *d; /* [heads] */
    float *y;                     /* [tokens][heads][dim] */
    uint32_t channels, ld_dt, heads, dim, groups, rows;
};

/* The gated delta rule (the same, delta). A CTA for each value head (x) and run (y), a thread for each value; shared
 * memory: the head's state, q, k and a float for each. */
struct cuda_delta {
    struct cuda_states s;      /* mem: behind the convolution's inputs */
    const float *x;            /* [tokens][channels] the convolution's: q, k, v */
    const float *beta, *alpha; /* rows of ld_beta, ld_alpha; alpha NULL: beta has both, key head by key head */
    const float *dt_bias, *a;  /* [heads] */
    float *o;                  /* [tokens][heads][dim] */
    uint32_t channels, ld_beta, ld_alpha, heads, key_heads, dim;
    float eps, scale; /* of the norm of k, and of q, which has the scale */
};

enum { CUDA_OUT_PLAIN, CUDA_OUT_MAMBA, CUDA_OUT_DELTA };

/* What a recurrent layer multiplies last, -> f or q: out as it is; the norms of groups of silu(z) * out (without w that
 * itself); silu(z) * the norms of groups of out. A CTA for each row; shared memory: k floats and one. */
struct cuda_state_out {
    const float *out;           /* [tokens][k] */
    const float *z;             /* rows of ld */
    const float *w;             /* MAMBA: [k] or NULL; DELTA: [each] */
    const uint32_t *list;       /* [n] tokens of the rows, or NULL: the same numbers */
    float *f;                   /* [n][k], or NULL */
    struct cuda_acts q;         /* q.q NULL: not quantized */
    uint32_t kind, k, ld, each; /* each: values of a group */
    float eps;
};

/* Copy @n floats of a block to another. A thread for each. */
struct cuda_state_copy {
    float *to;
    const float *from;
    uint64_t n;
};
