/* SPDX-License-Identifier: MIT */
#include "daemon/model/shape.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const supported[] = {"llama"};
#define SUPPORTED_TEXT "llama"

/* Printable ASCII only: these strings end in messages and in status. */
static void copy_text(char *out, size_t cap, struct gguf_str s)
{
    size_t n = s.len < cap - 1 ? s.len : cap - 1;
    for (size_t i = 0; i < n; i++) out[i] = s.data[i] >= 0x20 && s.data[i] < 0x7f ? s.data[i] : '?';
    out[n] = 0;
}

struct keys {
    const struct gguf *g;
    const char *arch;
};

static const char *key(const struct keys *k, char out[96], const char *name)
{
    snprintf(out, 96, "%s.%s", k->arch, name);
    return out;
}

enum need { OPTIONAL, REQUIRED };

/* @out keeps its value when the optional key is absent; what is there lies in [min, max]. */
static int number(const struct keys *k, uint32_t *out, const char *name, enum need need, uint32_t min, uint32_t max)
{
    char full[96];
    int r = gguf_get_u32(k->g, key(k, full, name), out);
    if (r < 0) return r;
    if (r && need == REQUIRED) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(k->g), full);
    if (!r && (*out < min || *out > max))
        return error_say(-EINVAL, "%s: key '%s' is %u, not a number from %u to %u", gguf_path(k->g), full, *out, min,
                         max);
    return 0;
}

static int real(const struct keys *k, float *out, const char *name, enum need need, float max)
{
    char full[96];
    int r = gguf_get_f32(k->g, key(k, full, name), out);
    if (r < 0) return r;
    if (r && need == REQUIRED) return error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(k->g), full);
    if (!r && !(*out > 0 && *out <= max))
        return error_say(-EINVAL, "%s: key '%s' is %g, not above 0 and at most %g", gguf_path(k->g), full, *out, max);
    return 0;
}

static int architecture(struct shape *s, const struct gguf *g)
{
    struct gguf_str arch, name;
    int r = gguf_get_str(g, "general.architecture", &arch);
    if (r < 0) return r;
    if (r) return error_say(-EINVAL, "%s: key 'general.architecture' is missing", gguf_path(g));
    copy_text(s->arch, sizeof(s->arch), arch);
    r = gguf_get_str(g, "general.name", &name);
    if (r < 0) return r;
    if (!r) copy_text(s->name, sizeof(s->name), name);
    for (size_t i = 0; i < sizeof(supported) / sizeof(*supported); i++)
        if (arch.len == strlen(supported[i]) && !memcmp(arch.data, supported[i], arch.len)) return 0;
    return error_say(-EOPNOTSUPP, "%s: architecture '%s' is not supported; supported: " SUPPORTED_TEXT, gguf_path(g),
                     s->arch);
}

static int sizes(struct shape *s, const struct keys *k)
{
    uint32_t experts = 0;
    int r = number(k, &experts, "expert_count", OPTIONAL, 0, UINT32_MAX);
    if (r) return r;
    if (experts)
        return error_say(-EOPNOTSUPP, "%s: a mixture of experts ('%s.expert_count' is %u) is not supported",
                         gguf_path(k->g), k->arch, experts);
    r = number(k, &s->n_layers, "block_count", REQUIRED, 1, 1024);
    if (!r) r = number(k, &s->dim, "embedding_length", REQUIRED, 1, 1 << 17);
    if (!r) r = number(k, &s->ffn, "feed_forward_length", REQUIRED, 1, 1 << 20);
    if (!r) r = number(k, &s->ctx, "context_length", REQUIRED, 1, 1 << 30);
    return r;
}

