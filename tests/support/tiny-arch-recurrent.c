/* SPDX-License-Identifier: MIT */
/* Architectures with Mamba-2 or short convolutions. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

static const struct tiny_tensor short_convolution[] = {
    {"attn_norm.weight", 'd', 0},
    {"shortconv.in_proj.weight", 'd', 'B', 0, 'r'},
    {"shortconv.conv.weight", 'c', 'd', 0, 'r'},
    {"shortconv.out_proj.weight", 'd', 'd', 0, 'r'},
    {"attn_q.weight", 'd', 'q', 0, 'a'},
    {"attn_k.weight", 'd', 'v', 0, 'a'},
    {"attn_v.weight", 'd', 'v', 0, 'a'},
    {"attn_output.weight", 'q', 'd', 0, 'a'},
    {"attn_q_norm.weight", 'h', 0, 0, 'a'},
    {"attn_k_norm.weight", 'h', 0, 0, 'a'},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

#define MAMBA                                                                                                          \
    {"ssm_in.weight", 'd', 'P', 0, 'r'}, {"ssm_conv1d.weight", 'c', 'C', 0, 'r'}, {"ssm_conv1d.bias", 'C', 0, 0, 'r'}, \
        {"ssm_dt.bias", 'm', 0, 0, 'r'}, {"ssm_a", '1', 'm', 0, 'r'}, {"ssm_d", '1', 'm', 0, 'r'},                     \
    {                                                                                                                  \
        "ssm_out.weight", 'I', 'd', 0, 'r'                                                                             \
    }

#define MAMBA_NORM                                                                                                     \
    {                                                                                                                  \
        "ssm_norm.weight", 'G', 'g', 0, 'r'                                                                            \
    }

#define Q_K_V_OF(kind)                                                                                                 \
    {"attn_q.weight", 'd', 'q', 0, kind}, {"attn_k.weight", 'd', 'v', 0, kind}, {"attn_v.weight", 'd', 'v', 0, kind},  \
    {                                                                                                                  \
        "attn_output.weight", 'q', 'd', 0, kind                                                                        \
    }

static const struct tiny_tensor mamba[] = {{"attn_norm.weight", 'd', 0}, MAMBA, MAMBA_NORM, {NULL}};

static const struct tiny_tensor mamba_hybrid[] = {
    {"attn_norm.weight", 'd', 0}, MAMBA, MAMBA_NORM, Q_K_V_OF('a'), {"ffn_norm.weight", 'd', 0}, GATE_UP_DOWN, {NULL},
};

static const struct tiny_tensor mamba_experts[] = {
    {"attn_norm.weight", 'd', 0},
    MAMBA,
    MAMBA_NORM,
    Q_K_V_OF('a'),
    {"ffn_norm.weight", 'd', 0},
    EXPERTS,
    {"ffn_gate_shexp.weight", 'd', 's'},
    {"ffn_up_shexp.weight", 'd', 's'},
    {"ffn_down_shexp.weight", 's', 'd'},
    {NULL},
};

static const struct tiny_tensor mamba_or_others[] = {
    {"attn_norm.weight", 'd', 0},          MAMBA,  MAMBA_NORM, Q_K_V_OF('a'), {"ffn_up.weight", 'd', 'f', 0, 'f'},
    {"ffn_down.weight", 'f', 'd', 0, 'f'}, {NULL},
};

static const struct tiny_tensor mamba_or_experts[] = {
    {"attn_norm.weight", 'd', 0},
    MAMBA,
    MAMBA_NORM,
    Q_K_V_OF('a'),
    {"ffn_gate_inp.weight", 'd', 'n', 0, 'f'},
    {"exp_probs_b.bias", 'n', 0, 0, 'f'},
    {"ffn_up_exps.weight", 'd', 'e', 'n', 'f'},
    {"ffn_down_exps.weight", 'e', 'd', 'n', 'f'},
    {"ffn_up_shexp.weight", 'd', 's', 0, 'f'},
    {"ffn_down_shexp.weight", 's', 'd', 0, 'f'},
    {NULL},
};

static const struct tiny_tensor mamba_beside[] = {
    {"attn_norm.weight", 'd', 0}, MAMBA, Q_K_V, {"ffn_norm", 'd', 0}, GATE_UP_DOWN, {NULL},
};

static const struct tiny_tensor convolution_experts[] = {
    {"attn_norm.weight", 'd', 0},
    {"shortconv.in_proj.weight", 'd', 'B', 0, 'R'},
    {"shortconv.conv.weight", 'c', 'd', 0, 'R'},
    {"shortconv.out_proj.weight", 'd', 'd', 0, 'R'},
    Q_K_V_OF('A'),
    {"attn_q_norm.weight", 'h', 0, 0, 'A'},
    {"attn_k_norm.weight", 'h', 0, 0, 'A'},
    {"ffn_norm.weight", 'd', 0},
    {"ffn_gate.weight", 'd', 'f', 0, 'D'},
    {"ffn_up.weight", 'd', 'f', 0, 'D'},
    {"ffn_down.weight", 'f', 'd', 0, 'D'},
    {"ffn_gate_inp.weight", 'd', 'n', 0, 'E'},
    {"ffn_gate_exps.weight", 'd', 'e', 'n', 'E'},
    {"ffn_up_exps.weight", 'd', 'e', 'n', 'E'},
    {"ffn_down_exps.weight", 'e', 'd', 'n', 'E'},
    {"exp_probs_b.bias", 'n', 0, 0, 'E'},
    {NULL},
};

#define MAMBA_SIZES .taps = 4, .inner = 128, .state = 24, .mamba_heads = 4

#define GRANITE_SCALES                                                                                                 \
    {".embedding_scale", 'f', 12, NULL}, {".residual_scale", 'f', 0.22, NULL}, {".attention.scale", 'f', 0.3, NULL},   \
    {                                                                                                                  \
        ".logit_scale", 'f', 1.5, NULL                                                                                 \
    }

const struct tiny_arch tiny_arch_recurrent[] = {
    {.name = "lfm2",
     .layers = 5,
     .tensors = short_convolution,
     .kinds = "rarra",
     .taps = 3,
     .output_norm = "token_embd_norm",
     .keys = {{".attention.head_count_kv", 'i', 5, "0 2 0 0 2"}, {".shortconv.l_cache", 'u', 3, NULL}}},
    {.name = "lfm2moe",
     .layers = 5,
     .tensors = convolution_experts,
     .kinds = "rARRA", /* r: also without experts */
     .taps = 3,
     .output_norm = "token_embd_norm",
     .experts = 8,
     .experts_used = 2,
     .expert_ffn = 32,
     .keys = {{".attention.head_count_kv", 'i', 5, "0 2 0 0 2"},
              {".shortconv.l_cache", 'u', 3, NULL},
              {".leading_dense_block_count", 'u', 1, NULL},
              {".expert_gating_func", 'u', 2, NULL}}},
    {.name = "mamba2",
     .layers = 3,
     .tensors = mamba,
     .kinds = "rrr",
     .mamba_groups = 2,
     .alone = true,
     MAMBA_SIZES,
     .keys = {{".attention.head_count_kv", 'u', 4, NULL}}}, /* without a meaning */
    {.name = "granitehybrid",
     .layers = 5,
     .tensors = mamba_hybrid,
     .kinds = "rarra",
     .mamba_groups = 1,
     MAMBA_SIZES,
     .keys = {{".attention.head_count_kv", 'i', 5, "0 2 0 0 2"},
              {".rope.scaling.finetuned", 'b', 0, NULL},
              GRANITE_SCALES}},
    {.name = "granitehybrid-experts",
     .arch = "granitehybrid",
     .layers = 4,
     .tensors = mamba_experts,
     .kinds = "raar",
     .mamba_groups = 2,
     MAMBA_SIZES,
     .experts = 8,
     .experts_used = 3,
     .shared_ffn = 64,
     .keys = {{".attention.head_count_kv", 'i', 4, "0 2 2 0"},
              {".rope.scaling.finetuned", 'b', 1, NULL},
              GRANITE_SCALES}},
    {.name = "nemotron_h",
     .layers = 6,
     .tensors = mamba_or_others,
     .kinds = "rfarrf",
     .mamba_groups = 2,
     MAMBA_SIZES,
     .keys = {{".attention.layer_norm_epsilon", 'f', 1e-5, NULL},
              {".attention.head_count_kv", 'i', 6, "0 0 2 0 0 0"},
              {".feed_forward_length", 'i', 6, "0 96 0 0 0 96"}}},
    {.name = "nemotron_h_moe",
     .layers = 6,
     .untied = true,
     .tensors = mamba_or_experts,
     .kinds = "rfarrf",
     .mamba_groups = 2,
     MAMBA_SIZES,
     .experts = 16,
     .experts_used = 4,
     .expert_ffn = 96,
     .shared_ffn = 64,
     .keys = {{".attention.layer_norm_epsilon", 'f', 1e-5, NULL},
              {".attention.head_count_kv", 'i', 6, "0 0 2 0 0 0"},
              {".feed_forward_length", 'i', 6, "0 96 0 0 0 96"},
              {".expert_shared_count", 'u', 1, NULL},
              {".expert_weights_norm", 'b', 1, NULL},
              {".expert_weights_scale", 'f', 2.5, NULL}}},
    {.name = "falcon-h1", .layers = 3, .tensors = mamba_beside, .kinds = "rrr", .mamba_groups = 1, MAMBA_SIZES},
    {.name = NULL},
};
