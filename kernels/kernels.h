/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The arithmetic of hob. kernels/ref is the definition; every other variant equals it bit for bit. ARITHMETIC.md states
 * the rules, each operation and the order of each sum; the members of struct kernels repeat their formulas.
 * KERN_ARITHMETIC is the version of these statements. KERN_LAYOUT is the version of the bytes of a panel (panel.h):
 * panels are kept in files.
 *
 * No function here allocates, locks or logs, and none can fail. Inputs are finite unless stated otherwise. Overflow may
 * produce a NaN; all variants then produce one, of any sign and payload.
 *
 * Lanes are outputs: a weight matrix is kept as panels of KERN_ROWS output rows. One vector lane belongs to one output,
 * so every variant adds in the same order.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERN_ARITHMETIC 2
#define KERN_LAYOUT     1
#define KERN_RECURRENCE 1    /* of the operations of recurrent layers */
#define KERN_ROWS       16   /* output rows of a panel */
#define KERN_GROUP      48   /* tokens of quantized activations (kern_acts) */
#define KERN_BLOCK      32   /* weights and activations that share a scale */
#define KV_BLOCK        32   /* tokens of a KV block */
#define KV_SEGMENT      512  /* positions of an attention segment */
#define KERN_SHARED_DIM 1024 /* most dims of keys that hold the values, too (kern_attn) */
#define KERN_ALIGN      64   /* of panels, activations, KV and outputs */

