/* SPDX-License-Identifier: MIT */
#pragma once
/* What the files of each architecture have, as llama.cpp's converter writes them: tensors and keys, with values that
 * matter in a tiny model (windows shorter than its context, caps that its scores reach, scales that are not 1). */
#include <stdbool.h>
#include <stdint.h>

/* A tensor of every layer. Sizes: d dim, f ffn, q all heads, v all KV heads, h one head, Q q and twice v (fused), F
 * twice f (fused), H the number of heads, n of experts, e an expert's ffn, s the shared one's, S twice e; of latent
 * attention i q_rank, j kv_rank, J that and rope, p nope, y value, x all of q, z all values, w all of both; c the taps
 * of a convolution, B three times d, D twice d, X twice q (with gates); of Mamba-2 I the inner width, C its channels, P
 * its whole input, G a group of it, g its groups, m its heads; of the delta rule x all its inputs, y its values, z the
 * number of value heads, Z twice that, w values of a head; of the layers' embeddings o values of a layer, O of all
 * layers; a the streams of AltUp, A their square, b all but one, l LAuReL's rank; V the vocabulary; 1, 2, 3 that
 * number; rows 0: a vector; stack 0: one matrix. Biases, routers and convolutions are F32. */
struct tiny_tensor {
    const char *name; /* after "blk.N." */
    char k, rows, stack;
    char only; /* letters of tiny_arch.kinds that have it; 0: all */
};

/* A key, with the architecture's name before it where it begins with a dot. */
struct tiny_key {
    const char *name;
    char kind; /* u: u32, f: f32, s: text, b: bool, a: array of f32, one a layer, that grows, i: array of i32, in text,
                  p: array of bool, one a layer, by the period in number; c: array of f32, the number in the first
                  layers, as many as text says, -infinity in the others; w: array of bool, one a layer, of the kinds; t:
                  array of the text, the number times */
    double number;
    const char *text;
};

struct tiny_arch {
    const char *name;                                       /* of the variant: what mktiny --arch takes */
    const char *arch;                                       /* general.architecture; NULL: the name */
    uint32_t layers;                                        /* 0: as told */
    uint32_t head_dim;                                      /* 0: as told */
    uint32_t kv_heads;                                      /* 0: as told */
    bool untied;                                            /* the file must have an output.weight */
    bool output_only;                                       /* in place of token_embd.weight */
    uint32_t experts, experts_used, expert_ffn, shared_ffn; /* expert_ffn 0: ffn; as keys where not 0 */
    struct {
        uint32_t q_rank, kv_rank, nope, rope, value; /* of latent attention */
    } mla;
    const struct tiny_tensor *tensors;
    struct tiny_key keys[24]; /* the last one is empty */
    const char *kinds; /* a letter for each layer: a attention, r recurrent, f a feed-forward; d without experts, e with
                          experts, n not computed; w with a window, t that and no K and V of its own, k without V,
                          u that and no K; NULL: all alike */
    uint32_t taps;     /* of a convolution */
    uint32_t inner, state, mamba_heads, mamba_groups; /* of Mamba-2; as keys where not 0 */
    bool alone;                                       /* keys of attention and feed-forward are 0 */
    const char *output_norm;                          /* NULL: output_norm */
    bool long_rope;                                   /* tensors of factors */
    bool positions;                                   /* learned ones */
    bool output_bias;                                 /* the logits have a bias */
    bool outer;                                       /* there is no last norm */
    float down_share;                                 /* as ffn_share, of ffn_down's weights */
    float q_share;                                    /* as ffn_share, of attn_q_norm's: q·k is not scaled */
    float ffn_share; /* size of post_ffw_norm's weights; 0: 1. llama.cpp looks GELU up in a table of f16, half a
                      * thousandth off: small enough, what is added of it leaves logits within a thousandth of ours */
    uint32_t window_head, window_kv,
        window_ffn;                    /* of layers of the kinds t and w: their sizes, in place of the others */
    uint32_t per_layer, altup, laurel; /* values of a layer's embedding, streams, rank */
    const struct tiny_tensor *shared;  /* tensors by their whole names, after the layers */
    uint32_t delta_dim, key_heads, value_heads; /* of the delta rule: values of a head, and heads */
};

/* NULL: not one of them; its files are written as llama's. */
const struct tiny_arch *tiny_arch_find(const char *name);
