/* SPDX-License-Identifier: MIT */
#include "daemon/encoder/encoder-tensors.h"
#include "daemon/model/tensor-type.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 96, ROWS_MAX = 1 << 16 };

struct tensor_name tensor_in_block(const char *kind, uint32_t i, const char *part)
{
    struct tensor_name n;
    snprintf(n.s, sizeof(n.s), "%s.blk.%u.%s", kind, i, part);
    return n;
}

int tensor_reader_init(struct tensor_reader *r, const struct gguf *g)
{
    *r = (struct tensor_reader){.g = g, .used = calloc(gguf_n_tensors(g) + 1, sizeof(bool))};
    return r->used ? 0 : error_say(-ENOMEM, "%s: out of memory", gguf_path(g));
}

void tensor_reader_fini(struct tensor_reader *r)
{
    free(r->used);
    r->used = NULL;
}

void encoder_matrix_fini(struct encoder_matrix *m)
{
    free(m->panels);
    free(m->bias);
    *m = (struct encoder_matrix){0};
}

static const struct gguf_tensor *find(const struct tensor_reader *r, const char *name, const char *part)
{
    char full[NAME];
    snprintf(full, sizeof(full), "%s%s%s", name, *part ? "." : "", part);
    return gguf_find_tensor(r->g, full);
}

bool tensor_exists(const struct tensor_reader *r, const char *name, const char *part)
{
    return find(r, name, part) != NULL;
}

uint32_t tensor_rows(const struct tensor_reader *r, const char *name)
{
    const struct gguf_tensor *t = find(r, name, "weight");
    return t && t->dims[1] <= ROWS_MAX ? (uint32_t)t->dims[1] : 0;
}

static void fail(struct tensor_reader *r, const struct gguf_tensor *t, const char *why)
{
    char name[NAME];
    gguf_text(name, sizeof(name), t->name);
    r->error = error_say(-EINVAL, "%s: tensor '%s' %s", gguf_path(r->g), name, why);
}

