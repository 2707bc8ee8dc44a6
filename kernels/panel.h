/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The layout of a panel: 16 rows (KERN_ROWS) of k columns, in the order a matmul reads them, one contiguous stream.
 *
 * F32, F16, BF16: [k][16] values, columns ascending, the 16 rows side by side.
 *
 * Quantized types: groups of as many columns as a block of the file has, ascending. A group is 32 columns, or eight
 * times 32 columns, then the scales of all of them; panel_forms has the places. The unsigned codes c of 32 columns are
 *
 *   of 8 bits:  u8 [8][16][4]   byte 64g + 4r + b: c[r][4g + b]
 *   nibbles:    u8 [4][16][4]   byte 64g + 4r + b: low nibble of c[r][4g + b], high of c[r][16 + 4g + b]
 *   pairs:      u8 [2][16][4]   byte 64h + 4r + b, bits 2g and 2g + 1: two bits of c[r][16h + 4g + b]
 *   bits:       u8 [16][4]      byte 4r + b, bit g: one bit of c[r][4g + b]
 *
 * Codes of 4, 5 and 6 bits are nibbles, then for what is above them bits or pairs; of 2 bits pairs; of 3 bits pairs,
 * then bits. So 64 bytes (after a mask, or shifts and masks) are 16 lanes of 4 consecutive columns, the operand of
 * vpdpbusd. A code stands for c - bias, or where the type has a table for its value there.
 *
 * Scales are for the 16 rows side by side: f16 d[16], f16 m[16] as in the file, and after the codes of 32 columns
 * (Q6_K: after all codes)
 *
 *   SUB      i8 sub-scale[16], and where there is an m, u8 minimum[16]
 *   HALVES   i8 sub-scale[2][16] of 16 columns each; where there is an m, u8 (sub-scale, upper 4 bits minimum)[2][16]
 *   E8M0     u8 exponent[16], no d
 *
 * A panel ends padded to KERN_ALIGN; most groups are only 16- or 32-byte aligned within.
 */
#include "kernels/kernels.h"

/* The sub-scales of a group: none, one for 32 columns, one for 16 columns; E8M0: an exponent instead of d. */
enum panel_scales { PANEL_PLAIN, PANEL_SUB, PANEL_HALVES, PANEL_E8M0 };

struct panel_form {
    uint16_t group;         /* bytes */
    uint16_t step;          /* from one 32 columns' codes to the next */
    uint16_t pairs, bits;   /* from there on, where the width has them */
    uint16_t sub, sub_step; /* the bytes of SUB, HALVES, E8M0, from the group's begin on; to those of the next 32 */
    uint16_t d, m;          /* from the group's begin on; m 0: the type has no offset */
    uint8_t blocks;         /* of 32 columns in a group */
    uint8_t width;          /* bits of a code */
    uint8_t bias;           /* of a code, or of a table's value where it must not be negative */
    uint8_t subs;           /* bytes of the SUB, HALVES, E8M0 per row and 32 columns */
    uint8_t shift;          /* the scale is 2^-shift times what the bytes say: exact in f32 */
    enum panel_scales scales;
    const int8_t *table; /* [16] */
};