static int heads(struct shape *s, const struct keys *k)
{
    const char *path = gguf_path(k->g);
    int r = number(k, &s->heads, "attention.head_count", REQUIRED, 1, 4096);
    s->kv_heads = s->heads;
    if (!r) r = number(k, &s->kv_heads, "attention.head_count_kv", OPTIONAL, 1, 4096);
    if (r) return r;
    if (s->heads % s->kv_heads)
        return error_say(-EINVAL, "%s: %u attention heads cannot share %u KV heads evenly", path, s->heads,
                         s->kv_heads);
    s->head_dim = s->dim / s->heads;
    r = number(k, &s->head_dim, "attention.key_length", OPTIONAL, 1, 1024);
    uint32_t value = s->head_dim;
    if (!r) r = number(k, &value, "attention.value_length", OPTIONAL, 1, 1024);
    if (r) return r;
    char full[96];
    if (!gguf_find(k->g, key(k, full, "attention.key_length")) && s->dim % s->heads)
        return error_say(-EINVAL, "%s: a width of %u is no multiple of %u attention heads", path, s->dim, s->heads);
    if (value != s->head_dim)
        return error_say(-EOPNOTSUPP,
                         "%s: keys of %u and values of %u dimensions are not supported; they must be equal", path,
                         s->head_dim, value);
    if (s->head_dim > 1024) return error_say(-EINVAL, "%s: heads of %u dimensions; at most 1024", path, s->head_dim);
    return 0;
}

/* scaling.type: none, or linear (the default when only a factor is given). Llama 3's is a tensor, see backend. */
static int rope(struct shape *s, const struct keys *k)
{
    const char *path = gguf_path(k->g);
    char full[96];
    s->rope_dim = s->head_dim;
    s->rope_base = 10000;
    s->rope_scale = 1;
    int r = number(k, &s->rope_dim, "rope.dimension_count", OPTIONAL, 1, s->head_dim);
    if (!r) r = real(k, &s->rope_base, "rope.freq_base", OPTIONAL, 1e12f);
    if (r) return r;
    if (s->rope_dim % 2)
        return error_say(-EINVAL, "%s: rotary embedding over an odd number of dimensions, %u", path, s->rope_dim);

    struct gguf_str type = {"linear", 6};
    float factor = 1;
    r = gguf_get_str(k->g, key(k, full, "rope.scaling.type"), &type);
    if (r < 0) return r;
    bool none = type.len == 4 && !memcmp(type.data, "none", 4),
         linear = type.len == 6 && !memcmp(type.data, "linear", 6);
    if (!none && !linear) {
        char title[32];
        copy_text(title, sizeof(title), type);
        return error_say(-EOPNOTSUPP,
                         "%s: RoPE scaling '%s' ('%s') is not supported; supported: none, linear, and Llama 3's "
                         "rope_freqs.weight",
                         path, title, full);
    }
    r = real(k, &factor, "rope.scale_linear", OPTIONAL, 1e6f); /* the older key */
    if (!r) r = real(k, &factor, "rope.scaling.factor", OPTIONAL, 1e6f);
    if (!r && linear) s->rope_scale = 1 / factor;
    return r;
}

static int vocabulary(struct shape *s, const struct gguf *g)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    const struct gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
    if (!tokens) return error_say(-EINVAL, "%s: key 'tokenizer.ggml.tokens' is missing: no vocabulary", gguf_path(g));
    if (tokens->type != GGUF_ARRAY || tokens->elem != GGUF_STRING || !tokens->n || tokens->n > 1 << 24)
        return error_say(-EINVAL, "%s: key 'tokenizer.ggml.tokens' is not an array of 1 to %u strings", gguf_path(g),
                         1 << 24);
    if (!embd) return error_say(-EINVAL, "%s: tensor 'token_embd.weight' is missing", gguf_path(g));
    if (embd->n_dims != 2 || embd->dims[1] != tokens->n)
        return error_say(-EINVAL, "%s: %llu tokens in the vocabulary, but tensor 'token_embd.weight' has %llu rows",
                         gguf_path(g), (unsigned long long)tokens->n, (unsigned long long)embd->dims[1]);
    s->vocab = (uint32_t)tokens->n;
    s->tied = !gguf_find_tensor(g, "output.weight");
    return 0;
}

int shape_read(struct shape *s, const struct gguf *g)
{
    *s = (struct shape){0};
    int r = architecture(s, g);
    if (r) return r;
    struct keys k = {g, s->arch};
    r = sizes(s, &k);
    if (!r) r = heads(s, &k);
    if (!r) r = rope(s, &k);
    if (!r) r = real(&k, &s->rms_eps, "attention.layer_norm_rms_epsilon", REQUIRED, 1);
    if (!r) r = vocabulary(s, g);
    if (r) return r;
    s->groups[0] = (struct kv_group){.n_layers = s->n_layers, .kind = KV_FULL};
    s->n_groups = 1;
    return 0;
}
