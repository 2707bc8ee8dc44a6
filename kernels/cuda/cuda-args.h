/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arguments of the kernels in this folder, for the device code (C++) and for the host that starts them (C). All
 * pointers are addresses of device memory. A kernel takes one of these structs by value; its comment states the grid.
 * The arithmetic is that of kernels.h, bit for bit.
 */
#include <stdint.h>

#define CUDA_PRODUCTS 4   /* products of one input in one launch */
#define CUDA_ROWS     16  /* KERN_ROWS */
#define CUDA_WARP     32  /* also KERN_BLOCK and KV_BLOCK */
#define CUDA_SEGMENT  512 /* KV_SEGMENT */
#define CUDA_NO_TOKEN UINT32_MAX
#define CUDA_COPY_TO  128 /* bulk copies go to multiples of it: bulk_copy() */

/* Shared memory of cuda_many_* and cuda_some_* for weights of @width bits and @tokens tokens of a CTA: two stages. */
#define CUDA_MANY_SHARED(width, tokens) (2 * (2048 * (width) + 176 * (tokens) + 3 * 2048) + 64)

/* Quantized rows. The scales (the sums) of a block of 32 columns lie side by side: [k/32][ld].
 *
 * Wide ones, for cuda_wide_*, are in tiles of 128 rows. q is f16 [ld/128][k/8][128][8]: of 16 columns, the even ones
 * and then the odd ones. d is [ld/128][k/32][2][128], s [ld/128][k/32][128][2]: row r of a tile at wide_place(r). */
struct cuda_acts {
    int8_t *q;         /* [ld][k] */
    float *d;          /* [k/32][ld][2] the scale, and the scale times the sum of q */
    int16_t *s;        /* [k/32][ld][2] */
    uint32_t ld, wide; /* ld: rows that there is room for, a multiple of 128; wide: 0 or 1 */
};

/* struct panel_form, for the device. */
struct cuda_form {
    uint32_t group, step, pairs, bits, sub, sub_step, d, m;
    uint32_t shift; /* of a block's number to that of its group: 0 or 3 */
    int32_t bias;
    float unit;
    uint32_t table[4];
    uint32_t kind; /* CUDA_KIND; of types with a table 0 */
};

/* The number of a kind of type: its width, its scales (enum panel_scales), and 1 if it has an offset. */
#define CUDA_KIND(width, scales, offset) ((width)*8 + (scales)*2 + (offset))

/* cuda_two computes products of this kind: of Q4_K, Q5_K and Q6_K, which a layer of usual files mixes. */
static inline int cuda_can_mix(uint32_t kind)
{
    return kind == CUDA_KIND(4, 1, 1) || kind == CUDA_KIND(5, 1, 1) || kind == CUDA_KIND(6, 2, 0);
}

struct cuda_matrix {
    const uint8_t *panels;
    float *out;                /* [tokens][ld] */
    uint32_t rows, ld, panel0; /* panel0: panels of the products before it in this launch */
    uint32_t panel_bytes;
};

/* out = W x for some matrices of one type. */
struct cuda_matmul {
    struct cuda_matrix of[CUDA_PRODUCTS];
    uint32_t n_products, panels; /* panels: of all */
    uint32_t n, k;               /* tokens, columns */
    struct cuda_acts x;          /* of quantized types */
    const float *f;              /* of float types: [n][k] */
    struct cuda_form form;
    uint32_t chunk; /* cuda_few_*: blocks of 32 columns that its shared memory holds */
};

/* Join what is pending, then norm: one CTA for each row. */
struct cuda_norm {
    float *x;               /* [n][k] the residual stream; without @h it is only read */
    float *h;               /* [n][k] what joins it, or NULL */
    const float *bias;      /* [k] of h, or NULL */
    const float *post;      /* [k] weights of a norm of h, or NULL */
    const float *out_scale; /* [1] the sum is multiplied by it, or NULL */
    const float *w;         /* [k] weights of the norm; NULL: there is none */
    const uint32_t *gather; /* [n] rows of x and h to read, or NULL: row i */
    float *to;              /* [n][k] the joined rows, where gather is set; else they go to x */
    float *f;               /* [n][k] the result, or NULL */
    struct cuda_acts q;     /* the result, quantized; q.q NULL: it is not */
    float eps, residual;    /* residual: factor of h */
    uint32_t k;
};

/* act(gate) * up -> f or q. One thread for four columns (x) of a token (y). */
struct cuda_gated {
    const float *gate, *up;           /* [n][k]; up NULL: act(gate) */
    const float *gate_bias, *up_bias; /* [k], or NULL */
    float *f;
    struct cuda_acts q;
    uint32_t k, act; /* enum arch_activation */
};

#define CUDA_PIECE      64 /* blocks of 32 columns of a panel that are copied at once */
#define CUDA_SLOTS      16 /* most pieces in shared memory */
#define CUDA_MOST_SLOTS 32 /* of matmul-hold.cu, whose pieces are smaller */

