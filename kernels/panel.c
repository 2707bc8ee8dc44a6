/* SPDX-License-Identifier: MIT */
/* Weight types, packing of panels, and decoding of rows. They run at load and for single rows, with the same code on
 * every CPU. */
#include "kernels/panel.h"
#include "kernels/format.h"
#include "kernels/ref/ref.h"
#include <assert.h>

static const struct type {
    const char *name;
    size_t block, bytes;                                       /* of the source */
    void (*read)(struct format_block *to, const uint8_t *src); /* NULL: floats */
} types[KERN_TYPES] = {
    [KERN_F32] = {"F32", 1, 4, NULL},
    [KERN_F16] = {"F16", 1, 2, NULL},
    [KERN_BF16] = {"BF16", 1, 2, NULL},
    [KERN_Q8_0] = {"Q8_0", 32, 34, format_q8_0},
    [KERN_Q4_0] = {"Q4_0", 32, 18, format_q4_0},
    [KERN_Q4_1] = {"Q4_1", 32, 20, format_q4_1},
    [KERN_Q5_0] = {"Q5_0", 32, 22, format_q5_0},
    [KERN_Q5_1] = {"Q5_1", 32, 24, format_q5_1},
    [KERN_Q2_K] = {"Q2_K", 256, 84, format_q2_k},
    [KERN_Q3_K] = {"Q3_K", 256, 110, format_q3_k},
    [KERN_Q4_K] = {"Q4_K", 256, 144, format_q4_k},
    [KERN_Q5_K] = {"Q5_K", 256, 176, format_q5_k},
    [KERN_Q6_K] = {"Q6_K", 256, 210, format_q6_k},
    [KERN_IQ4_NL] = {"IQ4_NL", 32, 18, format_iq4_nl},
    [KERN_IQ4_XS] = {"IQ4_XS", 256, 136, format_iq4_xs},
    [KERN_MXFP4] = {"MXFP4", 32, 17, format_mxfp4},
    [KERN_TQ1_0] = {"TQ1_0", 256, 54, format_tq1_0},
    [KERN_TQ2_0] = {"TQ2_0", 256, 66, format_tq2_0},
    [KERN_IQ1_S] = {"IQ1_S", 256, 50, format_iq1_s},
    [KERN_IQ1_M] = {"IQ1_M", 256, 56, format_iq1_m},
    [KERN_IQ2_XXS] = {"IQ2_XXS", 256, 66, format_iq2_xxs},
    [KERN_IQ2_XS] = {"IQ2_XS", 256, 74, format_iq2_xs},
    [KERN_IQ2_S] = {"IQ2_S", 256, 82, format_iq2_s},
    [KERN_IQ3_XXS] = {"IQ3_XXS", 256, 98, format_iq3_xxs},
    [KERN_IQ3_S] = {"IQ3_S", 256, 110, format_iq3_s},
};

size_t kern_type_block(enum kern_type t)
{
    assert(t < KERN_TYPES);
    return types[t].block;
}

size_t kern_type_bytes(enum kern_type t)
{
    assert(t < KERN_TYPES);
    return types[t].bytes;
}

bool kern_type_quantized(enum kern_type t)
{
    assert(t < KERN_TYPES);
    return types[t].block > 1;
}

const char *kern_type_name(enum kern_type t)
{
    assert(t < KERN_TYPES);
    return types[t].name;
}

float kern_exp(float x)
{
    return isnan(x) ? x : ref_exp(x); /* ref_exp could shift low bits of a NaN into the exponent */
}

float kern_f16_to_f32(uint16_t h)
{
    return ref_f16(h);
}

uint16_t kern_f32_to_f16(float f)
{
    return ref_to_f16(f);
}

/* Bytes of one source block's 16 rows in a panel. */
static size_t group_bytes(enum kern_type t)
{
    return types[t].read ? panel_forms[t].group : KERN_ROWS * types[t].bytes;
}

