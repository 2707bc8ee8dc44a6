/* SPDX-License-Identifier: MIT */
#include "daemon/reference/reference-weights.h"
#include "libcommon/error.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int blas_open(struct blas *b)
{
    /* Read when the library is loaded: it starts its threads then. */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !b->handle; i++)
        b->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->handle)
        return error_say(-ENOENT, "OpenBLAS cannot be loaded (Debian: libopenblas0-pthread): %s", dlerror());
    void *f = dlsym(b->handle, "cblas_sgemm");
    if (!f) return error_say(-ENOENT, "OpenBLAS has no cblas_sgemm");
    memcpy(&b->sgemm, &f, sizeof(f));
    return 0;
}

void blas_close(struct blas *b)
{
    if (b->handle) dlclose(b->handle);
    b->handle = NULL;
}

void blas_multiply(const struct blas *b, const struct blas_product *p)
{
    enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
    b->sgemm(ROW_MAJOR, NO_TRANS, p->transpose_b ? TRANS : NO_TRANS, p->m, p->n, p->k, 1.0f, p->a, p->lda, p->b, p->ldb,
             0.0f, p->c, p->ldc);
}

static float half(const uint8_t *p)
{
    unsigned h = p[0] | p[1] << 8;
    int e = h >> 10 & 31;
    double m = h & 1023, s = h & 0x8000 ? -1 : 1;
    if (e == 31) return m ? NAN : s * INFINITY;
    return (float)(s * (e ? ldexp(1024 + m, e - 25) : ldexp(m, -24)));
}

static void row_f32(float *out, const uint8_t *p, uint64_t k)
{
    memcpy(out, p, k * sizeof(float));
}

static void row_f16(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++) out[i] = half(p + 2 * i);
}

static void row_bf16(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++) {
        uint32_t u = (uint32_t)(p[2 * i] | p[2 * i + 1] << 8) << 16;
        memcpy(&out[i], &u, 4);
    }
}

static void row_q8_0(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 32; b++, p += 34)
        for (int i = 0; i < 32; i++) *out++ = half(p) * (int8_t)p[2 + i];
}

static void row_q4(float *out, const uint8_t *p, uint64_t k, bool offset)
{
    size_t head = offset ? 4 : 2;
    for (uint64_t b = 0; b < k / 32; b++, p += head + 16) {
        float d = half(p), m = offset ? half(p + 2) : -8 * d;
        for (int i = 0; i < 32; i++) {
            int q = i < 16 ? p[head + i] & 15 : p[head + i - 16] >> 4;
            *out++ = d * q + m;
        }
    }
}

static void row_q4_0(float *out, const uint8_t *p, uint64_t k)
{
    row_q4(out, p, k, false);
}

static void row_q4_1(float *out, const uint8_t *p, uint64_t k)
{
    row_q4(out, p, k, true);
}

static void row_q6_k(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 256; b++, p += 210) {
        float d = half(p + 208);
        for (int i = 0; i < 256; i++) {
            /* each half of 128: 64 bytes of nibbles (a first and a second 64 values), 32 bytes of bit pairs */
            const uint8_t *ql = p + i / 128 * 64, *qh = p + 128 + i / 128 * 32;
            int nibble = i % 128 < 64 ? ql[i % 64] & 15 : ql[i % 64] >> 4, pair = qh[i % 32] >> i % 128 / 32 * 2 & 3;
            *out++ = d * (int8_t)p[192 + i / 16] * (nibble + 16 * pair - 32);
        }
    }
}

/* Fifth bits: bit i of the four bytes at @qh is value i's. */
static void row_q5(float *out, const uint8_t *p, uint64_t k, bool offset)
{
    size_t head = offset ? 4 : 2;
    for (uint64_t b = 0; b < k / 32; b++, p += head + 20) {
        float d = half(p), m = offset ? half(p + 2) : -16 * d;
        const uint8_t *qh = p + head, *q = qh + 4;
        for (int i = 0; i < 32; i++) {
            int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
            *out++ = d * (low + 16 * (qh[i / 8] >> i % 8 & 1)) + m;
        }
    }
}

static void row_q5_0(float *out, const uint8_t *p, uint64_t k)
{
    row_q5(out, p, k, false);
}

static void row_q5_1(float *out, const uint8_t *p, uint64_t k)
{
    row_q5(out, p, k, true);
}

static void row_q2_k(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 256; b++, p += 84) {
        float d = half(p + 80), dmin = half(p + 82);
        for (int i = 0; i < 256; i++) {
            int pair = p[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
            *out++ = d * (p[i / 16] & 15) * pair - dmin * (p[i / 16] >> 4);
        }
    }
}

static void row_q3_k(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 256; b++, p += 110) {
        float d = half(p + 108);
        for (int i = 0; i < 256; i++) {
            int n = i / 16, pair = p[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
            int sc = (n < 8 ? p[96 + n] & 15 : p[96 + n - 8] >> 4) | (p[104 + n % 4] >> n / 4 * 2 & 3) << 4;
            *out++ = d * (sc - 32) * (pair + 4 * (p[i % 32] >> i / 32 & 1) - 4);
        }
    }
}

