/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Quantized weights with AVX-512 VNNI, included by avx512-matmul-*.c. A register is 4 columns of the panel's 16 rows,
 * so vpdpbusd with the same 4 activations broadcast from memory adds them to 16 outputs; the int32 accumulator of a
 * block starts at -bias * sum of the activations, because the codes are unsigned. Per block one conversion, one product
 * of the two scales, one fma.
 *
 * A tile is one or two panels and up to MOST or MOST_PAIR tokens, or more panels and fewer tokens. Of many tokens, the
 * first tile unpacks the codes to bytes and the scales to floats, a chunk of the columns at a time, into a buffer that
 * stays in L1 for the others.
 */
#include "kernels/table.h"
#include "kernels/x86/avx512-codes.h"
#include "kernels/x86/tiles.h"

#define MOST         8    /* tokens of a tile of one panel */
#define MOST_PAIR    6    /* of two panels; more than that do not fit into the registers */
#define PANELS       8    /* of a tile of one token */
#define FEW_AHEAD    1024 /* bytes of prefetch in each of several streams */
#define FILL_FROM    32   /* tokens: with fewer, unpacking again is cheaper than the stores */
#define CHUNK_BLOCKS 16   /* of 32 columns; a pair's chunk takes 18 to 26 KiB in the buffer */

/* The source of a tile's codes. ALONE, PACKED: the packed panel (ALONE: no other tile reads it). FILL: the packed
 * panel, and the tile writes the unpacked codes to the buffer. WIDE: the buffer. */
enum mode { ALONE, PACKED, FILL, WIDE };

/* A tile: @np panels of a type and @nt tokens. Constants wherever it is inlined, so that loops over them unroll. */
struct tile {
    unsigned np, nt;
    enum kern_type type;
    enum mode mode;
};

/* Blocks b … b + blocks - 1 of some panels. Sums begin at +0 for b = 0, otherwise at what @out has. */
struct chunk {
    const uint8_t *panel[PANELS];
    uint8_t *wide;               /* block after block, the second panel's after the first's */
    size_t b, blocks, stride;    /* stride: bytes of a panel */
    const uint8_t *next[PANELS]; /* packed bytes to prefetch: */
    size_t step, mine;           /* a tile does so for every @step-th block, from @mine on */
};

/* The activations of a tile's tokens, one block of them after the other, each @step further. */
struct acts {
    const int8_t *q;
    const float *d;
    const int16_t *s;
    size_t step;
};

/* Four activations in each lane. */
V __m512i spread(const int8_t *q)
{
    return _mm512_set1_epi32(load_lane(q));
}

/* f0 * s[0] + f1 * s[1] in each lane. */
V __m512i start(int f0, int f1, const int16_t *s)
{
    __m512i f = _mm512_set1_epi32((int)((unsigned)f1 << 16 | (f0 & 0xffff)));
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), f, _mm512_set1_epi32(load_lane(s)));
}

/* sum[p][t] = start(f0, f1, sums of token t's halves) */
V void begin(struct tile k, __m512i sum[][MOST], int f0, int f1, const struct acts *x)
{
    UNROLL
    for (unsigned t = 0; t < k.nt; t++) {
        sum[0][t] = f0 || f1 ? start(f0, f1, x->s + t * 2) : _mm512_setzero_si512();
        UNROLL
        for (unsigned p = 1; p < k.np; p++) sum[p][t] = sum[0][t];
    }
}

V __m512i codes(enum kern_type type, enum mode mode, struct packed p, struct raw *raw, uint8_t *wide, unsigned g)
{
    if (mode == WIDE) return _mm512_load_si512(wide + g * 64);
    packed_load(type, raw, p, g);
    __m512i c = packed_codes(type, *raw, g);
    if (mode == FILL) _mm512_store_si512(wide + g * 64, c);
    return c;
}

V __m512 scales(enum kern_type type, enum mode mode, struct packed p, uint8_t *wide, enum scale which)
{
    uint8_t *at = wide + WIDE_SCALES + 64 * which;
    if (mode == WIDE) return _mm512_load_ps(at);
    __m512 s = packed_scales(type, p, which);
    if (mode == FILL) _mm512_store_ps(at, s);
    return s;
}

