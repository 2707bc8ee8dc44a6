/* SPDX-License-Identifier: MIT */
#include "tests/support/lora-file.h"
#include "kernels/kernels.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { F32 = 0, F16 = 1, BF16 = 30 };

void lora_file_init(struct lora_file *l)
{
    *l = (struct lora_file){.seed = 1, .rank = 4, .alpha = 8};
}

/* --- bytes --- */

static int put(struct buf *b, const void *p, size_t n)
{
    return buf_append(b, p, n);
}

static int put_u32(struct buf *b, uint32_t v)
{
    return put(b, &v, sizeof(v));
}

static int put_u64(struct buf *b, uint64_t v)
{
    return put(b, &v, sizeof(v));
}

static int put_text(struct buf *b, const char *s, size_t n)
{
    int r = put_u64(b, n);
    return r ? r : put(b, s, n);
}

static int put_key(struct buf *b, const char *key, enum gguf_type type)
{
    int r = put_text(b, key, strlen(key));
    return r ? r : put_u32(b, type);
}

static int put_string(struct buf *b, const char *key, const char *s, size_t n)
{
    int r = put_key(b, key, GGUF_STRING);
    return r ? r : put_text(b, s, n);
}

static int pad(struct buf *b)
{
    static const char zeros[32];
    return put(b, zeros, (32 - b->len % 32) % 32);
}

/* --- tensors --- */

/* The tensor gets a pair. */
static bool takes(const struct lora_file *l, const struct gguf_tensor *t)
{
    char name[96], part[96];
    unsigned layer;
    int at = 0;
    gguf_text(name, sizeof(name), t->name);
    if (t->dims[1] == 1 || t->dims[2] != 1) return false;
    (void)!sscanf(name, "blk.%u.%n", &layer, &at);
    char *end = at ? strstr(name, ".weight") : NULL;
    if (end) *end = 0;
    snprintf(part, sizeof(part), "%.90s,", name + at);
    if (l->only) return strstr(l->only, part);
    static const char usual[] = "attn_q,attn_k,attn_v,attn_qkv,attn_output,ffn_gate,ffn_up,ffn_down,";
    return strstr(usual, part);
}

static size_t value_bytes(const struct lora_file *l)
{
    return l->type == F32 ? 4 : 2;
}

/* A number from -1 to 1. */
static float draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) / 2147483648.0f;
}

static int put_values(struct buf *b, const struct lora_file *l, uint64_t n, float size, uint64_t *state)
{
    int r = 0;
    for (uint64_t i = 0; !r && i < n; i++) {
        const float v = draw(state) * size;
        uint32_t bits;
        uint16_t half = kern_f32_to_f16(v);
        memcpy(&bits, &v, sizeof(bits));
        if (l->type == BF16) half = (uint16_t)(bits >> 16);
        r = l->type == F32 ? put(b, &v, sizeof(v)) : put(b, &half, sizeof(half));
    }
    return r;
}

/* The shapes of A and B of @t. */
static void shapes(const struct lora_file *l, const struct gguf_tensor *t, uint64_t a[2], uint64_t b[2])
{
    const bool rows = t->name.len == 17 && memcmp(t->name.data, "token_embd.weight", 17) == 0;
    a[0] = rows ? l->rank : t->dims[0];
    a[1] = rows ? t->dims[1] : l->rank;
    b[0] = l->rank;
    b[1] = t->dims[rows ? 0 : 1];
}

static int put_entry(struct buf *out, const struct lora_file *l, const struct gguf_tensor *t, bool b, uint64_t *at)
{
    uint64_t dims[2][2];
    char name[96];
    shapes(l, t, dims[0], dims[1]);
    int n = snprintf(name, sizeof(name), "%.*s.lora_%c", (int)t->name.len, t->name.data, b ? 'b' : 'a');
    int r = put_text(out, name, (size_t)n);
    if (!r) r = put_u32(out, 2);
    for (int i = 0; !r && i < 2; i++) r = put_u64(out, dims[b][i]);
    if (!r) r = put_u32(out, l->type);
    if (!r) r = put_u64(out, *at);
    *at += (dims[b][0] * dims[b][1] * value_bytes(l) + 31) / 32 * 32;
    return r;
}

/* Values so that what is added to a product has about the size of l->size for inputs of the size 1. */
static int put_pair(struct buf *out, const struct lora_file *l, const struct gguf_tensor *t, uint64_t *state)
{
    uint64_t a[2], b[2];
    shapes(l, t, a, b);
    const float scale = l->alpha != 0 ? l->alpha / (float)l->rank : 1, size = l->size != 0 ? l->size : 0.3f;
    const float of_a = sqrtf(3 / (float)a[0]), of_b = sqrtf(3 / (float)l->rank) * size / scale;
    int r = put_values(out, l, a[0] * a[1], of_a, state);
    if (!r) r = pad(out);
    if (!r) r = put_values(out, l, b[0] * b[1], of_b, state);
    return r ? r : pad(out);
}

/* --- the file --- */

static int put_keys(struct buf *out, const struct lora_file *l, const struct gguf *base)
{
    struct gguf_str arch = {"", 0};
    gguf_get_str(base, "general.architecture", &arch);
    int r = put_string(out, "general.type", "adapter", 7);
    if (!r) r = put_string(out, "general.architecture", arch.data, arch.len);
    if (!r) r = put_string(out, "adapter.type", "lora", 4);
    if (!r && l->alpha != 0) r = put_key(out, "adapter.lora.alpha", GGUF_F32);
    if (!r && l->alpha != 0) r = put(out, &l->alpha, sizeof(l->alpha));
    if (r || !l->n_invocation) return r;
    r = put_key(out, "adapter.alora.invocation_tokens", GGUF_ARRAY);
    if (!r) r = put_u32(out, GGUF_U32);
    if (!r) r = put_u64(out, l->n_invocation);
    return r ? r : put(out, l->invocation, l->n_invocation * sizeof(*l->invocation));
}

int lora_file_bytes(struct buf *out, const struct lora_file *l, const struct gguf *base)
{
    struct buf file = BUF_INIT;
    uint64_t at = 0, state = l->seed, n = 0;
    const size_t all = gguf_n_tensors(base);
    for (size_t i = 0; i < all; i++) n += 2 * takes(l, gguf_tensor_at(base, i));
    int r = put(&file, "GGUF", 4);
    if (!r) r = put_u32(&file, 3);
    if (!r) r = put_u64(&file, n);
    if (!r) r = put_u64(&file, 3 + (l->alpha != 0) + (l->n_invocation > 0));
    if (!r) r = put_keys(&file, l, base);
    for (size_t i = 0; !r && i < 2 * all; i++)
        if (takes(l, gguf_tensor_at(base, i / 2))) r = put_entry(&file, l, gguf_tensor_at(base, i / 2), i % 2, &at);
    if (!r) r = pad(&file);
    for (size_t i = 0; !r && i < all; i++)
        if (takes(l, gguf_tensor_at(base, i))) r = put_pair(&file, l, gguf_tensor_at(base, i), &state);
    if (!r) r = put(out, file.data, file.len);
    buf_fini(&file);
    return r;
}