size_t kern_panel_bytes(enum kern_type t, size_t k)
{
    assert(t < KERN_TYPES && k % types[t].block == 0);
    return kern_align(k / types[t].block * group_bytes(t));
}

/* --- codes, 4 columns (a 32-bit word of the panel) at a time --- */

static uint32_t load_word(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof(u));
    return u;
}

static void store_word(uint8_t *p, uint32_t u)
{
    memcpy(p, &u, sizeof(u));
}

/* 32 codes, to one row of 32 columns at @to. */
static void put_codes(const struct panel_form *f, uint8_t *to, const uint8_t *codes, unsigned row)
{
    uint32_t c[8], bits = 0;
    to += 4 * row;
    for (unsigned g = 0; g < 8; g++) c[g] = load_word(codes + 4 * g);
    for (unsigned g = 0; f->width == 8 && g < 8; g++) store_word(to + 64 * g, c[g]);
    for (unsigned g = 0; panel_has_nibbles(f) && g < 4; g++)
        store_word(to + 64 * g, (c[g] & 0x0f0f0f0f) | (c[4 + g] & 0x0f0f0f0f) << 4);
    for (unsigned h = 0; panel_has_pairs(f) && h < 2; h++) {
        uint32_t pairs = 0;
        for (unsigned g = 0; g < 4; g++) pairs |= (c[4 * h + g] >> panel_pair_bit(f) & 0x03030303) << 2 * g;
        store_word(to + f->pairs + 64 * h, pairs);
    }
    if (!panel_has_bits(f)) return;
    for (unsigned g = 0; g < 8; g++) bits |= (c[g] >> panel_top_bit(f) & 0x01010101) << g;
    store_word(to + f->bits, bits);
}

static void get_codes(const struct panel_form *f, uint8_t *codes, const uint8_t *from, unsigned row)
{
    from += 4 * row;
    for (unsigned g = 0; g < 8; g++) {
        uint32_t c = 0;
        if (f->width == 8) c = load_word(from + 64 * g);
        if (panel_has_nibbles(f)) c = load_word(from + 64 * (g % 4)) >> g / 4 * 4 & 0x0f0f0f0f;
        if (panel_has_pairs(f))
            c |= (load_word(from + f->pairs + g / 4 * 64) >> g % 4 * 2 & 0x03030303) << panel_pair_bit(f);
        if (panel_has_bits(f)) c |= (load_word(from + f->bits) >> g & 0x01010101) << panel_top_bit(f);
        store_word(codes + 4 * g, c);
    }
}

/* --- one row of one group --- */

static void put_block(enum kern_type t, uint8_t *group, const struct format_block *b, unsigned row)
{
    const struct panel_form *f = &panel_forms[t];
    for (unsigned i = 0; i < f->blocks; i++) {
        put_codes(f, group + i * f->step, b->c + i * KERN_BLOCK, row);
        for (unsigned s = 0; s < f->subs; s++)
            group[f->sub + i * f->sub_step + s * KERN_ROWS + row] = b->sub[i * f->subs + s];
    }
    if (f->d) memcpy(group + f->d + 2 * row, b->d, 2);
    if (f->m) memcpy(group + f->m + 2 * row, b->m, 2);
}

static void get_block(enum kern_type t, struct format_block *b, const uint8_t *group, unsigned row)
{
    const struct panel_form *f = &panel_forms[t];
    for (unsigned i = 0; i < f->blocks; i++) {
        get_codes(f, b->c + i * KERN_BLOCK, group + i * f->step, row);
        for (unsigned s = 0; s < f->subs; s++)
            b->sub[i * f->subs + s] = group[f->sub + i * f->sub_step + s * KERN_ROWS + row];
    }
    if (f->d) memcpy(b->d, group + f->d + 2 * row, 2);
    if (f->m) memcpy(b->m, group + f->m + 2 * row, 2);
}

/* A block of zeros. Where the table has no 0, the code is that of a positive value and the scale is 0. */
static void zero_block(enum kern_type t, struct format_block *b)
{
    const struct panel_form *f = &panel_forms[t];
    memset(b, 0, sizeof(*b));
    memset(b->c, f->table == panel_iq4_values ? 8 : f->table ? 0 : f->bias, sizeof(b->c));
}