/* Pieces of weights in shared memory: where they begin; their number and size. */
struct cuda_ring {
    uint32_t from, slots, slot_bytes;
};

/* Bytes of the terms of a row and block in shared memory: see one-sums.cuh. */
#define CUDA_TERM_BYTES(halves, offset) (!(offset) ? 8 : (halves) ? 16 : 12)

#define CUDA_ONE_THREADS 320 /* eight warps that sum, one that adds, and one that fetches */
#define CUDA_ONE_STAGES  2   /* at most */

/* See matmul-batch.cu. */
#define CUDA_BATCH_ROW    144
#define CUDA_BATCH_STAGES 3

/* Products of one token. The input is the result of a norm, or @row, or m.x. */
struct cuda_one {
    struct cuda_matmul m;
    struct cuda_norm norm;   /* x NULL: there is none. to: the joined row, or NULL */
    const float *row;        /* [k], or NULL */
    struct cuda_gated gated; /* f NULL: the products are the result; else it is f, of the products up and gate (0, 1) */
    struct cuda_ring ring;
    uint32_t stages; /* of sums */
};

/* The same of two types and one input: the first @ctas CTAs compute the first. */
struct cuda_two {
    struct cuda_one of[2];
    uint32_t ctas;
};

/* Products of some tokens. */
struct cuda_batch {
    struct cuda_matmul m;
    struct cuda_ring ring;
};

#define CUDA_TOKEN_PAD 16 /* bytes behind a token's codes in shared memory, where 2 to 16 tokens are held */

/* See matmul-split.cu. */
#define CUDA_SPLIT_WARPS   16  /* that sum */
#define CUDA_SPLIT_BLOCKS  32  /* of a stage: two of each of these warps */
#define CUDA_SPLIT_THREADS 640 /* and four warps that add */
#define CUDA_SPLIT_STAGES  4   /* at most */
#define CUDA_SPLIT_PARTS   8   /* pieces of a panel, at most */

/* Products of 2 to 16 tokens. */
struct cuda_split {
    struct cuda_matmul m;
    struct cuda_ring ring;
    uint32_t sums, stages; /* where the stages begin; their number */
};

/* See matmul-hold.cu. */
#define CUDA_HOLD_WARPS 16 /* most warps that compute; one more fetches */
#define CUDA_HOLD_PARTS 32 /* pieces of a panel, at most */

/* Products of 2 to 16 tokens with many panels: a CTA has @groups of eight tokens and computes @together panels at once,
 * in pieces of @piece blocks; ring.slots is the number of slots of each of them. At first, @ahead pieces are on their
 * way at once. */
struct cuda_hold {
    struct cuda_matmul m;
    struct cuda_ring ring;
    uint32_t together, groups, piece, ahead;
};

#define CUDA_WIDE_THREADS       384
#define CUDA_WIDE_TILE          128 /* rows of a tile of wide activations */
#define CUDA_WIDE_PANELS        8   /* of a CTA */
#define CUDA_WIDE_PIECE         8   /* blocks of 32 columns of a panel that are copied at once */
#define CUDA_WIDE_SLOTS         4   /* most of these pieces, of all panels, in shared memory; at least 2 */
#define CUDA_WIDE_BLOCKS        8   /* blocks of activations that are copied at once: a stage */
#define CUDA_WIDE_STAGES        2
#define CUDA_WIDE_STAGE(tokens) (CUDA_WIDE_BLOCKS * (tokens) * (CUDA_WARP * 2 + 8)) /* bytes */

/* Products of many tokens, with wide activations. Shared memory: the stages, then the slots. */
struct cuda_wide {
    struct cuda_matmul m;
    uint32_t tiles, slots, piece; /* tiles of all CTAs; piece: bytes */
};

/* A token of the batch, as attention needs it. */
struct cuda_token {
    uint32_t pos, block[2]; /* KV block of its position, in each group */
    uint32_t slides;        /* it sees sinks and a window */
};

/* K and V of one layer. */
struct cuda_kv {
    uint8_t *mem;        /* the layer's first block */
    uint64_t stride;     /* from one block to the next */
    uint32_t half, each; /* as in struct kv_shape */
};

/* Bias, norm and rotation of heads. One warp for each token (x) and head (y): queries, then those of K and V. */
struct cuda_heads {
    float *q;           /* [n][heads][dim], in place; */
    float *q_sinks;     /* the same of tokens that slide, for their sinks; NULL: none slides */
    const float *k, *v; /* [n][kv_heads][dim] */
    const float *q_bias, *k_bias, *v_bias;
    const float *q_norm, *k_norm;   /* [dim], or [heads][dim] if each */
    const float *cs, *sink_cs;      /* [n][rot] */
    const float *warmth;            /* [n] factors of q, or NULL */
    const struct cuda_token *token; /* [n] */
    struct cuda_kv kv;
    float eps;
    uint16_t heads, kv_heads, dim, rot;
    uint8_t group, type;                              /* of the KV */
    uint8_t rotates, neox, each, after, unit, v_norm; /* norms behind the rotation; QK_NORM_UNIT; a norm of V */
};

