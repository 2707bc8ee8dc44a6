/* SPDX-License-Identifier: MIT */
#include "daemon/model/reference-weights.h"
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

void blas_product(const struct blas *b, float *c, int ldc, const float *a, int lda, const float *bm, int ldb, int m,
                  int n, int k, bool transpose_b)
{
    enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
    b->sgemm(ROW_MAJOR, NO_TRANS, transpose_b ? TRANS : NO_TRANS, m, n, k, 1.0f, a, lda, bm, ldb, 0.0f, c, ldc);
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

int reference_rows(const struct gguf_tensor *t, uint64_t row, uint64_t rows, float *out)
{
    static const struct {
        const char *name;
        void (*decode)(float *out, const uint8_t *p, uint64_t k);
    } types[] = {{"F32", row_f32},   {"F16", row_f16},   {"BF16", row_bf16}, {"Q8_0", row_q8_0},
                 {"Q4_0", row_q4_0}, {"Q4_1", row_q4_1}, {"Q6_K", row_q6_k}};
    uint32_t block = 1, bytes = 0;
    const char *name = gguf_tensor_type_name(t->type, &block, &bytes);
    for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(name, types[i].name)) continue;
        uint64_t stride = t->dims[0] / block * bytes;
        for (uint64_t r = 0; r < rows; r++)
            types[i].decode(out + r * t->dims[0], (const uint8_t *)t->data + (row + r) * stride, t->dims[0]);
        return 0;
    }
    return error_say(-EOPNOTSUPP, "tensor '%.*s': the reference pass does not read type %s", (int)t->name.len,
                     t->name.data, name ? name : "?");
}