/* Whether @t is [d3][d2][d1][d0]; dimensions of 1 at the end do not count. d0 0: any. */
static bool has_shape(struct tensor_reader *r, const struct gguf_tensor *t, const uint64_t dims[4])
{
    char why[160];
    bool same = true;
    for (int i = 0; i < 4; i++) same = same && (t->dims[i] == dims[i] || (dims[i] == 0 && t->dims[i] - 1 < ROWS_MAX));
    if (same) return true;
    snprintf(why, sizeof(why), "is %llu x %llu x %llu x %llu, not %llu x %llu x %llu x %llu (0: any)",
             (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
             (unsigned long long)t->dims[3], (unsigned long long)dims[0], (unsigned long long)dims[1],
             (unsigned long long)dims[2], (unsigned long long)dims[3]);
    fail(r, t, why);
    return false;
}

/* The kernels compute with numbers only: NaN could be lost on the way to the result. */
static bool is_finite(struct tensor_reader *r, const struct gguf_tensor *t, enum kern_type type)
{
    const uint64_t k = t->dims[0], rows = t->dims[1] * t->dims[2] * t->dims[3];
    _cleanup_(freep) float *row = calloc(k, sizeof(*row));
    float sum = 0; /* x - x is 0, or NaN */
    if (!row) {
        r->error = error_say(-ENOMEM, "%s: out of memory", gguf_path(r->g));
        return false;
    }
    for (uint64_t i = 0; i < rows; i++) {
        kern_dequant(type, row, (const uint8_t *)t->data + i * (t->size / rows), k);
        for (uint64_t j = 0; j < k; j++) sum += row[j] - row[j];
    }
    if (sum == 0) return true;
    fail(r, t, "has values that are no numbers");
    return false;
}

/* The tensor @name.@part of this shape and its type; NULL as in tensor_read_vector. */
static const struct gguf_tensor *take(struct tensor_reader *r, const char *name, const char *part,
                                      const uint64_t dims[4], bool need, enum kern_type *type)
{
    if (r->error) return NULL;
    const struct gguf_tensor *t = find(r, name, part);
    if (!t) {
        if (need)
            r->error =
                error_say(-EINVAL, "%s: tensor '%s%s%s' is missing", gguf_path(r->g), name, *part ? "." : "", part);
        return NULL;
    }
    r->used[t - gguf_tensor_at(r->g, 0)] = true;
    if (!has_shape(r, t, dims)) return NULL;
    if (tensor_type(t->type, type) || !t->data) {
        char why[64];
        snprintf(why, sizeof(why), "is of type number %u, which is not supported", t->type);
        fail(r, t, why);
        return NULL;
    }
    return is_finite(r, t, *type) ? t : NULL;
}

static void *get_memory(struct tensor_reader *r, size_t n, size_t size)
{
    void *p = aligned_alloc(KERN_ALIGN, kern_align(n * size + 1));
    if (!p) r->error = error_say(-ENOMEM, "%s: no memory for %zu bytes of weights", gguf_path(r->g), n * size);
    return p;
}

static float *floats_of(struct tensor_reader *r, const struct gguf_tensor *t, enum kern_type type, size_t n)
{
    float *out = get_memory(r, n, sizeof(*out));
    if (out) kern_dequant(type, out, t->data, n);
    return out;
}

float *tensor_read_vector(struct tensor_reader *r, const char *name, const char *part, uint32_t n, bool need)
{
    enum kern_type type;
    const struct gguf_tensor *t = take(r, name, part, (const uint64_t[4]){n, 1, 1, 1}, need, &type);
    return t ? floats_of(r, t, type, n) : NULL;
}

float *tensor_read_floats(struct tensor_reader *r, const char *name, uint32_t rows, uint32_t k)
{
    enum kern_type type;
    const struct gguf_tensor *t = take(r, name, "weight", (const uint64_t[4]){k, rows, 1, 1}, true, &type);
    return t ? floats_of(r, t, type, (size_t)rows * k) : NULL;
}

/* Pack @data, rows of m->k values each at @stride bytes. */
static void pack(struct tensor_reader *r, struct encoder_matrix *m, const uint8_t *data, size_t stride)
{
    const uint32_t panels = (m->rows + KERN_ROWS - 1) / KERN_ROWS;
    m->panel_bytes = kern_panel_bytes(m->type, m->k);
    m->panels = get_memory(r, panels, m->panel_bytes);
    for (uint32_t i = 0; m->panels && i < panels; i++) {
        uint32_t left = m->rows - i * KERN_ROWS;
        kern_panel_pack(m->type, m->panels + i * m->panel_bytes, data + (size_t)i * KERN_ROWS * stride, stride,
                        left < KERN_ROWS ? left : KERN_ROWS, m->k);
    }
}

void tensor_read_matrix(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows, uint32_t k)
{
    const struct gguf_tensor *t = take(r, name, "weight", (const uint64_t[4]){k, rows, 1, 1}, true, &m->type);
    if (!t) return;
    m->rows = (uint32_t)t->dims[1];
    m->k = k;
    pack(r, m, t->data, t->size / m->rows);
    m->bias = tensor_read_vector(r, name, "bias", m->rows, false);
}

void tensor_read_patches(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows,
                         uint32_t edge)
{
    const struct gguf_tensor *t = take(r, name, "weight", (const uint64_t[4]){edge, edge, 3, rows}, true, &m->type);
    if (!t) return;
    if (kern_type_quantized(m->type)) {
        fail(r, t, "is quantized, which is not supported here");
        return;
    }
    m->rows = rows;
    m->k = 3 * edge * edge;
    pack(r, m, t->data, t->size / rows);
    m->bias = tensor_read_vector(r, name, "bias", rows, false);
}

void tensor_read_patch_sum(struct tensor_reader *r, struct encoder_matrix *m, const char *name, const char *second,
                           uint32_t rows, uint32_t edge)
{
    const uint64_t dims[4] = {edge, edge, 3, rows};
    const size_t k = 3 * (size_t)edge * edge, n = rows * k;
    float *sum[2] = {NULL, NULL};
    const char *const parts[2] = {"weight", second};
    for (int i = 0; i < 2; i++) {
        enum kern_type type;
        const struct gguf_tensor *t = take(r, name, parts[i], dims, true, &type);
        if (t) sum[i] = floats_of(r, t, type, n);
    }
    for (size_t i = 0; !r->error && i < n; i++) sum[0][i] += sum[1][i];
    if (!r->error) {
        *m = (struct encoder_matrix){.type = KERN_F32, .rows = rows, .k = (uint32_t)k};
        pack(r, m, (const uint8_t *)sum[0], k * sizeof(float));
    }
    free(sum[0]);
    free(sum[1]);
}

void tensor_read_transposed(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows,
                            uint32_t k)
{
    const struct gguf_tensor *t = take(r, name, "weight", (const uint64_t[4]){rows, k, 1, 1}, true, &m->type);
    if (!t) return;
    if (kern_type_quantized(m->type)) {
        fail(r, t, "is quantized, which is not supported here");
        return;
    }
    const size_t size = kern_type_bytes(m->type);
    m->rows = (uint32_t)t->dims[0];
    m->k = k;
    uint8_t *turned = get_memory(r, (size_t)m->rows * k, size);
    if (!turned) return;
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < k; j++)
            memcpy(turned + (i * k + j) * size, (const uint8_t *)t->data + (j * m->rows + i) * size, size);
    pack(r, m, turned, k * size);
    free(turned);
}

