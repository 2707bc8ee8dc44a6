/* SPDX-License-Identifier: MIT */
#include "daemon/model/rope.h"
#include "daemon/model/keys.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define TAU 6.283185307179586

static const struct {
    const char *name;
    enum rope_kind kind;
} scalings[] = {
    {"none", ROPE_LINEAR},   {"linear", ROPE_LINEAR}, {"yarn", ROPE_YARN},
    {"llama3", ROPE_LLAMA3}, {"longrope", ROPE_LONG},
};

const char *rope_scaling_nth(uint32_t i)
{
    return i < sizeof(scalings) / sizeof(*scalings) ? scalings[i].name : NULL;
}

/* scaling.type; without it "linear", which does nothing unless there is a factor. */
static int scaling(struct rope *r, const struct keys *k, bool *none)
{
    char full[96], title[32];
    struct gguf_str type = {"linear", 6};
    int e = gguf_get_str(k->g, keys_name(k, full, "rope.scaling.type"), &type);
    if (e < 0) return e;
    gguf_text(title, sizeof(title), type);
    *none = !strcmp(title, "none");
    for (size_t i = 0; i < sizeof(scalings) / sizeof(*scalings); i++)
        if (!strcmp(title, scalings[i].name)) {
            r->kind = scalings[i].kind;
            return 0;
        }
    return error_say(-EOPNOTSUPP,
                     "%s: RoPE scaling '%s' ('%s') is not supported; supported: none, linear, yarn, llama3, longrope",
                     gguf_path(k->g), title, full);
}

/* A key that is accepted only with the value used without it: @none or @own. */
static int idle(const struct keys *k, const char *name, float none, float own)
{
    char full[96];
    float v = none;
    int e = gguf_get_f32(k->g, keys_name(k, full, name), &v);
    if (e < 0 || v == none || fabsf(v - own) < 1e-3f) return e < 0 ? e : 0;
    return error_say(-EOPNOTSUPP, "%s: key '%s' is %g; only %g is supported", gguf_path(k->g), full, v, own);
}

/*
 * Latent attention with YaRN: yarn_log_multiplier is a tenth of DeepSeek's mscale_all_dim. With it, q and k as a whole
 * are multiplied by 1 + 0.1 mscale_all_dim ln(factor), and their rotated parts by no factor more: in the models that
 * there are, mscale equals it or is 1. Without it llama.cpp multiplies the rotated parts, and then all of q and k, by
 * what YaRN multiplies the rotated parts by.
 */
static int latent(struct rope *r, const struct keys *k, float own)
{
    char full[96];
    float multiplier = 0;
    int e = gguf_get_f32(k->g, keys_name(k, full, "rope.scaling.yarn_log_multiplier"), &multiplier);
    if (e < 0) return e;
    if (!(fabsf(multiplier) <= 1e3f))
        return error_say(-EINVAL, "%s: key '%s' has the invalid value %g", gguf_path(k->g), full, multiplier);
    if (multiplier != 0) r->magnitude /= own;
    r->spread = r->magnitude * (float)(1 - multiplier * (r->kind == ROPE_YARN ? log(r->scale) : 0));
    return 0;
}

/*
 * YaRN multiplies cosines and sines by 1 + 0.1 ln(factor), and attn_factor multiplies that. llama.cpp overwrites
 * yarn_attn_factor with this (llama-context.cpp), and ignores the other two for most of the supported architectures. A
 * yarn_log_multiplier m (@multiplier) divides by 1 + 0.1 m ln(factor): it is Hugging Face's mscale_all_dim. Hugging
 * Face's attention_factor, which converters write to yarn_attn_factor, would replace it.
 */
static int magnitude(struct rope *r, const struct keys *k, bool multiplier)
{
    char full[96];
    const bool yarn = r->kind == ROPE_YARN;
    const double length = yarn && r->scale < 1 ? -0.1 * log(r->scale) : 0;
    float all = 0, own = (float)(1 + length);
    int e = multiplier ? keys_f32(k, &all, "rope.scaling.yarn_log_multiplier", OPTIONAL, 1e3f) : 0;
    if (all > 0) own = (float)((1 + length) / (1 + all * length));
    if (!e) e = keys_f32(k, &r->magnitude, "rope.scaling.attn_factor", OPTIONAL, 1e3f);
    if (!e) e = idle(k, "rope.scaling.yarn_attn_factor", 1, own);
    if (!e) e = idle(k, "rope.scaling.yarn_ext_factor", yarn, yarn);
    if (!e) e = idle(k, "rope.scaling.alpha", 0, 1);
    r->magnitude *= own;
    if (!e && gguf_find(k->g, keys_name(k, full, "attention.kv_lora_rank"))) return latent(r, k, own);
    return e || multiplier ? e : idle(k, "rope.scaling.yarn_log_multiplier", 0, 0);
}

