/* SPDX-License-Identifier: MIT */
#include "daemon/model/adapter.h"
#include "daemon/model/tensor-type.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EMBEDDINGS "token_embd.weight"

static bool is(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* --- keys --- */

/* The key @key must be @want. */
static int check_text(const struct gguf *g, const char *key, const char *want)
{
    struct gguf_str s = {0};
    char has[64];
    int r = gguf_get_str(g, key, &s);
    if (r < 0) return r;
    if (r > 0) return error_say(-EINVAL, "%s: the key %s is missing: this is no adapter", gguf_path(g), key);
    if (is(s, want)) return 0;
    gguf_text(has, sizeof(has), s);
    return error_say(-EINVAL, "%s: %s is '%s', not '%s'", gguf_path(g), key, has, want);
}

static int check_architecture(const struct gguf *g, const struct gguf *base)
{
    struct gguf_str own = {0}, model = {0};
    char has[64], wants[64];
    int r = gguf_get_str(g, "general.architecture", &own);
    if (r < 0) return r;
    (void)!gguf_get_str(base, "general.architecture", &model);
    gguf_text(has, sizeof(has), own);
    gguf_text(wants, sizeof(wants), model);
    if (r == 0 && own.len == model.len && memcmp(own.data, model.data, own.len) == 0) return 0;
    return error_say(-EINVAL, "%s: an adapter of a '%s' model, and the model is of '%s'", gguf_path(g), has, wants);
}

static int read_alpha(struct adapter *a)
{
    int r = gguf_get_f32(a->gguf, "adapter.lora.alpha", &a->alpha);
    if (r < 0) return r;
    if (r == 0 && !isfinite(a->alpha))
        return error_say(-EINVAL, "%s: adapter.lora.alpha is %g", gguf_path(a->gguf), (double)a->alpha);
    return 0;
}

static int read_invocation(struct adapter *a)
{
    static const char key[] = "adapter.alora.invocation_tokens";
    const struct gguf_kv *kv = gguf_find(a->gguf, key);
    if (!kv) return 0;
    if (kv->type != GGUF_ARRAY || (kv->elem != GGUF_U32 && kv->elem != GGUF_I32))
        return error_say(-EINVAL, "%s: %s is no array of 32-bit integers", gguf_path(a->gguf), key);
    if (kv->n == 0 || kv->n > ADAPTER_INVOCATION_MAX)
        return error_say(-EINVAL, "%s: %s has %llu tokens, not 1 to %d", gguf_path(a->gguf), key,
                         (unsigned long long)kv->n, ADAPTER_INVOCATION_MAX);
    a->n_invocation = (uint32_t)kv->n;
    a->invocation = calloc(kv->n, sizeof(*a->invocation));
    if (!a->invocation) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < a->n_invocation; i++) a->invocation[i] = gguf_array_i32(kv, i);
    return 0;
}

/* --- tensors --- */

/* The model's tensor of "NAME.lora_a" or "NAME.lora_b". *b: which of the two it is. */
static int base_of(const struct adapter *a, const struct gguf *base, const struct gguf_tensor *t,
                   const struct gguf_tensor **of, bool *b)
{
    static const char suffixes[][8] = {".lora_a", ".lora_b"};
    const size_t tail = sizeof(suffixes[0]) - 1;
    char shown[80], name[80];
    gguf_text(shown, sizeof(shown), t->name);
    for (int i = 0; i < 2; i++) {
        if (t->name.len <= tail || memcmp(t->name.data + t->name.len - tail, suffixes[i], tail) != 0) continue;
        snprintf(name, sizeof(name), "%.*s", (int)(t->name.len - tail), t->name.data);
        *of = t->name.len - tail < sizeof(name) ? gguf_find_tensor(base, name) : NULL;
        *b = i == 1;
        if (*of) return 0;
        return error_say(-EINVAL, "%s: the model has no tensor for '%s'", gguf_path(a->gguf), shown);
    }
    return error_say(
        -EOPNOTSUPP,
        "%s: tensor '%s' is neither a .lora_a nor a .lora_b; adapters with other tensors are not supported",
        gguf_path(a->gguf), shown);
}

/* F32, F16 or BF16, and all values are finite. */
static int check_values(const struct adapter *a, const struct gguf_tensor *t)
{
    enum kern_type type;
    float v[256];
    char name[80];
    gguf_text(name, sizeof(name), t->name);
    if (t->dims[2] != 1 || t->dims[3] != 1)
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' has %u dimensions: adapters of experts are not supported",
                         gguf_path(a->gguf), name, t->n_dims);
    if (tensor_type(t->type, &type) || kern_type_quantized(type)) {
        uint32_t block, bytes;
        const char *is = gguf_tensor_type_name(t->type, &block, &bytes);
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' is of type %s; adapters must be F32, F16 or BF16",
                         gguf_path(a->gguf), name, is ? is : "unknown");
    }
    for (uint64_t i = 0, all = t->dims[0] * t->dims[1], n; i < all; i += n) {
        n = all - i < 256 ? all - i : 256;
        kern_dequant(type, v, (const uint8_t *)t->data + i * kern_type_bytes(type), n);
        for (uint64_t j = 0; j < n; j++)
            if (!isfinite(v[j]))
                return error_say(-EINVAL, "%s: tensor '%s' has the value %g at index %llu", gguf_path(a->gguf), name,
                                 (double)v[j], (unsigned long long)i + j);
    }
    return 0;
}

