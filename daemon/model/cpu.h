/* SPDX-License-Identifier: MIT */
#pragma once
/* Inside the CPU backend: what it holds, and the pieces of one forward pass. */
#include "daemon/model/backend.h"
#include "daemon/model/kv_memory.h"
#include "daemon/model/pool.h"
#include "daemon/model/weights.h"

/* One token of the batch being computed. */
struct token {
    const struct batch_entry *entry;
    uint32_t pos;
    uint32_t tile; /* of the attention wave it is in */
};

/* Does it see its sinks apart from its window? (lay_out has checked that the sum is no more than ctx.) */
static inline bool token_slides(const struct token *t)
{
    return t->entry->window && t->pos >= t->entry->sinks + t->entry->window;
}

/* enum batch_want */
static inline uint8_t token_wants(const struct token *t)
{
    return t->entry->want ? t->entry->want[t->pos - t->entry->pos] : WANT_NOTHING;
}

/* Attention is cut into tiles of a few consecutive tokens of one entry, which slide all or none, and those into items:
 * one KV head, one part, which is what is seen of a segment of 512 positions: first of the sinks, if they slide, then
 * of all else; where heads have sink scores, these are one more part, the last. Partial results of a tile: [kv
 * head][part][token][query head of the KV head]. */
struct attn_tile {
    uint32_t token, n;     /* batch index of the first token, and how many */
    uint32_t parts, sinks; /* how many; how many of them are sinks */
    uint32_t segment;      /* that the first of the others is of; each is of the next */
    uint32_t row;          /* first of its rows in scratch.attn.m, .l and .o */
};

struct attn_item {
    uint32_t tile, head, part;
};

/* Consecutive rows of a product's input that are multiplied with the same one of its stacked matrices. */
struct group {
    uint32_t at;       /* which of the matrices */
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
    int8_t *aq;              /* [tokens][widest] quantized input of the next product */
    float *ad;               /* [tokens][widest/32] its scales */
    int16_t *as;             /* [tokens][widest/16] its sums */
    struct expert_scratch moe;
    struct attn_scratch attn;
};

struct cpu {
    struct backend base;
    struct pool *pool;
    struct weights weights;
    struct kv_memory kv;
    struct scratch scratch;
    double *freqs[2]; /* [rope_dim/2] radians per position, of each of shape_ropes */
};

/* One forward. */
struct pass {
    struct cpu *c;
    uint32_t n; /* tokens of the batch */
    uint32_t layer;
    bool pending;      /* h is still to be added to x, after */
    const float *bias; /* [dim], or NULL, was added to it, and */
    const float *post; /* [dim] it was normed with these weights, or NULL */
    bool quantize;     /* the next product wants quantized input */
    const float *norm; /* [dim] weights of the norm being applied, or NULL: none is */
    float *logits;     /* [n][vocab] */
    struct layer *w;   /* NULL after the last */
};

int cpu_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden);

/* As in struct backend_ops. */
int cpu_kv_identity(const struct backend *b, uint8_t out[16]);

/* Weights with one input: out = W in, for each. */
struct product {
    const struct matrix *m;
    float *out; /* [tokens][m->rows] */
};

/* All of @set for @rows tokens of width m->k; the quantized form of @in is in the scratch where one needs it. */
void cpu_products(struct pass *p, const struct product *set, uint32_t n, const float *in, size_t rows);

/* The same with stacked matrices, the rows of @in in @n_groups groups. */
void cpu_group_products(struct pass *p, const struct product *set, uint32_t n, const float *in,
                        const struct group *groups, uint32_t n_groups);

/* A mixture's feed-forward: scratch.h, normed -> scratch.h. The router's input is quantized if it wants that. */
void cpu_experts(struct pass *p);

/* gate[n] = the architecture's activation of @gate, times @up. */
void cpu_activate(const struct pass *p, float *gate, const float *up, size_t n);

/* @fn over [0, n) tokens, or rows like them. */
void cpu_each(struct pass *p, pool_fn fn, uint32_t n);

/* Does one of them want quantized input? */
bool cpu_quantized(const struct product *set, uint32_t n);

/* Flatten the entries into scratch.tokens; -EINVAL or -EOPNOTSUPP with a sentence for what must not be asked for. */
int cpu_lay_out(struct pass *p, const struct batch_entry *e, size_t n, const float *logits, const float *hidden);

/* scratch.q, the KV of @p's layer -> scratch.att, quantized too when p->quantize. */
void cpu_attention(struct pass *p);

/* pool_run, whose time is counted as @part's. */
void cpu_run(const struct pass *p, enum timing_part part, pool_fn fn, void *ctx, uint32_t n, uint32_t grain);

/* Quantize x[k] as the input row @row of the next product, if that wants it. */
void cpu_quantize_row(const struct pass *p, const float *x, size_t k, size_t row);

/* Sizes of everything in struct scratch; 0 or -ENOMEM with a sentence. */
int scratch_init(struct scratch *s, const struct shape *shape, uint32_t tokens, uint32_t ctx, uint32_t threads);
void scratch_fini(struct scratch *s);
