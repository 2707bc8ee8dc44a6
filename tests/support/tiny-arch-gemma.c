/* SPDX-License-Identifier: MIT */
/* Architectures with embeddings of each layer. */
#include "tests/support/tiny-arch-parts.h"
#include <stddef.h>

#define PER_LAYER                                                                                                      \
    {"inp_gate.weight", 'd', 'o'}, {"proj.weight", 'o', 'd'},                                                          \
    {                                                                                                                  \
        "post_norm.weight", 'd', 0                                                                                     \
    }
#define PER_LAYER_SHARED                                                                                               \
    {"per_layer_token_embd.weight", 'O', 'V'}, {"per_layer_model_proj.weight", 'd', 'O'},                              \
    {                                                                                                                  \
        "per_layer_proj_norm.weight", 'o', 0                                                                           \
    }

/* llama.cpp wants K and V in all layers, as its converter writes them. */
static const struct tiny_tensor gemma3n[] = {
    {"attn_norm.weight", 'd', 0},
    Q_K_V,
    {"attn_q_norm.weight", 'h', 0},
    {"attn_k_norm.weight", 'h', 0},
    {"post_attention_norm.weight", 'd', 0},
    {"ffn_norm.weight", 'd', 0},
    GATE_UP_DOWN,
    {"post_ffw_norm.weight", 'd', 0},
    PER_LAYER,
    {"altup_correct_coef.weight", 'a', 'a'},
    {"altup_correct_scale.weight", 'd', 0},
    {"altup_predict_coef.weight", 'a', 'A'},
    {"altup_router.weight", 'd', 'a'},
    {"altup_router_norm.weight", 'd', 0},
    {"laurel_l.weight", 'd', 'l'},
    {"laurel_r.weight", 'l', 'd'},
    {"laurel_post_norm.weight", 'd', 0},
    {NULL},
};

static const struct tiny_tensor gemma3n_shared[] = {
    {"altup_proj.weight", 'd', 'd', 'b'},
    {"altup_unembd_proj.weight", 'd', 'd', 'b'},
    PER_LAYER_SHARED,
    {NULL},
};

/* Layers of the kinds f and k see everything; k has no V; t and u have neither K nor V. */
#define GEMMA4                                                                                                         \
    {"attn_norm.weight", 'd', 0}, {"attn_q.weight", 'd', 'q'}, {"attn_k.weight", 'd', 'v', 0, 'Y'},                    \
        {"attn_v.weight", 'd', 'v', 0, 'y'}, {"attn_output.weight", 'q', 'd'}, {"attn_q_norm.weight", 'h', 0},         \
        {"attn_k_norm.weight", 'h', 0, 0, 'Y'}, {"post_attention_norm.weight", 'd', 0}, {"ffn_norm.weight", 'd', 0},   \
        GATE_UP_DOWN, {"post_ffw_norm.weight", 'd', 0},                                                                \
    {                                                                                                                  \
        "layer_output_scale.weight", '1', 0                                                                            \
    }
#define GEMMA4_KEYS                                                                                                    \
    {".attention.sliding_window", 'u', 70, NULL}, {".attention.key_length_swa", 'u', 16, NULL},                        \
        {".attention.value_length_swa", 'u', 16, NULL}, {".rope.dimension_count_swa", 'u', 16, NULL},                  \
        {".rope.freq_base", 'f', 1000000, NULL}, {".rope.freq_base_swa", 'f', 10000, NULL},                            \
    {                                                                                                                  \
        ".final_logit_softcapping", 'f', 30, NULL                                                                      \
    }

