/* SPDX-License-Identifier: MIT */
/* Operations of recurrent layers; kernels.h states their order. */
#include "kernels/x86/v16.h"

V v16 conv_end(v16 acc, bool silu)
{
    return silu ? v16_div(acc, v16_add(v16_set1(1), v16_exp(v16_neg(acc)))) : acc;
}

/* Channels [i, i + 16). */
V v16 conv_16(const float *const *x, const float *w, size_t ld, size_t taps, size_t i)
{
    v16 acc = v16_set1(0);
    for (size_t j = 0; j < taps; j++) acc = v16_fma(v16_load(w + j * ld + i), v16_load(x[j] + i), acc);
    return acc;
}

void X86(conv)(float *out, const float *const *x, const float *w, size_t ld, const float *bias, size_t taps, size_t n,
               bool silu)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 acc = conv_16(x, w, ld, taps, i);
        if (bias) acc = v16_add(acc, v16_load(bias + i));
        v16_store(out + i, conv_end(acc, silu));
    }
    if (i == n) return;
    v16 acc = v16_set1(0);
    for (size_t j = 0; j < taps; j++)
        acc = v16_fma(v16_load_n(w + j * ld + i, n - i), v16_load_n(x[j] + i, n - i), acc);
    if (bias) acc = v16_add(acc, v16_load_n(bias + i, n - i));
    v16_store_n(out + i, conv_end(acc, silu), n - i);
}

void X86(l2norm)(float *out, const float *x, size_t k, float eps, float scale)
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
    float length = sqrtf(v16_fold(ss));
    v16 r = v16_set1(scale / (length > eps ? length : eps));
    for (size_t i = 0; i < whole; i += 16) v16_store(out + i, v16_mul(v16_load(x + i), r));
    if (rest) v16_store_n(out + whole, v16_mul(v16_load_n(x + whole, rest), r), rest);
}

V v16 softplus(v16 x)
{
    v16 e = v16_exp(v16_neg(v16_abs(x))), s = v16_div(e, v16_add(v16_set1(2), e)), z = v16_mul(s, s);
    v16 p = v16_fma(v16_set1(SOFTPLUS_15), z, v16_set1(SOFTPLUS_13));
    p = v16_fma(p, z, v16_set1(SOFTPLUS_11));
    p = v16_fma(p, z, v16_set1(SOFTPLUS_9));
    p = v16_fma(p, z, v16_set1(SOFTPLUS_7));
    p = v16_fma(p, z, v16_set1(SOFTPLUS_5));
    p = v16_fma(p, z, v16_set1(SOFTPLUS_3));
    v16 half = v16_fma(s, v16_mul(p, z), s);
    return v16_add(v16_max(x, v16_set1(0)), v16_add(half, half));
}

void X86(softplus)(float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, softplus(v16_load(x + i)));
    if (i < n) v16_store_n(x + i, softplus(v16_load_n(x + i, n - i)), n - i);
}

V v16 sigmoid_mul(v16 x, v16 gate)
{
    return v16_div(x, v16_add(v16_set1(1), v16_exp(v16_neg(gate))));
}

void X86(sigmoid_mul)(float *x, const float *gate, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, sigmoid_mul(v16_load(x + i), v16_load(gate + i)));
    if (i < n) v16_store_n(x + i, sigmoid_mul(v16_load_n(x + i, n - i), v16_load_n(gate + i, n - i)), n - i);
}

/* --- the delta rule --- */

/* Panels of the state that all tokens pass over before the next ones: they and a row's sums fit into L1 and into
 * registers. */
#ifdef __AVX512F__
#define STRIP 2
#else
#define STRIP 1
#endif

/* Panels of the state from @state on, one after @apart floats, of columns @v and @o. */
struct strip {
    float *state;
    size_t apart;
    const float *v;
    float *o;
};

/* k^T S of rows @i of the strip, added to @u. */
V void sum_row(v16 u[STRIP], const struct strip *p, unsigned w, float k, size_t i)
{
    UNROLL
    for (unsigned j = 0; j < w; j++) u[j] = v16_fma(v16_set1(k), v16_load(p->state + j * p->apart + i * 16), u[j]);
}

V void sum_rows(v16 u[2][STRIP], const struct strip *p, unsigned w, const float *k, size_t dk)
{
    for (size_t i = 0; i + 2 <= dk; i += 2) {
        sum_row(u[0], p, w, k[i], i);
        sum_row(u[1], p, w, k[i + 1], i + 1);
    }
    if (dk % 2) sum_row(u[0], p, w, k[dk - 1], dk - 1);
}

/* Update row @i with @d, add it to @o, and to @u for the next token, if any (@next). */
V void update_row(v16 u[STRIP], v16 o[STRIP], const v16 d[STRIP], const struct strip *p, unsigned w, v16 decay,
                  const float *const kq[3], size_t i)
{
    const v16 k = v16_set1(kq[0][i]), q = v16_set1(kq[1][i]);
    UNROLL
    for (unsigned j = 0; j < w; j++) {
        float *at = p->state + j * p->apart + i * 16;
        v16 s = v16_fma(k, d[j], v16_mul(v16_load(at), decay));
        v16_store(at, s);
        o[j] = v16_fma(q, s, o[j]);
        if (kq[2]) u[j] = v16_fma(v16_set1(kq[2][i]), s, u[j]);
    }
}

