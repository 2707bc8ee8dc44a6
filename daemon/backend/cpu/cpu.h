/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the CPU backend: its state, and the parts of a forward pass. Its type is backend_cpu (backends.h). */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/backend/cpu/kv-memory.h"
#include "daemon/backend/cpu/lora.h"
#include "daemon/backend/cpu/weights.h"
#include "daemon/model/backend.h"

/* One token of the batch being computed. */
struct token {
    const struct batch_entry *entry;
    uint32_t pos;
    uint32_t block; /* of a text that is computed whole: the first of its blocks in cpu.kv[0] */
    bool alone;     /* no other token of the batch sees its K and V: attention stores them (cpu_place_heads) */
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

/* Attention is cut into tiles of a few consecutive tokens: of one entry, with the same token_slides, or of several
 * entries whose sequences begin with the same blocks and see them all. A tile is cut into items of one KV head and one
 * part. A part is the visible positions of a segment of 512: first those of the sinks, if the tokens slide, then the
 * others. Where heads have sink scores, these are one more part, the last. Partial results of a tile: [kv
 * head][part][token][query head of the KV head]. */
struct attn_tile {
    uint32_t token, n;     /* batch index of the first token, and how many */
    uint32_t parts, sinks; /* number of parts; the first of them are the sinks' */
    uint32_t segment;      /* of the first of the other parts; each part has the next segment */
    uint32_t row;          /* first of its rows in scratch.attn.m, .l and .o */
    uint32_t shared;       /* the first positions, in blocks of all its sequences; 0: it has one entry */
};

struct attn_item {
    uint32_t tile, head, part;
};

/* Consecutive rows of a product's input that are multiplied by the same stacked matrix. */
struct group {
    uint32_t at;       /* number of the matrix */
    uint32_t first, n; /* rows */
};

/* The input of a product: rows of @k values. Float weights read f, quantized ones q, d and s, in which the rows of each
 * group lie as in kern_acts. */
struct acts {
    uint32_t k;
    float *f;
    int8_t *q;
    float *d;
    int16_t *s;
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
    struct acts mix;      /* [rows][dim] the input of an early router; the experts' inputs, then in f their outputs */
};

/* Buffers of latent attention (struct hparams_mla). Rows by head: row h * n + i is head h of token i of n. */
struct mla_scratch {
    struct acts low;      /* [tokens][q_rank] */
    struct acts nope;     /* [heads][tokens][nope] the parts of the queries that are not rotated */
    float *absorbed;      /* [heads][tokens][kv_rank] these, expanded */
    struct acts latent;   /* [heads][tokens][kv_rank] what attention gives */
    float *value;         /* [heads][tokens][value] that, reduced */
    struct group *groups; /* [heads] their rows */
};

/* Buffers of AltUp and LAuReL (struct hparams_altup). */
struct altup_scratch {
    float *streams;  /* [tokens][streams][dim] */
    float *rows;     /* [threads][2][dim] */
    float *mixed;    /* [threads][streams][dim] */
    struct acts low; /* [tokens][rank] */
    float *side;     /* [tokens][dim] LAuReL's output; at both ends of the pass, that of a product */
};

/* Buffers of the layers' embeddings of tokens. */
struct embedding_scratch {
    float *all;       /* [tokens][layers][per_layer] */
    float *row;       /* [threads][layers][per_layer] */
    struct acts gate; /* [tokens][per_layer] */
};

/* Buffers of one wave of attention. */
struct attn_scratch {
    uint32_t tile_rows;      /* most queries of a KV head that a tile has */
    uint32_t widest;         /* values of the widest head */
    uint32_t rows;           /* of m, l and o: query heads x parts of one wave */
    float *m, *l;            /* [rows] */
    float *o;                /* [rows][widest] */
    struct attn_tile *tiles; /* [batch_tokens] */
    struct attn_item *items; /* [rows] */
    _Atomic uint32_t *left;  /* [batch_tokens][kv_heads] parts of a tile and KV head that are not computed yet */
    float *turned;           /* [threads][tile rows][widest] queries */
    const float **query;     /* [threads][tile rows] */
    uint32_t *begin, *end;   /* [threads][tile rows] */
    float *slope;            /* [threads][tile rows] of ALiBi, with */
    int32_t *at;             /* [threads][tile rows] the queries' positions */
};

/* An entry of the batch in a recurrent layer. */
struct recurrence {
    const struct batch_entry *entry;
    uint32_t row; /* of its first token */
};

/* Buffers of a recurrent layer. */
struct recurrent_scratch {
    float *in[RECURRENT_INPUTS]; /* [tokens][hparams.recurrent.in[i]] */
    struct acts out;             /* [tokens][hparams.recurrent.out] */
    struct recurrence *runs;     /* [tokens], one for each entry */
};

#define TILE_ROWS    64                              /* queries of one KV head that a tile of attention has at best */
#define TOKEN_TILE   (2 * KERN_GROUP)                /* tokens that a few panels are multiplied with at once, and */
#define TILE_MOST    (TOKEN_TILE + KERN_GROUP - 1)   /* most of them: the last tile has those left over */
#define GATED_VALUES (KERN_BLOCK * (TILE_MOST + 1u)) /* of a tile in one quantization block of columns */
#define PANELS_GRAIN 8 /* panels of a product's piece; as many streams from memory are fastest */
#define LORA_MORE    (TILE_MOST * PANELS_GRAIN * KERN_ROWS) /* values of a piece */

/* Buffers of one batch of up to batch_tokens, in one mapping. */
struct scratch {
    void *mem;
    size_t size;
    struct token *tokens;
    float *x;          /* [tokens][dim] residual stream */
    float *beside;     /* [tokens][dim] attention's output, where the feed-forward reads the same residual */
    struct acts pairs; /* [tokens][2 dim] normed embeddings and states, of an MTP layer */
    struct acts h;     /* [tokens][dim] normed input of a block; in f then its output */
    float *q, *k, *v;  /* [tokens][heads or kv_heads][head_dim] */
    float *q_gate;     /* [tokens][heads][head_dim] where the architecture has them */
    struct acts att;   /* [tokens][heads][head_dim] */
    float *up;         /* [tokens][ffn] where gates are sparse */
    struct acts gated; /* [tokens][ffn], or [tokens][shared_ffn] and [rows][expert_ffn]; rows as in moe */
    float *columns;    /* [threads][2][GATED_VALUES] gate and up of a few columns */
    float *cs[2];      /* [tokens][rope_dim] cosines, then sines; [1]: of the second RoPE, if there is one */
    float *sink_cs;    /* cs[0] of the query for the sinks, of tokens that slide */
    struct expert_scratch moe;
    struct attn_scratch attn;
    struct recurrent_scratch recurrent;
    struct mla_scratch mla;
    struct altup_scratch altup;
    struct embedding_scratch embedding;
};

/* KV blocks for each state: states after fewer tokens are of little use. */
#define CPU_STATE_BLOCKS 8

/* Conversations of this length, or of the context if that is less, find room in all groups alike. Where they are
 * longer, the groups with a window have blocks to spare; where they are shorter, these groups are full first. */
#define CPU_CHAIN_TOKENS 8192

#define CPU_ONES 1024 /* values of the widest head */

struct cpu {
    struct backend base;
    const struct kernels *kern;
    struct compute_pool *pool;
    struct weights weights;
    struct kv_memory kv[KV_GROUPS_MAX]; /* of models that compute texts whole: [0], of one layer, for one batch */
    bool kv_apart;                      /* another backend has these blocks: kv has only their layout */
    struct scratch scratch;
    struct lora_set lora;
    float ones[CPU_ONES]; /* weights of norms that have none */
    float *slopes;        /* [heads] of ALiBi, or NULL */
    double *freqs[2];     /* [rope_dim/2] radians per position, for each of hparams_ropes */
};

/* One forward. */
struct pass {
    struct cpu *c;
    uint32_t n; /* tokens of the batch */
    uint32_t layer;
    struct hparams_heads heads;  /* of the layer */
    uint32_t group, group_layer; /* the KV group of its attention, and its number there */
    uint32_t state_layer;        /* its number among the recurrent layers */
    uint32_t runs;               /* entries of the batch */
    bool pending;                /* join() must add h to x, with */
    const float *bias;           /* [dim] this bias, or NULL, and */
    const float *post;           /* [dim] these weights of a post-norm, or NULL */
    bool laurel;                 /* join() must add scratch.altup.side, too */
    bool own_kv;                 /* the layer has K and V of its own */
    bool together;               /* not all tokens are alone */
    bool quantize;               /* the next product needs quantized input */
    const float *out_scale;      /* join() multiplies the sum by this; NULL: it does not */
    bool beside;                 /* join() must add scratch.beside too, with */
    const float *beside_bias;    /* [dim] this bias, or NULL */
    const float *norm;           /* [dim] weights of the current norm; NULL: none */
    const float *norm_bias;      /* [dim] its bias, or NULL */
    bool second;                 /* it is followed by the layer's second norm */
    float *logits;               /* [n][vocab] */
    struct layer *w;             /* NULL after the last */
};

/* Behind the last position that the token sees in the pass's layer. */
static inline uint32_t token_end(const struct pass *p, const struct token *t)
{
    if (!t->entry->whole) return t->pos + 1;
    return hparams_end(&p->c->base.hparams, p->layer, t->pos, t->entry->pos + t->entry->n);
}

/* The KV block of the pass's layer that has position @pos of the token's sequence. */
static inline uint32_t token_block(const struct pass *p, const struct token *t, uint32_t pos)
{
    if (p->c->base.hparams.embedding.whole) return t->block + pos / KV_BLOCK;
    return t->entry->blocks[p->group][pos / KV_BLOCK];
}

int cpu_forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden);

