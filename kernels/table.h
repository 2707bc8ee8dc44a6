/* SPDX-License-Identifier: MIT */
#pragma once
/* One place for the names and signatures of a variant's functions: KERN_DECLARE(avx2) declares all of them with the
 * suffix _avx2, KERN_TABLE(avx2, "avx2") is the initializer of its struct kernels. */
#include "kernels/kernels.h"

#define KERN_PASTE_(a, b) a##_##b
#define KERN_PASTE(a, b)  KERN_PASTE_(a, b)

/* DO(type, name, arg) for each quantized type: KERN_Q8_0's functions are named matmul_q8_0_…. TQ1_0 has the panels of
 * TQ2_0, and IQ2_XS those of IQ2_S: they share the functions. */
#define KERN_QUANTIZED(DO, arg)                                                                                        \
    DO(Q8_0, q8_0, arg)                                                                                                \
    DO(Q4_0, q4_0, arg)                                                                                                \
    DO(Q4_1, q4_1, arg)                                                                                                \
    DO(Q6_K, q6_k, arg)                                                                                                \
    DO(Q5_0, q5_0, arg)                                                                                                \
    DO(Q5_1, q5_1, arg)                                                                                                \
    DO(Q2_K, q2_k, arg)                                                                                                \
    DO(Q3_K, q3_k, arg)                                                                                                \
    DO(Q4_K, q4_k, arg)                                                                                                \
    DO(Q5_K, q5_k, arg)                                                                                                \
    DO(IQ4_NL, iq4_nl, arg)                                                                                            \
    DO(IQ4_XS, iq4_xs, arg)                                                                                            \
    DO(MXFP4, mxfp4, arg)                                                                                              \
    DO(TQ2_0, tq2_0, arg)                                                                                              \
    DO(IQ1_S, iq1_s, arg)                                                                                              \
    DO(IQ1_M, iq1_m, arg)                                                                                              \
    DO(IQ2_XXS, iq2_xxs, arg)                                                                                          \
    DO(IQ2_S, iq2_s, arg)                                                                                              \
    DO(IQ3_XXS, iq3_xxs, arg)                                                                                          \
    DO(IQ3_S, iq3_s, arg)

#define KERN_MATMUL(name) void name(float *out, size_t ld, const void *panel, const struct kern_acts *x, unsigned rows)
#define KERN_KV_STORE(name)                                                                                            \
    void name(void *kblock, void *vblock, unsigned slot, const float *k, const float *v, size_t dim)
#define KERN_ATTN(name) void name(const struct kern_attn *a)