V void update_rows(v16 u[2][STRIP], v16 o[STRIP], const v16 d[STRIP], const struct strip *p, unsigned w, v16 decay,
                   const float *const kq[3], size_t dk)
{
    for (size_t i = 0; i + 2 <= dk; i += 2) {
        update_row(u[0], o, d, p, w, decay, kq, i);
        update_row(u[1], o, d, p, w, decay, kq, i + 1);
    }
    if (dk % 2) update_row(u[0], o, d, p, w, decay, kq, dk - 1);
}

/* All tokens of @w panels. A token's update also sums k^T S of the next one. */
V void delta_strip(const struct kern_delta *a, const struct strip *p, unsigned w)
{
    v16 u[2][STRIP], o[STRIP], d[STRIP];
    UNROLL
    for (unsigned j = 0; j < w; j++) u[0][j] = u[1][j] = v16_set1(0);
    sum_rows(u, p, w, a->k, a->dk);
    for (size_t t = 0; t < a->n; t++) {
        const v16 decay = v16_set1(a->decay[t * a->ld_gate]), beta = v16_set1(a->beta[t * a->ld_gate]);
        UNROLL
        for (unsigned j = 0; j < w; j++) {
            v16 back = v16_mul(v16_add(u[0][j], u[1][j]), decay);
            d[j] = v16_mul(v16_sub(v16_load(p->v + t * a->ld_v + j * 16), back), beta);
            o[j] = u[0][j] = u[1][j] = v16_set1(0);
        }
        const float *k = a->k + t * a->ld, *q = a->q + t * a->ld;
        if (t + 1 < a->n)
            update_rows(u, o, d, p, w, decay, (const float *const[3]){k, q, k + a->ld}, a->dk);
        else
            update_rows(u, o, d, p, w, decay, (const float *const[3]){k, q, NULL}, a->dk);
        UNROLL
        for (unsigned j = 0; j < w; j++) v16_store(p->o + t * a->ld_o + j * 16, o[j]);
    }
}

void X86(delta)(const struct kern_delta *a)
{
    const size_t apart = a->dk * 16, panels = a->dv / 16;
    size_t j = 0;
    for (; j + STRIP <= panels; j += STRIP)
        delta_strip(a, &(struct strip){a->state + j * apart, apart, a->v + j * 16, a->o + j * 16}, STRIP);
    for (; j < panels; j++)
        delta_strip(a, &(struct strip){a->state + j * apart, apart, a->v + j * 16, a->o + j * 16}, 1);
}

/* --- Mamba-2 --- */

/* Row @i of the strip: update it, and add it to @y. */
V void ssm_row(v16 y[STRIP], const v16 u[STRIP], const struct strip *p, unsigned w, v16 decay, float b, float c,
               size_t i)
{
    UNROLL
    for (unsigned j = 0; j < w; j++) {
        float *at = p->state + j * p->apart + i * 16;
        v16 s = v16_fma(v16_set1(b), u[j], v16_mul(v16_load(at), decay));
        v16_store(at, s);
        y[j] = v16_fma(v16_set1(c), s, y[j]);
    }
}

/* All tokens of @w panels. */
V void ssm_strip(const struct kern_ssm *a, const struct strip *p, unsigned w)
{
    for (size_t t = 0; t < a->n; t++) {
        const float *b = a->b + t * a->ld, *c = a->c + t * a->ld;
        const v16 dt = v16_set1(a->dt[t * a->ld]), decay = v16_exp(v16_mul(dt, v16_set1(a->a)));
        v16 y[2][STRIP], u[STRIP];
        UNROLL
        for (unsigned j = 0; j < w; j++) {
            u[j] = v16_mul(v16_load(p->v + t * a->ld + j * 16), dt);
            y[0][j] = y[1][j] = v16_set1(0);
        }
        for (size_t i = 0; i + 2 <= a->rows; i += 2) {
            ssm_row(y[0], u, p, w, decay, b[i], c[i], i);
            ssm_row(y[1], u, p, w, decay, b[i + 1], c[i + 1], i + 1);
        }
        if (a->rows % 2) ssm_row(y[0], u, p, w, decay, b[a->rows - 1], c[a->rows - 1], a->rows - 1);
        UNROLL
        for (unsigned j = 0; j < w; j++)
            v16_store(p->o + t * a->ld_y + j * 16,
                      v16_fma(v16_load(p->v + t * a->ld + j * 16), v16_set1(a->d), v16_add(y[0][j], y[1][j])));
    }
}

void X86(ssm)(const struct kern_ssm *a)
{
    const size_t apart = a->rows * 16, panels = a->dim / 16;
    size_t j = 0;
    for (; j + STRIP <= panels; j += STRIP)
        ssm_strip(a, &(struct strip){a->state + j * apart, apart, a->x + j * 16, a->y + j * 16}, STRIP);
    for (; j < panels; j++) ssm_strip(a, &(struct strip){a->state + j * apart, apart, a->x + j * 16, a->y + j * 16}, 1);
}
