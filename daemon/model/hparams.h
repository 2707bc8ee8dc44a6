/* SPDX-License-Identifier: MIT */
#pragma once
/* A model's hyperparameters, read from GGUF metadata by its architecture's description, and checked. Plain data. */
#include "daemon/model/arch.h"
#include "daemon/model/gguf.h"
#include "daemon/model/items.h"
#include "daemon/model/kv-block.h"
#include "daemon/model/pooling.h"
#include "daemon/model/rope.h"
#include <stdint.h>
#include <string.h>

#define HPARAMS_LAYERS_MAX  1024
#define HPARAMS_EXPERTS_MAX 1024
#define HPARAMS_LABELS_MAX  4096

enum kv_group_kind { KV_FULL, KV_WINDOW, KV_STATE };

/* Layers that share one block table. hparams_read makes one group of all layers with attention: layers with a sliding
 * window keep all positions too, but see only the last. After hparams_split they are a group of their own. Group 0 is
 * always KV_FULL, and has no layers where no layer has attention, or where a text is always computed whole. A model
 * with recurrent layers has one group KV_STATE of them, the last. A block of its pool is the state of one sequence
 * (struct batch_state). All others are KV_WINDOW.
 */
struct kv_group {
    uint32_t n_layers;
    enum kv_group_kind kind;
    uint32_t window;          /* KV_WINDOW: last positions that a token sees, its own included; else 0 */
    uint64_t bytes_per_token; /* all its layers, K and V, in the KV type in use; filled by the backend; KV_STATE: 0 */
    uint64_t state_bytes;     /* KV_STATE: of one state, all its layers, rounded up to 64; else 0 */
};

/* Parts of a layer, bits of hparams.by_layer.parts. */
enum layer_part { LAYER_ATTENTION = 1, LAYER_RECURRENT = 2, LAYER_FFN = 4 };

#define RECURRENT_INPUTS   4 /* products of the input of a recurrent layer */
#define RECURRENT_TAPS_MAX 8
#define HPARAMS_DELTA_MAX  256 /* values of a head of the delta rule */

/* Recurrent layers. The state of a layer: the last taps - 1 inputs of the convolution, [taps - 1][channels], the oldest
 * first; then what the kind (enum recurrent_kind) adds. */
struct hparams_recurrent {
    uint32_t taps, channels;       /* of the causal convolution; taps 0: the model has no recurrent layer */
    uint32_t in[RECURRENT_INPUTS]; /* values of each product of the input; 0: no such product */
    uint32_t out;                  /* values that the output's product has */
    uint32_t floats;               /* of the state of one layer */
    uint32_t heads, head_dim;      /* of the kinds with heads, and values of each */
    uint32_t key_heads;            /* delta rule: heads of keys and queries; @heads are those of values */
    uint32_t groups, state;        /* MAMBA2: groups of heads with the same b and c; rows of the state of a head */
};

/* A mixture of experts. */
struct hparams_experts {
    uint32_t n, used;         /* experts of each layer, and for each token; 0: the layers have none */
    uint32_t ffn, shared_ffn; /* widths; shared_ffn 0: no shared expert */
    uint32_t first, step;     /* the layers before @first, and those whose number + 1 @step does not divide, have an
                               * ordinary feed-forward */
    uint32_t groups,
        groups_used;      /* equal groups of consecutive experts, and those that a token takes some of; 1: all */
    bool sigmoid, of_all; /* as in struct arch_experts; a key of the file overrides them */
    bool scaled_input;    /* as in struct arch_experts */
    float scale;          /* factor of the shares */
};

/* Multi-head latent attention. Each token has one K of head_dim = kv_rank + rope values, shared by all heads; its first
 * kv_rank are V, too. A head's query of nope values is expanded to kv_rank by a matrix of the head before attention,
 * and what it gets is reduced to value values by another one. */
struct hparams_mla {
    uint32_t q_rank;  /* width of the product before that of the queries; 0: there is none */
    uint32_t kv_rank; /* 0: the model has other attention */
    uint32_t nope, rope, value;
};

/* The heads of a layer's K and V, and the values of each that RoPE rotates. */
struct hparams_heads {
    uint32_t kv_heads, head_dim, rope_dim;
};