/* Digits of the codebooks (codebook.h), below their negatives. IQ1's are times 8, with the 1/8 by which they move. */
static const int8_t panel_iq1_values[16] = {1, 9, -7, 0, -1, 7, -9, 0};
static const int8_t panel_iq2_values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
static const int8_t panel_iq3_xxs_values[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
static const int8_t panel_iq3_s_values[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

/* Forms that types share: 2 bits and one d for 256 columns; digits with signs. */
#define PANEL_TERNARY                                                                                                  \
    {                                                                                                                  \
        .group = 1056, .blocks = 8, .step = 128, .width = 2, .bias = 1, .d = 1024                                      \
    }
#define PANEL_3_SUB(values, most, by)                                                                                  \
    {                                                                                                                  \
        .group = 1696, .blocks = 8, .step = 208, .width = 3, .bits = 128, .table = values, .bias = most,               \
        .scales = PANEL_SUB, .sub = 192, .sub_step = 208, .subs = 1, .d = 1664, .shift = by                            \
    }
#define PANEL_3_HALVES(values, most, by)                                                                               \
    {                                                                                                                  \
        .group = 1824, .blocks = 8, .step = 224, .width = 3, .bits = 128, .table = values, .bias = most,               \
        .scales = PANEL_HALVES, .sub = 192, .sub_step = 224, .subs = 2, .d = 1792, .shift = by                         \
    }
#define PANEL_4_SUB(values, most, by)                                                                                  \
    {                                                                                                                  \
        .group = 2208, .blocks = 8, .step = 272, .width = 4, .table = values, .bias = most, .scales = PANEL_SUB,       \
        .sub = 256, .sub_step = 272, .subs = 1, .d = 2176, .shift = by                                                 \
    }

/* IQ4_NL's and IQ4_XS's values; MXFP4's (OCP's FP4, E2M1) times 2. */
static const int8_t panel_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t panel_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const struct panel_form panel_forms[KERN_TYPES] = {
    [KERN_Q8_0] = {.group = 544, .blocks = 1, .width = 8, .bias = 128, .d = 512},
    [KERN_Q4_0] = {.group = 288, .blocks = 1, .width = 4, .bias = 8, .d = 256},
    [KERN_Q4_1] = {.group = 320, .blocks = 1, .width = 4, .d = 256, .m = 288},
    [KERN_Q5_0] = {.group = 352, .blocks = 1, .width = 5, .bits = 256, .bias = 16, .d = 320},
    [KERN_Q5_1] = {.group = 384, .blocks = 1, .width = 5, .bits = 256, .d = 320, .m = 352},
    [KERN_Q2_K] = {.group = 1344,
                   .blocks = 8,
                   .step = 160,
                   .width = 2,
                   .pairs = 0,
                   .scales = PANEL_HALVES,
                   .sub = 128,
                   .sub_step = 160,
                   .subs = 2,
                   .d = 1280,
                   .m = 1312},
    [KERN_Q3_K] = {.group = 1824,
                   .blocks = 8,
                   .step = 224,
                   .width = 3,
                   .pairs = 0,
                   .bits = 128,
                   .bias = 4,
                   .scales = PANEL_HALVES,
                   .sub = 192,
                   .sub_step = 224,
                   .subs = 2,
                   .d = 1792},
    [KERN_Q4_K] = {.group = 2368,
                   .blocks = 8,
                   .step = 288,
                   .width = 4,
                   .scales = PANEL_SUB,
                   .sub = 256,
                   .sub_step = 288,
                   .subs = 2,
                   .d = 2304,
                   .m = 2336},
    [KERN_Q5_K] = {.group = 2880,
                   .blocks = 8,
                   .step = 352,
                   .width = 5,
                   .bits = 256,
                   .scales = PANEL_SUB,
                   .sub = 320,
                   .sub_step = 352,
                   .subs = 2,
                   .d = 2816,
                   .m = 2848},
    [KERN_Q6_K] = {.group = 3360,
                   .blocks = 8,
                   .step = 384,
                   .width = 6,
                   .pairs = 256,
                   .bias = 32,
                   .scales = PANEL_HALVES,
                   .sub = 3072,
                   .sub_step = 32,
                   .subs = 2,
                   .d = 3328},
    [KERN_IQ4_NL] = {.group = 288, .blocks = 1, .width = 4, .table = panel_iq4_values, .bias = 128, .d = 256},
    [KERN_IQ4_XS] = {.group = 2208,
                     .blocks = 8,
                     .step = 272,
                     .width = 4,
                     .table = panel_iq4_values,
                     .bias = 128,
                     .scales = PANEL_SUB,
                     .sub = 256,
                     .sub_step = 272,
                     .subs = 1,
                     .d = 2176},
    [KERN_MXFP4] = {.group = 272,
                    .blocks = 1,
                    .width = 4,
                    .table = panel_mxfp4_values,
                    .bias = 12,
                    .scales = PANEL_E8M0,
                    .sub = 256,
                    .subs = 1},
    [KERN_TQ1_0] = PANEL_TERNARY,
    [KERN_TQ2_0] = PANEL_TERNARY,
    [KERN_IQ1_S] = PANEL_3_SUB(panel_iq1_values, 9, 3),
    [KERN_IQ1_M] = PANEL_3_HALVES(panel_iq1_values, 9, 3),
    [KERN_IQ2_XXS] = PANEL_3_SUB(panel_iq2_values, 43, 3),
    [KERN_IQ2_XS] = PANEL_3_HALVES(panel_iq2_values, 43, 3),
    [KERN_IQ2_S] = PANEL_3_HALVES(panel_iq2_values, 43, 3),
    [KERN_IQ3_XXS] = PANEL_4_SUB(panel_iq3_xxs_values, 62, 2),
    [KERN_IQ3_S] = PANEL_4_SUB(panel_iq3_s_values, 15, 0),
};

/* 2^-shift. */
static inline float panel_unit(const struct panel_form *f)
{
    return 1.0f / (float)(1u << f->shift);
}

static inline bool panel_has_nibbles(const struct panel_form *f)
{
    return f->width >= 4 && f->width <= 6;
}

static inline bool panel_has_pairs(const struct panel_form *f)
{
    return f->width == 2 || f->width == 3 || f->width == 6;
}

static inline bool panel_has_bits(const struct panel_form *f)
{
    return f->width == 3 || f->width == 5;
}

/* Bit of a code at which its pairs and its bits begin. */
static inline unsigned panel_pair_bit(const struct panel_form *f)
{
    return f->width == 6 ? 4 : 0;
}

static inline unsigned panel_top_bit(const struct panel_form *f)
{
    return f->width - 1u;
}
