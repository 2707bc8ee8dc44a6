/* SPDX-License-Identifier: MIT */
/* Operations on one vector: quantization, norms, rotation, activation functions, logits. */
#include "kernels/ref/ref.h"

void REF(quantize)(int8_t *q, float *d, int16_t *s, const float *x, size_t k, size_t step)
{
    for (size_t b = 0; b < k / KERN_BLOCK; b++, x += KERN_BLOCK, q += step * KERN_BLOCK, d += step * 2, s += step * 2) {
        float amax = 0;
        for (unsigned i = 0; i < KERN_BLOCK; i++) {
            float a = fabsf(x[i]);
            if (a > amax) amax = a;
        }
        *d = amax / 127;
        s[0] = s[1] = 0;
        for (unsigned i = 0; i < KERN_BLOCK; i++) {
            float v = *d == 0 ? 0 : rintf(x[i] / *d);
            int c = v > 127 ? 127 : v > -127 ? (int)v : -127; /* a NaN is no int */
            q[i] = (int8_t)c;
            s[i / 16] = (int16_t)(s[i / 16] + c);
        }
        d[1] = (float)(s[0] + s[1]) * d[0];
    }
}

void REF(rmsnorm)(float *out, const float *x, const float *w, size_t k, float eps)
{
    float lane[16] = {0};
    for (size_t i = 0; i < k; i++) lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float r = 1 / sqrtf(ref_fold(lane, 16) / (float)k + eps);
    for (size_t i = 0; i < k; i++) out[i] = x[i] * r * w[i];
}

void REF(layernorm)(float *out, const float *x, const float *w, const float *b, size_t k, float eps)
{
    float sum[16] = {0}, ss[16] = {0};
    for (size_t i = 0; i < k; i++) sum[i % 16] += x[i];
    const float mean = ref_fold(sum, 16) / (float)k;
    for (size_t i = 0; i < k; i++) ss[i % 16] = fmaf(x[i] - mean, x[i] - mean, ss[i % 16]);
    const float r = 1 / sqrtf(ref_fold(ss, 16) / (float)k + eps);
    for (size_t i = 0; i < k; i++) {
        float v = (x[i] - mean) * r * w[i];
        out[i] = b ? v + b[i] : v;
    }
}

void REF(rope)(float *x, size_t heads, size_t dim, size_t rot, const float *cs, bool neox)
{
    size_t half = rot / 2, apart = neox ? half : 1, step = neox ? 1 : 2;
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < half; i++) {
            float *p = x + h * dim + i * step;
            float x0 = p[0], x1 = p[apart], c = cs[i], s = cs[half + i];
            p[0] = fmaf(x0, c, -(x1 * s));
            p[apart] = fmaf(x0, s, x1 * c);
        }
    }
}

void REF(silu_mul)(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] / (1 + ref_exp(-gate[i])) * up[i];
}

void REF(gelu_mul)(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i];
        gate[i] = g / (1 + ref_exp(g * fmaf(GELU_B, g * g, GELU_A))) * up[i];
    }
}

void REF(gelu)(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] / (1 + ref_exp(x[i] * fmaf(GELU_B, x[i] * x[i], GELU_A)));
}

static float ref_erf(float x)
{
    static const float p[] = ERF_P, q[] = ERF_Q;
    const float z = x > ERF_LIMIT ? ERF_LIMIT : x < -ERF_LIMIT ? -ERF_LIMIT : x, s = z * z;
    float top = p[0], below = q[0];
    for (size_t i = 1; i < sizeof(p) / sizeof(*p); i++) top = fmaf(top, s, p[i]);
    for (size_t i = 1; i < sizeof(q) / sizeof(*q); i++) below = fmaf(below, s, q[i]);
    const float y = z * top / below;
    return y > 1 ? 1 : y < -1 ? -1 : y;
}

void REF(gelu_erf)(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float y = gate[i] * 0.5f * (1 + ref_erf(gate[i] * SQRT_HALF));
        gate[i] = up ? y * up[i] : y;
    }
}

void REF(relu_sqr)(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float m = x[i] < 0 ? 0 : x[i];
        x[i] = m * m;
    }
}

void REF(xielu)(float *x, const float by[4], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = x[i], least = v > by[3] ? by[3] : v, line = by[2] * v;
        x[i] = v > 0 ? fmaf(by[0] * v, v, line) : fmaf(ref_exp(least) - 1 - v, by[1], line);
    }
}

void REF(swiglu_clamped)(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float g = gate[i] > SWIGLU_LIMIT ? SWIGLU_LIMIT : gate[i], u = up[i] > SWIGLU_LIMIT ? SWIGLU_LIMIT : up[i];
        u = u < -SWIGLU_LIMIT ? -SWIGLU_LIMIT : u;
        gate[i] = g / (1 + ref_exp(-SWIGLU_ALPHA * g)) * (u + 1);
    }
}

void REF(scale)(float *x, float s, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= s;
}

void REF(softcap)(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = ref_softcap(x[i], cap);
}

void REF(add)(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] += y[i];
}

void REF(mul)(float *out, const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = x[i] * y[i];
}

void REF(logsumexp)(float *max, float *lse, const float *x, size_t n)
{
    float m = -INFINITY, lane[16] = {0};
    for (size_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    m += 0.0f;
    *max = m;
    *lse = -INFINITY;
    if (m == -INFINITY) return;
    for (size_t i = 0; i < n; i++) lane[i % 16] += ref_exp(x[i] - m);
    *lse = (float)log((double)ref_fold(lane, 16));
}
