/* SPDX-License-Identifier: MIT */
/* Models with a gated delta rule. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

#define GATED_ATTENTION                                                                                                \
    {"attn_q.weight", 'd', 'X', 0, 'a'}, {"attn_k.weight", 'd', 'v', 0, 'a'}, {"attn_v.weight", 'd', 'v', 0, 'a'},     \
        {"attn_output.weight", 'q', 'd', 0, 'a'}, {"attn_q_norm.weight", 'h', 0, 0, 'a'},                              \
    {                                                                                                                  \
        "attn_k_norm.weight", 'h', 0, 0, 'a'                                                                           \
    }
#define NEXTN                                                                                                          \
    {"attn_q.weight", 'd', 'X', 0, 'n'}, {"attn_k.weight", 'd', 'v', 0, 'n'}, {"attn_v.weight", 'd', 'v', 0, 'n'},     \
        {"attn_output.weight", 'q', 'd', 0, 'n'}, {"attn_q_norm.weight", 'h', 0, 0, 'n'},                              \
        {"attn_k_norm.weight", 'h', 0, 0, 'n'}, {"nextn.eh_proj.weight", 'D', 'd', 0, 'n'},                            \
        {"nextn.enorm.weight", 'd', 0, 0, 'n'}, {"nextn.hnorm.weight", 'd', 0, 0, 'n'},                                \
    {                                                                                                                  \
        "nextn.shared_head_norm.weight", 'd', 0, 0, 'n'                                                                \
    }
#define DELTA_RULE                                                                                                     \
    {"attn_qkv.weight", 'd', 'x', 0, 'r'}, {"attn_gate.weight", 'd', 'y', 0, 'r'},                                     \
        {"ssm_conv1d.weight", 'c', 'x', 0, 'r'}, {"ssm_a", 'z', 0, 0, 'r'}, {"ssm_dt.bias", 'z', 0, 0, 'r'},           \
        {"ssm_norm.weight", 'w', 0, 0, 'r'},                                                                           \
    {                                                                                                                  \
        "ssm_out.weight", 'y', 'd', 0, 'r'                                                                             \
    }

static const struct tiny_tensor delta_rule[] = {
    {"attn_norm.weight", 'd', 0},
    GATED_ATTENTION,
    DELTA_RULE,
    {"ssm_beta.weight", 'd', 'z', 0, 'r'},
    {"ssm_alpha.weight", 'd', 'z', 0, 'r'},
    {"post_attention_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor delta_rule_mtp[] = {
    {"attn_norm.weight", 'd', 0},
    GATED_ATTENTION,
    DELTA_RULE,
    {"ssm_beta.weight", 'd', 'z', 0, 'r'},
    {"ssm_alpha.weight", 'd', 'z', 0, 'r'},
    {"post_attention_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    NEXTN,
    {NULL},
};

static const struct tiny_tensor delta_rule_mixture[] = {
    {"attn_norm.weight", 'd', 0},
    GATED_ATTENTION,
    DELTA_RULE,
    {"ssm_beta.weight", 'd', 'z', 0, 'r'},
    {"ssm_alpha.weight", 'd', 'z', 0, 'r'},
    {"post_attention_norm.weight", 'd', 0},
    EXPERTS,
    {"ffn_gate_inp_shexp.weight", 'd', 0},
    {"ffn_gate_shexp.weight", 'd', 's'},
    {"ffn_up_shexp.weight", 'd', 's'},
    {"ffn_down_shexp.weight", 's', 'd'},
    {NULL},
};

static const struct tiny_tensor delta_rule_next[] = {
    {"attn_norm.weight", 'd', 0},
    GATED_ATTENTION,
    DELTA_RULE,
    {"ssm_ba.weight", 'd', 'Z', 0, 'r'},
    {"post_attention_norm.weight", 'd', 0},
    EXPERTS,
    {"ffn_gate_inp_shexp.weight", 'd', 0},
    {"ffn_gate_shexp.weight", 'd', 's'},
    {"ffn_up_shexp.weight", 'd', 's'},
    {"ffn_down_shexp.weight", 's', 'd'},
    {NULL},
};

#define DELTA_KEYS                                                                                                     \
    {".ssm.conv_kernel", 'u', 4, NULL}, {".ssm.state_size", 'u', 32, NULL}, {".ssm.group_count", 'u', 2, NULL},        \
        {".ssm.time_step_rank", 'u', 4, NULL}, {".ssm.inner_size", 'u', 128, NULL},                                    \
    {                                                                                                                  \
        ".rope.dimension_count", 'u', 16, NULL                                                                         \
    }
#define DELTA_SIZES .head_dim = 32, .taps = 4, .delta_dim = 32, .key_heads = 2, .value_heads = 4

const struct tiny_arch tiny_arch_delta[] = {
    {.name = "qwen35",
     .layers = 5,
     .tensors = delta_rule,
     .kinds = "rrrar",
     DELTA_SIZES,
     .keys = {DELTA_KEYS, {".rope.dimension_sections", 'i', 4, "3 3 2 0"}}},
    {.name = "qwen35-mtp",
     .arch = "qwen35",
     .layers = 6,
     .tensors = delta_rule_mtp,
     .kinds = "rrrarn",
     DELTA_SIZES,
     .keys = {DELTA_KEYS, {".rope.dimension_sections", 'i', 4, "3 3 2 0"}, {".nextn_predict_layers", 'u', 1, NULL}}},
    {.name = "qwen35-large", /* the shape of Qwen 3.5 0.8B, with --dim 1024 --ffn 3584 --heads 8 --kv-heads 2 */
     .arch = "qwen35",
     .layers = 24,
     .head_dim = 256,
     .tensors = delta_rule,
     .kinds = "rrrarrrarrrarrrarrrarrra",
     .taps = 4,
     .delta_dim = 128,
     .key_heads = 16,
     .value_heads = 16,
     .keys = {{".ssm.conv_kernel", 'u', 4, NULL},
              {".ssm.state_size", 'u', 128, NULL},
              {".ssm.group_count", 'u', 16, NULL},
              {".ssm.time_step_rank", 'u', 16, NULL},
              {".ssm.inner_size", 'u', 2048, NULL},
              {".rope.dimension_count", 'u', 64, NULL},
              {".rope.dimension_sections", 'i', 4, "11 11 10 0"}}},
    {.name = "qwen35moe",
     .layers = 5,
     .untied = true,
     .tensors = delta_rule_mixture,
     .kinds = "rrarr",
     DELTA_SIZES,
     .experts = 16,
     .experts_used = 5,
     .expert_ffn = 32,
     .shared_ffn = 64,
     .keys = {DELTA_KEYS, {".rope.dimension_sections", 'i', 4, "3 3 2 0"}, {".full_attention_interval", 'u', 3, NULL}}},
    {.name = "qwen3next",
     .layers = 4,
     .untied = true,
     .tensors = delta_rule_next,
     .kinds = "rrra",
     DELTA_SIZES,
     .experts = 16,
     .experts_used = 5,
     .expert_ffn = 32,
     .shared_ffn = 64,
     .keys = {DELTA_KEYS, {".full_attention_interval", 'u', 4, NULL}}},
    {NULL},
};