/* --- for a backend that computes on a device, whose state begins with a struct cpu --- */

/* Load the model of @g: all of *c, which is zero, but for kv_apart, which the caller sets. 0; or -errno and the error
 * message. cpu_close is allowed in both cases. */
int cpu_open(struct cpu *c, const struct gguf *g, const struct backend_config *config);
void cpu_close(struct cpu *c);

/* Embed some tokens of the batch (cpu_lay_out) and take the angles of their positions: scratch.x, .cs and .sink_cs. */
void cpu_embed(const struct pass *p, uint32_t first, uint32_t n);

/* The factor of the queries of the pass's layer at a position (struct hparams_temperature); 1: none. */
float cpu_temperature(const struct pass *p, uint32_t pos);

/* First position that a token sees in the pass's layer, apart from its sinks. */
uint32_t cpu_window_start(const struct pass *p, const struct token *t);

/* Divide the bytes of the configuration among the groups and map their blocks. 0, or -errno and the error message. */
int cpu_allocate_kv(struct cpu *c);

/* The normed embeddings and states of an MTP layer's batch, from scratch.x and the entries: scratch.pairs.f, and the
 * rest if p->quantize. */
void cpu_mtp_pairs(struct pass *p);

/* As in struct backend_ops. */
int cpu_kv_identity(const struct backend *b, uint8_t out[16]);

