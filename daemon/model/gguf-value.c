/* SPDX-License-Identifier: MIT */
/* Values of metadata keys, and the names and sizes of tensor types. */
#include "daemon/model/gguf.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>

static const char *type_title(enum gguf_type t)
{
    static const char *const titles[GGUF_TYPES] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                   "bool", "string", "array", "u64", "i64", "f64"};
    return titles[t];
}

static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *wanted)
{
    return error_say(-EINVAL, "%s: key '%.*s' is of type %s, not %s", gguf_path(g), (int)kv->key.len, kv->key.data,
                     type_title(kv->type), wanted);
}

/* Values may be unaligned: copy them. */
#define LOAD(type, p)                                                                                                  \
    __extension__({                                                                                                    \
        type _v;                                                                                                       \
        memcpy(&_v, p, sizeof(_v));                                                                                    \
        _v;                                                                                                            \
    })

/* 0, or 1 if the value is not an integer. *negative: the value is below 0. */
static int integer(const struct gguf_kv *kv, uint64_t *v, bool *negative)
{
    int64_t i = 0;
    *negative = false;
    switch (kv->type) {
    case GGUF_U8:
        *v = LOAD(uint8_t, kv->value);
        return 0;
    case GGUF_U16:
        *v = LOAD(uint16_t, kv->value);
        return 0;
    case GGUF_U32:
        *v = LOAD(uint32_t, kv->value);
        return 0;
    case GGUF_U64:
        *v = LOAD(uint64_t, kv->value);
        return 0;
    case GGUF_I8:
        i = LOAD(int8_t, kv->value); /* NOLINT(bugprone-signed-char-misuse,cert-str34-c): a number, no character */
        break;
    case GGUF_I16:
        i = LOAD(int16_t, kv->value);
        break;
    case GGUF_I32:
        i = LOAD(int32_t, kv->value);
        break;
    case GGUF_I64:
        i = LOAD(int64_t, kv->value);
        break;
    default:
        return 1;
    }
    *negative = i < 0;
    *v = (uint64_t)i;
    return 0;
}

int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    uint64_t v;
    bool negative;
    if (!kv) return 1;
    if (integer(kv, &v, &negative)) return wrong_type(g, kv, "an integer");
    if (negative || v > UINT32_MAX)
        return error_say(-EINVAL, "%s: key '%s' is %s%llu, not a number from 0 to 4294967295", gguf_path(g), key,
                         negative ? "-" : "", (unsigned long long)(negative ? -v : v));
    *out = (uint32_t)v;
    return 0;
}

int gguf_get_i64(const struct gguf *g, const char *key, int64_t *out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    uint64_t v;
    bool negative;
    if (!kv) return 1;
    if (integer(kv, &v, &negative)) return wrong_type(g, kv, "an integer");
    if (!negative && v > INT64_MAX)
        return error_say(-EINVAL, "%s: key '%s' is %llu, above 2^63-1", gguf_path(g), key, (unsigned long long)v);
    *out = (int64_t)v;
    return 0;
}

int gguf_get_f32(const struct gguf *g, const char *key, float *out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 1;
    if (kv->type == GGUF_F32)
        *out = LOAD(float, kv->value);
    else if (kv->type == GGUF_F64)
        *out = (float)LOAD(double, kv->value);
    else
        return wrong_type(g, kv, "f32");
    return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 1;
    if (kv->type != GGUF_BOOL) return wrong_type(g, kv, "bool");
    *out = LOAD(uint8_t, kv->value);
    return 0;
}

static struct gguf_str string_at(const void *p)
{
    return (struct gguf_str){(const char *)p + 8, LOAD(uint64_t, p)};
}

int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 1;
    if (kv->type != GGUF_STRING) return wrong_type(g, kv, "a string");
    *out = string_at(kv->value);
    return 0;
}

bool gguf_next_str(const struct gguf_kv *kv, const void **it, struct gguf_str *out, uint64_t *index)
{
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING) return false;
    uint64_t i = *it ? *index + 1 : 0;
    if (i >= kv->n) return false;
    const char *p = kv->value;
    if (*it) p = (const char *)*it + 8 + LOAD(uint64_t, *it);
    *it = p;
    *index = i;
    *out = string_at(p);
    return true;
}

float gguf_array_f32(const struct gguf_kv *kv, uint64_t i)
{
    assert(kv->type == GGUF_ARRAY && kv->elem == GGUF_F32 && i < kv->n);
    return LOAD(float, (const char *)kv->value + 4 * i);
}

int32_t gguf_array_i32(const struct gguf_kv *kv, uint64_t i)
{
    assert(kv->type == GGUF_ARRAY && (kv->elem == GGUF_I32 || kv->elem == GGUF_U32) && i < kv->n);
    return LOAD(int32_t, (const char *)kv->value + 4 * i);
}

/* ggml's type numbers (enum ggml_type in ggml.h). Missing numbers are types that ggml has removed. */
static const struct {
    const char *name;
    uint16_t block, bytes;
} types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
    [40] = {"NVFP4", 64, 36},
};

const char *gguf_tensor_type_name(uint32_t type, uint32_t *block, uint32_t *bytes)
{
    if (type >= sizeof(types) / sizeof(*types) || !types[type].name) return NULL;
    *block = types[type].block;
    *bytes = types[type].bytes;
    return types[type].name;
}
