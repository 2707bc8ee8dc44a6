/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights with AMX. A panel is taken a chunk of its columns at a time, whose codes are widened once, and
 * serve all tokens. For 16 tokens there are two phases. In the first the tile unit computes the exact int32 sums of the
 * chunk's blocks: the codes of 32 columns (wide block, 8 rows of 64 bytes with 4 columns x 16 rows each) are a B tile
 * as they are, the activations of 16 tokens an A tile. A product is stored during the next one, when it is complete. In
 * the second phase AVX-512 adds the sums to the results, one fma chain an output. The phases are apart because stores
 * and loads of tiles are slow between other instructions. Two panels at a time would share the activations, but their
 * sums and codes would not leave enough of the first cache for these (measured: 1.1 to 1.5 times slower up to 32
 * tokens, and alike for more).
 */
#include "kernels/x86/amx-tile.h"
#include "kernels/x86/avx512-codes.h"
#include "kernels/x86/tiles.h"

#define TOKENS       16 /* of a tile */
#define FEW_TILES    2  /* more are always worth it */
#define PADDED_MOST  2  /* tokens missing from few tiles that are worth it */
#define CHUNK_BLOCKS 8  /* of 32 columns: 8 KiB of sums, twice as much where a block has two of them */
#define SUMS         (TOKENS * KERN_ROWS)
#define PART_TILES   12 /* of part_of: two whole groups, and fewer than two in the last */

/* Tile numbers: products of even and odd units, their activations, and their codes. */
#define C_EVEN 0
#define C_ODD  1
#define A_EVEN 2
#define A_ODD  3
#define B_EVEN 4
#define B_ODD  5

/* 16 tokens: block b of the chunk is b * @step tokens further. */
struct acts {
    const int8_t *q;
    const float *d;
    size_t step;
};

/* The activations of a last tile with fewer tokens, in the last chunk, and zeros. */
struct padded {
    _Alignas(64) int8_t q[CHUNK_BLOCKS][TOKENS][KERN_BLOCK];
    float d[CHUNK_BLOCKS][TOKENS][2];
};

/* @blocks widened blocks of a panel, from its block @first on. @last: the panel has no more. @packed: where they came
 * from. */
struct chunk {
    enum kern_type type;
    uint8_t *wide;
    size_t first, blocks;
    bool last;
    const uint8_t *packed;
};

/* The rows of the panel in the result: row i of token t is at[t * ld + i], for @rows rows. Until the last chunk they
 * are in @acc [tile][token][row], which is in one piece: rows that are a power of two apart evict each other. */
struct result {
    float *at;
    size_t ld;
    unsigned rows;
    float *acc;
};

/* Is AMX faster for @n tokens? As measured on Emerald Rapids. Up to two tiles only if they are nearly full. For Q2_K it
 * never is faster: the tile unit does not compute the minima. */
V bool is_faster(enum kern_type type, size_t n)
{
    const size_t tiles = (n + TOKENS - 1) / TOKENS;
    return type != KERN_Q2_K && (tiles > FEW_TILES || tiles * TOKENS - n <= PADDED_MOST);
}

/* A block is one unit, or two of 16 columns where these have a sub-scale. A product is of one unit. */
V unsigned units_of_block(enum kern_type type)
{
    return has_halves(type) ? 2 : 1;
}

