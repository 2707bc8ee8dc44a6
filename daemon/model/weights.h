/* SPDX-License-Identifier: MIT */
#pragma once
/* A model's weights as the CPU backend computes with them: every matrix repacked into panels of 16 rows (kernels.h),
 * every vector as f32, all in one image: anonymous memory, or the file of packed weights that an earlier start has left
 * (packed.h). */
#include "daemon/model/packed.h"
#include "daemon/model/pool.h"
#include "daemon/model/shape.h"
#include "kernels/kernels.h"

/* y[rows] = W x[k], or as many such as there are experts. */
struct matrix {
    enum kern_type type;
    uint32_t rows, k, n_panels; /* of each */
    uint32_t stacked;           /* how many */
    size_t panel_bytes;
    const uint8_t *panels; /* [stacked][n_panels][panel_bytes] */
};

/* Vectors that the architecture or the file has not are NULL. */
struct layer {
    const float *attn_norm, *ffn_norm;           /* [dim] */
    const float *attn_post_norm, *ffn_post_norm; /* [dim] */
    const float *q_norm, *k_norm;                /* [head_dim], or of all heads, as the architecture has it */
    const float *q_bias, *k_bias, *v_bias;       /* [rows] of their matrices, like those below */
    const float *o_bias, *gate_bias, *up_bias, *down_bias;
    struct matrix q, k, v, o, gate, up, down; /* of experts, gate, up, down and their biases are stacked */
    struct matrix router;                     /* [experts][dim] */
    const float *router_bias;                 /* [experts] */
    struct matrix shared_router;              /* [1][dim] */
    struct matrix shared_gate, shared_up, shared_down;
    const float *sink_scores; /* [heads] */
};

struct weights {
    struct layer *layers;     /* [the shape's n_layers] */
    const float *output_norm; /* [dim] */
    struct matrix output;     /* [vocab][dim]; of a tied model: the embedding */
    const void *embd;         /* [vocab] rows as in the file, of type embd_type; NULL when tied */
    enum kern_type embd_type;
    /* [rope_dim/2] what the frequencies are divided by, or NULL; LongRoPE's for short and for long contexts */
    const float *rope_factors, *rope_short, *rope_long;
    const void *mem; /* the image, of table.size bytes */
    struct packed_table table;
    struct packed *packed; /* the file that mem is in, or NULL: anonymous memory */
    const struct gguf *g;
    char *dir;                /* where packed weights are kept, or NULL: nowhere */
    atomic_bool model_known;  /* is @model set? By weights_load or weights_upkeep, once, after it */
    struct fingerprint model; /* read it with weights_model */
};

/* @progress as in struct backend_config. 0; -EINVAL, -EOPNOTSUPP or -ENOMEM with a sentence that names the tensor or
 * the bytes. On 0 the caller ends it with weights_fini; on error there is nothing to end. @g stays open as long as it
 * lives. @dir: where packed weights are kept (it need not exist); NULL: nowhere. */
int weights_load(struct weights *w, const struct gguf *g, const struct shape *s, struct pool *pool, const char *dir,
                 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx);
void weights_fini(struct weights *w);

/* What can wait until the model serves: weights that were mapped are compared with their checksums; otherwise the
 * model's file is hashed, and if there is a @dir they are written to it, and it is swept. From any one thread, once; of
 * *w it only changes what weights_model reads. 0 (why nothing was written is logged), also when *stop became true;
 * -EBADMSG with a sentence: the weights are not what they were when they were packed. */
int weights_upkeep(struct weights *w, const atomic_bool *stop);

/* Which model they are: 0, or 1 when that is not known, or not yet (weights_upkeep). From any thread. */
int weights_model(const struct weights *w, struct fingerprint *out);

/* Would they load? As weights_load, without reading any; on 0 *bytes is the memory they need. */
int weights_check(const struct gguf *g, const struct shape *s, size_t *bytes);

/* The embedding of @token (< vocab) into out[dim]. */
void weights_embed(const struct weights *w, uint32_t token, float *out);

/* ggml's type number as a type the kernels know: 0, or 1 when they do not. */
int weights_type(uint32_t ggml, enum kern_type *out);
