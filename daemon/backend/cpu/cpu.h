/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the CPU backend: its state, and the parts of a forward pass. Its type is backend_cpu (backends.h). */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/backend/cpu/kv-memory.h"
#include "daemon/backend/cpu/weights.h"
#include "daemon/model/backend.h"

/* One token of the batch being computed. */
struct token {
    const struct batch_entry *entry;
    uint32_t pos;
    uint32_t tile; /* of the attention wave it is in */
};

/* The token sees its sinks and its window as separate ranges. (cpu_lay_out has checked that the sum is <= ctx.) */
static inline bool token_slides(const struct token *t)
{
    return t->entry->window && t->pos >= t->entry->sinks + t->entry->window;
}

/* enum batch_want */
static inline uint8_t token_wants(const struct token *t)
{
    return t->entry->want ? t->entry->want[t->pos - t->entry->pos] : WANT_NOTHING;
}

/* Attention is cut into tiles of a few consecutive tokens of one entry; token_slides is the same for all of them. A
 * tile is cut into items of one KV head and one part. A part is the visible positions of a segment of 512: first those
 * of the sinks, if the tokens slide, then the others. Where heads have sink scores, these are one more part, the last.
 * Partial results of a tile: [kv head][part][token][query head of the KV head]. */
struct attn_tile {
    uint32_t token, n;     /* batch index of the first token, and how many */
    uint32_t parts, sinks; /* number of parts; the first of them are the sinks' */
    uint32_t segment;      /* of the first of the other parts; each part has the next segment */
    uint32_t row;          /* first of its rows in scratch.attn.m, .l and .o */
};

struct attn_item {
    uint32_t tile, head, part;
};

/* Consecutive rows of a product's input that are multiplied by the same stacked matrix. */
struct group {
    uint32_t at;       /* number of the matrix */
    uint32_t first, n; /* rows */
};

/* Buffers of a mixture of experts. rows = tokens x experts_used. */
struct expert_scratch {
    float *route;         /* [tokens][experts] the router's scores */
    float *shared;        /* [tokens] the router's score of the shared expert */
    uint32_t *chosen;     /* [tokens][experts_used] expert numbers */
    float *share;         /* [tokens][experts_used] weights of their outputs */
    uint32_t *row;        /* [tokens][experts_used] row of the token among those sorted by expert */
    uint32_t *source;     /* [rows] the reverse: token x experts_used + index of the choice */
    struct group *groups; /* [experts] the chosen experts and their rows */
    struct group *of;     /* [experts] the rows of each expert */
    float *mix;           /* [rows][dim] the experts' inputs, then their outputs */
};

/* Buffers of one wave of attention. */
struct attn_scratch {
    uint32_t tile_tokens;    /* most tokens of a tile */
    uint32_t rows;           /* of m, l and o: query heads x parts of one wave */
    float *m, *l;            /* [rows] */
    float *o;                /* [rows][head_dim] */
    struct attn_tile *tiles; /* [batch_tokens] */
    struct attn_item *items; /* [rows] */
    const float **query;     /* [threads][tile rows] */
    uint32_t *begin, *end;   /* [threads][tile rows] */
};

/* Buffers of one batch of up to batch_tokens, in one mapping. */
struct scratch {
    void *mem;
    size_t size;
    struct token *tokens;
    float *x;                /* [tokens][dim] residual stream */
    float *h;                /* [tokens][dim] normed input of a block, then its output */
    float *q, *k, *v;        /* [tokens][heads or kv_heads][head_dim] */
    float *att;              /* [tokens][heads][head_dim] */
    float *gate, *up;        /* [tokens][ffn], or [tokens][shared_ffn] and [rows][expert_ffn]; rows as in moe */
    float *cs[2];            /* [tokens][rope_dim] cosines, then sines; [1]: of the second RoPE, if there is one */
    float *sink_q, *sink_cs; /* q and cs for the sinks, of tokens that slide */
    int8_t *aq;              /* tokens x widest: the quantized input of the next product, as in kern_acts, */
    float *ad;               /* its scales, */
    int16_t *as;             /* its sums */
    struct expert_scratch moe;
    struct attn_scratch attn;
};

struct cpu {
    struct backend base;
    const struct kernels *kern;
    struct compute_pool *pool;
    struct weights weights;
    struct kv_memory kv[KV_GROUPS_MAX];
    struct scratch scratch;
    double *freqs[2]; /* [rope_dim/2] radians per position, for each of hparams_ropes */
};

/* One forward. */
struct pass {
    struct cpu *c;
    uint32_t n; /* tokens of the batch */
    uint32_t layer;
    uint32_t group, group_layer; /* the layer's KV group, and its number there */
    bool pending;                /* join() must add h to x, with */
    const float *bias;           /* [dim] this bias, or NULL, and */
    const float *post;           /* [dim] these weights of a post-norm, or NULL */
    bool quantize;               /* the next product needs quantized input */
    const float *norm;           /* [dim] weights of the current norm; NULL: none */
    float *logits;               /* [n][vocab] */
    struct layer *w;             /* NULL after the last */
};

int cpu_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden);

/* As in struct backend_ops. */
int cpu_kv_identity(const struct backend *b, uint8_t out[16]);

/* One of several products of the same input: out = W in. */
struct product {
    const struct matrix *m;
    float *out; /* [tokens][m->rows] */
};

/* Compute the @n products of @set for @rows tokens: @in [rows][m->k]. If one needs quantized input, the scratch has it.
 */
void cpu_products(struct pass *p, const struct product *set, uint32_t n, const float *in, size_t rows);

/* The same with stacked matrices, the rows of @in in @n_groups groups. */
void cpu_group_products(struct pass *p, const struct product *set, uint32_t n, const float *in,
                        const struct group *groups, uint32_t n_groups);

/* The feed-forward of a mixture of experts: normed scratch.h -> scratch.h. The router's input is quantized if needed.
 */
void cpu_experts(struct pass *p);

/* gate[n] = the architecture's activation of @gate, times @up. */
void cpu_activate(const struct pass *p, float *gate, const float *up, size_t n);

/* @fn over [0, n) tokens, or rows like them. */
void cpu_each(struct pass *p, compute_fn fn, uint32_t n);

/* At least one of the @n products needs quantized input. */
bool cpu_quantized(const struct product *set, uint32_t n);

/* Check the entries and write their tokens to scratch.tokens and p->n. 0; -EINVAL or -EOPNOTSUPP, and the error
 * message. */
int cpu_lay_out(struct pass *p, const struct batch_entry *e, size_t n, const float *logits, const float *hidden);

/* Attention: scratch.q and the KV of @p's layer -> scratch.att, which is also quantized if p->quantize. */
void cpu_attention(struct pass *p);

/* compute_pool_run; its time is added to @part. */
void cpu_run(const struct pass *p, enum timing_part part, compute_fn fn, void *ctx, uint32_t n, uint32_t grain);

/* Quantize x[k] as input row @row of the next product, which has p->n rows, if p->quantize. */
void cpu_quantize_row(const struct pass *p, const float *x, size_t k, size_t row);
/* The same for a product of rows in groups: @row is one of @g. */
void cpu_quantize_grouped(const struct pass *p, const float *x, size_t k, const struct group *g, size_t row);

/* Allocate all buffers of struct scratch. 0, or -ENOMEM and the error message; scratch_fini is allowed in both cases.
 */
int scratch_init(struct scratch *s, const struct hparams *hparams, uint32_t tokens, uint32_t ctx, uint32_t threads);
void scratch_fini(struct scratch *s);
