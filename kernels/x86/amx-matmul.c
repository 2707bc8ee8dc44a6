/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights with AMX. Two panels are taken at a time, a chunk of their columns at a time: their codes are
 * widened once, and serve all tokens. For 16 tokens there are two phases. In the first the tile unit computes the exact
 * int32 sums of the chunk's blocks: the codes of 32 columns (wide block, 8 rows of 64 bytes with 4 columns x 16 rows
 * each) are a B tile as they are, the activations of 16 tokens an A tile. A product is stored two products later, when
 * it is complete. In the second phase AVX-512 adds the sums to the results, one fma chain an output. The phases are
 * apart because vector instructions are slow while tile instructions are in flight.
 */
#include "kernels/x86/amx-tile.h"
#include "kernels/x86/avx512-codes.h"
#include "kernels/x86/tiles.h"

#define TOKENS       16 /* of a tile */
#define FEW_TILES    2  /* more are always worth it */
#define PADDED_MOST  2  /* tokens missing from few tiles that are worth it */
#define CHUNK_BLOCKS 8  /* 16 KiB of sums; half as many where a block has two of them, or for */
#define FEW_TOKENS   80 /* tokens at most */
#define SUMS         (TOKENS * KERN_ROWS)
#define PART_TILES   12 /* of part_of: two whole groups, and fewer than two in the last */

/* Tile numbers: products of even and odd units for two panels, their activations, and the panels' codes. */
#define C_EVEN0 0
#define C_EVEN1 1
#define C_ODD0  2
#define C_ODD1  3
#define A_EVEN  4
#define A_ODD   5
#define B0      6
#define B1      7

/* 16 tokens: block b of the chunk is b * @step tokens further. */
struct acts {
    const int8_t *q;
    const float *d;
    size_t step;
};

/* The activations of a last tile with fewer tokens, and zeros. */
struct padded {
    _Alignas(64) int8_t q[CHUNK_BLOCKS][TOKENS][KERN_BLOCK];
    float d[CHUNK_BLOCKS][TOKENS][2];
};

/* One or two widened panels, @blocks blocks of each, the first of which is block @first of the panel. @last: the panel
 * has no more. @next: the @ahead packed blocks that are widened next, of each panel. */
struct chunk {
    unsigned np;
    enum kern_type type;
    uint8_t *wide;
    size_t first, blocks, ahead;
    bool last;
    const uint8_t *next[2];
};

/* The rows of the panels in the result: row i of token t is at[t * ld + i], for @rows rows. Until the last chunk they
 * are in @acc [tile][panel][token][row], which is in one piece: rows that are a power of two apart evict each other. */
struct result {
    float *at;
    size_t ld;
    unsigned rows;
    float *acc;
};

/* Is AMX faster for @n tokens? As measured on Emerald Rapids, with weights in memory. A few tiles do not repay the
 * widening of codes unless they are nearly full and all else is cheap. For Q2_K it never is faster: the tile unit does
 * not compute the minima. */
V bool is_faster(enum kern_type type, size_t n)
{
    const size_t tiles = (n + TOKENS - 1) / TOKENS;
    if (n > FEW_TILES * TOKENS) return type != KERN_Q2_K;
    return tiles * TOKENS - n <= PADDED_MOST && !has_halves(type) && !has_offset(type);
}

/* A block is one unit, or two of 16 columns where these have a sub-scale. A product is of one unit. */
V unsigned units_of_block(enum kern_type type)
{
    return has_halves(type) ? 2 : 1;
}

/* Blocks of a chunk for @n tokens. A few tiles do not repay more: with half the codes and sums more of the activations
 * stay in the first cache, of which a thread has only half where another one uses the same core. */
V size_t chunk_blocks(enum kern_type type, size_t n)
{
    return n <= FEW_TOKENS || has_halves(type) ? CHUNK_BLOCKS / 2 : CHUNK_BLOCKS;
}

static void configure(unsigned depth)
{
    struct tile_config f = {.palette = 1};
    for (unsigned i = C_EVEN0; i <= A_ODD; i++) f.rows[i] = TOKENS;
    for (unsigned i = C_EVEN0; i <= C_ODD1; i++) f.row_bytes[i] = 64;
    f.row_bytes[A_EVEN] = f.row_bytes[A_ODD] = (uint16_t)depth;
    f.rows[B0] = f.rows[B1] = (uint8_t)(depth / 4);
    f.row_bytes[B0] = f.row_bytes[B1] = 64;
    TILE_CONFIGURE(&f);
}