/* What differs from layer to layer. */
struct hparams_by_layer {
    struct hparams_heads window_heads;      /* of layers with a window; kv_heads 0: as the others */
    uint32_t ffns[HPARAMS_LAYERS_MAX];      /* widths of the layers' feed-forwards, ffn the largest; 0: all are ffn */
    uint32_t shared_kv;                     /* so many of the last layers use the K and V of an earlier one */
    uint8_t parts[HPARAMS_LAYERS_MAX];      /* enum layer_part of each layer */
    uint8_t slides[HPARAMS_LAYERS_MAX / 8]; /* a bit for each layer: it sees hparams.window positions at most */
};

/* Layers that predict later tokens (hparams_mtp). */
struct hparams_mtp_layers {
    uint32_t nextn; /* so many of the file, behind the n_layers */
    uint32_t first; /* the first layer that is computed: 0, but of such a layer */
};

/* AltUp: each token has several residual streams. A layer computes the first one, of which it predicts and corrects the
 * others. LAuReL: the normed input of a layer goes through a product of low rank, beside attention. */
struct hparams_altup {
    uint32_t streams; /* 0: the model has one, and no LAuReL */
    uint32_t rank;
    float sparsity;                         /* a gate is 0 up to its mean + so many standard deviations, in */
    uint8_t sparse[HPARAMS_LAYERS_MAX / 8]; /* these layers, a bit for each */
};

/* Factors of a token's embedding, of the output of a block, of q·k, and of the logits. 1: none. */
struct hparams_scale {
    float embedding, residual, attention, logits;
};

/* Softcaps of the scaled q·k and of the scaled logits. 0: none. */
struct hparams_cap {
    float attention, logits;
};

/* Attention's temperature: q is multiplied by 1 + scale * ln(1 + floor((position + first) / floor)). scale 0: it is
 * not.
 */
struct hparams_temperature {
    float scale;
    uint32_t floor, first;
    bool unrotated; /* only in layers that are not rotated */
};

/* The vector or the scores that the model gives to a text. */
struct hparams_embedding {
    enum pooling pooling; /* POOLING_NONE: the file says of none */
    bool whole;           /* the tokens of a text see each other, and it is one entry of a batch (struct batch_entry) */
    bool of_last;         /* POOLING_RANK: the classifier reads the last token's row; else the first one's */
    bool of_mean;         /* POOLING_RANK: it reads the mean of the rows */
    uint32_t labels;      /* scores that it gives */
    uint32_t types;       /* of tokens: rows of token_types.weight; 0: there is none */
};

struct hparams {
    const struct arch *desc;
    char arch[32], name[128];
    uint32_t n_layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx;
    struct hparams_mtp_layers mtp;
    struct hparams_experts experts;
    struct hparams_mla mla;
    struct hparams_altup altup;
    uint32_t per_layer; /* values of a token's embedding for each layer; 0: none */
    struct hparams_by_layer by_layer;
    uint32_t rope_dim;
    uint32_t sections[3];          /* M-RoPE: pairs that rotate by time, row, column; 0: the model has one position */
    struct rope rope, window_rope; /* of the layers that see everything, and of those with a window */
    float rms_eps;                 /* of the norms */
    bool tied;
    struct hparams_scale scale;
    struct hparams_cap cap;
    struct hparams_temperature temperature;
    struct hparams_embedding embedding;
    bool unit_norm;  /* q and k have QK_NORM_UNIT */
    bool parallel;   /* struct arch_block */
    uint32_t window; /* positions that sliding layers see at most; 0: no layer slides */
    bool rotates;    /* false: no layer has RoPE */
    struct hparams_recurrent recurrent;
    struct kv_group groups[KV_GROUPS_MAX];
    uint32_t n_groups;
};

/* Read and check. Returns 0; -EOPNOTSUPP if the architecture is not supported or the file is a part of a split model;
 * -EINVAL for invalid values (zero heads, a width that is no multiple, …). */
int hparams_read(struct hparams *s, const struct gguf *g);

/* The name of the tensor that has the tokens' embeddings in a model of @s's architecture. */
const char *hparams_embedding(const struct hparams *s, const struct gguf *g);

/* Make a second group of the layers with a window, if there are such layers and others. For a shape as hparams_read
 * leaves it. */
void hparams_split(struct hparams *s);

/* The first layer behind the last is computed: the file has one, and the architecture's kind of it is known. */
bool hparams_drafts(const struct hparams *s);

