/* SPDX-License-Identifier: MIT */
/* Weight types, panels of them, and decoding: what runs at load and for single rows, the same code on every CPU. */
#include "kernels/panel.h"
#include "kernels/ref/ref.h"
#include <assert.h>

/* block_q6_K: ql, qh, sc, d, and how long all is; the longest source block. */
#define Q6_K_H     128
#define Q6_K_SC    192
#define Q6_K_D     208
#define Q6_K_BYTES 210

static const struct type {
    const char *name;
    size_t block, bytes; /* of the source */
    size_t panel;        /* bytes of one source block's 16 rows in a panel */
} types[KERN_TYPES] = {
    [KERN_F32] = {"F32", 1, 4, 64},
    [KERN_F16] = {"F16", 1, 2, 32},
    [KERN_BF16] = {"BF16", 1, 2, 32},
    [KERN_Q8_0] = {"Q8_0", KERN_BLOCK, 34, PANEL_Q8_0},
    [KERN_Q4_0] = {"Q4_0", KERN_BLOCK, 18, PANEL_Q4_0},
    [KERN_Q4_1] = {"Q4_1", KERN_BLOCK, 20, PANEL_Q4_1},
    [KERN_Q6_K] = {"Q6_K", 256, Q6_K_BYTES, PANEL_Q6_K},
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
    return ref_exp(x);
}

float kern_f16_to_f32(uint16_t h)
{
    return ref_f16(h);
}

uint16_t kern_f32_to_f16(float f)
{
    return ref_to_f16(f);
}