/* Signed codes of block @b of @panel, then its scales. */
V void widen(enum kern_type type, uint8_t *to, const uint8_t *panel, size_t b)
{
    const struct packed p = packed_at(type, panel, b);
    const __m512i bias = _mm512_set1_epi8((char)packed_bias(type));
    struct raw raw = {0};
    UNROLL
    for (unsigned j = 0; j < 8; j++) {
        const unsigned g = packed_order(type, j);
        packed_load(type, &raw, p, g);
        _mm512_store_si512(to + g * 64, _mm512_sub_epi8(packed_codes(type, raw, g), bias));
    }
    for (unsigned s = 0; s < wide_scales(type); s++)
        _mm512_store_ps(to + WIDE_SCALES + s * 64, packed_scales(type, p, (enum scale)s));
}

/* --- first phase --- */

V const int8_t *unit_acts(const struct chunk *c, struct acts x, size_t u)
{
    const size_t n = units_of_block(c->type);
    return x.q + u / n * x.step * KERN_BLOCK + u % n * 16;
}

V const uint8_t *unit_codes(const struct chunk *c, size_t u, unsigned p)
{
    const size_t n = units_of_block(c->type);
    return c->wide + (p * c->blocks + u / n) * wide_bytes(c->type) + u % n * 256;
}

V size_t unit_sums(const struct chunk *c, size_t u, unsigned p)
{
    return (p * c->blocks * units_of_block(c->type) + u) * SUMS;
}

V void prefetch(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* The next chunk's packed blocks are prefetched in parts during both phases: all at once, they would delay the loads.
 * Part @part of @parts of one half. */
V void prefetch_part(const struct chunk *c, unsigned p, unsigned half, size_t part, size_t parts)
{
    const size_t bytes = c->ahead * packed_bytes(c->type) / 2, each = bytes / parts;
    prefetch(c->next[p] + half * bytes + part * each, each);
}

/* The products of unit @u with all panels; those of the unit before are stored. */
#define UNIT(u, a, now0, now1, before0, before1)                                                                       \
    do {                                                                                                               \
        TILE_LOAD(a, unit_acts(c, x, u), KERN_BLOCK);                                                                  \
        TILE_LOAD(B0, unit_codes(c, u, 0), 64);                                                                        \
        TILE_ZERO(now0);                                                                                               \
        TILE_DPBSSD(now0, a, B0);                                                                                      \
        if (u) TILE_STORE(before0, sums + unit_sums(c, (u)-1, 0), 64);                                                 \
        if (c->np < 2) break;                                                                                          \
        TILE_LOAD(B1, unit_codes(c, u, 1), 64);                                                                        \
        TILE_ZERO(now1);                                                                                               \
        TILE_DPBSSD(now1, a, B1);                                                                                      \
        if (u) TILE_STORE(before1, sums + unit_sums(c, (u)-1, 1), 64);                                                 \
    } while (0)

/* The sums of all units, one panel's after the other's: [unit][token][row]. */
V void products(const struct chunk *c, struct acts x, int32_t *sums, bool first)
{
    const size_t n = c->blocks * units_of_block(c->type);
    for (size_t u = 0; u + 1 < n; u += 2) {
        for (unsigned p = 0; first && p < c->np; p++) prefetch_part(c, p, 1, u / 2, n / 2);
        UNIT(u, A_EVEN, C_EVEN0, C_EVEN1, C_ODD0, C_ODD1);
        UNIT(u + 1, A_ODD, C_ODD0, C_ODD1, C_EVEN0, C_EVEN1);
    }
    if (n % 2) {
        UNIT(n - 1, A_EVEN, C_EVEN0, C_EVEN1, C_ODD0, C_ODD1);
        TILE_STORE(C_EVEN0, sums + unit_sums(c, n - 1, 0), 64);
        if (c->np > 1) TILE_STORE(C_EVEN1, sums + unit_sums(c, n - 1, 1), 64);
    } else {
        TILE_STORE(C_ODD0, sums + unit_sums(c, n - 1, 0), 64);
        if (c->np > 1) TILE_STORE(C_ODD1, sums + unit_sums(c, n - 1, 1), 64);
    }
}

/* --- second phase --- */

V __m512 load_sum(const int32_t *sums, unsigned t)
{
    return _mm512_cvtepi32_ps(_mm512_load_si512(sums + t * KERN_ROWS));
}

/* acc = fma(isum, f32(dw * dx), acc) */
V __m512 add_scaled(__m512 acc, __m512 isum, __m512 dw, float dx)
{
    return _mm512_fmadd_ps(isum, _mm512_mul_ps(dw, _mm512_set1_ps(dx)), acc);
}

/* One block (ARITHMETIC.md, matrix products), added to acc[t]. */
V void add_block(enum kern_type type, __m512 *acc, const int32_t *sums, const uint8_t *scale, const float *d)
{
    const __m512 dw = _mm512_load_ps(scale);
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++) acc[t] = add_scaled(acc[t], load_sum(sums, t), dw, d[t * 2]);
    if (!has_offset(type)) return;
    const __m512 mw = _mm512_load_ps(scale + 64 * SCALE_M);
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++) acc[t] = _mm512_fmadd_ps(mw, _mm512_set1_ps(d[t * 2 + 1]), acc[t]);
}

