/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The differences between architectures, as plain data: hparams.c reads a file's keys by it, weights-*.c find
 * tensors by it, and both forward passes compute by it. No other code depends on an architecture's name. The facts are
 * from the models' papers and cards, and from the files that llama.cpp's converter writes.
 */
#include <stdbool.h>
#include <stdint.h>

enum arch_need { ARCH_NEVER, ARCH_MAY, ARCH_MUST };

enum arch_qk_norm {
    QK_PLAIN,
    QK_NORM_HEADS,
    QK_NORM_WHOLE,
    QK_NORM_EACH,
    QK_NORM_UNIT
}; /* of q and k before rotation: none; per head, with the same weights or with its own (each); all heads. Unit: per
    * head, without weights, behind the rotation, and only in layers that rotate */
/* Of the gate, or of up where there is no gate; GELU in its tanh form, or with erf; clamped: kernels.h's
 * swiglu_clamped.
 */
enum arch_activation { ACT_SILU, ACT_GELU, ACT_GELU_ERF, ACT_CLAMPED, ACT_RELU, ACT_RELU_SQR, ACT_XIELU };

/* Attention and feed-forward read the same residual, and both are added to it: never; always; where the file has no
 * norm for the feed-forward; where the key use_parallel_residual is true. The feed-forward reads the normed input of
 * attention, but with that key it has a norm of its own. */
enum arch_parallel { PARALLEL_NEVER, PARALLEL_ALWAYS, PARALLEL_WITHOUT_NORM, PARALLEL_BY_KEY };

/* A layer's norms, and the way of its parts into the residual stream. */
struct arch_block {
    bool layer_norm;          /* norms are LayerNorm, else RMSNorm; those of q and k too */
    enum arch_need norm_bias; /* of the norms, but for those of q and k */
    bool qk_after_rope;       /* q and k are normed after their rotation */
    bool qk_may;              /* a file may be without these norms */
    bool sub_norms;           /* norms of the inputs of the products o and down */
    bool output_bias;         /* of the logits */
    bool text_only;           /* the encoder that the model needs for images is not supported */
    bool positions;           /* learned: position P's row of position_embd is added to a token's embedding; no RoPE */
    bool no_gate;             /* the feed-forward is down(activation(up)) */
    enum arch_parallel parallel;
    enum arch_need per_layer; /* each layer has an embedding of each token (hparams.per_layer) */
    bool out_scale;           /* a layer's output may have a factor */
    bool embd_may;            /* a file without token_embd.weight has the embeddings in output.weight */
    bool altup;               /* several residual streams (struct hparams_altup), and LAuReL beside attention */
};

/* Gates of the heads' outputs, which multiply them by their sigmoids: none; behind each head's query in attn_q; the
 * product attn_gate. */
enum arch_q_gate { Q_GATE_NONE, Q_GATE_BEHIND, Q_GATE_APART };

struct arch_attention {
    bool mla;         /* to compressed K and V (struct hparams_mla) */
    bool sink_scores; /* each head has a score that is part of its softmax, without a value */
    enum arch_q_gate q_gate;
    float temperature;          /* hparams_temperature.scale of layers that are not rotated, */
    uint32_t temperature_floor; /* and its floor, unless a key says another one */
    uint32_t plain_experts;     /* a model with so many experts has no QK_NORM_UNIT */
    bool unscaled;              /* q·k as it is */
    uint32_t wide_layers;       /* a model of so many layers scales q·k by 1/sqrt(width/heads), not by the head's */
    bool v_norm;                /* RMSNorm without weights of each head of V */
    bool shared_kv;             /* the last layers use the K and V of an earlier one (hparams.by_layer) */
    bool two_heads;             /* layers with a window, which are unscaled, have heads of another size and number */
    bool k_is_v;                /* a layer without attn_v has the product of its K as V, before K's norm */
};

/* M-RoPE: pairs of RoPE rotate by time, row or column of an item (struct item_place): none; the first ones by time,
 * then those by row; every third one. */
enum arch_sections { SECTIONS_NONE, SECTIONS_APART, SECTIONS_MIXED };

/* Keys of scales and caps. A file with a key that its architecture does not list is refused. */
enum arch_keys {
    KEY_EMBEDDING_SCALE = 1,
    KEY_RESIDUAL_SCALE = 2,
    KEY_ATTENTION_SCALE = 4,
    KEY_LOGIT_SCALE = 8,
    KEY_ATTENTION_CAP = 16,
    KEY_LOGIT_CAP = 32,
    KEY_LOGIT_FACTOR = 64,      /* logit_scale multiplies; with KEY_LOGIT_SCALE it divides */
    KEY_TEMPERATURE = 128,      /* attention.temperature_scale (struct hparams_temperature) */
    KEY_YARN_MULTIPLIER = 256,  /* rope.scaling.yarn_log_multiplier */
    KEY_SCALES_OF_MINICPM = 512 /* scales have other values without their keys (hparams.c) */
};

/* Experts that every token takes: none; one, times the sigmoid of a product with the token; as they are, as many as
 * keys say; or one as wide as the others. */
enum arch_shared { SHARED_NONE, SHARED_GATED, SHARED_PLAIN, SHARED_ONE };

