/* SPDX-License-Identifier: MIT */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>
#include <string.h>

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

static const struct tiny_tensor mixture[] = {
    {"attn_norm.weight", 'd', 0}, Q_K_V, {"ffn_norm.weight", 'd', 0}, EXPERTS, {NULL},
};

/* As files had them at first: no stacks. */
#define EXPERT(i)                                                                                                      \
    {"ffn_gate." #i ".weight", 'd', 'e'}, {"ffn_down." #i ".weight", 'e', 'd'},                                        \
    {                                                                                                                  \
        "ffn_up." #i ".weight", 'd', 'e'                                                                               \
    }

static const struct tiny_tensor mixture_apart[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    {"ffn_gate_inp.weight", 'd', 'n'},
    EXPERT(0),
    EXPERT(1),
    EXPERT(2),
    {NULL},
};

static const struct tiny_tensor normed_mixture[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"ffn_norm.weight", 'd', 0},
    EXPERTS,
    {NULL},
};

static const struct tiny_tensor shared_mixture[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"ffn_norm.weight", 'd', 0},
    EXPERTS,
    {"ffn_gate_inp_shexp.weight", 'd', 0},
    {"ffn_gate_shexp.weight", 'd', 's'},
    {"ffn_up_shexp.weight", 'd', 's'},
    {"ffn_down_shexp.weight", 's', 'd'},
    {NULL},
};

static const struct tiny_tensor biased_mixture[] = {
    {"attn_norm.weight", 'd', 0},
    {"attn_q.bias", 'q', 0},
    {"attn_k.bias", 'v', 0},
    {"attn_v.bias", 'v', 0},
    Q_K_V,
    {"attn_output.bias", 'd', 0},
    {"attn_sinks.weight", 'H', 0},
    {"post_attention_norm.weight", 'd', 0},
    EXPERTS,
    {"ffn_gate_inp.bias", 'n', 0},
    {"ffn_gate_exps.bias", 'e', 'n'},
    {"ffn_up_exps.bias", 'e', 'n'},
    {"ffn_down_exps.bias", 'd', 'n'},
    {NULL},
};

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

static const struct tiny_tensor post_normed_heads[] = {
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"post_attention_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"post_ffw_norm.weight", 'd', 0},
    {NULL},
};

#define FUSED_QKV                                                                                                      \
    {"attn_qkv.weight", 'd', 'Q'},                                                                                     \
    {                                                                                                                  \
        "attn_output.weight", 'q', 'd'                                                                                 \
    }
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

static const struct tiny_arch table[] = {
    {.name = "llama", .tensors = plain},
    {.name = "mixtral", .arch = "llama", .untied = true, .tensors = mixture, .experts = 8, .experts_used = 2},
    {.name = "mixtral-apart",
     .arch = "llama",
     .untied = true,
     .tensors = mixture_apart,
     .experts = 3,
     .experts_used = 2},
    {.name = "qwen2moe",
     .untied = true,
     .tensors = shared_mixture,
     .experts = 12,
     .experts_used = 4,
     .expert_ffn = 32,
     .shared_ffn = 128},
    {.name = "qwen3moe",
     .head_dim = 32,
     .untied = true,
     .tensors = normed_mixture,
     .experts = 16,
     .experts_used = 5,
     .expert_ffn = 32},
    {.name = "gpt-oss",
     .layers = 4,
     .head_dim = 32,
     .untied = true,
     .tensors = biased_mixture,
     .experts = 8,
     .experts_used = 3,
     .expert_ffn = 64,
     .keys = {{".attention.sliding_window", 'u', 70, NULL},
              {".rope.freq_base", 'f', 150000, NULL},
              {".rope.scaling.type", 's', 0, "yarn"},
              {".rope.scaling.factor", 'f', 4, NULL},
              {".rope.scaling.original_context_length", 'u', 128, NULL}}},
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
    {.name = "falcon-h1", .layers = 3, .tensors = mamba_beside, .kinds = "rrr", .mamba_groups = 1, MAMBA_SIZES},
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
    {.name = "ernie4_5", .tensors = plain},
    {.name = "exaone", .untied = true, .tensors = plain},
    {.name = "gemma", .head_dim = 24, .tensors = plain, .down_share = 0.2f},
    {.name = "glm4", .tensors = glm4, .keys = {{".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "internlm2", .untied = true, .tensors = plain},
    {.name = "seed_oss", .head_dim = 32, .untied = true, .tensors = seed_oss},
    {.name = "apertus",
     .untied = true,
     .tensors = without_gate_normed_heads,
     .keys = {{"xielu.alpha_n", 'a', 0.3, NULL},
              {"xielu.alpha_p", 'a', 0.8, NULL},
              {"xielu.beta", 'a', 0.5, NULL},
              {"xielu.eps", 'a', -1e-6, NULL}}},
    {.name = "bitnet", .tensors = sub_normed},
    {.name = "chatglm", .untied = true, .tensors = fused_biased, .keys = {{".rope.dimension_count", 'u', 8, NULL}}},
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
    {.name = "phi2",
     .untied = true,
     .tensors = phi2,
     .output_bias = true,
     .down_share = 0.2f,
     .keys = {LAYER_NORM, {".rope.dimension_count", 'u', 8, NULL}}},
    {.name = "qwen3vl",
     .head_dim = 32,
     .tensors = normed_heads,
     .keys = {{".rope.dimension_sections", 'i', 4, "6 5 5 0"}, {".n_deepstack_layers", 'u', 1, NULL}}},
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
};

const struct tiny_arch *tiny_arch_find(const char *name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (!strcmp(name, table[i].name)) return &table[i];
    for (const struct tiny_arch *a = tiny_arch_delta; a->name; a++)
        if (!strcmp(name, a->name)) return a;
    for (const struct tiny_arch *a = tiny_arch_experts; a->name; a++)
        if (!strcmp(name, a->name)) return a;
    return NULL;
}
