/* SPDX-License-Identifier: MIT */
/* The parts of a GGUF file's directory: each length is checked against the file before it is used. */
#include "daemon/model/gguf-file.h"
#include "libcommon/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN 65535 /* the format's limit for keys */

int gguf_bad(const struct gguf *g, size_t at, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return error_say(-EINVAL, "%s: at byte %zu: %s", g->path, at, what);
}

void gguf_text(char *out, size_t cap, struct gguf_str s)
{
    size_t n = s.len < cap - 1 ? s.len : cap - 1;
    for (size_t i = 0; i < n; i++) out[i] = s.data[i] >= 0x20 && s.data[i] < 0x7f ? s.data[i] : '?';
    out[n] = 0;
}

struct gguf_shown gguf_show(struct gguf_str name)
{
    struct gguf_shown r;
    gguf_text(r.s, sizeof(r.s), name);
    return r;
}

int gguf_read_bytes(struct gguf_reader *r, uint64_t n, const void **p, const char *what)
{
    size_t left = r->g->size - r->at;
    if (n > left)
        return gguf_bad(r->g, r->at, "%s needs %llu bytes, the file has only %zu more", what, (unsigned long long)n,
                        left);
    *p = r->g->map + r->at;
    r->at += n;
    return 0;
}

int gguf_read_u32(struct gguf_reader *r, uint32_t *v, const char *what)
{
    const void *p = NULL;
    int e = gguf_read_bytes(r, 4, &p, what);
    if (!e) memcpy(v, p, 4);
    return e;
}

int gguf_read_u64(struct gguf_reader *r, uint64_t *v, const char *what)
{
    const void *p = NULL;
    int e = gguf_read_bytes(r, 8, &p, what);
    if (!e) memcpy(v, p, 8);
    return e;
}

static int take_str(struct gguf_reader *r, struct gguf_str *s, const char *what)
{
    uint64_t len = 0;
    const void *p = NULL;
    int e = gguf_read_u64(r, &len, what);
    if (!e) e = gguf_read_bytes(r, len, &p, what);
    if (e) return e;
    s->data = p;
    s->len = len;
    return 0;
}

static int take_name(struct gguf_reader *r, struct gguf_str *s, const char *what)
{
    size_t at = r->at;
    int e = take_str(r, s, what);
    if (e) return e;
    if (!s->len || s->len > NAME_MAX_LEN || memchr(s->data, 0, s->len))
        return gguf_bad(r->g, at, "%s is empty, longer than %d bytes, or has a zero byte in it", what, NAME_MAX_LEN);
    return 0;
}

/* Bytes of a value of fixed size, 0 for strings and arrays. */
static size_t value_size(enum gguf_type t)
{
    static const uint8_t size[GGUF_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return size[t];
}

static int take_type(struct gguf_reader *r, enum gguf_type *t, const struct gguf_kv *kv, const char *what)
{
    uint32_t v = 0;
    size_t at = r->at;
    int e = gguf_read_u32(r, &v, what);
    if (e) return e;
    if (v >= GGUF_TYPES) return gguf_bad(r->g, at, "key '%s' has the unknown value type %u", gguf_show(kv->key).s, v);
    *t = (enum gguf_type)v;
    return 0;
}

static int read_array(struct gguf_reader *r, struct gguf_kv *kv)
{
    const struct gguf *g = r->g;
    size_t at = r->at;
    int e = take_type(r, &kv->elem, kv, "an array's type");
    if (!e) e = gguf_read_u64(r, &kv->n, "an array's length");
    if (e) return e;
    if (kv->elem == GGUF_ARRAY) return gguf_bad(g, at, "key '%s' is an array of arrays", gguf_show(kv->key).s);
    size_t left = g->size - r->at, least = kv->elem == GGUF_STRING ? 8 : value_size(kv->elem);
    if (kv->n > left / least)
        return gguf_bad(g, at, "key '%s' says %llu elements, the file has only %zu more bytes", gguf_show(kv->key).s,
                        (unsigned long long)kv->n, left);
    kv->value = g->map + r->at;
    if (kv->elem != GGUF_STRING) {
        r->at += kv->n * least;
        return 0;
    }
    char what[96];
    struct gguf_str s;
    snprintf(what, sizeof(what), "a string of key '%s'", gguf_show(kv->key).s);
    for (uint64_t i = 0; !e && i < kv->n; i++) e = take_str(r, &s, what);
    return e;
}

int gguf_read_kv(struct gguf_reader *r, struct gguf_kv *kv)
{
    struct gguf_str s;
    int e = take_name(r, &kv->key, "a key's name");
    if (!e) e = take_type(r, &kv->type, kv, "a value's type");
    if (e) return e;
    kv->n = 1;
    if (kv->type == GGUF_ARRAY) return read_array(r, kv);
    char what[96];
    snprintf(what, sizeof(what), "the value of key '%s'", gguf_show(kv->key).s);
    size_t at = r->at;
    kv->value = r->g->map + at;
    e = kv->type == GGUF_STRING ? take_str(r, &s, what) : gguf_read_bytes(r, value_size(kv->type), &kv->value, what);
    if (e) return e;
    if (kv->type == GGUF_BOOL && *(const uint8_t *)kv->value > 1)
        return gguf_bad(r->g, at, "key '%s' is a boolean with the value %u", gguf_show(kv->key).s,
                        *(const uint8_t *)kv->value);
    return 0;
}

int gguf_read_tensor(struct gguf_reader *r, struct gguf_tensor *t, uint64_t *offset)
{
    const struct gguf *g = r->g;
    int e = take_name(r, &t->name, "a tensor's name");
    if (e) return e;
    size_t at = r->at;
    e = gguf_read_u32(r, &t->n_dims, "a tensor's number of dimensions");
    if (e) return e;
    if (t->n_dims < 1 || t->n_dims > 4)
        return gguf_bad(g, at, "tensor '%s' has %u dimensions, not 1 to 4", gguf_show(t->name).s, t->n_dims);
    uint64_t values = 1;
    for (uint32_t i = 0; i < 4; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims) e = gguf_read_u64(r, &t->dims[i], "a tensor's dimension");
        if (e) return e;
        if (!t->dims[i]) return gguf_bad(g, at, "tensor '%s' has a dimension of 0", gguf_show(t->name).s);
        if (__builtin_mul_overflow(values, t->dims[i], &values) || values > INT64_MAX)
            return gguf_bad(g, at, "the dimensions of tensor '%s' multiply to more than 2^63", gguf_show(t->name).s);
    }
    at = r->at;
    e = gguf_read_u32(r, &t->type, "a tensor's type");
    if (!e) e = gguf_read_u64(r, offset, "a tensor's offset");
    if (e) return e;
    uint32_t block, bytes;
    const char *type = gguf_tensor_type_name(t->type, &block, &bytes);
    if (!type) return 0;
    if (t->dims[0] % block)
        return gguf_bad(g, at, "tensor '%s' has rows of %llu values, no multiple of %s's %u", gguf_show(t->name).s,
                        (unsigned long long)t->dims[0], type, block);
    if (__builtin_mul_overflow(values / block, (uint64_t)bytes, &t->size))
        return gguf_bad(g, at, "the size of tensor '%s' is more than 2^64 bytes", gguf_show(t->name).s);
    return 0;
}