void tensor_read_convolution(struct tensor_reader *r, struct encoder_matrix *m, const char *name, uint32_t rows,
                             uint32_t taps, uint32_t k)
{
    enum kern_type type;
    const struct gguf_tensor *t = take(r, name, "weight", (const uint64_t[4]){taps, k, rows, 1}, true, &m->type);
    const struct gguf_tensor *bias = take(r, name, "bias", (const uint64_t[4]){1, rows, 1, 1}, true, &type);
    if (!t || !bias) return;
    if (kern_type_quantized(m->type)) {
        fail(r, t, "is quantized, which is not supported here");
        return;
    }
    const size_t size = kern_type_bytes(m->type), n = (size_t)rows * taps * k;
    m->rows = rows;
    m->k = taps * k;
    uint8_t *turned = get_memory(r, n, size);
    if (!turned) return;
    for (size_t i = 0; i < n; i++) {
        const size_t row = i / m->k, tap = i % m->k / k, column = i % k;
        memcpy(turned + i * size, (const uint8_t *)t->data + ((row * k + column) * taps + tap) * size, size);
    }
    pack(r, m, turned, m->k * size);
    free(turned);
    m->bias = floats_of(r, bias, type, rows);
}

void tensor_read_norm(struct tensor_reader *r, struct encoder_norm *n, const char *name, uint32_t dim, bool need)
{
    n->w = tensor_read_vector(r, name, "weight", dim, need);
    if (n->w) n->b = tensor_read_vector(r, name, "bias", dim, false);
    n->n = dim;
}

static bool begins(struct gguf_str s, const char *with)
{
    size_t n = strlen(with);
    return s.len >= n && !memcmp(s.data, with, n);
}

void tensor_skip(struct tensor_reader *r, const char *prefix)
{
    for (size_t i = 0; i < gguf_n_tensors(r->g); i++)
        if (begins(gguf_tensor_at(r->g, i)->name, prefix)) r->used[i] = true;
}

static bool is_of(struct gguf_str name, enum media_kind kind)
{
    const bool sound = begins(name, "a.") || begins(name, "mm.a.");
    if (kind == MEDIA_SOUND) return sound;
    return !sound && (begins(name, "v.") || begins(name, "mm.") || begins(name, "model."));
}

void tensor_reader_end(struct tensor_reader *r, enum media_kind kind)
{
    char why[64];
    snprintf(why, sizeof(why), "has no place in this %s encoder", media_kind_name(kind));
    for (size_t i = 0; !r->error && i < gguf_n_tensors(r->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(r->g, i);
        if (!r->used[i] && is_of(t->name, kind)) fail(r, t, why);
    }
}
