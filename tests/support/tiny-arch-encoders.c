/* SPDX-License-Identifier: MIT */
/* Models that give texts vectors or scores: encoders, and causal ones. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

#define OUTER_NORMS                                                                                                    \
    {"attn_output_norm.weight", 'd', 0}, {"attn_output_norm.bias", 'd', 0}, {"layer_output_norm.weight", 'd', 0},      \
    {                                                                                                                  \
        "layer_output_norm.bias", 'd', 0                                                                               \
    }

static const struct tiny_tensor bert[] = {
    Q_K_V,
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    {"attn_output.bias", 'd', 0},
    {"ffn_up.weight", 'd', 'f'},
    {"ffn_up.bias", 'f', 0},
    {"ffn_down.weight", 'f', 'd'},
    {"ffn_down.bias", 'd', 0},
    OUTER_NORMS,
    {NULL},
};

static const struct tiny_tensor nomic[] = {FUSED_QKV, GATE_UP_DOWN, OUTER_NORMS, {NULL}};

static const struct tiny_tensor jina[] = {
    Q_K_V,
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    {"attn_output.bias", 'd', 0},
    GATE_UP_DOWN,
    {"ffn_down.bias", 'd', 0},
    OUTER_NORMS,
    {NULL},
};

/* Of code: norms of all of q and of k, a second norm behind attention, the gate in ffn_up. */
static const struct tiny_tensor jina_code[] = {
    Q_K_V,
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    {"attn_q_norm.weight", 'q', 0},
    {"attn_q_norm.bias", 'q', 0},
    {"attn_k_norm.weight", 'v', 0},
    {"attn_k_norm.bias", 'v', 0},
    {"attn_output.bias", 'd', 0},
    {"attn_norm_2.weight", 'd', 0},
    {"attn_norm_2.bias", 'd', 0},
    {"ffn_up.weight", 'd', 'F'},
    {"ffn_down.weight", 'f', 'd'},
    {"ffn_down.bias", 'd', 0},
    OUTER_NORMS,
    {NULL},
};

/* The first layer, p, is without a norm before attention. */
static const struct tiny_tensor modern[] = {
    {"attn_norm.weight", 'd', 0, 0, 'a'}, FUSED_QKV, {"ffn_norm.weight", 'd', 0}, {"ffn_up.weight", 'd', 'F'},
    {"ffn_down.weight", 'f', 'd'},        {NULL},
};

static const struct tiny_tensor gemma[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"post_attention_norm.weight", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor qwen3[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

#define NORMED_EMBEDDING                                                                                               \
    {"token_embd_norm.weight", 'd', 0},                                                                                \
    {                                                                                                                  \
        "token_embd_norm.bias", 'd', 0                                                                                 \
    }
#define TYPES                                                                                                          \
    {                                                                                                                  \
        "token_types.weight", 'd', '2'                                                                                 \
    }
#define CLASSIFIER(labels)                                                                                             \
    {"cls.weight", 'd', 'd'}, {"cls.bias", 'd', 0}, {"cls.output.weight", 'd', labels},                                \
    {                                                                                                                  \
        "cls.output.bias", labels, 0                                                                                   \
    }

static const struct tiny_tensor typed[] = {NORMED_EMBEDDING, TYPES, {NULL}};
static const struct tiny_tensor ranking[] = {NORMED_EMBEDDING, TYPES, CLASSIFIER('3'), {NULL}};
static const struct tiny_tensor normed[] = {{"token_embd_norm.weight", 'd', 0}, {NULL}};
static const struct tiny_tensor modern_ranking[] = {
    {"token_embd_norm.weight", 'd', 0}, {"cls.weight", 'd', 'd'},    {"cls.norm.weight", 'd', 0},
    {"cls.output.weight", 'd', '1'},    {"cls.output.bias", '1', 0}, {NULL},
};
static const struct tiny_tensor projected[] = {{"dense_2.weight", 'd', 'D'}, {"dense_3.weight", 'D', 'd'}, {NULL}};
static const struct tiny_tensor yes_no[] = {{"cls.output.weight", 'd', '2'}, {NULL}};

#define NORM_KEYS(pooling)                                                                                             \
    {".attention.layer_norm_epsilon", 'f', 1e-5, NULL}, {".attention.causal", 'b', 0, NULL},                           \
    {                                                                                                                  \
        ".pooling_type", 'u', pooling, NULL                                                                            \
    }
#define TYPE_KEYS                                                                                                      \
    {                                                                                                                  \
        "tokenizer.ggml.token_type_count", 'u', 2, NULL                                                                \
    }

const struct tiny_arch tiny_arch_encoders[] = {
    {.name = "bert",
     .kv_heads = 4,
     .outer = true,
     .positions = true,
     .tensors = bert,
     .shared = typed,
     .keys = {NORM_KEYS(1), TYPE_KEYS}},
    {.name = "bert-rank",
     .arch = "bert",
     .kv_heads = 4,
     .outer = true,
     .positions = true,
     .tensors = bert,
     .shared = ranking,
     .keys = {NORM_KEYS(4), TYPE_KEYS, {".classifier.output_labels", 't', 3, "label"}}},
    {.name = "nomic-bert",
     .kv_heads = 4,
     .outer = true,
     .tensors = nomic,
     .shared = typed,
     .keys = {NORM_KEYS(1), TYPE_KEYS}},
    {.name = "jina-bert-v2",
     .kv_heads = 4,
     .outer = true,
     .tensors = jina,
     .shared = typed,
     .keys = {NORM_KEYS(1), TYPE_KEYS}},
    {.name = "jina-bert-v2-code",
     .arch = "jina-bert-v2",
     .kv_heads = 4,
     .outer = true,
     .tensors = jina_code,
     .shared = typed,
     .keys = {NORM_KEYS(2), TYPE_KEYS}},
    {.name = "modern-bert",
     .layers = 4,
     .kv_heads = 4,
     .tensors = modern,
     .shared = normed,
     .kinds = "paaa",
     .keys = {NORM_KEYS(2),
              {".attention.sliding_window", 'u', 70, NULL},
              {".attention.sliding_window_pattern", 'u', 3, NULL},
              {".rope.freq_base", 'f', 160000, NULL},
              {".rope.freq_base_swa", 'f', 10000, NULL}}},
    {.name = "modern-bert-rank",
     .arch = "modern-bert",
     .layers = 4,
     .kv_heads = 4,
     .tensors = modern,
     .shared = modern_ranking,
     .kinds = "paaa",
     .keys = {NORM_KEYS(4), {".attention.sliding_window", 'u', 70, NULL}}},
    {.name = "gemma-embedding",
     .layers = 7,
     .tensors = gemma,
     .shared = projected,
     .ffn_share = 0.25f,
     .keys = {{".pooling_type", 'u', 1, NULL},
              {".attention.sliding_window", 'u', 70, NULL},
              {".dense_2_feat_in", 'u', 64, NULL},
              {".dense_2_feat_out", 'u', 128, NULL},
              {".dense_3_feat_in", 'u', 128, NULL},
              {".dense_3_feat_out", 'u', 64, NULL}}},
    {.name = "qwen3-embedding", .arch = "qwen3", .tensors = qwen3, .keys = {{".pooling_type", 'u', 3, NULL}}},
    {.name = "qwen3-rank",
     .arch = "qwen3",
     .tensors = qwen3,
     .shared = yes_no,
     .keys = {{".pooling_type", 'u', 4, NULL}, {".classifier.output_labels", 't', 2, "yes"}}},
    {.name = NULL},
};