/* sum[p][t] += codes of 4 columns, numbers i0 … i1 - 1, times activations. */
V void dot(struct tile k, __m512i sum[][MOST], const struct packed *w, uint8_t *const *wide, const struct acts *x,
           unsigned i0, unsigned i1)
{
    struct raw raw[PANELS] = {0};
    UNROLL
    for (unsigned i = i0; i < i1; i++) {
        const unsigned g = packed_order(k.type, i);
        __m512i c[PANELS];
        UNROLL
        for (unsigned p = 0; p < k.np; p++) c[p] = codes(k.type, k.mode, w[p], &raw[p], wide[p], g);
        UNROLL
        for (unsigned t = 0; t < k.nt; t++) {
            __m512i four = spread(x->q + t * KERN_BLOCK + g * 4);
            if (k.np > 1) __asm__("" : "+v"(four)); /* one load, not an operand of both instructions */
            UNROLL
            for (unsigned p = 0; p < k.np; p++) sum[p][t] = _mm512_dpbusd_epi32(sum[p][t], c[p], four);
        }
    }
}

/* acc = fma(isum, f32(dw * dx), acc) */
V __m512 add_scaled(__m512 acc, __m512 isum, __m512 dw, const float *dx)
{
    return _mm512_fmadd_ps(isum, _mm512_mul_ps(dw, _mm512_set1_ps(*dx)), acc);
}

/* One block, added to acc[p][t] (ARITHMETIC.md, matrix products). */
V void block(struct tile k, __m512 acc[][MOST], const struct packed *w, uint8_t *const *wide, const struct acts *x)
{
    const int bias = packed_bias(k.type);
    __m512i sum[PANELS][MOST];
    begin(k, sum, -bias, -bias, x);
    dot(k, sum, w, wide, x, 0, 8);
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __m512 dw = scales(k.type, k.mode, w[p], wide[p], SCALE_D);
        UNROLL
        for (unsigned t = 0; t < k.nt; t++)
            acc[p][t] = add_scaled(acc[p][t], _mm512_cvtepi32_ps(sum[p][t]), dw, x->d + t * 2);
    }
    if (!has_offset(k.type)) return;
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __m512 mw = scales(k.type, k.mode, w[p], wide[p], SCALE_M);
        UNROLL
        for (unsigned t = 0; t < k.nt; t++) acc[p][t] = _mm512_fmadd_ps(mw, _mm512_set1_ps(x->d[t * 2 + 1]), acc[p][t]);
    }
}

/* The same where halves of 16 columns have sub-scales. Their products and the sum of both are exact in floats:
 * kernels/ref/matmul.c gives the reason. */
V void block_halves(struct tile k, __m512 acc[][MOST], const struct packed *w, uint8_t *const *wide,
                    const struct acts *x)
{
    const int bias = packed_bias(k.type);
    __m512i sum[PANELS][MOST];
    __m512 first[PANELS][MOST];
    begin(k, sum, -bias, 0, x);
    dot(k, sum, w, wide, x, 0, 4);
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __m512 sc = scales(k.type, k.mode, w[p], wide[p], SCALE_SUB0);
        UNROLL
        for (unsigned t = 0; t < k.nt; t++) first[p][t] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[p][t]), sc);
    }
    begin(k, sum, 0, -bias, x);
    dot(k, sum, w, wide, x, 4, 8);
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __m512 dw = scales(k.type, k.mode, w[p], wide[p], SCALE_D);
        const __m512 sc = scales(k.type, k.mode, w[p], wide[p], SCALE_SUB1);
        UNROLL
        for (unsigned t = 0; t < k.nt; t++) {
            __m512 isum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][t]), sc, first[p][t]);
            acc[p][t] = add_scaled(acc[p][t], isum, dw, x->d + t * 2);
        }
    }
    if (!has_offset(k.type)) return;
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __m512 mw = scales(k.type, k.mode, w[p], wide[p], SCALE_HALVES_M);
        const __m512i minima = _mm512_castps_si512(scales(k.type, k.mode, w[p], wide[p], SCALE_MINIMA));
        UNROLL
        for (unsigned t = 0; t < k.nt; t++) {
            const __m512i both = _mm512_set1_epi32(load_lane(x->s + t * 2));
            const __m512i msum = _mm512_madd_epi16(minima, both);
            acc[p][t] = add_scaled(acc[p][t], _mm512_cvtepi32_ps(msum), mw, x->d + t * 2);
        }
    }
}

/* A single tile prefetches its own panel, a little ahead. Several tiles share the prefetch of the next chunk, so that
 * memory is busy all the time. */
V void prefetch(const uint8_t *p, size_t bytes, bool alone)
{
    for (size_t i = 0; i < bytes; i += 64) {
        if (alone)
            _mm_prefetch((const char *)p + i, _MM_HINT_T0);
        else
            _mm_prefetch((const char *)p + i, _MM_HINT_T1);
    }
}

/* Bytes from @at of a panel on to what a single tile reads some blocks later: behind the end of its panels that is in
 * the panels of the next tile. */