/* Mixture of experts: a router and stacked experts replace the feed-forward. */
struct arch_experts {
    enum arch_need need;
    bool bias; /* of the router and of each expert */
    enum arch_shared shared;
    bool shared_each;           /* expert_shared_feed_forward_length is of each shared expert, not of all */
    bool sigmoid;               /* an expert's probability is the sigmoid of its score; else the softmax among all */
    bool of_all;                /* a share is that probability; else it is divided by the sum over the chosen ones */
    enum arch_need choice_bias; /* of the probabilities, for the choice only */
    bool fixed_scores;          /* a file whose key expert_gating_func contradicts @sigmoid is refused */
    bool fixed_shares;          /* and one whose key expert_weights_norm contradicts @of_all */
    bool scaled_input;          /* a share multiplies the expert's input, not its output; scores choose */
    bool early;                 /* the router reads the residual stream before attention, not normed */
    bool beside;                /* the ordinary feed-forward is beside them, each with norms of its own */
};

/* Layers behind the last that predict later tokens (multi-token prediction): the file has none; what such a layer reads
 * for the token after the next, in place of the model's state, is its own after its last norm; or before that norm; or
 * what it computes is not known, and it is left out. */
enum arch_mtp { MTP_NEVER, MTP_NORMED, MTP_PLAIN, MTP_UNUSED };

/* Layers whose memory of the tokens before is a state of fixed size (struct hparams_recurrent). */
enum recurrent_kind {
    RECURRENT_NONE,
    RECURRENT_CONV, /* LFM2: a short convolution between two gates */
    RECURRENT_MAMBA2,
    RECURRENT_DELTA,       /* Qwen3-Next: the gated delta rule; a key head is that of the next few value heads */
    RECURRENT_DELTA_TILED, /* Qwen 3.5: the same; value head h has key head h modulo their number */
};

/* Which layers are recurrent. */
enum recurrent_where {
    RECURRENT_WITHOUT_HEADS, /* those that have 0 in the key attention.head_count_kv; the others have attention */
    RECURRENT_BESIDE,        /* all, and all have attention of the same input beside it */
    RECURRENT_OR_FFN,        /* those that have 0 there and in feed_forward_length: each layer has one part */
    RECURRENT_ALONE,         /* all; there is neither attention nor a feed-forward */
    RECURRENT_BUT_EVERY_NTH, /* all but every n-th, of the key full_attention_interval (4), which has attention; or as
                              * in attention.recurrent_layers */
};

struct arch_recurrent {
    enum recurrent_kind kind;
    enum recurrent_where where;
    enum arch_need norm; /* MAMBA2: of the groups of its output */
};

/* Sliding windows: of @period layers all but one see only the last positions. */
struct arch_window {
    enum arch_need need; /* of the key attention.sliding_window; NEVER: the key is ignored */
    uint32_t size;       /* without that key; 0: no window then */
    uint32_t period;
    bool first;      /* of each period the first layer sees everything, not the last */
    float rope_base; /* of these layers, without a key; 0: that of the others */
    bool unscaled;   /* the RoPE scaling of the other layers, and the factors of a file, do not apply */
    bool chunks;     /* a token sees its chunk: windows begin at multiples of their size. The window is required */
    bool rope_only;  /* in a model with a window the other layers are not rotated */
    bool symmetric;  /* a window of W is the positions at most W/2 before and behind */
};

/* Models whose tokens of a text see each other, and which give vectors, not logits. */
struct arch_encoder {
    bool is;                  /* it is such a model */
    bool outer_norms;         /* norms are of the residual stream itself, behind attention and behind the feed-forward:
                               * x = norm(x + f(x)). Attention's may have a second one (struct layer_encoder) */
    enum arch_need embd_norm; /* of the embedded tokens */
    enum arch_need types;     /* a row of token_types for the type of each token is added to its embedding */
    bool first_plain;         /* the first layer may be without a norm before attention */
    bool ranks_mean;          /* scores are of the mean of a text's rows, and their dense layer has GELU, not tanh */
    float alibi; /* the steepest ALiBi slope is 2^-(alibi / heads), the flattest 2^-alibi; 0: RoPE or none */
};

struct arch_rope {
    bool neox; /* pairs (i, i + rot/2), else (2i, 2i+1) */
    enum arch_sections sections;
    enum arch_need tensors; /* factors of the frequencies */
    uint32_t none_every;    /* layers n-1, 2n-1, … are not rotated; 0: all are */
    bool may_be_off;        /* rope.scaling.finetuned false: no layer is rotated */
};

struct arch {
    const char *name;   /* general.architecture */
    const char *models; /* model families, for people */
    const char *marks;  /* its differences from Llama, for people */

    /* Tensors. */
    bool pre_norm, post_norm; /* a norm before attention and feed-forward; after them, before the residual is added */
    enum arch_qk_norm qk_norm;
    enum arch_need qkv_bias, o_bias, ffn_bias;
    bool fused;        /* ffn_up holds gate and up */
    enum arch_mtp mtp; /* the last nextn_predict_layers of block_count predict later tokens (hparams_mtp) */
    const char *ffn_norm, *output_norm; /* names of the norm before the feed-forward and of the last; NULL: these */

    struct arch_experts experts;
    struct arch_recurrent recurrent;
    struct arch_attention attention;

    /* Computation. */
    enum arch_activation activation;
    struct arch_rope rope;
    unsigned keys;                  /* enum arch_keys */
    bool embedding_sqrt;            /* token embeddings are multiplied by sqrt(width) */
    float attention_cap, logit_cap; /* without a key; 0: none */

    struct arch_block block;
    struct arch_window window;
    struct arch_encoder encoder;
    bool rank_softmax; /* scores of several labels are probabilities */
    bool whole_images; /* the items of an image see each other (struct batch_entry); else each sees those before it */
};

/* The @i-th supported architecture, by name; NULL past the last. */
const struct arch *arch_nth(uint32_t i);

/* By general.architecture, of @len bytes; NULL: not supported. */
const struct arch *arch_find(const char *name, uint64_t len);
