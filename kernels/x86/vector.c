/* SPDX-License-Identifier: MIT */
/* Operations on one vector; kernels.h states their order. */
#include "kernels/x86/v16.h"

/* Thirty-two lanes rounded half to even, clamped to -127 … 127. */
V __m256i round_codes(v16 lo, v16 hi)
{
    __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32(v16_low(lo)), _mm256_cvtps_epi32(v16_high(lo)));
    __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(v16_low(hi)), _mm256_cvtps_epi32(v16_high(hi)));
    __m256i c = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_max_epi8(c, _mm256_set1_epi8(-127));
}

/* The codes of a block and their two sums; d[0] is its scale, d[1] becomes their sum times the scale. */
V void quantize_block(int8_t *q, float *d, int16_t *s, const float *x)
{
    __m256i c = _mm256_setzero_si256();
    const v16 scale = v16_set1(*d);
    if (*d != 0) c = round_codes(v16_div(v16_load(x), scale), v16_div(v16_load(x + 16), scale));
    __m256i sum = _mm256_maddubs_epi16(_mm256_set1_epi8(1), c);
    sum = _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); /* of four codes each */
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
    const int s0 = _mm256_extract_epi32(sum, 0), s1 = _mm256_extract_epi32(sum, 4);
    s[0] = (int16_t)s0;
    s[1] = (int16_t)s1;
    d[1] = (float)(s0 + s1) * *d;
    _mm256_storeu_si256((__m256i *)q, c);
}

/* @n blocks, a constant: the largest values of all of them first, since each code waits for that of its block. */
V void quantize_blocks(unsigned n, int8_t *q, float *d, int16_t *s, const float *x, size_t step)
{
    v16 most[8];
    float scale[8];
    UNROLL
    for (unsigned i = 0; i < n; i++)
        most[i] = v16_max(v16_abs(v16_load(x + i * KERN_BLOCK)), v16_abs(v16_load(x + i * KERN_BLOCK + 16)));
    v16_fold_n(scale, most, n, true);
    UNROLL
    for (unsigned i = 0; i < n; i++) scale[i] /= 127;
    UNROLL
    for (unsigned i = 0; i < n; i++) {
        d[i * step * 2] = scale[i];
        quantize_block(q + i * step * KERN_BLOCK, d + i * step * 2, s + i * step * 2, x + i * KERN_BLOCK);
    }
}

void X86(quantize)(int8_t *q, float *d, int16_t *s, const float *x, size_t k, size_t step)
{
    const size_t nb = k / KERN_BLOCK;
    size_t b = 0;
    for (; b + 8 <= nb; b += 8)
        quantize_blocks(8, q + b * step * KERN_BLOCK, d + b * step * 2, s + b * step * 2, x + b * KERN_BLOCK, step);
    for (; b < nb; b++)
        quantize_blocks(1, q + b * step * KERN_BLOCK, d + b * step * 2, s + b * step * 2, x + b * KERN_BLOCK, step);
}

void X86(rmsnorm)(float *out, const float *x, const float *w, size_t k, float eps)
{
    size_t whole = k / 16 * 16, rest = k % 16;
    v16 ss = v16_set1(0);
    for (size_t i = 0; i < whole; i += 16) {
        v16 v = v16_load(x + i);
        ss = v16_fma(v, v, ss);
    }
    if (rest) {
        v16 v = v16_load_n(x + whole, rest);
        ss = v16_fma(v, v, ss);
    }
    v16 r = v16_set1(1 / sqrtf(v16_fold(ss) / (float)k + eps));
    for (size_t i = 0; i < whole; i += 16) v16_store(out + i, v16_mul(v16_mul(v16_load(x + i), r), v16_load(w + i)));
    if (rest) {
        v16 v = v16_mul(v16_load_n(x + whole, rest), r);
        v16_store_n(out + whole, v16_mul(v, v16_load_n(w + whole, rest)), rest);
    }
}

V void layernorm_store(float *out, v16 d, v16 r, const float *w, const float *b, size_t n)
{
    v16 v = v16_mul(v16_mul(d, r), v16_load_n(w, n));
    v16_store_n(out, b ? v16_add(v, v16_load_n(b, n)) : v, n);
}

void X86(layernorm)(float *out, const float *x, const float *w, const float *b, size_t k, float eps)
{
    size_t whole = k / 16 * 16, rest = k % 16;
    v16 zero = v16_set1(0), sum = zero, ss = zero;
    for (size_t i = 0; i < whole; i += 16) sum = v16_add(sum, v16_load(x + i));
    if (rest) sum = v16_add(sum, v16_load_n(x + whole, rest));
    v16 mean = v16_set1(v16_fold(sum) / (float)k);
    for (size_t i = 0; i < whole; i += 16) {
        v16 d = v16_sub(v16_load(x + i), mean);
        ss = v16_fma(d, d, ss);
    }
    if (rest) {
        v16 d = v16_range(v16_sub(v16_load_n(x + whole, rest), mean), zero, 0, (unsigned)rest);
        ss = v16_fma(d, d, ss);
    }
    v16 r = v16_set1(1 / sqrtf(v16_fold(ss) / (float)k + eps));
    for (size_t i = 0; i < whole; i += 16) {
        v16 v = v16_mul(v16_mul(v16_sub(v16_load(x + i), mean), r), v16_load(w + i));
        v16_store(out + i, b ? v16_add(v, v16_load(b + i)) : v);
    }
    if (rest)
        layernorm_store(out + whole, v16_sub(v16_load_n(x + whole, rest), mean), r, w + whole, b ? b + whole : NULL,
                        rest);
}

