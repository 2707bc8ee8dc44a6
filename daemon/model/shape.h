/* SPDX-License-Identifier: MIT */
#pragma once
/* What a model is, in numbers: read from GGUF metadata, checked, plain data. */
#include "daemon/model/gguf.h"
#include <stdint.h>

#define SHAPE_KV_GROUPS_MAX 4

enum kv_group_kind { KV_FULL, KV_WINDOW };

/* Layers that share one block table: how many, what they keep. Today one group, of all layers. */
struct kv_group {
    uint32_t n_layers;
    enum kv_group_kind kind;
    uint32_t window;          /* KV_WINDOW: positions kept; else 0 */
    uint64_t bytes_per_token; /* all its layers, K and V, in the KV type in use; filled by the backend */
};

struct shape {
    char arch[32], name[128];
    uint32_t n_layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx;
    uint32_t rope_dim;
    float rope_base, rope_scale; /* scale: 1/factor for linear scaling */
    float rms_eps;
    bool tied;
    struct kv_group groups[SHAPE_KV_GROUPS_MAX];
    uint32_t n_groups;
};

/* -EOPNOTSUPP with a sentence that says which architecture, and which ones are supported; -EINVAL for values that
 * cannot be (zero heads, width no multiple, …). */
int shape_read(struct shape *s, const struct gguf *g);
