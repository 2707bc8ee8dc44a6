/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the reference pass. */
#include "daemon/reference/reference-weights.h"
#include "daemon/reference/reference.h"

struct reference {
    const struct gguf *g;
    struct hparams s;
    struct blas blas;
    uint32_t ctx;                    /* LongRoPE's factors are chosen by it */
    const struct item_place *places; /* of items, or NULL */
    float *matrix;                   /* scratch: one dequantized matrix at a time */
    size_t matrix_cap;
};

/* Activations of one pass, n tokens. */
struct pass {
    struct reference *r;
    uint32_t n, layer;
    uint32_t sinks, window; /* window 0: none */
    const uint32_t *ends;   /* [n] behind the last position that each sees; NULL: its own */
    float *x, *h;           /* [n][dim] residual stream, normed */
    float
        *beside; /* [n][dim] attention's output where it is parallel to the feed-forward; x before a recurrent layer */
    float *q, *k, *v;   /* [n][heads or kv_heads][head_dim] */
    float *att;         /* [n][heads][head_dim] */
    float *score;       /* [n][n] */
    float *gate, *up;   /* [n][ffn] */
    float *sink_scores; /* [heads] of the layer, or NULL */
    float *sink_k;      /* [sinks][kv_heads][head_dim] keys before they are rotated */
    double *freqs[2];   /* [rope_dim/2] radians per position; of sliding layers */
};

/* q, k, v, not yet rotated -> att. 0, or -errno and the error message. */
int reference_attention(struct pass *p);

/* The layer's norm @which of rows of @dim; where the file has no such norm the rows are copied. out may be in. 0, or
 * -errno and the error message. */
int reference_norm(struct pass *p, float *out, const float *in, size_t rows, size_t dim, const char *which);

/* The last norm, x -> h. 0, or -errno and the error message. */
int reference_output_norm(struct pass *p);

/* Norm q and k. 0, or -errno and the error message. */
int reference_norm_heads(struct pass *p);

/* Latent attention: p->h -> p->h. 0, or -errno and the error message. */
int reference_mla(struct pass *p);

/* Rotate one head @x at a place, if the layer rotates. */
void reference_rotate_head(const struct pass *p, float *x, struct item_place at);

/* Multiply the queries q[n][all] by the temperatures of their positions: they grow in steps. */
void reference_warm(const struct pass *p, float *q, size_t all);

/* p->score, the products of q and k of a head, become probabilities. */
void reference_softmax(struct pass *p, uint32_t head);

/* A mixture's feed-forward: p->h -> p->h. 0, or -errno and the error message. */
int reference_experts(struct pass *p);

/* A recurrent layer: p->h -> p->h. 0, or -errno and the error message. */
int reference_recurrent(struct pass *p);

/* The same of the gated delta rule. */
int reference_delta(struct pass *p);

/* out[i] = sum of w[c][j] * in[i - taps + 1 + j] in each channel c, of the layer's tensor "blk.N.@which.weight"; rows
 * before the first are zero. 0, or -errno and the error message. */
int reference_convolution(struct pass *p, float *out, const float *in, const char *which);

/* "blk.N.@which", all rows of it. The caller frees *out. */
int reference_vectors(struct pass *p, float **out, const char *which);

/* "blk.N.@which.weight" of the layer, rows [row, row+rows), times @in[n][dims[0]] -> out[n][rows]; with the row
 * @bias_row of "blk.N.@which.bias" where there is one. */
int reference_product(struct pass *p, float *out, const float *in, const char *which, uint64_t row, uint64_t rows,
                      uint64_t bias_row);

/* Row @row of "blk.N.@which" of the layer, or NULL where the file has none. The caller frees it. 0, or -errno and the
 * error message. */
int reference_vector(const struct pass *p, float **out, const char *which, uint64_t row);

/* gate[i] = activation of gate[i], times up[i]. */
void reference_activate(const struct hparams *s, float *gate, const float *up, size_t n);

/* p->freqs. 0, or -errno and the error message. */
int reference_frequencies(struct pass *p);
