/* SPDX-License-Identifier: MIT */
#include "daemon/model/arch.h"
#include <stddef.h>
#include <string.h>

static const struct arch table[] = {
    {
        .name = "ernie4_5",
        .models = "ERNIE 4.5 (dense)",
        .marks = "biases where the file has them",
        .pre_norm = true,
        .qkv_bias = ARCH_MAY,
        .o_bias = ARCH_MAY,
    },
    {
        .name = "exaone",
        .models = "EXAONE 3, 3.5 and Deep",
        .marks = "Llama 3's RoPE scaling, pairs of halves",
        .pre_norm = true,
        .rope_tensors = true,
        .neox = true,
    },
    {
        .name = "gemma",
        .models = "Gemma 1, CodeGemma",
        .marks = "GeGLU",
        .pre_norm = true,
        .activation = ACT_GELU,
        .neox = true,
        .embedding_sqrt = true,
    },
    {
        .name = "gemma2",
        .models = "Gemma 2",
        .marks = "GeGLU, norms before and after attention and FFN, soft-capped scores and logits, sliding window in "
                 "every other layer",
        .pre_norm = true,
        .post_norm = true,
        .activation = ACT_GELU,
        .neox = true,
        .keys = KEY_ATTENTION_CAP | KEY_LOGIT_CAP,
        .embedding_sqrt = true,
        .attention_cap = 50,
        .logit_cap = 30,
        .wide_layers = 46, /* the 27B */
        .window = {.need = ARCH_MAY, .size = 4096, .period = 2},
    },
    {
        .name = "gemma3",
        .models = "Gemma 3 (text)",
        .marks = "GeGLU, norms before and after attention and FFN, norm of q and k, sliding window and another RoPE "
                 "base in 5 of 6 layers",
        .pre_norm = true,
        .post_norm = true,
        .qk_norm = QK_NORM_HEADS,
        .activation = ACT_GELU,
        .neox = true,
        .keys = KEY_LOGIT_CAP,
        .embedding_sqrt = true,
        .wide_layers = 62, /* the 27B */
        .window = {.need = ARCH_MAY, .period = 6, .rope_base = 10000, .unscaled = true},
        .whole_images = true,
    },
    {
        .name = "glm4",
        .models = "GLM-4-0414, GLM-Z1 (dense)",
        .marks = "norms before and after attention and FFN, fused gate/up, partial rotary embedding",
        .pre_norm = true,
        .post_norm = true,
        .qkv_bias = ARCH_MAY,
        .fused = true,
    },
    {
        .name = "gpt-oss",
        .models = "gpt-oss",
        .marks = "experts with biases and clamped SwiGLU, attention sinks, sliding window in every other layer",
        .pre_norm = true,
        .qkv_bias = ARCH_MUST,
        .o_bias = ARCH_MUST,
        .ffn_norm = "post_attention_norm",
        .experts = {.need = ARCH_MUST, .bias = true},
        .sink_scores = true,
        .activation = ACT_CLAMPED,
        .neox = true,
        .window = {.need = ARCH_MUST, .period = 2},
    },
    {
        .name = "granite",
        .models = "Granite 3 (dense)",
        .marks = "embedding, residual, attention and logit scales",
        .pre_norm = true,
        .qkv_bias = ARCH_MAY,
        .o_bias = ARCH_MAY,
        .ffn_bias = ARCH_MAY,
        .rope_tensors = true,
        .rope_switch = true,
        .keys = KEY_EMBEDDING_SCALE | KEY_RESIDUAL_SCALE | KEY_ATTENTION_SCALE | KEY_LOGIT_SCALE,
    },
    {
        .name = "internlm2",
        .models = "InternLM 2, 2.5 and 3",
        .marks = "biases where the file has them",
        .pre_norm = true,
        .qkv_bias = ARCH_MAY,
        .o_bias = ARCH_MAY,
    },
    {
        .name = "lfm2",
        .models = "LFM2, LFM2.5 (dense)",
        .marks = "short convolutions instead of attention in most layers, norm of q and k per head",
        .pre_norm = true,
        .qk_norm = QK_NORM_HEADS,
        .output_norm = "token_embd_norm",
        .recurrent = {.kind = RECURRENT_CONV},
        .neox = true,
    },
    {
        .name = "llama",
        .models = "Llama 1 to 3, Mistral, Mixtral, Falcon 3, TinyLlama, SmolLM 1 and 2, …",
        .marks = "Llama 3's RoPE scaling, experts (Mixtral)",
        .experts = {.need = ARCH_MAY},
        .pre_norm = true,
        .qkv_bias = ARCH_MAY,
        .o_bias = ARCH_MAY,
        .ffn_bias = ARCH_MAY,
        .rope_tensors = true,
    },
    {
        .name = "olmo2",
        .models = "OLMo 2, OLMo 3",
        .marks =
            "norms only after attention and FFN, norm over all of q and of k, sliding window in 3 of 4 layers (OLMo 3)",
        .post_norm = true,
        .qk_norm = QK_NORM_WHOLE,
        .neox = true,
        .window = {.need = ARCH_MAY, .period = 4, .unscaled = true},
    },
    {
        /* llama.cpp computes without the window that these files name; so do we. */
        .name = "phi3",
        .models = "Phi-3, Phi-3.5, Phi-4 (dense)",
        .marks = "LongRoPE, fused QKV and gate/up, partial rotary embedding",
        .pre_norm = true,
        .fused = true,
        .rope_tensors = true,
        .neox = true,
    },
    {
        .name = "qwen2",
        .models = "Qwen 1.5, 2 and 2.5 (dense)",
        .marks = "biases of q, k and v",
        .pre_norm = true,
        .qkv_bias = ARCH_MUST,
        .neox = true,
    },
    {
        .name = "qwen2moe",
        .models = "Qwen 1.5 and 2 (experts)",
        .marks = "biases of q, k and v; experts and a shared expert",
        .pre_norm = true,
        .qkv_bias = ARCH_MUST,
        .experts = {.need = ARCH_MUST, .shared = SHARED_GATED, .of_all = true},
        .neox = true,
    },
    {
        .name = "qwen2vl",
        .models = "Qwen2-VL, Qwen2.5-VL",
        .marks = "biases of q, k and v; M-RoPE",
        .pre_norm = true,
        .qkv_bias = ARCH_MUST,
        .neox = true,
        .sections = true,
    },
    {
        .name = "qwen3",
        .models = "Qwen 3 (dense)",
        .marks = "norm of q and k per head",
        .pre_norm = true,
        .qk_norm = QK_NORM_HEADS,
        .neox = true,
    },
    {
        .name = "qwen3moe",
        .models = "Qwen 3 (experts)",
        .marks = "norm of q and k per head; experts",
        .pre_norm = true,
        .qk_norm = QK_NORM_HEADS,
        .experts = {.need = ARCH_MUST},
        .neox = true,
    },
    {
        .name = "seed_oss",
        .models = "Seed-OSS",
        .marks = "biases of q, k and v",
        .pre_norm = true,
        .qkv_bias = ARCH_MAY,
        .ffn_norm = "post_attention_norm",
        .neox = true,
    },
    {
        .name = "smollm3",
        .models = "SmolLM3",
        .marks = "every fourth layer without RoPE",
        .pre_norm = true,
        .qkv_bias = ARCH_MAY,
        .no_rope_every = 4,
    },
};

const struct arch *arch_nth(uint32_t i)
{
    return i < sizeof(table) / sizeof(*table) ? &table[i] : NULL;
}

const struct arch *arch_find(const char *name, uint64_t len)
{
    const struct arch *a;
    for (uint32_t i = 0; (a = arch_nth(i)); i++)
        if (len == strlen(a->name) && !memcmp(name, a->name, len)) return a;
    return NULL;
}