/* Blocks of each chunk of a panel of @nb, but for the last: about the same number in each. */
V size_t chunk_blocks(size_t nb)
{
    const size_t chunks = (nb + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS;
    return (nb + chunks - 1) / chunks;
}

static void configure(unsigned depth)
{
    struct tile_config f = {.palette = 1};
    f.rows[C_EVEN] = f.rows[C_ODD] = f.rows[A_EVEN] = f.rows[A_ODD] = TOKENS;
    f.row_bytes[C_EVEN] = f.row_bytes[C_ODD] = 64;
    f.row_bytes[A_EVEN] = f.row_bytes[A_ODD] = (uint16_t)depth;
    f.rows[B_EVEN] = f.rows[B_ODD] = (uint8_t)(depth / 4);
    f.row_bytes[B_EVEN] = f.row_bytes[B_ODD] = 64;
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

V const uint8_t *unit_codes(const struct chunk *c, size_t u)
{
    const size_t n = units_of_block(c->type);
    return c->wide + u / n * wide_bytes(c->type) + u % n * 256;
}

/* The first tile prefetches what follows, a part with each product: all at once, it would delay other loads. */
V void prefetch_unit(const struct chunk *c, size_t u)
{
    const size_t each = packed_bytes(c->type) / units_of_block(c->type);
    panel_prefetch(c->packed + u * each, each);
}

/* The product of unit @u; that of the unit before is stored. */
#define UNIT(u, a, b, now, before)                                                                                     \
    do {                                                                                                               \
        if (first) prefetch_unit(c, u);                                                                                \
        TILE_LOAD(a, unit_acts(c, x, u), KERN_BLOCK);                                                                  \
        TILE_LOAD(b, unit_codes(c, u), 64);                                                                            \
        TILE_ZERO(now);                                                                                                \
        TILE_DPBSSD(now, a, b);                                                                                        \
        if (u) TILE_STORE(before, sums + ((u)-1) * SUMS, 64);                                                          \
    } while (0)

/* The sums of all units: [unit][token][row]. */
V void products(const struct chunk *c, struct acts x, int32_t *sums, bool first)
{
    const size_t n = c->blocks * units_of_block(c->type);
    for (size_t u = 0; u + 1 < n; u += 2) {
        UNIT(u, A_EVEN, B_EVEN, C_EVEN, C_ODD);
        UNIT(u + 1, A_ODD, B_ODD, C_ODD, C_EVEN);
    }
    if (n % 2) {
        UNIT(n - 1, A_EVEN, B_EVEN, C_EVEN, C_ODD);
        TILE_STORE(C_EVEN, sums + (n - 1) * SUMS, 64);
    } else {
        TILE_STORE(C_ODD, sums + (n - 1) * SUMS, 64);
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

V void store_results(const struct result *out, size_t nt, const __m512 *acc)
{
    const __mmask16 mask = v16_mask(out->rows);
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++)
        if (t < nt) _mm512_mask_storeu_ps(out->at + t * out->ld, mask, acc[t]);
}

/* Add the sums to the results of @nt tokens. The chunk with the first block starts at 0. */
V void add_sums(const struct chunk *c, const struct result *out, struct acts x, size_t nt, const int32_t *sums)
{
    __m512 acc[TOKENS];
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++)
        acc[t] = c->first ? _mm512_load_ps(out->acc + t * KERN_ROWS) : _mm512_setzero_ps();
    for (size_t b = 0; b < c->blocks; b++) {
        const uint8_t *scale = c->wide + b * wide_bytes(c->type) + WIDE_SCALES;
        const int32_t *sum = sums + b * units_of_block(c->type) * SUMS;
        const float *d = x.d + b * x.step * 2;
        if (has_halves(c->type))
            add_block_halves(acc, sum, scale, d);
        else
            add_block(c->type, acc, sum, scale, d);
    }
    if (c->last) {
        store_results(out, nt, acc);
        return;
    }
    UNROLL
    for (unsigned t = 0; t < TOKENS; t++) _mm512_store_ps(out->acc + t * KERN_ROWS, acc[t]);
}

/* --- both --- */

V void tile(const struct chunk *c, const struct result *out, struct acts x, size_t nt, bool first)
{
    _Alignas(64) int32_t sums[2 * CHUNK_BLOCKS * SUMS];
    products(c, x, sums, first);
    add_sums(c, out, x, nt, sums);
}

/* A last tile that is not full reads the next block's activations as those of the tokens that it lacks, which changes
 * no result. Behind the last block there may be nothing to read: the activations of the last chunk are copied, once for
 * all panels. */
V void pad(struct padded *to, const struct kern_acts *x, size_t blocks)
{
    const size_t nb = x->k / KERN_BLOCK, nt = x->n % TOKENS;
    const struct kern_act a = kern_act(x->n, x->n - nt, nb);
    for (size_t b = 0; nt && b < blocks; b++) {
        const size_t at = a.at + (nb - blocks + b) * a.step;
        memcpy(to->q[b], x->q + at * KERN_BLOCK, nt * KERN_BLOCK);
        memcpy(to->d[b], x->d + at * 2, nt * 2 * sizeof(*x->d));
    }
}

/* Tokens [t, end). */
V void all_tiles(const struct chunk *c, struct result out, const struct kern_acts *x, size_t t, size_t end,
                 const struct padded *last)
{
    bool first = true;
    for (size_t group; t < end; t += group) {
        const struct kern_act a = kern_act(x->n, t, x->k / KERN_BLOCK);
        const size_t at = a.at + c->first * a.step;
        struct acts in = {x->q + at * KERN_BLOCK, x->d + at * 2, a.step};
        group = a.step;
        for (size_t i = 0; i < group; i += TOKENS, first = false) {
            if (group - i >= TOKENS)
                tile(c, &out, in, TOKENS, first);
            else
                tile(c, &out, c->last ? (struct acts){last->q[0][0], last->d[0][0], TOKENS} : in, group - i, first);
            in.q += TOKENS * KERN_BLOCK, in.d += TOKENS * 2;
            out.at += TOKENS * out.ld, out.acc += SUMS;
        }
    }
}

/* The panel for tokens [t, end). */
V void panel_tokens(enum kern_type type, struct result out, const uint8_t *panel, const struct kern_acts *x, size_t t,
                    size_t end, const struct padded *last)
{
    const size_t nb = x->k / KERN_BLOCK, most = chunk_blocks(nb);
    _Alignas(64) uint8_t codes[CHUNK_BLOCKS * WIDE_MOST];
    for (size_t b = 0; b < nb; b += most) {
        const size_t n = nb - b < most ? nb - b : most;
        for (size_t i = 0; i < n; i++) widen(type, codes + i * wide_bytes(type), panel, b + i);
        all_tiles(&(struct chunk){type, codes, b, n, b + n == nb, packed_at(type, panel, b).c}, out, x, t, end, last);
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
    const size_t nb = x->k / KERN_BLOCK, stride = packed_panel(type, nb);
    _Alignas(64) float acc[PART_TILES * SUMS];
    struct padded last = {0};
    pad(&last, x, (nb - 1) % chunk_blocks(nb) + 1);
    configure(has_halves(type) ? 16 : 32);
    for (unsigned now; rows; panel += stride, out += now, rows -= now) {
        now = rows < KERN_ROWS ? rows : KERN_ROWS;
        for (size_t t = 0, n; t < x->n; t += n) {
            n = part_of(x->n - t);
            panel_tokens(type, (struct result){out + t * ld, ld, now, acc}, panel, x, t, t + n, &last);
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