/* The parameters of a scaling other than its factor. */
static int bounds(struct rope *r, const struct keys *k, bool multiplier)
{
    bool tensor = gguf_find_tensor(k->g, ROPE_TENSOR);
    int e = keys_u32(k, &r->original, "rope.scaling.original_context_length", OPTIONAL, 1, 1 << 30);
    if (!e) e = keys_f32(k, &r->fast, "rope.scaling.yarn_beta_fast", OPTIONAL, 1e6f);
    if (!e) e = keys_f32(k, &r->slow, "rope.scaling.yarn_beta_slow", OPTIONAL, 1e6f);
    if (!e) e = keys_f32(k, &r->low, "rope.scaling.low_freq_factor", OPTIONAL, 1e6f);
    if (!e) e = keys_f32(k, &r->high, "rope.scaling.high_freq_factor", OPTIONAL, 1e6f);
    if (e) return e;
    if (gguf_find_tensor(k->g, ROPE_LONG_TENSOR)) r->kind = ROPE_LONG;
    if (r->kind == ROPE_LLAMA3 && tensor) r->kind = ROPE_LINEAR, r->scale = 1; /* the tensor is the scaling */
    if (r->kind == ROPE_LLAMA3 && r->high <= r->low)
        return error_say(-EINVAL, "%s: Llama 3's RoPE scaling has the invalid bounds %g and %g", gguf_path(k->g),
                         r->low, r->high);
    return magnitude(r, k, multiplier);
}

void rope_none(struct rope *r, uint32_t ctx)
{
    *r = (struct rope){.base = 10000,
                       .scale = 1,
                       .magnitude = 1,
                       .spread = 1,
                       .original = ctx,
                       .fast = 32,
                       .slow = 1,
                       .low = 1,
                       .high = 4};
}

int rope_read(struct rope *r, const struct gguf *g, const char *arch, uint32_t ctx, bool multiplier)
{
    const struct keys own = {g, arch}, *k = &own;
    float factor = 1;
    bool none;
    rope_none(r, ctx);
    int e = keys_f32(k, &r->base, "rope.freq_base", OPTIONAL, 1e12f);
    if (!e) e = scaling(r, k, &none);
    if (!e) e = keys_f32(k, &factor, "rope.scale_linear", OPTIONAL, 1e6f); /* the older key */
    if (!e) e = keys_f32(k, &factor, "rope.scaling.factor", OPTIONAL, 1e6f);
    if (e) return e;
    if (!none) r->scale = 1 / factor;
    return bounds(r, k, multiplier);
}

/* Pair at which a rotation turns @turns times within the original context. */
static double pair_of(const struct rope *r, uint32_t rot, double turns)
{
    return rot * log(r->original / (turns * TAU)) / (2 * log(r->base));
}

/* The unscaled share of frequency @j: 1 for fast ones, 0 for slow ones, a ramp between. */
static double yarn_kept(const struct rope *r, uint32_t rot, uint32_t j)
{
    double from = fmax(floor(pair_of(r, rot, r->fast)), 0), to = fmin(ceil(pair_of(r, rot, r->slow)), rot - 1.0);
    double ramp = (j - from) / fmax(to - from, 0.001);
    return 1 - fmin(fmax(ramp, 0), 1);
}

static double llama3_kept(const struct rope *r, double freq)
{
    double turns = r->original * freq / TAU;
    return fmin(fmax((turns - r->low) / (r->high - r->low), 0), 1);
}

void rope_frequencies(const struct rope *r, uint32_t rot, const float *factors, double *out)
{
    for (uint32_t j = 0; j < rot / 2; j++) {
        double freq = pow(r->base, -2.0 * j / rot), kept = 0;
        if (r->kind == ROPE_YARN) kept = yarn_kept(r, rot, j);
        if (r->kind == ROPE_LLAMA3) kept = llama3_kept(r, freq);
        out[j] = kept == 0 ? freq * r->scale : freq * (kept + (1 - kept) * r->scale);
        if (factors) out[j] /= factors[j];
    }
}