/* The 6-bit pair of 32 values in Q4_K's and Q5_K's 12 bytes. */
static void six_bits(const uint8_t *p, int n, int *sc, int *min)
{
    *sc = n < 4 ? p[n] & 63 : (p[n + 4] & 15) | (p[n - 4] & 0xc0) >> 2;
    *min = n < 4 ? p[n + 4] & 63 : p[n + 4] >> 4 | (p[n] & 0xc0) >> 2;
}

static void row_q4_k(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 256; b++, p += 144) {
        for (int i = 0, sc, min; i < 256; i++) {
            int byte = p[16 + i / 64 * 32 + i % 32];
            six_bits(p + 4, i / 32, &sc, &min);
            *out++ = half(p) * sc * (i % 64 < 32 ? byte & 15 : byte >> 4) - half(p + 2) * min;
        }
    }
}

static void row_q5_k(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 256; b++, p += 176) {
        for (int i = 0, sc, min; i < 256; i++) {
            int byte = p[48 + i / 64 * 32 + i % 32], fifth = p[16 + i % 32] >> i / 32 & 1;
            six_bits(p + 4, i / 32, &sc, &min);
            *out++ = half(p) * sc * ((i % 64 < 32 ? byte & 15 : byte >> 4) + 16 * fifth) - half(p + 2) * min;
        }
    }
}

static int iq4(int code)
{
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return values[code];
}

static void row_iq4_nl(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 32; b++, p += 18)
        for (int i = 0; i < 32; i++) *out++ = half(p) * iq4(i < 16 ? p[2 + i] & 15 : p[2 + i - 16] >> 4);
}

static void row_iq4_xs(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 256; b++, p += 136) {
        for (int i = 0; i < 256; i++) {
            int n = i / 32, byte = p[8 + n * 16 + i % 16], high = (p[2] | p[3] << 8) >> 2 * n & 3;
            int sc = (n % 2 ? p[4 + n / 2] >> 4 : p[4 + n / 2] & 15) | high << 4;
            *out++ = half(p) * (sc - 32) * iq4(i % 32 < 16 ? byte & 15 : byte >> 4);
        }
    }
}

/* 4 bits: sign, exponent of bias 1, one bit of mantissa; the scale is a power of two. */
static void row_mxfp4(float *out, const uint8_t *p, uint64_t k)
{
    for (uint64_t b = 0; b < k / 32; b++, p += 17)
        for (int i = 0; i < 32; i++) {
            int c = i < 16 ? p[1 + i] & 15 : p[1 + i - 16] >> 4, e = c >> 1 & 3;
            double v = e ? ldexp(2 + (c & 1), e - 2) : (c & 1) * 0.5;
            *out++ = (float)ldexp(c & 8 ? -v : v, p[0] - 127);
        }
}

int reference_rows(const struct gguf_tensor *t, uint64_t row, uint64_t rows, float *out)
{
    static const struct {
        const char *name;
        void (*decode)(float *out, const uint8_t *p, uint64_t k);
    } types[] = {{"F32", row_f32},
                 {"F16", row_f16},
                 {"BF16", row_bf16},
                 {"Q8_0", row_q8_0},
                 {"Q4_0", row_q4_0},
                 {"Q4_1", row_q4_1},
                 {"Q5_0", row_q5_0},
                 {"Q5_1", row_q5_1},
                 {"Q2_K", row_q2_k},
                 {"Q3_K", row_q3_k},
                 {"Q4_K", row_q4_k},
                 {"Q5_K", row_q5_k},
                 {"Q6_K", row_q6_k},
                 {"IQ4_NL", row_iq4_nl},
                 {"IQ4_XS", row_iq4_xs},
                 {"MXFP4", row_mxfp4},
                 {"TQ1_0", reference_row_tq1_0},
                 {"TQ2_0", reference_row_tq2_0},
                 {"IQ1_S", reference_row_iq1_s},
                 {"IQ1_M", reference_row_iq1_m},
                 {"IQ2_XXS", reference_row_iq2_xxs},
                 {"IQ2_XS", reference_row_iq2_xs},
                 {"IQ2_S", reference_row_iq2_s},
                 {"IQ3_XXS", reference_row_iq3_xxs},
                 {"IQ3_S", reference_row_iq3_s}};
    uint32_t block = 1, bytes = 0;
    const char *name = gguf_tensor_type_name(t->type, &block, &bytes);
    for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        uint64_t stride = t->dims[0] / block * bytes;
        for (uint64_t r = 0; r < rows; r++)
            types[i].decode(out + r * t->dims[0], (const uint8_t *)t->data + (row + r) * stride, t->dims[0]);
        return 0;
    }
    return error_say(-EOPNOTSUPP, "tensor '%.*s': the reference pass does not read type %s", (int)t->name.len,
                     t->name.data, name ? name : "?");
}