size_t kern_panel_bytes(enum kern_type t, size_t k)
{
    assert(t < KERN_TYPES && k % types[t].block == 0);
    return (k / types[t].block * types[t].panel + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN;
}

/* --- Q6_K: 256 codes of 0 … 63, in the file's order of bits and in the panel's --- */

static void codes_q6_k(uint8_t *c, const uint8_t *src)
{
    for (unsigned j = 0; j < 256; j++) {
        unsigned half = j / 128, part = j / 32 % 4, l = j % 32;
        unsigned low = src[64 * half + 32 * (part % 2) + l] >> part / 2 * 4 & 15;
        c[j] = (uint8_t)(low | (src[Q6_K_H + 32 * half + l] >> 2 * part & 3) << 4);
    }
}

static void pack_q6_k(uint8_t *dst, const uint8_t *src, unsigned row)
{
    uint8_t c[256];
    codes_q6_k(c, src);
    for (unsigned i = 0; i < 8; i++) {
        uint8_t *to = dst + i * PANEL_Q6_K_32 + row * 4;
        const uint8_t *from = c + i * KERN_BLOCK;
        for (unsigned j = 0; j < 16; j++) to[j / 4 * 64 + j % 4] = (uint8_t)((from[j] & 15) | (from[16 + j] & 15) << 4);
        for (unsigned h = 0; h < 2; h++, from += 16)
            for (unsigned b = 0; b < 4; b++)
                to[PANEL_Q6_K_H + h * 64 + b] =
                    (uint8_t)(from[b] >> 4 | from[4 + b] >> 4 << 2 | from[8 + b] >> 4 << 4 | from[12 + b] >> 4 << 6);
        dst[PANEL_Q6_K_SC + i * 32 + row] = src[Q6_K_SC + 2 * i];
        dst[PANEL_Q6_K_SC + i * 32 + 16 + row] = src[Q6_K_SC + 2 * i + 1];
    }
    memcpy(dst + PANEL_Q6_K_D + 2 * row, src + Q6_K_D, 2);
}

static void unpack_q6_k(uint8_t *dst, const uint8_t *src, unsigned row)
{
    memset(dst, 0, Q6_K_SC);
    for (unsigned j = 0; j < 256; j++) {
        const uint8_t *from = src + j / 32 * PANEL_Q6_K_32 + j / 4 % 4 * 64 + row * 4 + j % 4;
        unsigned sub = j / 16 % 2, half = j / 128, part = j / 32 % 4, l = j % 32;
        unsigned low = *from >> 4 * sub & 15;
        unsigned high = src[j / 32 * PANEL_Q6_K_32 + PANEL_Q6_K_H + sub * 64 + row * 4 + j % 4] >> j / 4 % 4 * 2 & 3;
        dst[64 * half + 32 * (part % 2) + l] |= (uint8_t)(low << part / 2 * 4);
        dst[Q6_K_H + 32 * half + l] |= (uint8_t)(high << 2 * part);
    }
    for (unsigned i = 0; i < 16; i++) dst[Q6_K_SC + i] = src[PANEL_Q6_K_SC + i * 16 + row];
    memcpy(dst + Q6_K_D, src + PANEL_Q6_K_D + 2 * row, 2);
}

/* A source block of zeros: the codes are the type's bias. */
static const uint8_t *zeros(enum kern_type t, uint8_t block[Q6_K_BYTES])
{
    memset(block, 0, Q6_K_BYTES);
    if (t == KERN_Q4_0) memset(block + 2, PANEL_Q4_BIAS | PANEL_Q4_BIAS << 4, 16);
    if (t == KERN_Q6_K) memset(block + Q6_K_H, 0xaa, 64);
    return block;
}

/* One row of one block. The codes of 4 columns are one 32-bit word of the panel. */
static void pack_block(enum kern_type t, uint8_t *dst, const uint8_t *src, unsigned row)
{
    switch (t) {
    case KERN_Q8_0:
        for (unsigned i = 0; i < 32; i++) dst[i / 4 * 64 + row * 4 + i % 4] = src[2 + i] ^ PANEL_Q8_BIAS; /* i8 + 128 */
        memcpy(dst + PANEL_Q8_0_D + 2 * row, src, 2);
        break;
    case KERN_Q4_0:
        for (unsigned g = 0; g < 4; g++) memcpy(dst + g * 64 + row * 4, src + 2 + g * 4, 4);
        memcpy(dst + PANEL_Q4_0_D + 2 * row, src, 2);
        break;
    case KERN_Q4_1:
        for (unsigned g = 0; g < 4; g++) memcpy(dst + g * 64 + row * 4, src + 4 + g * 4, 4);
        memcpy(dst + PANEL_Q4_1_D + 2 * row, src, 2);
        memcpy(dst + PANEL_Q4_1_M + 2 * row, src + 2, 2);
        break;
    case KERN_Q6_K:
        pack_q6_k(dst, src, row);
        break;
    case KERN_F32:
    case KERN_F16:
    case KERN_BF16:
        memcpy(dst + types[t].bytes * row, src, types[t].bytes);
        break;
    case KERN_TYPES:
        assert(false);
    }
}

void kern_panel_pack(enum kern_type t, void *panel, const void *src, size_t stride, unsigned rows, size_t k)
{
    assert(t < KERN_TYPES && rows <= KERN_ROWS && k % types[t].block == 0);
    const struct type *ty = &types[t];
    size_t nb = k / ty->block, used = nb * ty->panel;
    memset((uint8_t *)panel + used, 0, kern_panel_bytes(t, k) - used);
    uint8_t buf[Q6_K_BYTES];
    const uint8_t *zero = zeros(t, buf);
    for (size_t b = 0; b < nb; b++)
        for (unsigned r = 0; r < KERN_ROWS; r++) {
            const uint8_t *block = r < rows ? (const uint8_t *)src + r * stride + b * ty->bytes : zero;
            pack_block(t, (uint8_t *)panel + b * ty->panel, block, r);
        }
}

/* The inverse of pack_block: a source block again. */
static void unpack_block(enum kern_type t, uint8_t *dst, const uint8_t *src, unsigned row)
{
    switch (t) {
    case KERN_Q8_0:
        memcpy(dst, src + PANEL_Q8_0_D + 2 * row, 2);
        for (unsigned i = 0; i < 32; i++) dst[2 + i] = src[i / 4 * 64 + row * 4 + i % 4] ^ PANEL_Q8_BIAS;
        break;
    case KERN_Q4_0:
        memcpy(dst, src + PANEL_Q4_0_D + 2 * row, 2);
        for (unsigned g = 0; g < 4; g++) memcpy(dst + 2 + g * 4, src + g * 64 + row * 4, 4);
        break;
    case KERN_Q4_1:
        memcpy(dst, src + PANEL_Q4_1_D + 2 * row, 2);
        memcpy(dst + 2, src + PANEL_Q4_1_M + 2 * row, 2);
        for (unsigned g = 0; g < 4; g++) memcpy(dst + 4 + g * 4, src + g * 64 + row * 4, 4);
        break;
    case KERN_Q6_K:
        unpack_q6_k(dst, src, row);
        break;
    case KERN_F32:
    case KERN_F16:
    case KERN_BF16:
        memcpy(dst, src + types[t].bytes * row, types[t].bytes);
        break;
    case KERN_TYPES:
        assert(false);
    }
}

void kern_panel_row(enum kern_type t, float *out, const void *panel, unsigned i, size_t k)
{
    assert(t < KERN_TYPES && i < KERN_ROWS && k % types[t].block == 0);
    const struct type *ty = &types[t];
    for (size_t b = 0; b < k / ty->block; b++) {
        uint8_t block[Q6_K_BYTES];
        unpack_block(t, block, (const uint8_t *)panel + b * ty->panel, i);
        kern_dequant(t, out + b * ty->block, block, ty->block);
    }
}

static void dequant_q8_0(float *out, const uint8_t *p)
{
    float d = ref_f16(ref_load16(p));
    for (unsigned j = 0; j < 32; j++) out[j] = d * (float)(int8_t)p[2 + j];
}

static void dequant_q4_0(float *out, const uint8_t *p)
{
    float d = ref_f16(ref_load16(p));
    for (unsigned j = 0; j < 16; j++) {
        out[j] = d * (float)((p[2 + j] & 15) - PANEL_Q4_BIAS);
        out[16 + j] = d * (float)((p[2 + j] >> 4) - PANEL_Q4_BIAS);
    }
}

static void dequant_q4_1(float *out, const uint8_t *p)
{
    float d = ref_f16(ref_load16(p)), m = ref_f16(ref_load16(p + 2));
    for (unsigned j = 0; j < 16; j++) {
        out[j] = d * (float)(p[4 + j] & 15) + m;
        out[16 + j] = d * (float)(p[4 + j] >> 4) + m;
    }
}

static void dequant_q6_k(float *out, const uint8_t *p)
{
    float d = ref_f16(ref_load16(p + Q6_K_D));
    uint8_t c[256];
    codes_q6_k(c, p);
    for (unsigned j = 0; j < 256; j++) out[j] = d * (float)(int8_t)p[Q6_K_SC + j / 16] * (float)(c[j] - PANEL_Q6_BIAS);
}

void kern_dequant(enum kern_type t, float *out, const void *src, size_t k)
{
    assert(t < KERN_TYPES && k % types[t].block == 0);
    const uint8_t *p = src;
    for (size_t b = 0; b < k / types[t].block; b++, p += types[t].bytes, out += types[t].block) {
        switch (t) {
        case KERN_F32:
            memcpy(out, p, sizeof(*out));
            break;
        case KERN_F16:
            *out = ref_f16(ref_load16(p));
            break;
        case KERN_BF16:
            *out = ref_bf16(ref_load16(p));
            break;
        case KERN_Q8_0:
            dequant_q8_0(out, p);
            break;
        case KERN_Q4_0:
            dequant_q4_0(out, p);
            break;
        case KERN_Q4_1:
            dequant_q4_1(out, p);
            break;
        case KERN_Q6_K:
            dequant_q6_k(out, p);
            break;
        case KERN_TYPES:
            assert(false);
        }
    }
}