/* @bytes, rounded up to KERN_ALIGN. */
static inline size_t kern_align(size_t bytes)
{
    return (bytes + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN;
}

enum kern_type {
    KERN_F32,
    KERN_F16,
    KERN_BF16,
    KERN_Q8_0,
    KERN_Q4_0,
    KERN_Q4_1,
    KERN_Q6_K,
    KERN_Q5_0,
    KERN_Q5_1,
    KERN_Q2_K,
    KERN_Q3_K,
    KERN_Q4_K,
    KERN_Q5_K,
    KERN_IQ4_NL,
    KERN_IQ4_XS,
    KERN_MXFP4,
    KERN_TQ1_0,
    KERN_TQ2_0,
    KERN_IQ1_S,
    KERN_IQ1_M,
    KERN_IQ2_XXS,
    KERN_IQ2_XS,
    KERN_IQ2_S,
    KERN_IQ3_XXS,
    KERN_IQ3_S,
    KERN_TYPES
};
enum kern_kv { KERN_KV_F32, KERN_KV_F16, KERN_KV_Q8, KERN_KV_TYPES };

/*
 * Activations of @n tokens, k values each. Float weights read f, quantized ones q, d and s.
 *
 * Quantized activations lie in groups of KERN_GROUP tokens; the last one also has those left over, up to 2 * KERN_GROUP
 * - 1 tokens in all, and fewer than KERN_GROUP are one group. In a group, the 32 codes (the two scales, the two sums)
 * of block b of all its tokens follow each other, then those of block b + 1: a product of several tokens reads
 * consecutive memory. A single token is a plain row.
 */
struct kern_acts {
    const float *f;   /* [n][k] */
    const int8_t *q;  /* of each group: [k/32][tokens of the group][32] */
    const float *d;   /* of each group: [k/32][tokens of the group][2] the scale, and the scale times the sum of q */
    const int16_t *s; /* of each group: [k/32][tokens of the group][2] sums of q */
    size_t n, k;
};

/* The place of token @t among @n: its block b of @nb is block at + b * step of all. @step: tokens of its group. */
struct kern_act {
    size_t at, step;
};

static inline struct kern_act kern_act(size_t n, size_t t, size_t nb)
{
    const size_t groups = n < KERN_GROUP ? 1 : n / KERN_GROUP, last = (groups - 1) * KERN_GROUP;
    const size_t first = t < last ? t / KERN_GROUP * KERN_GROUP : last;
    return (struct kern_act){first * nb + t - first, t < last ? KERN_GROUP : n - last};
}

/* Attention of some queries of one KV head over one segment (up to KV_SEGMENT positions). */
struct kern_attn {
    const float *const *q; /* [n_q] -> [dim], RoPE applied */
    const uint32_t *begin; /* [n_q] first visible position, relative to the segment */
    const uint32_t *end;   /* [n_q] one past the last visible one, relative; begin >= end: nothing visible */
    size_t n_q, dim;
    const void *const *k;    /* [n_blocks] -> [dim][32], of the KV type (kv.h) */
    const void *const *v;    /* [n_blocks] -> [32][dim]; NULL: a value is the first v_dim dims of its key */
    size_t v_dim;            /* where v is NULL, at most dim, which is at most KERN_SHARED_DIM */
    size_t n_blocks;         /* <= KV_SEGMENT / KV_BLOCK */
    const void *const *soon; /* [n_soon] -> K, followed by V if it has its own memory, of a block that following */
    size_t n_soon;           /* calls read, the first one first: to prefetch */
    float scale;             /* multiplies q·k */
    float cap;               /* > 0: the scores are softcapped with it; 0: they are not */
    const float *slope;      /* [n_q] of ALiBi, with */
    const int32_t *at;       /* [n_q] the query's position, relative to the segment; both NULL: there is no ALiBi */
    bool more;               /* m, l and o have the results of blocks before these in the segment */
    float *m, *l;            /* out [n_q]: running maximum (-INFINITY: nothing visible) and sum */
    float *o;                /* out [n_q][dim, or v_dim], not divided by l */
};

/* The delta rule of some consecutive tokens of one head, on a state of dk x dv. */
struct kern_delta {
    const float *q, *k;        /* of the first token, [dk]; token t's are t * ld floats behind them */
    const float *v;            /* of the first token, [dv]; token t's are t * ld_v floats behind it */
    const float *decay, *beta; /* of the first token; token t's are t * ld_gate floats behind them */
    float *o;                  /* out: of the first token, [dv]; token t's is t * ld_o floats behind it */
    float *state;              /* [dv/16][dk][16]: before the first token; out: after the last one */
    size_t ld, ld_v, ld_gate, ld_o;
    size_t n, dk, dv; /* tokens, >= 1; dv is a multiple of 16 */
};

/* Mamba-2's scan of some consecutive tokens of one head: @dim values with a state of @rows x @dim. */
struct kern_ssm {
    const float *x;     /* of the first token, [dim]; token t's are t * ld floats behind them */
    const float *b, *c; /* the same, [rows] */
    const float *dt;    /* the same, one */
    float *y;           /* out: of the first token, [dim]; token t's are t * ld_y floats behind them */
    float *state;       /* [dim/16][rows][16]: before the first token; out: after the last one */
    float a, d;
    size_t ld, ld_y;
    size_t n, rows, dim; /* tokens, >= 1; dim is a multiple of 16 */
};

/* Of recurrent layers. */
struct kernels_recurrent {
    /* Convolution of @n channels over the last @taps positions: acc starts at +0, acc = fma(w[j*ld + i], x[j][i], acc),
     * j ascending (the oldest position first); then + bias[i] unless @bias is NULL; @silu: then acc / (1 + exp(-acc)).
     * out[i] = acc. out may be one of x. */
    void (*conv)(float *out, const float *const *x, const float *w, size_t ld, const float *bias, size_t taps, size_t n,
                 bool silu);

    /* delta: for each token, ascending, and each column j: u0 and u1 start at +0, u0 = fma(k_i, S_ij, u0) over even i
     * ascending, u1 over odd i; d = (v_j - (u0 + u1) * decay) * beta; S_ij = fma(k_i, d, S_ij * decay); o_j = fma(q_i,
     * S_ij, o_j), i ascending, from +0.
     * ssm: for each token, ascending: decay = exp(dt * a); for each value p: u = x_p * dt, S_ip = fma(b_i, u, S_ip *
     * decay); y0 and y1 start at +0, y0 = fma(c_i, S_ip, y0) over even i ascending, y1 over odd i; y_p = fma(x_p, d, y0
     * + y1). */
    void (*delta)(const struct kern_delta *a), (*ssm)(const struct kern_ssm *a);
};

struct kernels {
    const char *name; /* "scalar", "avx2", "avx512", "amx" */

    /* Quantize x[k] (k a multiple of 32) per 32: d = amax/127, q = round-half-to-even(x/d) (a true division; 0 when
     * d is 0), clamped to -127 … 127 (which only a subnormal d can exceed); s: sums of 16 q's; behind d: f32(their sum)
     * * d. Block b is block b * @step of q, d and s (kern_act). */
    void (*quantize)(int8_t *q, float *d, int16_t *s, const float *x, size_t k, size_t step);

    /* out[t*ld + i] for the tokens t of @x and rows i < rows of the consecutive panels at @panel. acc starts at +0. Per
     * block of 32, ascending, acc = fma(f32(isum), f32(dw*dx), acc); types with an offset then acc = fma(mw, sx, acc),
     * sx behind dx in d. isum is the exact dot product of codes and q's; dw is d, mw is m. Q4_K, Q5_K, IQ4_XS: dw = d *
     * the 32 columns' sub-scale, mw = -dmin * their minimum, both exact in f32. Q2_K, Q3_K, Q6_K: isum = sc0 * dot of
     * the first 16 + sc1 * dot of the other 16; Q2_K: its second step is acc = fma(f32(msum), f32(mw*dx), acc), msum =
     * min0 * sum of the first 16 q's + min1 * sum of the others, mw = -dmin. IQ types, MXFP4: codes are their tables'
     * values; IQ1_S, IQ2_XXS, IQ3 as IQ4_XS, IQ1_M, IQ2_XS, IQ2_S as Q3_K, with dw times a power of two (panel.h).
     * Float types: acc = fma(w, x, acc), k ascending. */
    void (*matmul[KERN_TYPES])(float *out, size_t ld, const void *panel, const struct kern_acts *x, unsigned rows);

    /* out[i] = x[i] * r * w[i] (rounded twice, left to right), r = 1/sqrt(ss/k + eps) in f32, true division and sqrt.
     * ss: 16 lanes, lane j adds fma(x,x,.) over i = j mod 16 ascending; then lanes j += j+8, j+4, j+2, j+1.
     * out may be x. */
    void (*rmsnorm)(float *out, const float *x, const float *w, size_t k, float eps);

    /* out[i] = (x[i] - mean) * r * w[i] + b[i] (rounded after each step, left to right; @b NULL: without the sum), mean
     * = sum/k, r = 1/sqrt(ss/k + eps), true divisions and sqrt. sum: 16 lanes, lane j adds x over i = j mod 16
     * ascending, folded as in rmsnorm; ss: the same with fma(d,d,.) of d = x - mean. out may be x. */
    void (*layernorm)(float *out, const float *x, const float *w, const float *b, size_t k, float eps);

    /* Rotate the first @rot values of each of @heads vectors of @dim, in place; cs = cosines[rot/2] then sines[rot/2].
     * Pairs are (2i, 2i+1) (neox false) or (i, i+rot/2). x0' = fma(x0, c, -(x1*s)), x1' = fma(x0, s, x1*c). */
    void (*rope)(float *x, size_t heads, size_t dim, size_t rot, const float *cs, bool neox);

    /* gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i] (divide, then multiply). */
    void (*silu_mul)(float *gate, const float *up, size_t n);

    /* gate[i] = gate[i] / (1 + exp(t)) * up[i] (divide, then multiply), t = gate * fma(B, gate*gate, A), A =
     * -2 sqrt(2/pi), B = 0.044715 A: the tanh form of GELU, since (1 + tanh u)/2 = 1/(1 + exp(-2u)). */
    void (*gelu_mul)(float *gate, const float *up, size_t n);

    /* x[i] = x[i] / (1 + exp(t)), t as in gelu_mul. */
    void (*gelu)(float *x, size_t n);

    /* GELU itself: z = gate[i] * SQRT_HALF, clamped to +-ERF_LIMIT, s = z * z; p and q by Horner's rule of ERF_P and
     * ERF_Q, each step an fma with s; y = z * p / q (multiply, then divide), clamped to +-1;
     * gate[i] = (gate[i] * 0.5) * (1 + y), and * up[i] unless @up is NULL. */
    void (*gelu_erf)(float *gate, const float *up, size_t n);

    /* m = max(x[i], 0): x[i] = m * m. A NaN stays one. */
    void (*relu_sqr)(float *x, size_t n);

    /* x[i] > 0: x[i] = fma(p * x, x, beta * x), else fma(exp(min(x, eps)) - 1 - x, n, beta * x), p = @by[0], n =
     * @by[1], beta = @by[2], eps = @by[3] < 0 (exp minus 1, then minus x). */
    void (*xielu)(float *x, const float by[4], size_t n);

    /* g = min(gate[i], 7), u = max(min(up[i], 7), -7): gate[i] = g / (1 + exp(-SWIGLU_ALPHA * g)) * (u + 1) (divide,
     * then multiply). A NaN stays one. */
    void (*swiglu_clamped)(float *gate, const float *up, size_t n);

    /* x[i] *= s. */
    void (*scale)(float *x, float s, size_t n);

    /* x[i] = cap * tanh(x[i]/cap): e = exp(-2 * (|x|/cap)) (a true division), t = (1 - e)/(1 + e) with the sign of x,
     * then t * cap. cap > 0. */
    void (*softcap)(float *x, float cap, size_t n);

    /* x[i] += y[i]. */
    void (*add)(float *x, const float *y, size_t n);

    /* out[i] = x[i] * y[i]; out may be x or y. */
    void (*mul)(float *out, const float *x, const float *y, size_t n);

    /* Store K and V of one token at @slot (0..31) of a block of one KV head: K at [d][slot], V at [slot][d]; nothing
     * of the other slots is touched. f16 rounds half to even. q8, for each 32 dims of K and of V (the last may be
     * fewer): d = f16(amax/127), at most 65504; q = round-half-to-even(x/f32(d)) (a true division; 0 when d is 0),
     * clamped to -127 … 127. @vblock and @v NULL: only K. */
    void (*kv_store[KERN_KV_TYPES])(void *kblock, void *vblock, unsigned slot, const float *k, const float *v,
                                    size_t dim);

    /* One segment, blocks of 32 ascending; m = -INFINITY, l = 0, o = 0 at first (not if @more), and so they stay for a
     * query that sees nothing. s_j = (fma chain of q·k_j over dims ascending, from +0) * scale, softcapped if cap > 0;
     * with ALiBi then s_j = fma(-slope, |j - at|, s_j). Blocks without a visible key are skipped. The first visible one
     * sets m = top, later ones m' = max(m, top), c = exp(m - m'), l *= c, o_d *= c, where top = (max s_j of the visible
     * j) + 0, so that a zero is +0. p_j = exp(s_j - m), 0 for masked j. o_d = fma(p_j, v_jd, o_d), visible j ascending;
     * l += tree of the 32 p_j (j += j+16, +8, +4, +2, +1). The value of a q8 code is f32(q) * f32(d), rounded once: all
     * else is as with these values in f32. K and V of masked keys may be uninitialized memory: they change nothing. */
    void (*attn[KERN_KV_TYPES])(const struct kern_attn *a);

    /* Merge segments of one query, ascending: M, L, O start as those of the first segment with l > 0; each later one
     * with l > 0: M' = max(M, m), a = exp(M - M'), b = exp(m - M'), L = fma(l, b, L*a), O_d = fma(o_d, b, O_d*a).
     * out_d = O_d / L. @m, @l: [n_seg] at stride ld_m; @o: [n_seg] rows of dim at stride ld_o (floats).
     * At least one l > 0; out is none of the inputs. */
    void (*attn_merge)(float *out, const float *m, const float *l, size_t ld_m, const float *o, size_t ld_o,
                       size_t n_seg, size_t dim);

    /* max(x) + 0 (a zero is +0) and log(sum(exp(x - max))), n > 0: 16 lanes, lane j adds exp over i = j mod 16
     * ascending; lanes fold as in rmsnorm; log is libm's double log of the sum, rounded once. -INFINITY counts as 0;
     * where all x are -INFINITY both results are. */
    void (*logsumexp)(float *max, float *lse, const float *x, size_t n);

    /* out[i] = x[i] * r, r = scale / max(sqrt(ss), eps), ss as in rmsnorm. out may be x. */
    void (*l2norm)(float *out, const float *x, size_t k, float eps, float scale);

    /* x[i] = max(x[i], 0) + log(1 + e), e = exp(-|x[i]|), the logarithm by the series of ARITHMETIC.md. */
    void (*softplus)(float *x, size_t n);

    /* x[i] = x[i] / (1 + exp(-gate[i])). */
    void (*sigmoid_mul)(float *x, const float *gate, size_t n);

    struct kernels_recurrent recurrent;
};

/* The best table for this CPU, at most what @limit allows: NULL (no limit), "scalar", "avx2", "avx512", "amx".
 * NULL when @limit is not one of those. A limit above what the CPU has gives the CPU's best. */
const struct kernels *kernels_get(const char *limit);

/* Why AMX is not used although the CPU has it, a static text; NULL: it is used, or the CPU does not have it. */
const char *kernels_amx_refused(void);

/* The @i-th table this CPU can run, slowest (the definition) first; NULL past the last. */
const struct kernels *kernels_nth(size_t i);

/* The one polynomial exp: every variant's lanes compute this (kernels/expf.h states it). Arguments under -87.3 give 0,
 * over 88.72 INFINITY, NaN gives NaN. */
float kern_exp(float x);

/* Conversions, round half to even, as the CPU's own (a NaN becomes quiet and keeps its upper bits). */
float kern_f16_to_f32(uint16_t h);
uint16_t kern_f32_to_f16(float f);

/* --- types and panels --- */

/* Values of a source block (32; 256 for K-quants; 1 for floats) and its bytes, as in a GGUF file. */
size_t kern_type_block(enum kern_type t);
size_t kern_type_bytes(enum kern_type t);
bool kern_type_quantized(enum kern_type t);
const char *kern_type_name(enum kern_type t);

/* Bytes of one panel of k columns (a multiple of KERN_ALIGN). k is a multiple of the type's block. */
size_t kern_panel_bytes(enum kern_type t, size_t k);

/* Repack rows (<= 16; the missing ones become zero) of GGUF data at @stride bytes, at any alignment, into a panel. */
void kern_panel_pack(enum kern_type t, void *panel, const void *src, size_t stride, unsigned rows, size_t k);

/* Row @i of a panel as floats [k] (exactly as kern_dequant gives the source row). */
void kern_panel_row(enum kern_type t, float *out, const void *panel, unsigned i, size_t k);

/* A GGUF row as floats, at any alignment: ggml's formats, stated where they are read (kernels/format-*.c). Each value
 * is scale*code (+ offset): one multiply, then one add; scale is d, or d * sub-scale, offset is m, or -(dmin *
 * minimum), both rounded to f32 (which most often is exact). */
void kern_dequant(enum kern_type t, float *out, const void *src, size_t k);

/* --- KV --- */

/* "f32", "f16", "q8". */
const char *kern_kv_name(enum kern_kv t);

/* Bytes of K (or V) of one block of one KV head; a multiple of KERN_ALIGN. */
size_t kern_kv_bytes(enum kern_kv t, size_t dim);

/* Copy the first @tokens slots of a block of one KV head, K and V: @dst and @src point at K, V follows after
 * kern_kv_bytes(). The other slots of @dst keep what they have. @dst is @src (nothing happens) or does not overlap. */
void kern_kv_copy(enum kern_kv t, void *dst, const void *src, unsigned tokens, size_t dim);

/* The same for K alone. */
void kern_k_copy(enum kern_kv t, void *dst, const void *src, unsigned tokens, size_t dim);
