/* SPDX-License-Identifier: MIT */
#pragma once
/* A model's weights for the CPU backend: every matrix repacked into panels of 16 rows (kernels.h), every vector as f32,
 * all in one image. The image is anonymous memory, or the file of packed weights of an earlier start (packed.h). */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/backend/cpu/packed.h"
#include "daemon/model/backend.h"
#include "daemon/model/hparams.h"
#include "kernels/kernels.h"

/* y[rows] = W x[k]; @stacked such matrices, one per expert. The caller adds the bias. */
struct matrix {
    enum kern_type type;
    uint32_t rows, k, n_panels; /* of each */
    uint32_t stacked;           /* number of matrices */
    uint32_t slot;              /* of an adapter's matrices for it (lora.h) */
    size_t panel_bytes;
    const uint8_t *panels; /* [stacked][n_panels][panel_bytes] */
    const float *bias;     /* [stacked][rows], or NULL */
};

/* Of a recurrent layer: what its kind has (recurrent.h). */
struct layer_recurrent {
    struct matrix in[RECURRENT_INPUTS], out; /* as in struct hparams_recurrent */
    const float *conv, *conv_bias;           /* [taps][channels], [channels] or NULL */
    const float *dt_bias, *a, *d;            /* [heads]; d: MAMBA2 only */
    const float *norm;                       /* MAMBA2: [out], or NULL; delta rule: [head_dim] */
};

/* Matrices of latent attention, one of each head where stacked. */
struct layer_mla {
    struct matrix q_a; /* [q_rank][dim] */
    struct matrix k_b; /* stacked [kv_rank][nope] */
    struct matrix v_b; /* stacked [value][kv_rank] */
};

/* Of a layer with an embedding of each token. */
struct layer_embedding {
    struct matrix gate; /* [per_layer][dim] */
    struct matrix proj; /* [dim][per_layer] */
    const float *norm;  /* [dim] of its output */
};

/* Of a layer with experts and an ordinary feed-forward beside them. */
struct layer_beside {
    struct matrix gate, up, down;                              /* of the ordinary one */
    const float *post_norm, *experts_norm, *experts_post_norm; /* [dim] */
    const float *router_norm;                                  /* [dim] */
    const float *scale;                                        /* [experts] of their outputs, or NULL */
};

/* AltUp of a layer, and LAuReL. */
struct layer_altup {
    const float *router_norm;            /* [dim] */
    const float *router;                 /* [streams][dim] */
    const float *predict, *correct;      /* [streams][streams][streams], [streams][streams] */
    const float *correct_scale;          /* [dim] */
    struct matrix laurel_in, laurel_out; /* [rank][dim], [dim][rank] */
    const float *laurel_norm;            /* [dim] */
};

/* Of a layer of an encoder (arch_encoder). */
struct layer_encoder {
    const float *second_norm,
        *second_norm_bias;                  /* [dim] behind attention's norm, of its output and the layer's input */
    const float *q_norm_bias, *k_norm_bias; /* [heads][head_dim] */
};

/* Vectors that the architecture or the file does not have are NULL. */
struct layer {
    const float *attn_norm, *ffn_norm;           /* [dim] */
    const float *attn_norm_bias, *ffn_norm_bias; /* [dim] */
    const float *attn_post_norm, *ffn_post_norm; /* [dim] */
    const float *attn_sub_norm, *ffn_sub_norm;   /* [heads][head_dim], [ffn] */
    float xielu[4];                              /* as kernels.h's xielu takes them */
    const float *q_norm, *k_norm;                /* [head_dim], or [heads][head_dim] (arch_qk_norm) */
    const float *sink_scores;                    /* [heads] */
    const float *choice_bias;                    /* [experts] of their probabilities, for the choice */
    struct matrix q, k, v, o, gate, up, down;    /* experts: gate, up and down are stacked */
    struct matrix q_gate;                        /* [heads][head_dim][dim], or no rows */
    struct layer_mla mla;                        /* with q [heads][nope + rope] and k [kv_rank + rope] */
    struct matrix router;                        /* [experts][dim] */
    struct matrix shared_router;                 /* [1][dim]; rows 0: the shared expert has no factor */
    struct matrix shared_gate, shared_up, shared_down;
    struct layer_recurrent recurrent;
    struct layer_embedding embedding;
    struct layer_beside beside;
    const float *out_scale; /* [1] */
    struct layer_altup altup;
    struct layer_encoder encoder;
};

/* What the layers share of their embeddings of tokens. */
struct weights_per_layer {
    const void *embd; /* [vocab] rows of [layers][per_layer] as in the file, of type embd_type */
    enum kern_type embd_type;
    struct matrix proj; /* [layers][per_layer] rows of [dim] */
    const float *norm;  /* [per_layer] */
};

