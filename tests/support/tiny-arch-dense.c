/* SPDX-License-Identifier: MIT */
/* Dense architectures with RMSNorm and a gate: biases, norms, fused products, windows, scales and RoPE. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

static const struct tiny_tensor biased[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor pangu[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"attn_output.bias", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor all_biases[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"attn_output.bias", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"ffn_gate.bias", 'f', 0},
    {"ffn_up.bias", 'f', 0},
    {"ffn_down.bias", 'd', 0},
    {NULL},
};

static const struct tiny_tensor plain[] = {
    {"attn_norm.weight", 'd', 0}, Q_K_V, {"ffn_norm.weight", 'd', 0}, GATE_UP_DOWN, {NULL},
};

static const struct tiny_tensor normed_heads[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor fused[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_qkv.weight", 'd', 'Q'},
    {"attn_output.weight", 'q', 'd'},
    {"ffn_norm.weight", 'd', 0},
    {"ffn_up.weight", 'd', 'F'},
    {"ffn_down.weight", 'f', 'd'},
    {NULL},
};

static const struct tiny_tensor post_normed[] = {
    Q_K_V,
    {"attn_q_norm.weight", 'q', 0},
    {"attn_k_norm.weight", 'v', 0},
    {"post_attention_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor twice_normed[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"post_attention_norm.weight", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor all_normed[] = {
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

static const struct tiny_tensor seed_oss[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"post_attention_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {NULL},
};

static const struct tiny_tensor glm4[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"post_attention_norm.weight", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    {"ffn_up.weight", 'd', 'F'},
    {"ffn_down.weight", 'f', 'd'},
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor post_normed_heads[] = {
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"post_attention_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor sub_normed[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_sub_norm.weight", 'q', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"ffn_sub_norm.weight", 'f', 0},
    {NULL},
};

static const struct tiny_tensor fused_biased[] = {
    {"attn_norm.weight", 'd', 0},
    FUSED_QKV,
    {"attn_qkv.bias", 'Q', 0},
    {"ffn_norm.weight", 'd', 0},
    {"ffn_up.weight", 'd', 'F'},
    {"ffn_down.weight", 'f', 'd'},
    {NULL},
};

const struct tiny_arch tiny_arch_dense[] = {
    {.name = "llama", .tensors = plain},
    {.name = "llama-biases", .arch = "llama", .tensors = all_biases},
    {.name = "llama-yarn",
     .arch = "llama",
     .tensors = plain,
     .keys = {{".rope.scaling.type", 's', 0, "yarn"},
              {".rope.scaling.factor", 'f', 4, NULL},
              {".rope.scaling.original_context_length", 'u', 128, NULL}}},
    {.name = "llama-yarn-told", /* as some converters write it: keys that say what is so without them */
     .arch = "llama",
     .tensors = plain,
     .keys = {{".rope.scaling.type", 's', 0, "yarn"},
              {".rope.scaling.factor", 'f', 4, NULL},
              {".rope.scaling.original_context_length", 'u', 128, NULL},
              {".rope.scaling.yarn_attn_factor", 'f', 1.1386294, NULL},
              {".rope.scaling.yarn_ext_factor", 'f', 1, NULL},
              {".rope.scaling.yarn_log_multiplier", 'f', 0, NULL}}},
    {.name = "llama-keys", /* Llama 3's scaling, told by keys */
     .arch = "llama",
     .tensors = plain,
     .keys = {{".rope.scaling.type", 's', 0, "llama3"},
              {".rope.scaling.factor", 'f', 8, NULL},
              {".rope.scaling.low_freq_factor", 'f', 1, NULL},
              {".rope.scaling.high_freq_factor", 'f', 4, NULL},
              {".rope.scaling.original_context_length", 'u', 64, NULL}}},
    {.name = "qwen2", .tensors = biased},
    {.name = "qwen2vl", .tensors = biased, .keys = {{".rope.dimension_sections", 'i', 4, "2 3 3 0"}}},
    {.name = "qwen3", .head_dim = 32, .tensors = normed_heads},
    {.name = "phi3",
     .untied = true,
     .tensors = fused,
     .long_rope = true,
     .keys = {{".rope.dimension_count", 'u', 12, NULL},
              {".rope.scaling.original_context_length", 'u', 256, NULL},
              {".rope.scaling.attn_factor", 'f', 1.19, NULL},
              {".attention.sliding_window", 'u', 48, NULL}}},
    {.name = "smollm3", .layers = 5, .tensors = plain},
    {.name = "granite",
     .tensors = plain,
     .keys = {{".embedding_scale", 'f', 12, NULL},
              {".residual_scale", 'f', 0.22, NULL},
              {".attention.scale", 'f', 0.3, NULL},
              {".logit_scale", 'f', 1.5, NULL}}},
    {.name = "olmo2", .untied = true, .tensors = post_normed},
    {.name = "olmo3",
     .arch = "olmo2",
     .layers = 5,
     .untied = true,
     .tensors = post_normed,
     .keys = {{".attention.sliding_window", 'u', 70, NULL},
              {".attention.sliding_window_pattern", 'p', 4, NULL},
              {".rope.scaling.type", 's', 0, "yarn"},
              {".rope.scaling.factor", 'f', 4, NULL},
              {".rope.scaling.original_context_length", 'u', 128, NULL}}},
    {.name = "gemma2",
     .ffn_share = 0.15f,
     .layers = 4,
     .head_dim = 24,
     .tensors = twice_normed,
     .keys = {{".attention.sliding_window", 'u', 70, NULL},
              {".attn_logit_softcapping", 'f', 3, NULL},
              {".final_logit_softcapping", 'f', 12, NULL}}},
    {.name = "gemma3",
     .ffn_share = 0.15f,
     .layers = 7,
     .head_dim = 24,
     .tensors = all_normed,
     .keys = {{".attention.sliding_window", 'u', 70, NULL},
              {".rope.scaling.type", 's', 0, "linear"},
              {".rope.scaling.factor", 'f', 8, NULL},
              {".rope.freq_base", 'f', 1000000, NULL}}},
    {.name = "pangu-embedded", .head_dim = 32, .tensors = pangu},
    {.name = "ernie4_5", .tensors = plain},
    {.name = "exaone", .untied = true, .tensors = plain},
    {.name = "gemma", .head_dim = 24, .tensors = plain, .down_share = 0.2f},
    {.name = "glm4", .tensors = glm4, .keys = {{".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "internlm2", .untied = true, .tensors = plain},
    {.name = "seed_oss", .head_dim = 32, .untied = true, .tensors = seed_oss},
    {.name = "bitnet", .tensors = sub_normed},
    {.name = "chatglm", .untied = true, .tensors = fused_biased, .keys = {{".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "qwen3vl",
     .head_dim = 32,
     .tensors = normed_heads,
     .keys = {{".rope.dimension_sections", 'i', 4, "6 5 5 0"}, {".n_deepstack_layers", 'u', 1, NULL}}},
    {.name = "exaone4", .untied = true, .tensors = post_normed_heads},
    {.name = "exaone4-window",
     .arch = "exaone4",
     .layers = 64, /* llama.cpp knows the 32B by it */
     .untied = true,
     .tensors = post_normed_heads,
     .keys = {{".attention.sliding_window", 'u', 70, NULL}, {".attention.sliding_window_pattern", 'p', 4, NULL}}},
    {.name = "hunyuan-dense", .head_dim = 32, .tensors = normed_heads},
    {.name = "minicpm",
     .tensors = plain,
     .keys = {{".embedding_scale", 'f', 12, NULL},
              {".residual_scale", 'f', 0.9, NULL},
              {".logit_scale", 'f', 1.5, NULL}}},
    {.name = "mistral3",
     .head_dim = 32,
     .untied = true,
     .tensors = plain,
     .keys = {{".rope.scaling.type", 's', 0, "yarn"},
              {".rope.scaling.factor", 'f', 4, NULL},
              {".rope.scaling.original_context_length", 'u', 48, NULL},
              {".rope.scaling.yarn_log_multiplier", 'f', 0.7, NULL},
              {".attention.temperature_scale", 'f', 0.3, NULL}}},
    {.name = NULL},
};