/* The same where halves of 16 columns have sub-scales, and no offset. Their products and the sum of both are exact in
 * floats: kernels/ref/matmul.c gives the reason. */
V void add_block_halves(__m512 *acc, const int32_t *sums, const uint8_t *scale, const float *d)
{
    const __m512 dw = _mm512_load_ps(scale);
    const __m512 sub0 = _mm512_load_ps(scale + 64 * SCALE_SUB0), sub1 = _mm512_load_ps(scale + 64 * SCALE_SUB1);
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++) {
        __m512 isum = _mm512_mul_ps(load_sum(sums, t), sub0);
        isum = _mm512_fmadd_ps(load_sum(sums + SUMS, t), sub1, isum);
        acc[t] = add_scaled(acc[t], isum, dw, d[t * 2]);
    }
}

V void store_results(const struct result *out, unsigned p, size_t nt, const __m512 *acc)
{
    const unsigned left = out->rows - p * KERN_ROWS;
    const __mmask16 mask = v16_mask(left < KERN_ROWS ? left : KERN_ROWS);
    float *at = out->at + p * KERN_ROWS;
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++)
        if (t < nt) _mm512_mask_storeu_ps(at + t * out->ld, mask, acc[t]);
}

/* Add the sums of panel @p to the results of @nt tokens. The chunk with the first block starts at 0. @first: of the
 * tiles. */
V void add_panel(const struct chunk *c, unsigned p, const struct result *out, struct acts x, size_t nt,
                 const int32_t *sums, bool first)
{
    float *at = out->acc + p * SUMS;
    __m512 acc[TOKENS];
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++) acc[t] = c->first ? _mm512_load_ps(at + t * KERN_ROWS) : _mm512_setzero_ps();
    for (size_t b = 0; b < c->blocks; b++) {
        const uint8_t *scale = unit_codes(c, b * units_of_block(c->type), p) + WIDE_SCALES;
        const int32_t *sum = sums + unit_sums(c, b * units_of_block(c->type), p);
        const float *d = x.d + b * x.step * 2;
        if (first) prefetch_part(c, p, 0, b, c->blocks);
        if (has_halves(c->type))
            add_block_halves(acc, sum, scale, d);
        else
            add_block(c->type, acc, sum, scale, d);
    }
    if (c->last) {
        store_results(out, p, nt, acc);
        return;
    }
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++) _mm512_store_ps(at + t * KERN_ROWS, acc[t]);
}

/* --- both --- */

V void tile(const struct chunk *c, const struct result *out, struct acts x, size_t nt, bool first)
{
    _Alignas(64) int32_t sums[2 * CHUNK_BLOCKS * SUMS];
    products(c, x, sums, first);
    for (unsigned p = 0; p < c->np; p++) add_panel(c, p, out, x, nt, sums, first);
}

/* @nt tokens, fewer than a tile has, of a chunk behind which nothing may be read. */
V void last_tile(const struct chunk *c, const struct result *out, struct acts x, size_t nt, bool first,
                 struct padded *pad)
{
    for (size_t b = 0; b < c->blocks; b++) {
        const size_t at = b * x.step;
        memcpy(pad->q[b], x.q + at * KERN_BLOCK, nt * KERN_BLOCK);
        memcpy(pad->d[b], x.d + at * 2, nt * 2 * sizeof(*x.d));
    }
    tile(c, out, (struct acts){pad->q[0][0], pad->d[0][0], TOKENS}, nt, first);
}