/* Pairs (2i, 2i+1) of one head. */
static void rope_adjacent(float *x, size_t half, const float *c, const float *s)
{
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        __m256 cv = _mm256_loadu_ps(c + i), sv = _mm256_loadu_ps(s + i);
        __m256 cs0 = _mm256_unpacklo_ps(cv, sv),
               cs1 = _mm256_unpackhi_ps(cv, sv); /* c s c s of pairs 0 1 4 5, 2 3 6 7 */
        v16 cs = v16_pair(_mm256_permute2f128_ps(cs0, cs1, 0x20), _mm256_permute2f128_ps(cs0, cs1, 0x31));
        __m256 sc0 = _mm256_unpacklo_ps(sv, cv), sc1 = _mm256_unpackhi_ps(sv, cv);
        v16 sc = v16_pair(_mm256_permute2f128_ps(sc0, sc1, 0x20), _mm256_permute2f128_ps(sc0, sc1, 0x31));
        v16 v = v16_load(x + 2 * i);
        v16_store(x + 2 * i, v16_fmaddsub(v16_dup_even(v), cs, v16_mul(v16_dup_odd(v), sc)));
    }
    for (; i < half; i++) {
        float x0 = x[2 * i], x1 = x[2 * i + 1];
        x[2 * i] = fmaf(x0, c[i], -(x1 * s[i]));
        x[2 * i + 1] = fmaf(x0, s[i], x1 * c[i]);
    }
}

/* Pairs (i, i + half) of one head. */
static void rope_apart(float *x, size_t half, const float *c, const float *s)
{
    for (size_t i = 0; i < half; i += 16) {
        size_t n = half - i < 16 ? half - i : 16;
        v16 cv = v16_load_n(c + i, n), sv = v16_load_n(s + i, n);
        v16 x0 = v16_load_n(x + i, n), x1 = v16_load_n(x + half + i, n);
        v16_store_n(x + i, v16_fma(x0, cv, v16_neg(v16_mul(x1, sv))), n);
        v16_store_n(x + half + i, v16_fma(x0, sv, v16_mul(x1, cv)), n);
    }
}

void X86(rope)(float *x, size_t heads, size_t dim, size_t rot, const float *cs, bool neox)
{
    for (size_t h = 0; h < heads; h++) {
        if (neox)
            rope_apart(x + h * dim, rot / 2, cs, cs + rot / 2);
        else
            rope_adjacent(x + h * dim, rot / 2, cs, cs + rot / 2);
    }
}

V v16 silu(v16 g, v16 up)
{
    return v16_mul(v16_div(g, v16_add(v16_set1(1), v16_exp(v16_neg(g)))), up);
}

void X86(silu_mul)(float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(gate + i, silu(v16_load(gate + i), v16_load(up + i)));
    if (i < n) v16_store_n(gate + i, silu(v16_load_n(gate + i, n - i), v16_load_n(up + i, n - i)), n - i);
}

V v16 gelu(v16 g, v16 up)
{
    v16 t = v16_mul(g, v16_fma(v16_set1(GELU_B), v16_mul(g, g), v16_set1(GELU_A)));
    return v16_mul(v16_div(g, v16_add(v16_set1(1), v16_exp(t))), up);
}

void X86(gelu_mul)(float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(gate + i, gelu(v16_load(gate + i), v16_load(up + i)));
    if (i < n) v16_store_n(gate + i, gelu(v16_load_n(gate + i, n - i), v16_load_n(up + i, n - i)), n - i);
}

V v16 gelu_alone(v16 x)
{
    v16 t = v16_mul(x, v16_fma(v16_set1(GELU_B), v16_mul(x, x), v16_set1(GELU_A)));
    return v16_div(x, v16_add(v16_set1(1), v16_exp(t)));
}

void X86(gelu)(float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, gelu_alone(v16_load(x + i)));
    if (i < n) v16_store_n(x + i, gelu_alone(v16_load_n(x + i, n - i)), n - i);
}

/* min and max return their second operand if one is a NaN */
V v16 clamp(v16 x, float limit)
{
    return v16_max(v16_set1(-limit), v16_min(v16_set1(limit), x));
}

