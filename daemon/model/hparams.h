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

enum kv_group_kind { KV_FULL, KV_WINDOW };

/* Layers that share one block table. hparams_read makes one group of all layers: layers with a sliding window keep all
 * positions too, but see only the last. After hparams_split they are a group of their own. Group 0 is always KV_FULL,
 * all others are KV_WINDOW. */
struct kv_group {
    uint32_t n_layers;
    enum kv_group_kind kind;
    uint32_t window;          /* KV_WINDOW: last positions that a token sees, its own included; else 0 */
    uint64_t bytes_per_token; /* all its layers, K and V, in the KV type in use; filled by the backend */
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

/* Factors of a token's embedding, of the output of a block, of q·k, and of the logits. 1: none. */
struct hparams_scale {
    float embedding, residual, attention, logits;
};

/* Softcaps of the scaled q·k and of the scaled logits. 0: none. */
struct hparams_cap {
    float attention, logits;
};

struct hparams {
    const struct arch *desc;
    char arch[32], name[128];
    uint32_t n_layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx;
    struct hparams_experts experts;
    uint32_t rope_dim;
    uint32_t sections[3];          /* M-RoPE: pairs that rotate by time, row, column; 0: the model has one position */
    struct rope rope, window_rope; /* of the layers that see everything, and of those with a window */
    float rms_eps;
    bool tied;
    struct hparams_scale scale;
    struct hparams_cap cap;
    uint32_t window;                        /* positions that sliding layers see; 0: no layer slides */
    uint8_t slides[HPARAMS_LAYERS_MAX / 8]; /* a bit for each layer */
    bool rotates;                           /* false: no layer has RoPE */
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

/* The layer's KV group. */
static inline uint32_t hparams_group(const struct hparams *s, uint32_t layer)
{
    return s->n_groups > 1 && hparams_window(s, layer);
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
    return j < s->sections[0] ? 0 : j < s->sections[0] + s->sections[1] ? 1 : 2;
}

/* q and k of the layer are rotated. */
static inline bool hparams_rotates(const struct hparams *s, uint32_t layer)
{
    uint32_t every = s->desc->no_rope_every;
    return s->rotates && (!every || (layer + 1) % every);
}