/* The pooling that gives the row that the backend's head reads: @kind itself, but for POOLING_RANK. */
static inline enum pooling hparams_pooled(const struct hparams *s, enum pooling kind)
{
    if (kind != POOLING_RANK) return kind;
    return s->embedding.of_mean ? POOLING_MEAN : s->embedding.of_last ? POOLING_LAST : POOLING_CLS;
}

/* Values that the backend's head gives of a text's pooled row: scores, or the vector. */
uint32_t hparams_outputs(const struct hparams *s, enum pooling kind);

/* ALiBi's slope of a head, f32(2^-x): with n the largest power of two up to the number of heads, x = alibi (head + 1) /
 * n for the first n heads, and alibi (2 (head - n) + 1) / 2n for those behind them (https://arxiv.org/abs/2108.12409).
 */
float hparams_slope(const struct hparams *s, uint32_t head);

/* From a shape as hparams_read leaves it, with hparams_drafts, to that of the first layer behind the last, which
 * predicts later tokens and is computed alone (backend.h: mtp_of). It is always a layer with attention to all
 * positions. */
void hparams_mtp(struct hparams *s);

/* Number of last positions that a token sees in a layer at most, its own included; 0: all. */
static inline uint32_t hparams_window(const struct hparams *s, uint32_t layer)
{
    return s->by_layer.slides[layer / 8] >> layer % 8 & 1 ? s->window : 0;
}

/* The first position that a token at @pos sees in a layer. A chunk begins within the window of its size that ends at
 * @pos: what is kept for a window has all that a chunk needs. */
static inline uint32_t hparams_first(const struct hparams *s, uint32_t layer, uint32_t pos)
{
    const uint32_t window = hparams_window(s, layer);
    if (window && s->desc->window.symmetric) return pos > window / 2 ? pos - window / 2 : 0;
    return window && s->desc->window.chunks ? pos - pos % window : kv_window_first(window, pos);
}

/* Behind the last position that a token at @pos of a whole text that ends before @end sees in a layer. */
static inline uint32_t hparams_end(const struct hparams *s, uint32_t layer, uint32_t pos, uint32_t end)
{
    const uint32_t window = s->desc->window.symmetric ? hparams_window(s, layer) : 0;
    return window && end - pos > window / 2 ? pos + window / 2 + 1 : end;
}

/* The KV group of a layer with attention. */
static inline uint32_t hparams_group(const struct hparams *s, uint32_t layer)
{
    return s->n_groups > 1 && s->groups[1].kind == KV_WINDOW && hparams_window(s, layer);
}

/* The layer whose K and V a layer uses: its own, or those of the last one that has own ones and sees as far. */
static inline uint32_t hparams_kv_layer(const struct hparams *s, uint32_t layer)
{
    uint32_t of = layer < s->n_layers - s->by_layer.shared_kv ? layer : s->n_layers - s->by_layer.shared_kv - 1;
    while (of < layer && of && hparams_window(s, of) != hparams_window(s, layer)) of--;
    return of;
}

/* The layer has K and V of its own, if it has attention. */
static inline bool hparams_own_kv(const struct hparams *s, uint32_t layer)
{
    return layer < s->n_layers - s->by_layer.shared_kv;
}

/* Width of a layer's feed-forward without experts. */
static inline uint32_t hparams_ffn(const struct hparams *s, uint32_t layer)
{
    return s->by_layer.ffns[layer] ? s->by_layer.ffns[layer] : s->ffn;
}

/* The layer's gate is sparse (struct hparams_altup). */
static inline bool hparams_sparse(const struct hparams *s, uint32_t layer)
{
    return s->altup.sparse[layer / 8] >> layer % 8 & 1;
}

/* The group of the recurrent layers; NULL: there are none. */
static inline const struct kv_group *hparams_state(const struct hparams *s)
{
    const struct kv_group *last = &s->groups[s->n_groups - 1];
    return last->kind == KV_STATE ? last : NULL;
}

/* The number of groups with KV; that of the recurrent layers, if there is one, is behind them. */
static inline uint32_t hparams_kv_groups(const struct hparams *s)
{
    return s->n_groups - (hparams_state(s) != NULL);
}

/* The heads of a layer that has a window, or has none; of a layer. */
static inline struct hparams_heads hparams_heads_of(const struct hparams *s, bool window)
{
    if (s->by_layer.window_heads.kv_heads && window) return s->by_layer.window_heads;
    return (struct hparams_heads){s->kv_heads, s->head_dim, s->rope_dim};
}