/* The input of an MTP layer: eh_proj [enorm(embedding); hnorm(state)]. */
struct weights_mtp {
    const float *enorm, *hnorm; /* [dim] */
    struct matrix eh_proj;      /* [dim][2 dim] */
};

/* Of an encoder: what comes before its first layer. */
struct weights_encoder {
    const float *types;            /* [types][dim] added to the embeddings, or NULL */
    const float *norm, *norm_bias; /* [dim] of the embedded tokens, or NULL */
};

/* What follows pooling: scores = out (norm (activation (dense row))), or projections of the vector. */
struct weights_head {
    struct matrix dense, out; /* [dim][dim], [labels][dim]; rows 0: the file has none */
    const float *norm;        /* [dim], or NULL */
    struct matrix project[2]; /* [width][dim], [dim][width], or no rows */
};
struct weights_item;

struct weights {
    struct layer *layers;                        /* [hparams.n_layers], from hparams.mtp.first on */
    struct weights_mtp mtp;                      /* of an MTP layer */
    const float *output_norm, *output_norm_bias; /* [dim] */
    const float *positions;                      /* [ctx][dim] added to the embeddings, or NULL */
    struct matrix output;                        /* [vocab][dim]; of a tied model: the embedding; see weights_load */
    const void *embd; /* [vocab] rows as in the file, of type embd_type; NULL when tied, but of an MTP layer */
    enum kern_type embd_type;
    /* [rope_dim/2] divisors of the frequencies, or NULL; LongRoPE's for short and for long contexts */
    const float *rope_factors, *rope_short, *rope_long;
    struct weights_per_layer per_layer;
    struct weights_encoder encoder;
    struct weights_head head;
    struct matrix altup_in, altup_out; /* stacked [dim][dim], one for each stream but the first */
    const void *mem;                   /* the image, of table.size bytes */
    struct packed_table table;
    struct packed *packed; /* the mapped file of mem; NULL: anonymous memory */
    const struct gguf *g;
    struct weights_item *items; /* [n_items] of which tensors the matrices are (weights-plan.h) */
    size_t n_items;
    char *dir; /* as packed_dir and no_packed_file of struct backend_config */
    bool no_packed_file;
    _Atomic uint64_t model[2]; /* the fingerprint; weights_load or weights_verify sets it (weights_set_model) */
    atomic_bool model_known;   /* @model is set */
    atomic_bool recorded;      /* in @dir, for the next start; set before @model_known */
};

/* Load the weights of @g, which must stay open until weights_fini. @model: those of its model, which must stay, too; an
 * MTP layer without a last norm or an output matrix takes theirs. NULL if @s is no such layer's. Of @config:
 * packed_dir, which need not exist, no_packed_file, progress and progress_ctx. Returns 0; the caller calls
 * weights_fini. Returns -EINVAL, -EOPNOTSUPP or -ENOMEM and sets the error message, which names the tensor or the
 * bytes; *w is then empty. */
int weights_load(struct weights *w, const struct gguf *g, const struct hparams *s, const struct weights *model,
                 struct compute_pool *pool, const struct backend_config *config);
void weights_fini(struct weights *w);

/* Compare mapped weights with their checksums. Otherwise hash the model's file, unless its fingerprint is known, and
 * record that in the directory, if there is one. From any thread, several at once. Returns 0, also when the file could
 * not be hashed or the record not be written, which is logged; 1 when *stop became true before; -EBADMSG and the error
 * message if the mapped weights differ from their checksums. */
int weights_verify(struct weights *w, const atomic_bool *stop);

/* After weights_verify has returned 0, once, from any thread: move mapped weights to huge pages, or write the others to
 * the directory, if there is one that can be written to and they are to be kept. Sweeps it before. Failures are logged.
 */
void weights_keep(struct weights *w, const atomic_bool *stop);

/* The model's fingerprint: 0, or 1 if it is not known, or not yet (weights_verify). From any thread. */
int weights_model(const struct weights *w, struct fingerprint *out);
/* It is @f. From any thread, several at once with the same one. */
void weights_set_model(struct weights *w, const struct fingerprint *f);

/* Check the tensors as weights_load does, without reading their data. On 0 *bytes is the memory they need. */
int weights_check(const struct gguf *g, const struct hparams *s, size_t *bytes);

/* The same; then begin[l] is where layer l begins in the image. A layer ends where the next one begins, the last one at
 * begin[n_layers]; begin[n_layers + 1] is the size of the image. The output matrix comes before the layers. Not of an
 * MTP layer. */
int weights_layers(const struct gguf *g, const struct hparams *s, size_t *begin);

/* Write the embedding of @token (< vocab) to out[dim]. */
void weights_embed(const struct weights *w, uint32_t token, float *out);

/* Write the embeddings of @token for all layers to out[layers][per_layer]. */
void weights_embed_layers(const struct weights *w, uint32_t token, float *out);
