/* SPDX-License-Identifier: MIT */
/* Architectures with experts in some layers, or with other routers than a softmax. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

#define BIASES                                                                                                         \
    {"attn_q.bias", 'q', 0}, {"attn_k.bias", 'v', 0},                                                                  \
    {                                                                                                                  \
        "attn_v.bias", 'v', 0                                                                                          \
    }

#define QK_NORMS(q, k)                                                                                                 \
    {"attn_q_norm.weight", q, 0},                                                                                      \
    {                                                                                                                  \
        "attn_k_norm.weight", k, 0                                                                                     \
    }

static const struct tiny_tensor afmoe[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_gate.weight", 'd', 'q'},
    QK_NORMS('h', 'h'),
    {"post_attention_norm.weight", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    {"exp_probs_b.bias", 'n', 0, 0, 'e'},
    SHARED_ONLY('S'),
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor minimax_m2[] = {
    {"attn_norm.weight", 'd', 0},    Q_K_V,  QK_NORMS('q', 'v'), {"ffn_norm.weight", 'd', 0}, EXPERTS,
    {"exp_probs_b.bias", 'n', 0, 0}, {NULL},
};

static const struct tiny_tensor exaone_moe[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    QK_NORMS('h', 'h'),
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    {"exp_probs_b.bias", 'n', 0, 0, 'e'},
    SHARED_ONLY('e'),
    NEXTN_ONLY,
    {NULL},
};

static const struct tiny_tensor bailingmoe[] = {
    {"attn_norm.weight", 'd', 0},        Q_K_V,
    {"ffn_norm.weight", 'd', 0},         EXPERTS,
    {"ffn_gate_shexp.weight", 'd', 'S'}, {"ffn_up_shexp.weight", 'd', 'S'},
    {"ffn_down_shexp.weight", 'S', 'd'}, {NULL},
};

static const struct tiny_tensor bailingmoe2[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_qkv.weight", 'd', 'Q'},
    {"attn_output.weight", 'q', 'd'},
    QK_NORMS('h', 'h'),
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    {"exp_probs_b.bias", 'n', 0, 0, 'e'},
    SHARED_ONLY('S'),
    {"ffn_gate_inp.weight", 'd', 'n', 0, 'n'},
    {"ffn_gate_exps.weight", 'd', 'e', 'n', 'n'},
    {"ffn_up_exps.weight", 'd', 'e', 'n', 'n'},
    {"ffn_down_exps.weight", 'e', 'd', 'n', 'n'},
    {"ffn_gate_shexp.weight", 'd', 'S', 0, 'n'},
    {"ffn_up_shexp.weight", 'd', 'S', 0, 'n'},
    {"ffn_down_shexp.weight", 'S', 'd', 0, 'n'},
    NEXTN_ONLY,
    {"layer_output_norm.weight", 'd', 0, 0, 'n'},
    {NULL},
};

static const struct tiny_tensor deepseek[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    SHARED_ONLY('S'),
    {NULL},
};

static const struct tiny_tensor dots1[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    QK_NORMS('h', 'h'),
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    {"exp_probs_b.bias", 'n', 0, 0, 'e'},
    SHARED_ONLY('S'),
    {NULL},
};

static const struct tiny_tensor ernie4_5_moe[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    DENSE_ONLY,
    EXPERTS_ONLY,
    {"exp_probs_b.bias", 'n', 0, 0, 'e'},
    SHARED_ONLY('s'),
    {NULL},
};

#define GLM4MOE                                                                                                        \
    {"attn_norm.weight", 'd', 0}, BIASES, Q_K_V, {"post_attention_norm.weight", 'd', 0}, DENSE_ONLY, EXPERTS_ONLY,     \
        {"exp_probs_b.bias", 'n', 0, 0, 'e'}, SHARED_ONLY('e'), {"ffn_gate_inp.weight", 'd', 'n', 0, 'n'},             \
        {"exp_probs_b.bias", 'n', 0, 0, 'n'}, {"ffn_gate_exps.weight", 'd', 'e', 'n', 'n'},                            \
        {"ffn_up_exps.weight", 'd', 'e', 'n', 'n'}, {"ffn_down_exps.weight", 'e', 'd', 'n', 'n'},                      \
        {"ffn_gate_shexp.weight", 'd', 'e', 0, 'n'}, {"ffn_up_shexp.weight", 'd', 'e', 0, 'n'},                        \
        {"ffn_down_shexp.weight", 'e', 'd', 0, 'n'}, NEXTN_ONLY

static const struct tiny_tensor glm4moe[] = {GLM4MOE, {NULL}};

static const struct tiny_tensor glm4moe_normed[] = {GLM4MOE, QK_NORMS('h', 'h'), {NULL}};

static const struct tiny_tensor granitemoe[] = {
    {"attn_norm.weight", 'd', 0},        Q_K_V,
    {"ffn_norm.weight", 'd', 0},         EXPERTS,
    {"ffn_gate_shexp.weight", 'd', 's'}, {"ffn_up_shexp.weight", 'd', 's'},
    {"ffn_down_shexp.weight", 's', 'd'}, {NULL},
};

static const struct tiny_tensor hunyuan_moe[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    QK_NORMS('h', 'h'),
    {"ffn_norm.weight", 'd', 0},
    EXPERTS,
    {"ffn_gate_shexp.weight", 'd', 's'},
    {"ffn_up_shexp.weight", 'd', 's'},
    {"ffn_down_shexp.weight", 's', 'd'},
    {NULL},
};

static const struct tiny_tensor olmoe[] = {
    {"attn_norm.weight", 'd', 0}, Q_K_V, QK_NORMS('q', 'v'), {"ffn_norm.weight", 'd', 0}, EXPERTS, {NULL},
};

static const struct tiny_tensor qwen3vlmoe[] = {
    {"attn_norm.weight", 'd', 0}, Q_K_V, QK_NORMS('h', 'h'), {"ffn_norm.weight", 'd', 0}, EXPERTS, {NULL},
};

#define GLM4MOE_KEYS                                                                                                   \
    {                                                                                                                  \
        SIGMOIDS(1.5), {".leading_dense_block_count", 'u', 1, NULL}, {".expert_shared_count", 'u', 1, NULL},           \
            {".nextn_predict_layers", 'u', 1, NULL},                                                                   \
        {                                                                                                              \
            ".rope.dimension_count", 'u', 8, NULL                                                                      \
        }                                                                                                              \
    }

const struct tiny_arch tiny_arch_experts[] = {
    {.name = "afmoe",
     .layers = 5,
     .head_dim = 32,
     .untied = true,
     .tensors = afmoe,
     .kinds = "ddeee",
     .experts = 16,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {{".attention.sliding_window", 'u', 70, NULL},
              {".leading_dense_block_count", 'u', 2, NULL},
              {".expert_shared_count", 'u', 2, NULL},
              {".expert_gating_func", 'u', 2, NULL},
              {".expert_weights_norm", 'b', 1, NULL},
              {".expert_weights_scale", 'f', 2.826, NULL}}},
    {.name = "exaone-moe",
     .layers = 5,
     .head_dim = 32,
     .untied = true,
     .tensors = exaone_moe,
     .kinds = "deeee",
     .experts = 12, /* of 16, two are a tie for token 70: 3e-8 apart in double, and the passes choose differently */
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {{".attention.sliding_window", 'u', 70, NULL},
              {".attention.sliding_window_pattern", 'p', 4, NULL},
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 1, NULL},
              {".expert_shared_feed_forward_length", 'u', 32, NULL},
              {".expert_gating_func", 'u', 2, NULL},
              {".expert_weights_norm", 'b', 1, NULL},
              {".expert_weights_scale", 'f', 2.5, NULL}}},
    {.name = "exaone-moe-mtp", /* whose layer behind the last is not computed */
     .arch = "exaone-moe",
     .layers = 6,
     .head_dim = 32,
     .untied = true,
     .tensors = exaone_moe,
     .kinds = "deeeen",
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {{".nextn_predict_layers", 'u', 1, NULL},
              {".attention.sliding_window", 'u', 70, NULL},
              {".attention.sliding_window_pattern", 'p', 4, NULL}, /* one for each layer, that one too */
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 1, NULL},
              {".expert_shared_feed_forward_length", 'u', 32, NULL},
              {".expert_gating_func", 'u', 2, NULL},
              {".expert_weights_norm", 'b', 1, NULL},
              {".expert_weights_scale", 'f', 2.5, NULL}}},
    {.name = "bailingmoe",
     .untied = true,
     .tensors = bailingmoe,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {{".expert_shared_count", 'u', 2, NULL},
              {".expert_gating_func", 'u', 1, NULL},
              {".expert_weights_norm", 'b', 1, NULL}}},
    {.name = "minimax-m2",
     .head_dim = 32,
     .untied = true,
     .tensors = minimax_m2,
     .experts = 16,
     .experts_used = 4,
     .expert_ffn = 96,
     .keys = {{".rope.dimension_count", 'u', 16, NULL},
              {".expert_gating_func", 'u', 2, NULL},
              {".expert_weights_norm", 'b', 1, NULL}}},
    {.name = "bailingmoe2",
     .layers = 4,
     .kinds = "deen",
     .untied = true,
     .tensors = bailingmoe2,
     .experts = 16,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {SIGMOIDS(2.5),
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 2, NULL},
              {".expert_shared_feed_forward_length", 'u', 32, NULL},
              {".expert_group_count", 'u', 4, NULL},
              {".expert_group_used_count", 'u', 2, NULL},
              {".nextn_predict_layers", 'u', 1, NULL},
              {".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "deepseek",
     .layers = 3,
     .kinds = "dee",
     .untied = true,
     .tensors = deepseek,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {{".leading_dense_block_count", 'u', 1, NULL},
              {".expert_shared_count", 'u', 2, NULL},
              {".expert_weights_scale", 'f', 1.5, NULL}}},
    {.name = "dots1",
     .kv_heads = 4,
     .layers = 3,
     .kinds = "dee",
     .untied = true,
     .tensors = dots1,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = {SIGMOIDS(2.5), {".leading_dense_block_count", 'u', 1, NULL}, {".expert_shared_count", 'u', 2, NULL}}},
    {.name = "ernie4_5-moe",
     .layers = 3,
     .kinds = "dee",
     .tensors = ernie4_5_moe,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .shared_ffn = 64,
     .keys = {{".leading_dense_block_count", 'u', 1, NULL},
              {".interleave_moe_layer_step", 'u', 1, NULL},
              {".expert_shared_count", 'u', 2, NULL}}},
    {.name = "glm4moe",
     .layers = 4,
     .kinds = "deen",
     .untied = true,
     .tensors = glm4moe,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = GLM4MOE_KEYS},
    {.name = "glm4moe-normed",
     .arch = "glm4moe",
     .layers = 4,
     .kinds = "deen",
     .untied = true,
     .tensors = glm4moe_normed,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .keys = GLM4MOE_KEYS},
    {.name = "granitemoe",
     .tensors = granitemoe,
     .experts = 12,
     .experts_used = 4,
     .shared_ffn = 64,
     .keys = {{".embedding_scale", 'f', 12, NULL},
              {".residual_scale", 'f', 0.22, NULL},
              {".attention.scale", 'f', 0.3, NULL},
              {".logit_scale", 'f', 1.5, NULL}}},
    {.name = "hunyuan-moe",
     .tensors = hunyuan_moe,
     .experts = 8,
     .experts_used = 3,
     .expert_ffn = 96,
     .shared_ffn = 64,
     .keys = {{".expert_shared_count", 'u', 1, NULL}}},
    {.name = "olmoe", .kv_heads = 4, .untied = true, .tensors = olmoe, .experts = 12, .experts_used = 4},
    {.name = "qwen3vlmoe",
     .head_dim = 32,
     .untied = true,
     .tensors = qwen3vlmoe,
     .experts = 16,
     .experts_used = 5,
     .expert_ffn = 32,
     .keys = {{".rope.dimension_sections", 'i', 4, "6 5 5 0"}, {".n_deepstack_layers", 'u', 0, NULL}}},
    {.name = NULL},
};