static inline struct hparams_heads hparams_heads(const struct hparams *s, uint32_t layer)
{
    return hparams_heads_of(s, hparams_window(s, layer) > 0);
}

/* Values of the widest head. */
static inline uint32_t hparams_widest(const struct hparams *s)
{
    return s->by_layer.window_heads.head_dim > s->head_dim ? s->by_layer.window_heads.head_dim : s->head_dim;
}

/* Values of a token's queries as they are stored, and of what it gets from attention, in the layer with the most. */
static inline size_t hparams_queries(const struct hparams *s)
{
    return (size_t)s->heads * (s->mla.kv_rank ? s->mla.nope + s->mla.rope : hparams_widest(s));
}

static inline size_t hparams_attended(const struct hparams *s)
{
    return (size_t)s->heads * (s->mla.kv_rank ? s->mla.value : hparams_widest(s));
}

/* Values of V of one KV head that are not a part of its K. */
static inline uint32_t hparams_values(const struct hparams *s)
{
    return s->mla.kv_rank ? 0 : s->head_dim;
}

/* The layer's feed-forward is a mixture of experts. */
static inline bool hparams_mixes(const struct hparams *s, uint32_t layer)
{
    return s->experts.n && layer >= s->experts.first && (layer + 1) % s->experts.step == 0;
}

/* The first position that a token at @pos sees in the group's layers. */
static inline uint32_t kv_group_first(const struct kv_group *g, uint32_t pos)
{
    return kv_window_first(g->window, pos);
}

/* Bytes of a block's content. */
static inline uint64_t kv_group_payload(const struct kv_group *g)
{
    return g->kind == KV_STATE ? g->state_bytes : g->bytes_per_token * KV_BLOCK;
}

/* Blocks of a group with a window that a sequence needs at once at most, in a step with @batch of its tokens: of all
 * positions that these see, with whole blocks at both ends. */
static inline uint64_t kv_group_blocks(const struct kv_group *g, uint32_t batch)
{
    return ((uint64_t)g->window + batch) / KV_BLOCK + 2;
}

/* 2 if sliding layers have another RoPE (window_rope, or without the factors of a file), else 1. */
static inline uint32_t hparams_ropes(const struct hparams *s)
{
    const bool other = (s->by_layer.window_heads.kv_heads && s->by_layer.window_heads.rope_dim != s->rope_dim) ||
                       (s->desc->window.unscaled && s->desc->rope.tensors != ARCH_NEVER);
    return s->window && (other || !rope_equal(&s->rope, &s->window_rope)) ? 2 : 1;
}

/* Values of a head that RoPE @which of these rotates. */
static inline uint32_t hparams_rotated(const struct hparams *s, uint32_t which)
{
    return hparams_heads_of(s, which > 0).rope_dim;
}

/* The items of a run of @kind (enum item_kind) see each other: it is computed whole (struct batch_entry). */
static inline bool hparams_whole(const struct hparams *s, uint32_t kind)
{
    return kind == ITEM_IMAGE && s->desc->whole_images;
}

/* The items of an image have places in a grid (struct item_place). */
static inline bool hparams_grids(const struct hparams *s)
{
    return s->sections[0] > 0;
}

/* Which of the numbers of a struct item_place pair @j of RoPE rotates by. */
static inline uint32_t hparams_axis(const struct hparams *s, uint32_t j)
{
    if (s->desc->rope.sections == SECTIONS_MIXED) return j % 3;
    return j < s->sections[0] ? 0 : j < s->sections[0] + s->sections[1] ? 1 : 2;
}

/* q and k of the layer are rotated. */
static inline bool hparams_rotates(const struct hparams *s, uint32_t layer)
{
    uint32_t every = s->desc->rope.none_every;
    if (s->desc->window.rope_only && s->window && !hparams_window(s, layer)) return false;
    return s->rotates && (!every || (layer + 1) % every);
}

/* Queries of the layer have a temperature at @pos. */
static inline bool hparams_warms(const struct hparams *s, uint32_t layer, uint32_t pos)
{
    const struct hparams_temperature *t = &s->temperature;
    return t->scale != 0 && pos + t->first >= t->floor && !(t->unrotated && hparams_rotates(s, layer));
}