V v16 gelu_erf(v16 x)
{
    static const float p[] = ERF_P, q[] = ERF_Q;
    const v16 z = clamp(v16_mul(x, v16_set1(SQRT_HALF)), ERF_LIMIT), s = v16_mul(z, z);
    v16 top = v16_set1(p[0]), below = v16_set1(q[0]);
    UNROLL
    for (size_t i = 1; i < sizeof(p) / sizeof(*p); i++) top = v16_fma(top, s, v16_set1(p[i]));
    UNROLL
    for (size_t i = 1; i < sizeof(q) / sizeof(*q); i++) below = v16_fma(below, s, v16_set1(q[i]));
    const v16 y = clamp(v16_div(v16_mul(z, top), below), 1);
    return v16_mul(v16_mul(x, v16_set1(0.5f)), v16_add(v16_set1(1), y));
}

V v16 gelu_erf_mul(v16 gate, v16 up)
{
    return v16_mul(gelu_erf(gate), up);
}

void X86(gelu_erf)(float *gate, const float *up, size_t n)
{
    size_t i = 0;
    if (up) {
        for (; i + 16 <= n; i += 16) v16_store(gate + i, gelu_erf_mul(v16_load(gate + i), v16_load(up + i)));
        if (i < n) v16_store_n(gate + i, gelu_erf_mul(v16_load_n(gate + i, n - i), v16_load_n(up + i, n - i)), n - i);
        return;
    }
    for (; i + 16 <= n; i += 16) v16_store(gate + i, gelu_erf(v16_load(gate + i)));
    if (i < n) v16_store_n(gate + i, gelu_erf(v16_load_n(gate + i, n - i)), n - i);
}

V v16 relu_sqr(v16 x)
{
    v16 m = v16_max(v16_set1(0), x); /* max returns its second operand if one is a NaN */
    return v16_mul(m, m);
}

void X86(relu_sqr)(float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, relu_sqr(v16_load(x + i)));
    if (i < n) v16_store_n(x + i, relu_sqr(v16_load_n(x + i, n - i)), n - i);
}

V v16 xielu(v16 x, const float by[4])
{
    v16 least = v16_min(v16_set1(by[3]), x), line = v16_mul(v16_set1(by[2]), x);
    v16 low = v16_fma(v16_sub(v16_sub(v16_exp(least), v16_set1(1)), x), v16_set1(by[1]), line);
    return v16_above_zero(x, v16_fma(v16_mul(v16_set1(by[0]), x), x, line), low);
}

void X86(xielu)(float *x, const float by[4], size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, xielu(v16_load(x + i), by));
    if (i < n) v16_store_n(x + i, xielu(v16_load_n(x + i, n - i), by), n - i);
}

V v16 clamped(v16 g, v16 up)
{
    v16 limit = v16_set1(SWIGLU_LIMIT), one = v16_set1(1), u = v16_max(v16_neg(limit), v16_min(limit, up));
    g = v16_min(limit, g); /* min returns its second operand if one is a NaN */
    return v16_mul(v16_div(g, v16_add(one, v16_exp(v16_mul(v16_set1(-SWIGLU_ALPHA), g)))), v16_add(u, one));
}

void X86(swiglu_clamped)(float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(gate + i, clamped(v16_load(gate + i), v16_load(up + i)));
    if (i < n) v16_store_n(gate + i, clamped(v16_load_n(gate + i, n - i), v16_load_n(up + i, n - i)), n - i);
}

void X86(scale)(float *x, float s, size_t n)
{
    v16 f = v16_set1(s);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, v16_mul(v16_load(x + i), f));
    if (i < n) v16_store_n(x + i, v16_mul(v16_load_n(x + i, n - i), f), n - i);
}

void X86(softcap)(float *x, float cap, size_t n)
{
    v16 c = v16_set1(cap);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, v16_softcap(v16_load(x + i), c));
    if (i < n) v16_store_n(x + i, v16_softcap(v16_load_n(x + i, n - i), c), n - i);
}

void X86(add)(float *x, const float *y, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, v16_add(v16_load(x + i), v16_load(y + i)));
    if (i < n) v16_store_n(x + i, v16_add(v16_load_n(x + i, n - i), v16_load_n(y + i, n - i)), n - i);
}

void X86(mul)(float *out, const float *x, const float *y, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(out + i, v16_mul(v16_load(x + i), v16_load(y + i)));
    if (i < n) v16_store_n(out + i, v16_mul(v16_load_n(x + i, n - i), v16_load_n(y + i, n - i)), n - i);
}

void X86(logsumexp)(float *max, float *lse, const float *x, size_t n)
{
    v16 none = v16_set1(-INFINITY), top = none, sum = v16_set1(0);
    size_t whole = n / 16 * 16, rest = n % 16;
    v16 last = v16_range(v16_load_n(x + whole, rest), none, 0, (unsigned)rest);
    for (size_t i = 0; i < whole; i += 16) top = v16_max(top, v16_load(x + i));
    float m = v16_top(v16_max(top, last)) + 0.0f;
    *max = m;
    *lse = -INFINITY;
    if (m == -INFINITY) return;
    for (size_t i = 0; i < whole; i += 16) sum = v16_add(sum, v16_exp(v16_sub(v16_load(x + i), v16_set1(m))));
    sum = v16_add(sum, v16_exp(v16_sub(last, v16_set1(m))));
    *lse = (float)log((double)v16_fold(sum));
}
