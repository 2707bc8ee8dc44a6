/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the reference pass. */
#include "daemon/model/adapter.h"
#include "daemon/reference/reference-weights.h"
#include "daemon/reference/reference.h"

struct reference {
    const struct gguf *g;
    struct hparams s;
    struct blas blas;
    uint32_t ctx;                    /* LongRoPE's factors are chosen by it */
    const struct item_place *places; /* of items, or NULL */
    struct {
        const struct adapter *of; /* NULL: none */
        float scale;
        uint32_t from;
    } adapter;
    const float *states; /* [n][dim] of the pairs of an MTP layer, or NULL */
    float *next;         /* [n][dim] its own */
    float *matrix;       /* scratch: one dequantized matrix at a time */
    size_t matrix_cap;
};

/* Activations of one pass, n tokens. */
struct pass {
    struct reference *r;
    uint32_t n, layer;
    uint32_t sinks, window; /* window 0: none */
    const uint32_t *ends;   /* [n] behind the last position that each sees; NULL: its own */
    const uint8_t *types;   /* [n] of the tokens of an encoder, or NULL */
    float *x, *h;           /* [n][dim] residual stream, normed */
    float
        *beside; /* [n][dim] attention's output where it is parallel to the feed-forward; x before a recurrent layer */
    float *q, *k, *v;           /* [n][heads or kv_heads][head_dim] */
    float *att;                 /* [n][heads][head_dim] */
    float *score;               /* [n][n] */
    float *gate, *up;           /* [n][ffn] */
    float *route;               /* [n][experts] scores of a router that reads the residual stream before attention */
    float *sink_scores;         /* [heads] of the layer, or NULL */
    float *sink_k;              /* [sinks][kv_heads][head_dim] keys before they are rotated */
    struct hparams_heads heads; /* of the layer */
    double *freqs[2];           /* [rope_dim/2] radians per position; of sliding layers */
    float *kept[2];             /* K and then V of the last layer with own ones; of the last that slides */
    float *embedding;           /* [n][layers][per_layer] the tokens' embeddings for the layers */
    float *streams;             /* [n][altup.streams][dim] */
    float *side;                /* [n][dim] LAuReL's output */
    float *rows;                /* [n][dim] out: behind the last norm; NULL: not asked for */
};

/* p->x of @ids [n], rows of @table, or @embd [n][dim] where they are ITEM_EMBD. 0, or -errno and the error message. */
int reference_embed(struct pass *p, const struct gguf_tensor *table, const int32_t *ids, const float *embd);

/* An encoder: p->x = the norm @which of p->x + p->h. 0, or -errno and the error message. */
int reference_outer_norm(struct pass *p, const char *which);

/* ALiBi's slope of a head; 0: there is none. */
double reference_slope(const struct pass *p, uint32_t head);
/* Add to @out[n][rows], rows [row, row + rows) of the product of @t and @in[n][dims[0]], what the adapter adds; to the
 * row @token of the table @table, for @position. 0, or -errno and the error message. */
int reference_adapt(const struct pass *p, float *out, const float *in, const struct gguf_tensor *t, uint64_t row,
                    uint64_t rows);
int reference_adapt_row(const struct pass *p, float *x, const struct gguf_tensor *table, uint32_t position,
                        uint64_t token);

/* q, k, v, not yet rotated -> att. 0, or -errno and the error message. */
int reference_attention(struct pass *p);

/* The layer's norm @which of rows of @dim; where the file has no such norm the rows are copied. out may be in. 0, or
 * -errno and the error message. */
int reference_norm(struct pass *p, float *out, const float *in, size_t rows, size_t dim, const char *which);

/* The last norm, x -> h. 0, or -errno and the error message. */
int reference_output_norm(struct pass *p);

/* The input of an MTP layer: p->x, which has the embeddings, and the states -> p->x; behind its block, which p->h has
 * the norm of, the states that it gives. 0, or -errno and the error message. */
int reference_pairs(struct pass *p);
void reference_next(const struct pass *p);

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

/* Rows of @dim with the norm "@name.weight" and its bias, if the file has that; without the norm they are copied. out
 * may be in. */
int reference_shared_norm(struct pass *p, float *out, const float *in, size_t rows, size_t dim, const char *name);

/* Row @row of "blk.N.@which" of the layer, or NULL where the file has none. The caller frees it. 0, or -errno and the
 * error message. */
int reference_vector(const struct pass *p, float **out, const char *which, uint64_t row);

/* gate[i] = activation of gate[i], times up[i]. */
void reference_activate(const struct hparams *s, float *gate, const float *up, size_t n);

/* p->embedding of the embedded tokens p->x; ids[n] as reference_items has them. The caller frees it. 0, or -errno and
 * the error message. */
int reference_embed_layers(struct pass *p, const int32_t *ids);

/* The layer's embedding: what it adds, of @in [n][dim] -> p->h. 0, or -errno and the error message. */
int reference_layer_embedding(struct pass *p, const float *in);

/* AltUp: p->x -> p->streams and p->side, which the caller frees; before a layer, p->streams are predicted and p->x is
 * the first; the normed input of attention -> p->side; attention's result in p->x gets it; a layer's result p->x
 * corrects p->streams; p->streams -> p->x. 0, or -errno and the error message. */
int reference_altup_begin(struct pass *p);
int reference_altup_predict(struct pass *p);
int reference_laurel(struct pass *p);
void reference_laurel_add(struct pass *p);
int reference_altup_correct(struct pass *p);
int reference_altup_end(struct pass *p);

/* A mixture with an ordinary feed-forward, @ordinary of p->h -> p->h, beside it: p->x -> p->h. 0, or -errno and the
 * error message. */
int reference_experts_beside(struct pass *p, int (*ordinary)(struct pass *p));

/* p->gate of a layer whose gate is sparse. */
void reference_sparsify(struct pass *p, size_t width);

/* A tensor that the layers share, by its whole name: its product, rows [row, row + rows), and one row of it. 0, or
 * -errno and the error message. */
int reference_shared_product(struct pass *p, float *out, const float *in, const char *name, uint64_t row,
                             uint64_t rows);
int reference_shared_row(const struct pass *p, float *out, const char *name, uint64_t row);

/* Rows of @dim, normed with the weights @w, or without weights where it is NULL. out may be in. */
void reference_norm_by(const struct hparams *s, float *out, const float *in, size_t rows, size_t dim, const float *w);

/* p->freqs. 0, or -errno and the error message. */
int reference_frequencies(struct pass *p);