/* One of several products of the same input: out = W in. */
struct product {
    const struct matrix *m;
    float *out; /* [tokens][m->rows] */
};

/* Compute the @n products of @set for @rows tokens. */
void cpu_products(struct pass *p, const struct product *set, uint32_t n, const struct acts *in, uint32_t rows);

/* The same with stacked matrices, the rows of @in in @n_groups groups. */
void cpu_group_products(struct pass *p, const struct product *set, uint32_t n, const struct acts *in,
                        const struct group *groups, uint32_t n_groups);

/* The input of an MTP layer: scratch.x, which has the embeddings, and the states of the entries -> scratch.x. */
void cpu_mtp_input(struct pass *p);

/* The architecture's norm of x[n] with weights @w and @bias, which may be NULL. out may be x. */
void cpu_norm(const struct pass *p, float *out, const float *x, const float *w, const float *bias, size_t n);

/* Add the pending result of token @i, in scratch.h, to scratch.x. */
void cpu_join(const struct pass *p, size_t i);

/* Of each token: join what is pending; scratch.h = the norm p->norm of scratch.x, or a copy, quantized if p->quantize.
 */
void cpu_norm_each(struct pass *p);

/* scratch.gated = the architecture's activation of (gate in), times (up in), with the matrices' biases: its q, d and s
 * if p->quantize, else its f. @up NULL: the activation alone. @groups NULL: all rows of the batch and one matrix each.
 */
void cpu_gated(struct pass *p, const struct matrix *gate, const struct matrix *up, const struct acts *in,
               const struct group *groups, uint32_t n_groups);

/* The feed-forward of a mixture of experts: normed scratch.h -> scratch.h.f. The router's input is quantized if needed.
 */
void cpu_experts(struct pass *p);
/* x -> moe.route: the scores of a router that reads the residual stream before attention. */
void cpu_early_router(struct pass *p);

/* The same, of scores in scratch.moe.route that are of another input. */
void cpu_chosen_experts(struct pass *p);

/* The mixture with the ordinary feed-forward beside it: scratch.x, which what is pending has joined -> scratch.h.f. */
void cpu_experts_beside(struct pass *p);

/* @fn over [0, n) tokens, or rows like them. */
void cpu_each(struct pass *p, compute_fn fn, uint32_t n);

/* At least one of the @n products needs quantized input. */
bool cpu_quantized(const struct product *set, uint32_t n);

