/* SPDX-License-Identifier: MIT */
/* Products of one panel of 16 rows with activations. The rows are the inner loop throughout, as lanes are elsewhere. */
#include "kernels/panel.h"
#include "kernels/ref/ref.h"

static void store(float *out, const float *acc, unsigned rows)
{
    memcpy(out, acc, rows * sizeof(float));
}

static KERN_MATMUL(panel_f32)
{
    const float *w = panel; /* [k][16] */
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t i = 0; i < x->k; i++)
            for (unsigned r = 0; r < KERN_ROWS; r++) acc[r] = fmaf(w[i * KERN_ROWS + r], x->f[t * x->k + i], acc[r]);
        store(out + t * ld, acc, rows);
    }
}

static KERN_MATMUL(panel_f16)
{
    const uint16_t *w = panel; /* [k][16] */
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t i = 0; i < x->k; i++)
            for (unsigned r = 0; r < KERN_ROWS; r++)
                acc[r] = fmaf(ref_f16(w[i * KERN_ROWS + r]), x->f[t * x->k + i], acc[r]);
        store(out + t * ld, acc, rows);
    }
}

static KERN_MATMUL(panel_bf16)
{
    const uint16_t *w = panel; /* [k][16] */
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t i = 0; i < x->k; i++)
            for (unsigned r = 0; r < KERN_ROWS; r++)
                acc[r] = fmaf(ref_bf16(w[i * KERN_ROWS + r]), x->f[t * x->k + i], acc[r]);
        store(out + t * ld, acc, rows);
    }
}

/* sum[r] = exact dot product of 32 activations and the 16 rows' codes of one block, bias not subtracted. */
static void dot_q8(int32_t *sum, const uint8_t *w, const int8_t *q)
{
    memset(sum, 0, KERN_ROWS * sizeof(*sum));
    for (unsigned g = 0; g < 8; g++)
        for (unsigned r = 0; r < KERN_ROWS; r++)
            for (unsigned b = 0; b < 4; b++) sum[r] += w[g * 64 + r * 4 + b] * q[g * 4 + b];
}

static void dot_q4(int32_t *sum, const uint8_t *w, const int8_t *q)
{
    memset(sum, 0, KERN_ROWS * sizeof(*sum));
    for (unsigned g = 0; g < 4; g++)
        for (unsigned r = 0; r < KERN_ROWS; r++)
            for (unsigned b = 0; b < 4; b++) {
                uint8_t c = w[g * 64 + r * 4 + b];
                sum[r] += (c & 15) * q[g * 4 + b] + (c >> 4) * q[16 + g * 4 + b];
            }
}

/* Sum of the activations of block @b. */
static int32_t sum_of(const struct kern_acts *x, size_t t, size_t b)
{
    const int16_t *s = x->s + (t * x->k + b * KERN_BLOCK) / 16;
    return s[0] + s[1];
}

static void scale_add(float *acc, const int32_t *sum, int32_t minus, const uint8_t *dw, float dx)
{
    for (unsigned r = 0; r < KERN_ROWS; r++) {
        float scale = ref_f16(ref_load16(dw + 2 * r)) * dx;
        acc[r] = fmaf((float)(sum[r] - minus), scale, acc[r]);
    }
}

static KERN_MATMUL(panel_q8_0)
{
    size_t nb = x->k / KERN_BLOCK;
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t b = 0; b < nb; b++) {
            const uint8_t *w = (const uint8_t *)panel + b * PANEL_Q8_0;
            int32_t sum[KERN_ROWS];
            dot_q8(sum, w, x->q + t * x->k + b * KERN_BLOCK);
            scale_add(acc, sum, PANEL_Q8_BIAS * sum_of(x, t, b), w + PANEL_Q8_0_D, x->d[t * nb + b]);
        }
        store(out + t * ld, acc, rows);
    }
}