V size_t ahead_of(struct tile k, const struct chunk *c, size_t at)
{
    const size_t ahead = k.np > 2 ? FEW_AHEAD : kern_reading.ahead;
    return at + ahead < c->stride ? ahead : ahead + (k.np - 1) * c->stride;
}

V void tile(struct tile k, float *out, size_t ld, const struct chunk *c, struct acts x, unsigned rows)
{
    const __mmask16 last = v16_mask(rows - (k.np - 1) * KERN_ROWS);
    const size_t bytes = packed_bytes(k.type);
    __m512 acc[PANELS][MOST];
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __mmask16 mask = p + 1 < k.np ? (__mmask16)-1 : last;
        UNROLL
        for (unsigned t = 0; t < k.nt; t++)
            acc[p][t] = c->b ? _mm512_maskz_loadu_ps(mask, out + t * ld + p * KERN_ROWS) : _mm512_setzero_ps();
    }
    for (size_t b = 0, ahead = c->mine; b < c->blocks; b++) {
        struct packed w[PANELS];
        uint8_t *wide[PANELS];
        UNROLL
        for (unsigned p = 0; p < k.np; p++) {
            wide[p] = c->wide + (k.mode <= PACKED ? 0 : (p * c->blocks + b) * wide_bytes(k.type));
            w[p] = packed_at(k.type, c->panel[p], c->b + b);
        }
        const size_t alone_ahead = ahead_of(k, c, (size_t)(w[0].c - c->panel[0]));
        UNROLL
        for (unsigned p = 0; p < k.np; p++) {
            if (k.mode == ALONE)
                prefetch(w[p].c + alone_ahead, bytes, true);
            else if (b == ahead)
                prefetch(c->next[p] + b * bytes, bytes, false);
        }
        if (k.mode != ALONE && b == ahead) ahead += c->step;
        if (has_halves(k.type))
            block_halves(k, acc, w, wide, &x);
        else
            block(k, acc, w, wide, &x);
        x.q += x.step * KERN_BLOCK, x.d += x.step * 2, x.s += x.step * 2;
    }
    UNROLL
    for (unsigned p = 0; p < k.np; p++) {
        const __mmask16 mask = p + 1 < k.np ? (__mmask16)-1 : last;
        UNROLL
        for (unsigned t = 0; t < k.nt; t++) _mm512_mask_storeu_ps(out + t * ld + p * KERN_ROWS, mask, acc[p][t]);
    }
}

V struct tile with_tokens(struct tile k, unsigned nt)
{
    k.nt = nt;
    return k;
}

/* Call tile() with k.nt = @nt. Several tiles have at least 3 tokens each, and from FILL_FROM tokens on 5. */
V void tile_of(struct tile k, size_t nt, float *out, size_t ld, const struct chunk *c, const struct acts *x,
               unsigned rows)
{
    if (k.mode == ALONE && (nt == 1 || k.np == 8))
        tile(with_tokens(k, 1), out, ld, c, *x, rows);
    else if (k.mode == ALONE && (nt == 2 || k.np == 4))
        tile(with_tokens(k, 2), out, ld, c, *x, rows);
    else if (k.mode <= PACKED && nt == 3)
        tile(with_tokens(k, 3), out, ld, c, *x, rows);
    else if (k.mode <= PACKED && nt == 4)
        tile(with_tokens(k, 4), out, ld, c, *x, rows);
    else if (k.mode == ALONE && k.np == 1 && nt == MOST)
        tile(with_tokens(k, MOST), out, ld, c, *x, rows);
    else if (k.mode == ALONE && k.np == 1 && nt == MOST - 1)
        tile(with_tokens(k, MOST - 1), out, ld, c, *x, rows);
    else if (nt == 5)
        tile(with_tokens(k, 5), out, ld, c, *x, rows);
    else
        tile(with_tokens(k, MOST_PAIR), out, ld, c, *x, rows);
}

/* Tokens of a tile of @np panels, of @n tokens in all, at most. */
V size_t tile_tokens(unsigned np, size_t n)
{
    return np == 1 && n <= MOST ? kern_reading.single : MOST_PAIR;
}

