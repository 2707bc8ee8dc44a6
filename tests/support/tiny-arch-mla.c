/* SPDX-License-Identifier: MIT */
/* Models with latent attention. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

/* Latent attention: with the matrices of the heads as newer files have them, or as one. */
#define MLA                                                                                                            \
    {"attn_norm.weight", 'd', 0}, {"attn_kv_a_mqa.weight", 'd', 'J'}, {"attn_kv_a_norm.weight", 'j', 0},               \
    {                                                                                                                  \
        "attn_output.weight", 'z', 'd'                                                                                 \
    }

#define LOW_QUERIES                                                                                                    \
    {"attn_q_a.weight", 'd', 'i'}, {"attn_q_a_norm.weight", 'i', 0},                                                   \
    {                                                                                                                  \
        "attn_q_b.weight", 'i', 'x'                                                                                    \
    }

static const struct tiny_tensor deepseek2[] = {
    MLA,
    LOW_QUERIES,
    {"attn_k_b.weight", 'p', 'j', 'H'},
    {"attn_v_b.weight", 'j', 'y', 'H'},
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    {"exp_probs_b.bias", 'n', 0, 0, 'e'},
    SHARED_ONLY('e'),
    {NULL},
};

static const struct tiny_tensor deepseek2_lite[] = {
    MLA,
    {"attn_q.weight", 'd', 'x'},
    {"attn_k_b.weight", 'p', 'j', 'H'},
    {"attn_v_b.weight", 'j', 'y', 'H'},
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    SHARED_ONLY('S'),
    {NULL},
};

static const struct tiny_tensor deepseek2_older[] = {
    MLA,
    LOW_QUERIES,
    {"attn_kv_b.weight", 'j', 'w'},
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    SHARED_ONLY('S'),
    {NULL},
};

static const struct tiny_tensor minicpm3[] = {
    MLA, LOW_QUERIES, {"attn_kv_b.weight", 'j', 'w'}, {"ffn_norm.weight", 'd', 0}, GATE_UP_DOWN, {NULL},
};

#define MLA_KEYS                                                                                                       \
    {".attention.kv_lora_rank", 'u', 64, NULL}, {".attention.key_length", 'u', 80, NULL},                              \
        {".attention.value_length", 'u', 64, NULL}, {".attention.key_length_mla", 'u', 48, NULL},                      \
        {".attention.value_length_mla", 'u', 24, NULL},                                                                \
    {                                                                                                                  \
        ".rope.dimension_count", 'u', 16, NULL                                                                         \
    }

#define OLDER_MLA_KEYS                                                                                                 \
    {".attention.kv_lora_rank", 'u', 64, NULL}, {".attention.key_length", 'u', 48, NULL},                              \
        {".attention.value_length", 'u', 24, NULL},                                                                    \
    {                                                                                                                  \
        ".rope.dimension_count", 'u', 16, NULL                                                                         \
    }

#define YARN                                                                                                           \
    {".rope.scaling.type", 's', 0, "yarn"}, {".rope.scaling.factor", 'f', 4, NULL},                                    \
    {                                                                                                                  \
        ".rope.scaling.original_context_length", 'u', 128, NULL                                                        \
    }

const struct tiny_arch tiny_arch_mla[] = {
    {.name = "deepseek2",
     .layers = 3,
     .kinds = "dee",
     .kv_heads = 1,
     .untied = true,
     .tensors = deepseek2,
     .mla = {32, 64, 32, 16, 24},
     .experts = 16,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {MLA_KEYS,
              YARN,
              SIGMOIDS(2.5),
              {".attention.q_lora_rank", 'u', 32, NULL},
              {".rope.scaling.yarn_log_multiplier", 'f', 0.1, NULL},
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 1, NULL},
              {".expert_group_count", 'u', 4, NULL},
              {".expert_group_used_count", 'u', 2, NULL}}},
    {.name = "deepseek2-lite",
     .arch = "deepseek2",
     .layers = 27, /* by which llama.cpp knows it */
     .kinds = "deeeeeeeeeeeeeeeeeeeeeeeeee",
     .kv_heads = 1,
     .untied = true,
     .tensors = deepseek2_lite,
     .mla = {0, 64, 32, 16, 24},
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {MLA_KEYS,
              YARN,
              {".rope.scaling.yarn_log_multiplier", 'f', 0.0707, NULL},
              {".expert_weights_scale", 'f', 1, NULL},
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 2, NULL}}},
    {.name = "deepseek2-older",
     .arch = "deepseek2",
     .layers = 3,
     .kinds = "dee",
     .kv_heads = 4,
     .untied = true,
     .tensors = deepseek2_older,
     .mla = {32, 64, 32, 16, 24},
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {OLDER_MLA_KEYS,
              {".attention.q_lora_rank", 'u', 32, NULL},
              YARN,
              {".rope.scaling.yarn_log_multiplier", 'f', 0.0707, NULL},
              {".expert_weights_scale", 'f', 1, NULL},
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 2, NULL}}},
    {.name = "minicpm3",
     .kv_heads = 4,
     .tensors = minicpm3,
     .mla = {32, 64, 32, 16, 24},
     .keys = {OLDER_MLA_KEYS, {".attention.q_lora_rank", 'u', 32, NULL}}},
    {.name = "mistral4",
     .layers = 3,
     .kinds = "dee",
     .kv_heads = 1,
     .untied = true,
     .tensors = deepseek2,
     .mla = {32, 64, 32, 16, 24},
     .experts = 16,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {MLA_KEYS,
              YARN,
              SIGMOIDS(2.5),
              {".attention.q_lora_rank", 'u', 32, NULL},
              {".rope.scaling.yarn_log_multiplier", 'f', 0.1, NULL},
              {".attention.temperature_scale", 'f', 0.1, NULL},
              {".attention.temperature_length", 'u', 64, NULL},
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 1, NULL}}},
    {.name = NULL},
};