/* Some consecutive tokens of one sequence, and a part of what they see. */
struct cuda_tile {
    uint32_t token, n, part;
    uint32_t from, to; /* positions */
    uint32_t table;    /* cuda_attn.table[table + position / 32, modulo 2^32] is the block of a position */
    uint32_t sinks;    /* it is a part of the sinks */
};

/* Shared memory of cuda_attn_many_*, cuda_attn_some_* and cuda_attn_capped_*: queries, K and V of a KV block, weights,
 * and what the queries see. CUDA_ATTN_KEYS: floats from one dim of K to the next, so that 8 dims of 4 keys lie in
 * different banks. */
#define CUDA_ATTN_KEYS               36
#define CUDA_ATTN_SHARED(rows, dims) (4 * ((rows) * (dims) + (dims)*CUDA_ATTN_KEYS + 32 * (dims) + 34 * (rows)))

/* What a token sees, and where its partial results lie. */
struct cuda_seen {
    uint32_t begin, end; /* positions, apart from the sinks */
    uint32_t row, parts; /* rows row … row + parts - 1 of m, l and o */
};

/* One CTA for each tile (x) and KV head (y); cuda_attn_many_*, some and capped: number tile * kv_heads + KV head.
 */
struct cuda_attn {
    const float *q, *q_sinks; /* [n][heads][dim] */
    const struct cuda_tile *tiles;
    const struct cuda_seen *seen; /* of tokens */
    const uint32_t *table;
    struct cuda_kv kv;
    float *m, *l, *o; /* [rows][heads], of o [dim] each */
    float scale, cap;
    uint16_t heads, kv_heads, dim, group; /* group: heads of a KV head */
    uint32_t width;                       /* cuda_attn_few_*, decode, near: most positions of a tile, in whole blocks */
};

/* Merge the parts. One warp for each token (x) and head (y). */
struct cuda_merge {
    const float *m, *l, *o;
    const float *sink_scores;     /* [heads] a last part of each, or NULL */
    const struct cuda_seen *seen; /* of the batch's tokens */
    const uint32_t *list;         /* [n] the tokens of the rows, or NULL: the same numbers */
    float *f;                     /* [n][heads][dim], or NULL */
    struct cuda_acts q;           /* q.q NULL: not quantized, or dim is no multiple of 32 */
    uint32_t first, heads, dim;   /* first: the first row */
    uint32_t apart;               /* cuda_merge_many: f and q are [heads][apart][dim]; 0: they are not */
};

/* Heads, attention and merge of tokens each of which is alone in its tiles, of at most 16 queries: one CTA for each
 * tile (x) and KV head (y). The rows of the results are the tokens. */
struct cuda_decode {
    struct cuda_heads heads;
    struct cuda_attn attn;
    struct cuda_merge merge;
    uint32_t *done; /* [tokens][kv_heads] 0 before and after */
};

/* Heads are rotated whole, and nothing else becomes of them: there are no biases, norms and factors of queries. */
static inline int cuda_only_rotates(const struct cuda_heads *h)
{
    return !h->q_bias && !h->k_bias && !h->v_bias && !h->q_norm && !h->k_norm && !h->unit && !h->v_norm && !h->warmth &&
           h->rotates && h->rot == h->dim;
}

/* cuda_plain_*_64 or _128 computes it: heads of so many values, which are only rotated, an even number for each KV
 * head, without a cap and sink scores; the result is quantized and not wide. */
static inline int cuda_is_plain(const struct cuda_decode *a)
{
    return (a->heads.dim == 64 || a->heads.dim == 128) && cuda_only_rotates(&a->heads) && a->attn.group % 2 == 0 &&
           !(a->attn.cap > 0) && !a->merge.sink_scores && a->merge.q.q && !a->merge.q.wide;
}

/* Bias, scale and softcap of logits. */
struct cuda_logits {
    float *x; /* [n][k] */
    const float *bias;
    float scale, cap;
    uint32_t k;
};

#define CUDA_LARGEST 4096 /* columns of a CTA of cuda_largest */

/* The ids of the largest values of rows; -1: none is a number, or it is infinite. Grid: (parts, rows). */
struct cuda_largest {
    const float *x;  /* [n][k] */
    uint64_t *parts; /* [n][parts] */
    uint32_t *done;  /* [n] 0 before and after */
    int32_t *best;   /* [n] */
    uint32_t k;
};

/* The first tokens of a block: one CTA for each layer (x) and KV head (y). */
struct cuda_copy {
    struct cuda_kv kv;
    uint64_t layer; /* bytes from one layer to the next */
    uint32_t dst, src, tokens, dim, type;
};