static const struct tiny_tensor gemma4[] = {GEMMA4, PER_LAYER, {NULL}};
static const struct tiny_tensor gemma4_shared[] = {PER_LAYER_SHARED, {NULL}};
static const struct tiny_tensor gemma4_dense[] = {GEMMA4, {NULL}};
static const struct tiny_tensor gemma4_experts[] = {
    GEMMA4,
    {"ffn_gate_inp.weight", 'd', 'n'},
    {"ffn_gate_inp.scale", 'd', 0},
    {"ffn_gate_up_exps.weight", 'd', 'S', 'n'},
    {"ffn_down_exps.weight", 'e', 'd', 'n'},
    {"ffn_down_exps.scale", 'n', 0},
    {"pre_ffw_norm_2.weight", 'd', 0},
    {"post_ffw_norm_1.weight", 'd', 0},
    {"post_ffw_norm_2.weight", 'd', 0},
    {NULL},
};

/* llama.cpp has some sizes without keys: layers from the 21st on use the KV of the 19th and 20th; embeddings of 256,
 * 4 streams, rank 64, sparse gates in 10 layers. */
const struct tiny_arch tiny_arch_gemma[] = {
    {.name = "gemma3n",
     .layers = 25,
     .head_dim = 24,
     .ffn_share = 0.05f,
     .q_share = 0.2f,
     .per_layer = 256,
     .altup = 4,
     .laurel = 64,
     .tensors = gemma3n,
     .shared = gemma3n_shared,
     .keys = {{".feed_forward_length", 'i', 25,
               "96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96 96"},
              {".embedding_length_per_layer_input", 'u', 256, NULL},
              {".altup.num_inputs", 'u', 4, NULL},
              {".altup.active_idx", 'u', 0, NULL},
              {".activation_sparsity_scale", 'c', 1.6448533535003662, "10"},
              {".attention.shared_kv_layers", 'f', 5, NULL},
              {".attention.sliding_window", 'u', 70, NULL},
              {".attention.sliding_window_pattern", 'p', 5, NULL},
              {".rope.freq_base", 'f', 1000000, NULL}}},
    {.name = "gemma4", /* as E2B */
     .layers = 9,
     .head_dim = 32,
     .ffn_share = 0.05f,
     .q_share = 0.2f,
     .window_head = 16,
     .window_kv = 2,
     .window_ffn = 128,
     .per_layer = 32,
     .kinds = "wwfwfttut",
     .tensors = gemma4,
     .shared = gemma4_shared,
     .keys = {GEMMA4_KEYS,
              {".feed_forward_length", 'i', 9, "96 96 96 96 96 128 128 128 128"},
              {".embedding_length_per_layer_input", 'u', 32, NULL},
              {".attention.shared_kv_layers", 'u', 4, NULL},
              {".attention.sliding_window_pattern", 'w', 0, NULL}}},
    {.name = "gemma4-dense", /* as 31B */
     .arch = "gemma4",
     .layers = 7,
     .head_dim = 32,
     .kv_heads = 1,
     .ffn_share = 0.05f,
     .q_share = 0.2f,
     .window_head = 16,
     .window_kv = 4,
     .kinds = "wwwwwkk",
     .tensors = gemma4_dense,
     .keys = {GEMMA4_KEYS,
              {".attention.head_count_kv", 'i', 7, "4 4 4 4 4 1 1"},
              {".embedding_length_per_layer_input", 'u', 0, NULL},
              {".attention.shared_kv_layers", 'u', 0, NULL},
              {".attention.sliding_window_pattern", 'w', 0, NULL}}},
    {.name = "gemma4-experts", /* as 26B-A4B */
     .arch = "gemma4",
     .layers = 4,
     .head_dim = 32,
     .kv_heads = 2,
     .ffn_share = 0.05f,
     .q_share = 0.2f,
     .window_head = 16,
     .window_kv = 4,
     .kinds = "wkwk",
     .tensors = gemma4_experts,
     .experts = 8,
     .experts_used = 3,
     .expert_ffn = 32,
     .keys = {GEMMA4_KEYS,
              {".attention.head_count_kv", 'i', 4, "4 2 4 2"},
              {".embedding_length_per_layer_input", 'u', 0, NULL},
              {".attention.shared_kv_layers", 'u', 0, NULL},
              {".attention.sliding_window_pattern", 'w', 0, NULL}}},
    {NULL},
};