static int add_tensor(struct adapter *a, const struct gguf *base, const struct gguf_tensor *t)
{
    const struct gguf_tensor *of = NULL;
    bool b = false;
    int r = base_of(a, base, t, &of, &b);
    if (!r) r = check_values(a, t);
    if (r) return r;
    struct adapter_pair *p = a->pairs;
    while (p < a->pairs + a->n_pairs && p->of != of) p++;
    if (p == a->pairs + a->n_pairs) a->n_pairs++;
    p->of = of;
    if (b)
        p->b = t;
    else
        p->a = t;
    return 0;
}

/* The shapes of a pair fit each other and the model's tensor. */
static int check_pair(const struct adapter *a, struct adapter_pair *p)
{
    char name[80];
    gguf_text(name, sizeof(name), p->of->name);
    if (!p->a || !p->b)
        return error_say(-EINVAL, "%s: tensor '%s' has no %s", gguf_path(a->gguf), name, p->a ? ".lora_b" : ".lora_a");
    p->rows = is(p->of->name, EMBEDDINGS);
    const uint64_t rank = p->b->dims[0], in = p->rows ? rank : p->of->dims[0];
    const uint64_t a_rows = p->rows ? p->of->dims[1] : rank, out = p->of->dims[p->rows ? 0 : 1];
    if (rank == 0 || rank > ADAPTER_RANK_MAX)
        return error_say(-EINVAL, "%s: the adapter of '%s' has rank %llu, not 1 to %d", gguf_path(a->gguf), name,
                         (unsigned long long)rank, ADAPTER_RANK_MAX);
    if (p->of->dims[2] != 1 || p->of->dims[3] != 1)
        return error_say(-EOPNOTSUPP, "%s: '%s' has the matrices of experts; adapters of experts are not supported",
                         gguf_path(a->gguf), name);
    if (p->a->dims[0] != in || p->a->dims[1] != a_rows || p->b->dims[1] != out)
        return error_say(-EINVAL,
                         "%s: the adapter of '%s' is %llu x %llu and %llu x %llu, which does not fit %llu x %llu",
                         gguf_path(a->gguf), name, (unsigned long long)p->a->dims[0], (unsigned long long)p->a->dims[1],
                         (unsigned long long)p->b->dims[0], (unsigned long long)p->b->dims[1],
                         (unsigned long long)p->of->dims[0], (unsigned long long)p->of->dims[1]);
    p->rank = (uint32_t)rank;
    return 0;
}

static int read_pairs(struct adapter *a, const struct gguf *base)
{
    const size_t n = gguf_n_tensors(a->gguf);
    int r = 0;
    if (n == 0) return error_say(-EINVAL, "%s: the adapter has no tensors", gguf_path(a->gguf));
    a->pairs = calloc(n, sizeof(*a->pairs));
    if (!a->pairs) return error_origin(-ENOMEM);
    for (size_t i = 0; !r && i < n; i++) r = add_tensor(a, base, gguf_tensor_at(a->gguf, i));
    for (size_t i = 0; !r && i < a->n_pairs; i++) r = check_pair(a, &a->pairs[i]);
    return r;
}

int adapter_open(struct adapter **out, const char *path, const struct gguf *base)
{
    static const atomic_bool stop;
    struct adapter *a = calloc(1, sizeof(*a));
    if (!a) return error_origin(-ENOMEM);
    int r = gguf_open(&a->gguf, path);
    if (!r) r = check_text(a->gguf, "general.type", "adapter");
    if (!r) r = check_text(a->gguf, "adapter.type", "lora");
    if (!r) r = check_architecture(a->gguf, base);
    if (!r) r = read_alpha(a);
    if (!r) r = read_invocation(a);
    if (!r) r = read_pairs(a, base);
    if (!r) r = fingerprint_make(&a->digest, a->gguf, &stop);
    if (r) {
        adapter_close(a);
        return r;
    }
    *out = a;
    return 0;
}

struct adapter *adapter_close(struct adapter *a)
{
    if (!a) return NULL;
    free(a->pairs);
    free(a->invocation);
    gguf_close(a->gguf);
    free(a);
    return NULL;
}

/* --- use --- */

float adapter_scale(const struct adapter *a, uint32_t rank, float scale)
{
    return a->alpha != 0 ? scale * a->alpha / (float)rank : scale;
}

uint32_t adapter_from(const struct adapter *a, const int32_t *ids, uint32_t n)
{
    const uint32_t len = a->n_invocation;
    if (len == 0) return 0;
    for (uint32_t i = n < len ? 0 : n - len + 1; i-- > 0;)
        if (memcmp(ids + i, a->invocation, len * sizeof(*ids)) == 0) return i;
    return n;
}