static KERN_MATMUL(panel_q4_0)
{
    size_t nb = x->k / KERN_BLOCK;
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t b = 0; b < nb; b++) {
            const uint8_t *w = (const uint8_t *)panel + b * PANEL_Q4_0;
            int32_t sum[KERN_ROWS];
            dot_q4(sum, w, x->q + t * x->k + b * KERN_BLOCK);
            scale_add(acc, sum, PANEL_Q4_BIAS * sum_of(x, t, b), w + PANEL_Q4_0_D, x->d[t * nb + b]);
        }
        store(out + t * ld, acc, rows);
    }
}

static KERN_MATMUL(panel_q4_1)
{
    size_t nb = x->k / KERN_BLOCK;
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t b = 0; b < nb; b++) {
            const uint8_t *w = (const uint8_t *)panel + b * PANEL_Q4_1;
            int32_t sum[KERN_ROWS];
            dot_q4(sum, w, x->q + t * x->k + b * KERN_BLOCK);
            scale_add(acc, sum, 0, w + PANEL_Q4_1_D, x->d[t * nb + b]);
            for (unsigned r = 0; r < KERN_ROWS; r++) {
                float offset = ref_f16(ref_load16(w + PANEL_Q4_1_M + 2 * r)) * x->d[t * nb + b];
                acc[r] = fmaf((float)sum_of(x, t, b), offset, acc[r]);
            }
        }
        store(out + t * ld, acc, rows);
    }
}

/* sum[r] = sc0 * dot of columns 0 … 15 + sc1 * dot of the others, for 32 columns' codes at @w and scales at @sc.
 * A dot is at most 16 * 32 * 127 = 65,024 and a scale 128, so |sum| <= 16,646,144 < 2^24: exact as a float too. */
static void dot_q6_k(int32_t *sum, const uint8_t *w, const int8_t *sc, const int8_t *q)
{
    memset(sum, 0, KERN_ROWS * sizeof(*sum));
    for (unsigned j = 0; j < KERN_BLOCK; j++) {
        unsigned g = j / 4 % 4, h = j / 16;
        for (unsigned r = 0; r < KERN_ROWS; r++) {
            unsigned at = r * 4 + j % 4, low = w[g * 64 + at] >> 4 * h & 15;
            int code = (int)(low | (w[PANEL_Q6_K_H + h * 64 + at] >> 2 * g & 3) << 4);
            sum[r] += sc[h * KERN_ROWS + r] * (code - PANEL_Q6_BIAS) * q[j];
        }
    }
}

static KERN_MATMUL(panel_q6_k)
{
    size_t nb = x->k / KERN_BLOCK;
    for (size_t t = 0; t < x->n; t++) {
        float acc[KERN_ROWS] = {0};
        for (size_t b = 0; b < nb; b++) {
            const uint8_t *w = (const uint8_t *)panel + b / 8 * PANEL_Q6_K;
            int32_t sum[KERN_ROWS];
            dot_q6_k(sum, w + b % 8 * PANEL_Q6_K_32, (const int8_t *)w + PANEL_Q6_K_SC + b % 8 * 32,
                     x->q + t * x->k + b * KERN_BLOCK);
            scale_add(acc, sum, 0, w + PANEL_Q6_K_D, x->d[t * nb + b]);
        }
        store(out + t * ld, acc, rows);
    }
}

#define EACH_PANEL(type, per_block, bytes)                                                                             \
    KERN_MATMUL(REF(matmul_##type))                                                                                    \
    {                                                                                                                  \
        size_t stride = (x->k / (per_block) * (bytes) + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN;                     \
        for (unsigned r = 0; r < rows; r += KERN_ROWS)                                                                 \
            panel_##type(out + r, ld, (const uint8_t *)panel + r / KERN_ROWS * stride, x,                              \
                         rows - r < KERN_ROWS ? rows - r : KERN_ROWS);                                                 \
    }

EACH_PANEL(f32, 1, 64)
EACH_PANEL(f16, 1, 32)
EACH_PANEL(bf16, 1, 32)
EACH_PANEL(q8_0, KERN_BLOCK, PANEL_Q8_0)
EACH_PANEL(q4_0, KERN_BLOCK, PANEL_Q4_0)
EACH_PANEL(q4_1, KERN_BLOCK, PANEL_Q4_1)
EACH_PANEL(q6_k, 256, PANEL_Q6_K)
