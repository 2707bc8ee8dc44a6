/* SPDX-License-Identifier: MIT */
#pragma once
/* A model's hyperparameters, read from GGUF metadata by its architecture's description, and checked. Plain data. */
#include "daemon/model/arch.h"
#include "daemon/model/gguf.h"
#include "daemon/model/items.h"
#include "daemon/model/kv-block.h"
#include "daemon/model/rope.h"
#include <stdint.h>
#include <string.h>

#define HPARAMS_LAYERS_MAX  1024
#define HPARAMS_EXPERTS_MAX 1024

enum kv_group_kind { KV_FULL, KV_WINDOW, KV_STATE };

/* Layers that share one block table. hparams_read makes one group of all layers with attention: layers with a sliding
 * window keep all positions too, but see only the last. After hparams_split they are a group of their own. Group 0 is
 * always KV_FULL, and has no layers where no layer has attention. A model with recurrent layers has one group KV_STATE
 * of them, the last. A block of its pool is the state of one sequence (struct batch_state). All others are KV_WINDOW.
 */
struct kv_group {
    uint32_t n_layers;
    enum kv_group_kind kind;
    uint32_t window;          /* KV_WINDOW: last positions that a token sees, its own included; else 0 */
    uint64_t bytes_per_token; /* all its layers, K and V, in the KV type in use; filled by the backend; KV_STATE: 0 */
    uint64_t state_bytes;     /* KV_STATE: of one state, all its layers, rounded up to 64; else 0 */
};

/* Parts of a layer, bits of hparams.parts. */
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

/* Factors of a token's embedding, of the output of a block, of q·k, and of the logits. 1: none. */
struct hparams_scale {
    float embedding, residual, attention, logits;
};

/* Softcaps of the scaled q·k and of the scaled logits. 0: none. */
struct hparams_cap {
    float attention, logits;
};

/* Attention's temperature: q is multiplied by 1 + scale * ln(1 + floor(position / floor)). scale 0: it is not. */
struct hparams_temperature {
    float scale;
    uint32_t floor;
};

struct hparams {
    const struct arch *desc;
    char arch[32], name[128];
    uint32_t n_layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx;
    uint32_t nextn; /* layers of the file behind the n_layers: they predict later tokens, and are not computed */
    struct hparams_experts experts;
    struct hparams_mla mla;
    uint32_t rope_dim;
    uint32_t sections[3];          /* M-RoPE: pairs that rotate by time, row, column; 0: the model has one position */
    struct rope rope, window_rope; /* of the layers that see everything, and of those with a window */
    float rms_eps;                 /* of the norms */
    bool tied;
    struct hparams_scale scale;
    struct hparams_cap cap;
    struct hparams_temperature temperature;
    bool parallel;                          /* struct arch_block */
    uint32_t window;                        /* positions that sliding layers see; 0: no layer slides */
    uint8_t slides[HPARAMS_LAYERS_MAX / 8]; /* a bit for each layer */
    bool rotates;                           /* false: no layer has RoPE */
    uint8_t parts[HPARAMS_LAYERS_MAX];      /* enum layer_part of each layer */
    struct hparams_recurrent recurrent;
    struct kv_group groups[KV_GROUPS_MAX];
    uint32_t n_groups;
};

/* Read and check. Returns 0; -EOPNOTSUPP if the architecture is not supported or the file is a part of a split model;
 * -EINVAL for invalid values (zero heads, a width that is no multiple, …). */
int hparams_read(struct hparams *s, const struct gguf *g);

/* Make a second group of the layers with a window, if there are such layers and others. For a shape as hparams_read
 * leaves it. */
void hparams_split(struct hparams *s);

/* Number of last positions that a token sees in a layer, its own included; 0: all. */
static inline uint32_t hparams_window(const struct hparams *s, uint32_t layer)
{
    return s->slides[layer / 8] >> layer % 8 & 1 ? s->window : 0;
}

/* The KV group of a layer with attention. */
static inline uint32_t hparams_group(const struct hparams *s, uint32_t layer)
{
    return s->n_groups > 1 && s->groups[1].kind == KV_WINDOW && hparams_window(s, layer);
}

/* The group of the recurrent layers; NULL: there are none. */
static inline const struct kv_group *hparams_state(const struct hparams *s)
{
    const struct kv_group *last = &s->groups[s->n_groups - 1];
    return last->kind == KV_STATE ? last : NULL;
}

/* Values of a token's queries as they are stored, and of what it gets from attention. */
static inline size_t hparams_queries(const struct hparams *s)
{
    return (size_t)s->heads * (s->mla.kv_rank ? s->mla.nope + s->mla.rope : s->head_dim);
}

static inline size_t hparams_attended(const struct hparams *s)
{
    return (size_t)s->heads * (s->mla.kv_rank ? s->mla.value : s->head_dim);
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

/* 2 if sliding layers have another RoPE (window_rope), else 1. */
static inline uint32_t hparams_ropes(const struct hparams *s)
{
    return s->window && memcmp(&s->rope, &s->window_rope, sizeof(s->rope)) ? 2 : 1;
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
    if (s->desc->sections == SECTIONS_MIXED) return j % 3;
    return j < s->sections[0] ? 0 : j < s->sections[0] + s->sections[1] ? 1 : 2;
}

/* q and k of the layer are rotated. */
static inline bool hparams_rotates(const struct hparams *s, uint32_t layer)
{
    uint32_t every = s->desc->no_rope_every;
    if (s->desc->window.rope_only && s->window && !hparams_window(s, layer)) return false;
    return s->rotates && (!every || (layer + 1) % every);
}