/* The tokens of one group, from token @first on, in tiles of nearly equal sizes. Returns the number of tokens. */
V size_t group_tiles(unsigned np, enum kern_type type, float *out, size_t ld, struct chunk *c,
                     const struct kern_acts *x, size_t first, unsigned rows)
{
    const struct kern_act a = kern_act(x->n, first, x->k / KERN_BLOCK);
    const size_t at = a.at + c->b * a.step;
    struct acts in = {x->q + at * KERN_BLOCK, x->d + at * 2, x->s + at * 2, a.step};
    out += first * ld;
    const size_t most = tile_tokens(np, x->n);
    for (size_t t = 0, nt, left = (a.step + most - 1) / most; left; t += nt, left--, c->mine++) {
        nt = (a.step - t + left - 1) / left;
        if (np > 2 || x->n <= most)
            tile_of((struct tile){np, 0, type, ALONE}, nt, out, ld, c, &in, rows);
        else if (x->n < FILL_FROM)
            tile_of((struct tile){np, 0, type, PACKED}, nt, out + t * ld, ld, c, &in, rows);
        else if (c->mine == 0)
            tile_of((struct tile){np, 0, type, FILL}, nt, out, ld, c, &in, rows);
        else
            tile_of((struct tile){np, 0, type, WIDE}, nt, out + t * ld, ld, c, &in, rows);
        in.q += nt * KERN_BLOCK, in.d += nt * 2, in.s += nt * 2;
    }
    return a.step;
}

V void tiles(unsigned np, enum kern_type type, float *out, size_t ld, struct chunk *c, const struct kern_acts *x,
             unsigned rows)
{
    const size_t most = tile_tokens(np, x->n); /* KERN_GROUP is a multiple of it */
    c->step = (x->n + most - 1) / most;
    for (size_t t = 0; t < x->n;) t += group_tiles(np, type, out, ld, c, x, t, rows);
}

/* Number of panels of the next tile. Each is a stream from memory, and few tokens leave registers for more of them. On
 * Intel (Emerald Rapids, Ice Lake; two threads) 8 streams of one token are 1.25 to 1.5 times as fast as one. On Emerald
 * Rapids two of 4 tokens are 1.05 to 1.15 times as fast as 4 (of 3 tokens they are alike), and of 7 or 8 tokens one
 * tile of a single panel, which unpacks its codes once, is 1.15 times as fast as two tiles of two panels. On AMD
 * (Zen 4) one stream is 1.05 to 1.9 times as fast as several up to MOST_PAIR tokens, and then 1.05 to 1.25 times where
 * halves have sub-scales, which take registers. On Zen 5 one stream, prefetched far enough ahead, is as fast as two or
 * faster up to MOST tokens, of Q8_0 1.6 times. */
V unsigned tile_panels(enum kern_type type, size_t tokens, unsigned rows)
{
    const bool simple = !panel_has_pairs(form(type)) && !panel_has_bits(form(type)), one = kern_reading.one_stream;
    if (one && tokens < FILL_FROM && has_halves(type)) return 1;
    if (tokens <= kern_reading.single && (one || tokens > MOST_PAIR)) return 1;
    if (tokens == 1 && simple && rows > 7 * KERN_ROWS) return 8;
    if (tokens <= 2 && rows > 3 * KERN_ROWS) return 4;
    return rows > KERN_ROWS ? 2 : 1;
}

V void matmul(enum kern_type type, float *out, size_t ld, const uint8_t *panel, const struct kern_acts *x,
              unsigned rows)
{
    const size_t nb = x->k / KERN_BLOCK, stride = packed_panel(type, nb);
    const size_t most = x->n < FILL_FROM ? nb : CHUNK_BLOCKS;
    uint8_t buf[2 * CHUNK_BLOCKS * WIDE_MOST] __attribute__((aligned(64)));
    while (rows) {
        const unsigned np = tile_panels(type, x->n, rows);
        const unsigned now = rows < np * KERN_ROWS ? rows : np * KERN_ROWS;
        for (size_t b = 0; b < nb; b += most) {
            struct chunk c = {.wide = buf, .b = b, .blocks = nb - b < most ? nb - b : most, .stride = stride};
            for (unsigned p = 0; p < np; p++) {
                c.panel[p] = panel + p * stride;
                c.next[p] = b + c.blocks < nb ? packed_at(type, c.panel[p], b + c.blocks).c : c.panel[p] + np * stride;
            }
            if (np == 8)
                tiles(8, type, out, ld, &c, x, now);
            else if (np == 4)
                tiles(4, type, out, ld, &c, x, now);
            else if (np == 2)
                tiles(2, type, out, ld, &c, x, now);
            else
                tiles(1, type, out, ld, &c, x, now);
        }
        panel += np * stride;
        out += now;
        rows -= now;
    }
}

/* One type's entry of the kernel table. It compiles some 30 tiles of different sizes, each unrolled, which takes 4 to 5
 * seconds; so the types are divided among several files. */
#define MATMUL(type, name)                                                                                             \
    KERN_MATMUL(matmul_##name##_avx512)                                                                                \
    {                                                                                                                  \
        matmul(KERN_##type, out, ld, panel, x, rows);                                                                  \
    }
