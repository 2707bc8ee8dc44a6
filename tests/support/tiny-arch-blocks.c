/* SPDX-License-Identifier: MIT */
/* Architectures with LayerNorm, with attention and feed-forward in parallel, or without a gate. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

#define UP_DOWN                                                                                                        \
    {"ffn_up.weight", 'd', 'f'},                                                                                       \
    {                                                                                                                  \
        "ffn_down.weight", 'f', 'd'                                                                                    \
    }

static const struct tiny_tensor without_gate[] = {
    {"attn_norm.weight", 'd', 0}, Q_K_V, {"ffn_norm.weight", 'd', 0}, UP_DOWN, {NULL},
};

static const struct tiny_tensor centered[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_norm.bias", 'd', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    {"ffn_norm.bias", 'd', 0},
    UP_DOWN,
    {NULL},
};

static const struct tiny_tensor starcoder2[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_norm.bias", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"attn_output.bias", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    {"ffn_norm.bias", 'd', 0},
    UP_DOWN,
    {"ffn_up.bias", 'f', 0},
    {"ffn_down.bias", 'd', 0},
    {NULL},
};

static const struct tiny_tensor parallel[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor parallel_normed_heads[] = {
    {"attn_norm.weight", 'd', 0},     Q_K_V,        {"attn_q_norm.weight", 'h', 'H'},
    {"attn_k_norm.weight", 'h', 'K'}, GATE_UP_DOWN, {NULL},
};

static const struct tiny_tensor stablelm[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_norm.bias", 'd', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    {"ffn_norm.bias", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor stablelm_parallel[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_norm.bias", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 'H'},
    {"attn_k_norm.weight", 'h', 'K'},
    GATE_UP_DOWN,
    {NULL},
};

#define CENTERED_INPUT                                                                                                 \
    {"attn_norm.weight", 'd', 0},                                                                                      \
    {                                                                                                                  \
        "attn_norm.bias", 'd', 0                                                                                       \
    }

static const struct tiny_tensor without_gate_normed_heads[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"ffn_norm.weight", 'd', 0},
    UP_DOWN,
    {NULL},
};

static const struct tiny_tensor falcon[] = {
    CENTERED_INPUT,
    FUSED_QKV,
    UP_DOWN,
    {NULL},
};

static const struct tiny_tensor gptneox[] = {
    CENTERED_INPUT,
    FUSED_QKV,
    {"attn_qkv.bias", 'Q', 0},
    {"attn_output.bias", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    {"ffn_norm.bias", 'd', 0},
    UP_DOWN,
    {"ffn_up.bias", 'f', 0},
    {"ffn_down.bias", 'd', 0},
    {NULL},
};

static const struct tiny_tensor phi2[] = {
    CENTERED_INPUT,
    Q_K_V,
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    {"attn_output.bias", 'd', 0},
    UP_DOWN,
    {"ffn_up.bias", 'f', 0},
    {"ffn_down.bias", 'd', 0},
    {NULL},
};

#define LAYER_NORM                                                                                                     \
    {                                                                                                                  \
        ".attention.layer_norm_epsilon", 'f', 1e-5, NULL                                                               \
    }

const struct tiny_arch tiny_arch_blocks[] = {
    {.name = "apertus",
     .untied = true,
     .tensors = without_gate_normed_heads,
     .keys = {{"xielu.alpha_n", 'a', 0.3, NULL},
              {"xielu.alpha_p", 'a', 0.8, NULL},
              {"xielu.beta", 'a', 0.5, NULL},
              {"xielu.eps", 'a', -1e-6, NULL}}},
    {.name = "falcon", .tensors = falcon, .down_share = 0.2f, .keys = {LAYER_NORM}},
    {.name = "gptneox",
     .untied = true,
     .tensors = gptneox,
     .down_share = 0.2f,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 4, NULL}, {".use_parallel_residual", 'b', 1, NULL}}},
    {.name = "gptneox-serial",
     .arch = "gptneox",
     .untied = true,
     .tensors = gptneox,
     .down_share = 0.2f,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 8, NULL}, {".use_parallel_residual", 'b', 0, NULL}}},
    {.name = "codeshell", .untied = true, .tensors = gptneox, .down_share = 0.15f, .keys = {LAYER_NORM}},
    {.name = "codeshell-output",
     .arch = "codeshell",
     .output_only = true,
     .tensors = gptneox,
     .down_share = 0.15f,
     .keys = {LAYER_NORM}},
    {.name = "jais2", .untied = true, .tensors = starcoder2, .keys = {LAYER_NORM}},
    {.name = "gpt2", .kv_heads = 4, .positions = true, .tensors = gptneox, .down_share = 0.2f, .keys = {LAYER_NORM}},
    {.name = "starcoder",
     .kv_heads = 1,
     .positions = true,
     .tensors = gptneox,
     .down_share = 0.2f,
     .keys = {LAYER_NORM}},
    {.name = "phi2",
     .untied = true,
     .tensors = phi2,
     .output_bias = true,
     .down_share = 0.2f,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "arcee", .tensors = without_gate},
    {.name = "cohere2",
     .layers = 5,
     .tensors = parallel,
     .keys = {LAYER_NORM, {".logit_scale", 'f', 0.4, NULL}, {".attention.sliding_window", 'u', 70, NULL}}},
    {.name = "command-r", .tensors = parallel, .keys = {LAYER_NORM, {".logit_scale", 'f', 0.4, NULL}}},
    {.name = "command-r-plus",
     .arch = "command-r",
     .layers = 64, /* llama.cpp reads norms of q and k from so many on */
     .tensors = parallel_normed_heads,
     .keys = {LAYER_NORM, {".logit_scale", 'f', 0.4, NULL}}},
    {.name = "nemotron",
     .untied = true,
     .tensors = centered,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "stablelm",
     .untied = true,
     .tensors = stablelm,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 4, NULL}, {".use_parallel_residual", 'b', 0, NULL}}},
    {.name = "stablelm-parallel",
     .arch = "stablelm",
     .untied = true,
     .tensors = stablelm_parallel,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 4, NULL}, {".use_parallel_residual", 'b', 1, NULL}}},
    {.name = "starcoder2", .tensors = starcoder2, .down_share = 0.2f, .keys = {LAYER_NORM}},
    {.name = NULL},
};