/* Most tokens of a tile of attention, where @group queries share a KV head. */
static inline uint32_t cpu_tile_tokens(uint32_t group)
{
    return group < TILE_ROWS ? TILE_ROWS / group : 1;
}

/* The last layer with K and V of its own stores those of all tokens, and scans them. What follows is computed only for
 * tokens with a batch_want: move their rows together. */
void cpu_keep_wanted(struct pass *p);

/* Check the entries and write their tokens to scratch.tokens and p->n. 0; -EINVAL or -EOPNOTSUPP, and the error
 * message. */
int cpu_lay_out(struct pass *p, const struct batch_entry *e, size_t n, const float *logits, const float *hidden);

/* Bias, norm and rotate KV heads [first, first + n) of token @i of the batch, and store them: scratch.k and .v -> their
 * KV block. If the norm is one of all heads, @n is all, and scratch.q gets its bias and norm too. */
void cpu_place_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n);

/* The same for all heads of all tokens but those that are alone, by all threads. */
void cpu_place_all(struct pass *p);

/* Query heads [first, first + n) of token @i: scratch.q -> out[n][head_dim], with bias, norm and rotation. @sinks: the
 * query for the sinks, of a token that slides. */
void cpu_query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out);

/* --- latent attention: cpu_mla_… in place of the same --- */

/* The products of a layer's input, set[2]: K, and the queries or what they are made of. */
void cpu_mla_products(const struct pass *p, struct product *set);

/* The rest of the queries: scratch.mla.low -> scratch.q, scratch.mla.absorbed. */
void cpu_mla_queries(struct pass *p);

/* cpu_place_heads of the only K. */
void cpu_mla_place(const struct pass *p, size_t i);

/* cpu_query_heads. */
void cpu_mla_query_heads(const struct pass *p, size_t i, uint32_t first, uint32_t n, bool sinks, float *out);

/* What the heads of the batch get: scratch.mla.latent -> scratch.att, quantized if @quantize. */
void cpu_mla_values(struct pass *p, bool quantize);

/* --- the layers' embeddings of tokens --- */

/* scratch.x, the embedded tokens -> scratch.embedding.all. */
void cpu_embed_layers(struct pass *p);

/* The products of a layer's embedding: scratch.h -> scratch.h.f. @p->quantize was set for the first one's input. */
void cpu_layer_embedding(struct pass *p);

/* --- AltUp and LAuReL (altup.c) --- */

/* scratch.x, the embedded tokens -> the streams. */
void cpu_altup_begin(struct pass *p);

/* Predict the streams of the layer from those before; scratch.x = the first of them. */
void cpu_altup_predict(struct pass *p);

/* LAuReL: the normed input scratch.h of the layer, and scratch.altup.low -> scratch.altup.side. */
void cpu_laurel(struct pass *p);

/* The layer's result, which is pending for scratch.x, corrects the streams, and then the layer's embedding. */
void cpu_altup_correct(struct pass *p);

/* The streams -> scratch.x. */
void cpu_altup_end(struct pass *p);

/* scratch.gated as cpu_gated of the batch, with a gate of which most values are 0 (struct hparams_altup). */
void cpu_sparse_gated(struct pass *p, const struct matrix *gate, const struct matrix *up);

/* As in struct backend_ops: what follows pooling. */
int cpu_head(struct backend *b, enum pooling kind, const float *rows, size_t n, float *out);

/* Attention: scratch.q and the KV of @p's layer -> scratch.att, which is also quantized if p->quantize. */
void cpu_attention(struct pass *p);

/* compute_pool_run; its time is added to @part. */
void cpu_run(const struct pass *p, enum timing_part part, compute_fn fn, void *ctx, uint32_t n, uint32_t least,
             uint32_t most);

/* Quantize columns [column, column + n) of row @row of @g, x[n]; both are multiples of KERN_BLOCK. If p->quantize. */
void cpu_quantize(const struct pass *p, const struct acts *out, const struct group *g, size_t row, size_t column,
                  const float *x, size_t n);

/* Quantize row @row of @x, which has p->n rows, if p->quantize. */
void cpu_quantize_row(const struct pass *p, const struct acts *x, size_t row);

/* Allocate all buffers of struct scratch. 0, or -ENOMEM and the error message; scratch_fini is allowed in both cases.
 */
int scratch_init(struct scratch *s, const struct hparams *hparams, uint32_t tokens, uint32_t ctx, uint32_t threads);
void scratch_fini(struct scratch *s);
