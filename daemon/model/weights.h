/* SPDX-License-Identifier: MIT */
#pragma once
/* A model's weights as the CPU backend computes with them: every matrix repacked into panels of 16 rows (kernels.h),
 * every vector as f32, all in one anonymous mapping. */
#include "daemon/model/pool.h"
#include "daemon/model/shape.h"
#include "kernels/kernels.h"

/* y[rows] = W x[k]. */
struct matrix {
    enum kern_type type;
    uint32_t rows, k, n_panels;
    size_t panel_bytes;
    uint8_t *panels; /* [n_panels][panel_bytes] */
};

struct layer {
    float *attn_norm, *ffn_norm; /* [dim] */
    struct matrix q, k, v, o, gate, up, down;
};

struct weights {
    struct layer *layers; /* [n_layers] */
    float *output_norm;   /* [dim] */
    struct matrix output; /* [vocab][dim]; of a tied model: the embedding */
    const void *embd;     /* [vocab] rows as in the file, of type embd_type; NULL when tied */
    enum kern_type embd_type;
    float *rope_factors; /* [rope_dim/2] what the frequencies are divided by, or NULL */
    uint32_t n_layers, dim;
    void *mem;
    size_t size; /* bytes of mem */
};

/* @progress as in struct backend_config. 0; -EINVAL, -EOPNOTSUPP or -ENOMEM with a sentence that names the tensor or
 * the bytes. On 0 the caller ends it with weights_fini; on error there is nothing to end. @g stays open as long as it
 * lives. */
int weights_load(struct weights *w, const struct gguf *g, const struct shape *s, struct pool *pool,
                 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx);
void weights_fini(struct weights *w);

/* Would they load? As weights_load, without reading any; on 0 *bytes is the memory they need. */
int weights_check(const struct gguf *g, const struct shape *s, size_t *bytes);

/* The embedding of @token (< vocab) into out[dim]. */
void weights_embed(const struct weights *w, uint32_t token, float *out);

/* ggml's type number as a type the kernels know: 0, or 1 when they do not. */
int weights_type(uint32_t ggml, enum kern_type *out);