#define KERN_DECLARE_QUANTIZED(type, name, sfx) KERN_MATMUL(matmul_##name##_##sfx);
#define KERN_DECLARE(sfx)                                                                                              \
    void quantize_##sfx(int8_t *q, float *d, int16_t *s, const float *x, size_t k, size_t step);                       \
    KERN_MATMUL(matmul_f32_##sfx);                                                                                     \
    KERN_MATMUL(matmul_f16_##sfx);                                                                                     \
    KERN_MATMUL(matmul_bf16_##sfx);                                                                                    \
    KERN_QUANTIZED(KERN_DECLARE_QUANTIZED, sfx)                                                                        \
    void rmsnorm_##sfx(float *out, const float *x, const float *w, size_t k, float eps);                               \
    void layernorm_##sfx(float *out, const float *x, const float *w, const float *b, size_t k, float eps);             \
    void rope_##sfx(float *x, size_t heads, size_t dim, size_t rot, const float *cs, bool neox);                       \
    void silu_mul_##sfx(float *gate, const float *up, size_t n);                                                       \
    void gelu_mul_##sfx(float *gate, const float *up, size_t n);                                                       \
    void gelu_##sfx(float *x, size_t n);                                                                               \
    void gelu_erf_##sfx(float *gate, const float *up, size_t n);                                                       \
    void relu_sqr_##sfx(float *x, size_t n);                                                                           \
    void xielu_##sfx(float *x, const float by[4], size_t n);                                                           \
    void swiglu_clamped_##sfx(float *gate, const float *up, size_t n);                                                 \
    void scale_##sfx(float *x, float s, size_t n);                                                                     \
    void softcap_##sfx(float *x, float cap, size_t n);                                                                 \
    void add_##sfx(float *x, const float *y, size_t n);                                                                \
    void mul_##sfx(float *out, const float *x, const float *y, size_t n);                                              \
    KERN_KV_STORE(kv_store_f32_##sfx);                                                                                 \
    KERN_KV_STORE(kv_store_f16_##sfx);                                                                                 \
    KERN_KV_STORE(kv_store_q8_##sfx);                                                                                  \
    KERN_ATTN(attn_f32_##sfx);                                                                                         \
    KERN_ATTN(attn_f16_##sfx);                                                                                         \
    KERN_ATTN(attn_q8_##sfx);                                                                                          \
    void attn_merge_##sfx(float *out, const float *m, const float *l, size_t ld_m, const float *o, size_t ld_o,        \
                          size_t n_seg, size_t dim);                                                                   \
    void logsumexp_##sfx(float *max, float *lse, const float *x, size_t n);                                            \
    void conv_##sfx(float *out, const float *const *x, const float *w, size_t ld, const float *bias, size_t taps,      \
                    size_t n, bool silu);                                                                              \
    void l2norm_##sfx(float *out, const float *x, size_t k, float eps, float scale);                                   \
    void softplus_##sfx(float *x, size_t n);                                                                           \
    void sigmoid_mul_##sfx(float *x, const float *gate, size_t n);                                                     \
    void delta_##sfx(const struct kern_delta *a);                                                                      \
    void ssm_##sfx(const struct kern_ssm *a);                                                                          \
    extern const struct kernels kernels_##sfx

#define KERN_ENTRY(type, name, sfx) [KERN_##type] = matmul_##name##_##sfx,
#define KERN_TABLE(sfx, title)      KERN_TABLE_(sfx, sfx, title)
/* The same with the quantized products of another suffix. */
#define KERN_TABLE_WITH(sfx, quant, title) KERN_TABLE_(sfx, quant, title)
#define KERN_TABLE_(sfx, quant, title)                                                                                 \
    {                                                                                                                  \
        .name = title, .quantize = quantize_##sfx,                                                                     \
        .matmul = {[KERN_F32] = matmul_f32_##sfx,                                                                      \
                   [KERN_F16] = matmul_f16_##sfx,                                                                      \
                   [KERN_BF16] = matmul_bf16_##sfx,                                                                    \
                   [KERN_TQ1_0] = KERN_PASTE(matmul_tq2_0, quant),                                                     \
                   [KERN_IQ2_XS] = KERN_PASTE(matmul_iq2_s, quant),                                                    \
                   KERN_QUANTIZED(KERN_ENTRY, quant)},                                                                 \
        .rmsnorm = rmsnorm_##sfx, .rope = rope_##sfx, .silu_mul = silu_mul_##sfx, .gelu_mul = gelu_mul_##sfx,          \
        .layernorm = layernorm_##sfx, .gelu = gelu_##sfx, .gelu_erf = gelu_erf_##sfx, .relu_sqr = relu_sqr_##sfx,      \
        .xielu = xielu_##sfx, .swiglu_clamped = swiglu_clamped_##sfx, .scale = scale_##sfx, .softcap = softcap_##sfx,  \
        .add = add_##sfx,                                                                                              \
        .kv_store = {[KERN_KV_F32] = kv_store_f32_##sfx,                                                               \
                     [KERN_KV_F16] = kv_store_f16_##sfx,                                                               \
                     [KERN_KV_Q8] = kv_store_q8_##sfx},                                                                \
        .attn = {[KERN_KV_F32] = attn_f32_##sfx, [KERN_KV_F16] = attn_f16_##sfx, [KERN_KV_Q8] = attn_q8_##sfx},        \
        .attn_merge = attn_merge_##sfx, .logsumexp = logsumexp_##sfx, .mul = mul_##sfx, .softplus = softplus_##sfx,    \
        .sigmoid_mul = sigmoid_mul_##sfx, .l2norm = l2norm_##sfx,                                                      \
        .recurrent = {.conv = conv_##sfx, .delta = delta_##sfx, .ssm = ssm_##sfx},                                     \
    }

/* The definition; scalar_fma is the same source compiled for CPUs whose fmaf is an instruction. */
KERN_DECLARE(scalar);
#ifdef __x86_64__
KERN_DECLARE(scalar_fma);
KERN_DECLARE(avx2);                      /* AVX2, FMA, F16C */
KERN_DECLARE(avx512);                    /* AVX-512 F, BW, VL, DQ, VNNI */
extern const struct kernels kernels_amx; /* the same and AMX-TILE, AMX-INT8 */

/* How AVX-512 reads weights fastest on this CPU. dispatch.c sets it when it looks for AVX-512. */
struct kern_reading {
    bool one_stream; /* a thread reads one panel at a time */
    uint8_t single;  /* most tokens of a tile of one panel: 6 or 8 */
    uint16_t ahead;  /* bytes of prefetch in a single stream */
};
extern struct kern_reading kern_reading;
#endif