/* Tokens [t, end). A last tile with fewer than TOKENS reads the next block's activations as those of the tokens that it
 * lacks, which changes no result. Only where there may be no next block, they are copied. */
V void all_tiles(const struct chunk *c, struct result out, const struct kern_acts *x, size_t t, size_t end,
                 struct padded *pad)
{
    bool first = true;
    for (size_t group; t < end; t += group) {
        const struct kern_act a = kern_act(x->n, t, x->k / KERN_BLOCK);
        const size_t at = a.at + c->first * a.step;
        struct acts in = {x->q + at * KERN_BLOCK, x->d + at * 2, a.step};
        group = a.step;
        for (size_t i = 0; i < group; i += TOKENS, first = false) {
            if (group - i < TOKENS && (c->last || group < TOKENS / 2))
                last_tile(c, &out, in, group - i, first, pad);
            else
                tile(c, &out, in, TOKENS, first);
            in.q += TOKENS * KERN_BLOCK, in.d += TOKENS * 2;
            out.at += TOKENS * out.ld, out.acc += c->np * SUMS;
        }
    }
}

/* @np panels of @stride bytes, for tokens [t, end). */
V void panels(unsigned np, enum kern_type type, struct result out, const uint8_t *panel, size_t stride,
              const struct kern_acts *x, size_t t, size_t end)
{
    const size_t nb = x->k / KERN_BLOCK, most = chunk_blocks(type, end - t), wide = wide_bytes(type);
    _Alignas(64) uint8_t codes[2 * CHUNK_BLOCKS * WIDE_MOST];
    struct padded pad = {0};
    for (size_t b = 0; b < nb; b += most) {
        const size_t n = nb - b < most ? nb - b : most, then = b + n < nb ? nb - b - n : nb;
        struct chunk c = {np, type, codes, b, n, then < most ? then : most, b + n == nb, {NULL}};
        for (unsigned p = 0; p < np; p++) {
            const uint8_t *from = panel + p * stride;
            for (size_t i = 0; i < c.blocks; i++) widen(type, codes + (p * c.blocks + i) * wide, from, b + i);
            c.next[p] = c.last ? from + np * stride : packed_at(type, from, b + c.blocks).c;
        }
        all_tiles(&c, out, x, t, end, &pad);
    }
}

/* Tokens for which the codes are widened once: all, or a few groups of kern_acts. */
V size_t part_of(size_t left)
{
    return left < 4 * KERN_GROUP ? left : 2 * KERN_GROUP;
}

V void matmul(enum kern_type type, float *out, size_t ld, const uint8_t *panel, const struct kern_acts *x,
              unsigned rows)
{
    const size_t stride = packed_panel(type, x->k / KERN_BLOCK);
    _Alignas(64) float acc[PART_TILES * 2 * SUMS];
    configure(has_halves(type) ? 16 : 32);
    for (unsigned now; rows; panel += 2 * stride, out += now, rows -= now) {
        now = rows < 2 * KERN_ROWS ? rows : 2 * KERN_ROWS;
        for (size_t t = 0, n; t < x->n; t += n) {
            n = part_of(x->n - t);
            const struct result to = {out + t * ld, ld, now, acc};
            if (now > KERN_ROWS)
                panels(2, type, to, panel, stride, x, t, t + n);
            else
                panels(1, type, to, panel, stride, x, t, t + n);
        }
    }
    TILE_RELEASE();
}

#define MATMUL(type, name, unused)                                                                                     \
    KERN_MATMUL(X86(matmul_##name));                                                                                   \
    KERN_MATMUL(X86(matmul_##name))                                                                                    \
    {                                                                                                                  \
        if (is_faster(KERN_##type, x->n))                                                                              \
            matmul(KERN_##type, out, ld, panel, x, rows);                                                              \
        else                                                                                                           \
            matmul_##name##_avx512(out, ld, panel, x, rows);                                                           \
    }

KERN_QUANTIZED(MATMUL, )

/* All other functions are those of AVX-512. */
extern const struct kernels X86(kernels);
const struct kernels X86(kernels) = KERN_TABLE_WITH(avx512, X86_SUFFIX, X86_TITLE);