/* The values of 16 columns, number @i of the block. */
static void half_values(const struct panel_form *f, float *out, const struct format_block *b, unsigned i)
{
    const uint8_t *sub = b->sub + (f->scales == PANEL_HALVES ? i : i / 2 * f->subs);
    float d = (f->d ? ref_f16(ref_load16(b->d)) : ref_e8m0(*sub)) * panel_unit(f),
          m = f->m ? ref_f16(ref_load16(b->m)) : 0;
    if (f->scales == PANEL_SUB) {
        d *= (float)(int8_t)sub[0];
        if (f->m) m *= -(float)sub[1];
    }
    if (f->scales == PANEL_HALVES) {
        d *= (float)(f->m ? *sub & 15 : (int8_t)*sub);
        if (f->m) m *= -(float)(*sub >> 4);
    }
    for (unsigned j = 0; j < 16; j++) {
        uint8_t c = b->c[16 * i + j];
        float v = d * (float)(f->table ? f->table[c] : c - f->bias);
        out[j] = f->m ? v + m : v;
    }
}

static void block_values(enum kern_type t, float *out, const struct format_block *b)
{
    const struct panel_form *f = &panel_forms[t];
    for (unsigned i = 0; i < 2u * f->blocks; i++) half_values(f, out + 16 * i, b, i);
}

/* --- rows and panels --- */

void kern_panel_pack(enum kern_type t, void *panel, const void *src, size_t stride, unsigned rows, size_t k)
{
    assert(t < KERN_TYPES && rows <= KERN_ROWS && k % types[t].block == 0);
    static const uint8_t zeros[sizeof(float)];
    const struct type *ty = &types[t];
    const size_t nb = k / ty->block, bytes = group_bytes(t), used = nb * bytes;
    struct format_block block, zero = {{0}, {0}, {0}, {0}};
    memset((uint8_t *)panel + used, 0, kern_panel_bytes(t, k) - used);
    if (ty->read) zero_block(t, &zero);
    for (size_t b = 0; b < nb; b++) {
        uint8_t *group = (uint8_t *)panel + b * bytes;
        for (unsigned r = 0; r < KERN_ROWS; r++) {
            const uint8_t *from = (const uint8_t *)src + r * stride + b * ty->bytes;
            if (!ty->read)
                memcpy(group + r * ty->bytes, r < rows ? from : zeros, ty->bytes);
            else if (r < rows)
                ty->read(&block, from), put_block(t, group, &block, r);
            else
                put_block(t, group, &zero, r);
        }
    }
}

static float float_value(enum kern_type t, const uint8_t *p)
{
    float f;
    if (t == KERN_F16) return ref_f16(ref_load16(p));
    if (t == KERN_BF16) return ref_bf16(ref_load16(p));
    memcpy(&f, p, sizeof(f));
    return f;
}

void kern_panel_row(enum kern_type t, float *out, const void *panel, unsigned i, size_t k)
{
    assert(t < KERN_TYPES && i < KERN_ROWS && k % types[t].block == 0);
    const uint8_t *p = panel;
    for (size_t b = 0; b < k / types[t].block; b++, p += group_bytes(t), out += types[t].block) {
        struct format_block block;
        if (types[t].read)
            get_block(t, &block, p, i), block_values(t, out, &block);
        else
            *out = float_value(t, p + i * types[t].bytes);
    }
}

void kern_dequant(enum kern_type t, float *out, const void *src, size_t k)
{
    assert(t < KERN_TYPES && k % types[t].block == 0);
    const uint8_t *p = src;
    for (size_t b = 0; b < k / types[t].block; b++, p += types[t].bytes, out += types[t].block) {
        struct format_block block;
        if (types[t].read)
            types[t].read(&block, p), block_values(t, out, &block);
        else
            *out = float_value(t, p);
    }
}
