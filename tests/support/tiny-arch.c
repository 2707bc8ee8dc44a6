/* SPDX-License-Identifier: MIT */
#include "tests/support/tiny-arch.h"
#include <stddef.h>
#include <string.h>

#define Q_K_V                                                                                                          \
    {"attn_q.weight", 'd', 'q'}, {"attn_k.weight", 'd', 'v'}, {"attn_v.weight", 'd', 'v'},                             \
    {                                                                                                                  \
        "attn_output.weight", 'q', 'd'                                                                                 \
    }
#define GATE_UP_DOWN                                                                                                   \
    {"ffn_gate.weight", 'd', 'f'}, {"ffn_up.weight", 'd', 'f'},                                                        \
    {                                                                                                                  \
        "ffn_down.weight", 'f', 'd'                                                                                    \
    }

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

#define EXPERTS                                                                                                        \
    {"ffn_gate_inp.weight", 'd', 'n'}, {"ffn_gate_exps.weight", 'd', 'e', 'n'}, {"ffn_up_exps.weight", 'd', 'e', 'n'}, \
    {                                                                                                                  \
        "ffn_down_exps.weight", 'e', 'd', 'n'                                                                          \
    }

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
    return NULL;
}
