/* SPDX-License-Identifier: MIT */
/* Products of one panel of 16 rows with activations. The rows are the inner loop throughout, as lanes are elsewhere. */
#include "kernels/panel.h"
#include "kernels/ref/ref.h"

static void store(float *out, const float *acc, unsigned rows)
{
    memcpy(out, acc, rows * sizeof(float));
}

/* Floats, [k][16]; @value reads one. */
#define FLOATS(name, type, value)                                                                                      \
    static KERN_MATMUL(panel_##name)                                                                                   \
    {                                                                                                                  \
        const type *w = panel;                                                                                         \
        for (size_t t = 0; t < x->n; t++) {                                                                            \
            float acc[KERN_ROWS] = {0};                                                                                \
            for (size_t i = 0; i < x->k; i++)                                                                          \
                for (unsigned r = 0; r < KERN_ROWS; r++)                                                               \
                    acc[r] = fmaf(value(w[i * KERN_ROWS + r]), x->f[t * x->k + i], acc[r]);                            \
            store(out + t * ld, acc, rows);                                                                            \
        }                                                                                                              \
    }

FLOATS(f32, float, )
FLOATS(f16, uint16_t, ref_f16)
FLOATS(bf16, uint16_t, ref_bf16)

/* --- quantized types --- */

#define AT_ONCE 8 /* tokens that share one decoding of a block */

/* 32 columns of a panel. Types without sub-scales have 1 there. */
struct block {
    int16_t v[KERN_BLOCK][KERN_ROWS]; /* values of the codes, bias subtracted */
    int16_t sub[2][KERN_ROWS], min[2][KERN_ROWS];
    float d[KERN_ROWS], m[KERN_ROWS];
};

/* The value of row @r's code in column @j. */
static int16_t code_value(const struct panel_form *f, const uint8_t *w, unsigned r, unsigned j)
{
    unsigned g = j / 4, at = 4 * r + j % 4, c = 0;
    if (f->width == 8) c = w[64 * g + at];
    if (panel_has_nibbles(f)) c = w[64 * (g % 4) + at] >> g / 4 * 4 & 15;
    if (panel_has_pairs(f)) c |= (w[f->pairs + g / 4 * 64 + at] >> g % 4 * 2 & 3u) << panel_pair_bit(f);
    if (panel_has_bits(f)) c |= (w[f->bits + at] >> g & 1u) << panel_top_bit(f);
    return (int16_t)(f->table ? f->table[c] : (int)c - f->bias);
}

/* Block @i of a group. */
static void decode_block(const struct panel_form *f, struct block *b, const uint8_t *group, unsigned i)
{
    const uint8_t *sub = group + f->sub + i * f->sub_step;
    for (unsigned j = 0; j < KERN_BLOCK; j++)
        for (unsigned r = 0; r < KERN_ROWS; r++) b->v[j][r] = code_value(f, group + i * f->step, r, j);
    for (unsigned r = 0; r < KERN_ROWS; r++) {
        b->sub[0][r] = b->sub[1][r] = b->min[0][r] = b->min[1][r] = 1;
        b->d[r] = (f->d ? ref_f16(ref_load16(group + f->d + 2 * r)) : ref_e8m0(sub[r])) * panel_unit(f);
        b->m[r] = f->m ? ref_f16(ref_load16(group + f->m + 2 * r)) : 0;
        if (f->scales == PANEL_SUB) { /* products of 11 and at most 7 bits: exact */
            b->d[r] *= (float)(int8_t)sub[r];
            if (f->m) b->m[r] *= -(float)sub[KERN_ROWS + r];
        }
        if (f->scales != PANEL_HALVES) continue;
        for (unsigned h = 0; h < 2; h++) {
            uint8_t s = sub[h * KERN_ROWS + r];
            b->sub[h][r] = f->m ? s & 15 : (int8_t)s;
            b->min[h][r] = s >> 4;
        }
        b->m[r] = -b->m[r];
    }
}

/* One block and token, added to acc[r] (ARITHMETIC.md, matrix products). A dot product of 16 columns with sub-scales
 * (Q6_K's are the largest) is at most 16 * 32 * 127 = 65,024 and a sub-scale 128, so |isum| <= 16,646,144 < 2^24: exact
 * as a float too. */
static void add_block(const struct panel_form *f, float *acc, const struct block *b, const int8_t *q, const int16_t *s,
                      const float *d)
{
    int32_t dot[2][KERN_ROWS] = {{0}};
    for (unsigned j = 0; j < KERN_BLOCK; j++)
        for (unsigned r = 0; r < KERN_ROWS; r++) dot[j / 16][r] += b->v[j][r] * q[j];
    for (unsigned r = 0; r < KERN_ROWS; r++) {
        int32_t isum = b->sub[0][r] * dot[0][r] + b->sub[1][r] * dot[1][r];
        acc[r] = fmaf((float)isum, b->d[r] * d[0], acc[r]);
    }
    for (unsigned r = 0; f->m && r < KERN_ROWS; r++) {
        int32_t msum = b->min[0][r] * s[0] + b->min[1][r] * s[1];
        acc[r] = f->scales == PANEL_HALVES ? fmaf((float)msum, b->m[r] * d[0], acc[r]) : fmaf(b->m[r], d[1], acc[r]);
    }
}

static void panel_quantized(enum kern_type type, float *out, size_t ld, const uint8_t *panel, const struct kern_acts *x,
                            unsigned rows)
{
    const struct panel_form *f = &panel_forms[type];
    const size_t nb = x->k / KERN_BLOCK;
    for (size_t t0 = 0; t0 < x->n; t0 += AT_ONCE) {
        const size_t n = x->n - t0 < AT_ONCE ? x->n - t0 : AT_ONCE;
        float acc[AT_ONCE][KERN_ROWS] = {{0}};
        for (size_t b = 0; b < nb; b++) {
            struct block w;
            decode_block(f, &w, panel + b / f->blocks * f->group, (unsigned)(b % f->blocks));
            for (size_t t = 0; t < n; t++) {
                const struct kern_act a = kern_act(x->n, t0 + t, nb);
                const size_t at = a.at + b * a.step;
                add_block(f, acc[t], &w, x->q + at * KERN_BLOCK, x->s + at * 2, x->d + at * 2);
            }
        }
        for (size_t t = 0; t < n; t++) store(out + (t0 + t) * ld, acc[t], rows);
    }
}

#define QUANTIZED(type, name)                                                                                          \
    static KERN_MATMUL(panel_##name)                                                                                   \
    {                                                                                                                  \
        panel_quantized(KERN_##type, out, ld, panel, x, rows);                                                         \
    }

/* Panels follow each other. */
#define EACH_PANEL(name, stride)                                                                                       \
    KERN_MATMUL(REF(matmul_##name))                                                                                    \
    {                                                                                                                  \
        const size_t bytes = kern_align(stride);                                                                       \
        for (unsigned r = 0; r < rows; r += KERN_ROWS)                                                                 \
            panel_##name(out + r, ld, (const uint8_t *)panel + r / KERN_ROWS * bytes, x,                               \
                         rows - r < KERN_ROWS ? rows - r : KERN_ROWS);                                                 \
    }

#define EACH_QUANTIZED(type, name, unused)                                                                             \
    QUANTIZED(type, name)                                                                                              \
    EACH_PANEL(name, x->k / KERN_BLOCK / panel_forms[KERN_##type].blocks * panel_forms[KERN_##type].group)

EACH_PANEL(f32, x->k * 64)
EACH_PANEL(f16, x->k * 32)
EACH_PANEL(bf16, x->k * 32)
KERN_QUANTIZED(EACH_QUANTIZED, )
