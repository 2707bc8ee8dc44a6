/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to tiny-arch*.c: tensors that many architectures have, for the lists of struct tiny_tensor. */
#include "tests/support/tiny-arch.h"

#define Q_K_V                                                                                                          \
    {"attn_q.weight", 'd', 'q'}, {"attn_k.weight", 'd', 'v'}, {"attn_v.weight", 'd', 'v'},                             \
    {                                                                                                                  \
        "attn_output.weight", 'q', 'd'                                                                                 \
    }
#define FUSED_QKV                                                                                                      \
    {"attn_qkv.weight", 'd', 'Q'},                                                                                     \
    {                                                                                                                  \
        "attn_output.weight", 'q', 'd'                                                                                 \
    }
#define GATE_UP_DOWN                                                                                                   \
    {"ffn_gate.weight", 'd', 'f'}, {"ffn_up.weight", 'd', 'f'},                                                        \
    {                                                                                                                  \
        "ffn_down.weight", 'f', 'd'                                                                                    \
    }
#define EXPERTS                                                                                                        \
    {"ffn_gate_inp.weight", 'd', 'n'}, {"ffn_gate_exps.weight", 'd', 'e', 'n'}, {"ffn_up_exps.weight", 'd', 'e', 'n'}, \
    {                                                                                                                  \
        "ffn_down_exps.weight", 'e', 'd', 'n'                                                                          \
    }

/* Sigmoids, normalised shares and a scale. */
#define SIGMOIDS(scale)                                                                                                \
    {".expert_gating_func", 'u', 2, NULL}, {".expert_weights_norm", 'b', 1, NULL},                                     \
    {                                                                                                                  \
        ".expert_weights_scale", 'f', scale, NULL                                                                      \
    }

/* Of layers d without experts, and of layers e with them. */
#define DENSE_ONLY                                                                                                     \
    {"ffn_gate.weight", 'd', 'f', 0, 'd'}, {"ffn_up.weight", 'd', 'f', 0, 'd'},                                        \
    {                                                                                                                  \
        "ffn_down.weight", 'f', 'd', 0, 'd'                                                                            \
    }
#define EXPERTS_ONLY                                                                                                   \
    {"ffn_gate_inp.weight", 'd', 'n', 0, 'e'}, {"ffn_gate_exps.weight", 'd', 'e', 'n', 'e'},                           \
        {"ffn_up_exps.weight", 'd', 'e', 'n', 'e'},                                                                    \
    {                                                                                                                  \
        "ffn_down_exps.weight", 'e', 'd', 'n', 'e'                                                                     \
    }
/* The shared experts, @width wide. */
#define SHARED_ONLY(width)                                                                                             \
    {"ffn_gate_shexp.weight", 'd', width, 0, 'e'}, {"ffn_up_shexp.weight", 'd', width, 0, 'e'},                        \
    {                                                                                                                  \
        "ffn_down_shexp.weight", width, 'd', 0, 'e'                                                                    \
    }
/* Of a layer n behind the last, which predicts later tokens. */
#define NEXTN_ONLY                                                                                                     \
    {"nextn.eh_proj.weight", 'D', 'd', 0, 'n'}, {"nextn.enorm.weight", 'd', 0, 0, 'n'},                                \
        {"nextn.hnorm.weight", 'd', 0, 0, 'n'},                                                                        \
    {                                                                                                                  \
        "nextn.shared_head_norm.weight", 'd', 0, 0, 'n'                                                                \
    }

/* The tables of tiny_arch_find; the last of each has no name. */
extern const struct tiny_arch tiny_arch_dense[];
extern const struct tiny_arch tiny_arch_blocks[];
extern const struct tiny_arch tiny_arch_mixtures[];
extern const struct tiny_arch tiny_arch_experts[];
extern const struct tiny_arch tiny_arch_mla[];
extern const struct tiny_arch tiny_arch_recurrent[];
extern const struct tiny_arch tiny_arch_delta[];
extern const struct tiny_arch tiny_arch_gemma[];
extern const struct tiny_arch tiny_arch_encoders[];
