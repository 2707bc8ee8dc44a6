/* SPDX-License-Identifier: MIT */
/* The keys of mixtures of experts. */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"

/* expert_gating_func; 0: no key. */
static int scores(struct hparams *s, const struct keys *k)
{
    enum { NO_KEY, SOFTMAX_OF_ALL, SIGMOID, SOFTMAX_OF_CHOSEN };
    char full[96];
    uint32_t function = NO_KEY;
    bool norm = !s->desc->experts.of_all;
    int r = keys_u32(k, &function, "expert_gating_func", OPTIONAL, 0, UINT32_MAX);
    if (r) return r;
    if (function > SOFTMAX_OF_CHOSEN)
        return error_say(-EOPNOTSUPP,
                         "%s: key '%s.expert_gating_func' is %u; only softmax (1, 3) and sigmoid (2) are "
                         "supported",
                         gguf_path(k->g), k->arch, function);
    const struct arch_experts *a = &s->desc->experts;
    if (a->fixed_scores && function != NO_KEY && function != (a->sigmoid ? SIGMOID : SOFTMAX_OF_ALL))
        return error_say(-EOPNOTSUPP, "%s: key '%s.expert_gating_func' is %u; only %s is supported in a '%s' model",
                         gguf_path(k->g), k->arch, function, a->sigmoid ? "sigmoid (2)" : "softmax (1)", s->arch);
    r = gguf_get_bool(k->g, keys_name(k, full, "expert_weights_norm"), &norm);
    if (r < 0) return r;
    if (a->fixed_shares && norm == a->of_all)
        return error_say(-EOPNOTSUPP, "%s: key '%s' is %s, which is not supported in a '%s' model", gguf_path(k->g),
                         full, norm ? "true" : "false", s->arch);
    s->experts.sigmoid = function == SIGMOID || (function == NO_KEY && s->desc->experts.sigmoid);
    s->experts.of_all = !norm && function != SOFTMAX_OF_CHOSEN;
    s->experts.scale = 1;
    s->experts.scaled_input = s->desc->experts.scaled_input;
    return keys_f32(k, &s->experts.scale, "expert_weights_scale", OPTIONAL, 1e6f);
}

/* Groups of experts. 0 of them is written for none, too. */
static int groups(struct hparams *s, const struct keys *k)
{
    struct hparams_experts *x = &s->experts;
    uint32_t n = 1, used = 1;
    int r = keys_u32(k, &n, "expert_group_count", OPTIONAL, 0, x->n);
    if (!r && n > 1) r = keys_u32(k, &used, "expert_group_used_count", REQUIRED, 1, n);
    if (r) return r;
    x->groups = n > 1 ? n : 1;
    x->groups_used = n > 1 ? used : 1;
    if (x->n % x->groups)
        return error_say(-EINVAL, "%s: key '%s.expert_group_count' is %u, which does not divide %u experts",
                         gguf_path(k->g), k->arch, n, x->n);
    if (x->n / x->groups * x->groups_used < x->used)
        return error_say(-EINVAL,
                         "%s: key '%s.expert_used_count' is %u, but %u of %u groups ('%s.expert_group_used_count') "
                         "have only %u experts",
                         gguf_path(k->g), k->arch, x->used, used, n, k->arch, x->n / n * used);
    return 0;
}

/* The width of all experts that every token takes. Several are one: the sum of their outputs is that of a wider one. */
static int shared(struct hparams *s, const struct keys *k)
{
    const struct arch_experts *a = &s->desc->experts;
    uint32_t length = a->shared == SHARED_GATED ? s->ffn : 0, n = 1;
    if (a->shared == SHARED_NONE) return 0;
    int r = keys_u32(k, &length, "expert_shared_feed_forward_length",
                     a->shared == SHARED_GATED && !length ? REQUIRED : OPTIONAL, a->shared == SHARED_GATED, 1 << 20);
    if (r || a->shared == SHARED_GATED) {
        s->experts.shared_ffn = length;
        return r;
    }
    n = length > 0 || a->shared == SHARED_ONE;
    r = keys_u32(k, &n, "expert_shared_count", OPTIONAL, 0, HPARAMS_EXPERTS_MAX);
    if (r) return r;
    uint64_t width = length && !a->shared_each ? (n ? length : 0) : (uint64_t)n * (length ? length : s->experts.ffn);
    if (width > 1 << 20)
        return error_say(-EINVAL, "%s: key '%s.expert_shared_count' is %u: %llu values of shared experts are too many",
                         gguf_path(k->g), k->arch, n, (unsigned long long)width);
    s->experts.shared_ffn = (uint32_t)width;
    return 0;
}

/* Which layers have experts. */
static int layers(struct hparams *s, const struct keys *k)
{
    s->experts.step = 1;
    int r = keys_u32(k, &s->experts.first, "leading_dense_block_count", OPTIONAL, 0, s->n_layers);
    if (!r) r = keys_u32(k, &s->experts.step, "interleave_moe_layer_step", OPTIONAL, 1, HPARAMS_LAYERS_MAX);
    const bool all = s->experts.first == 0 && s->experts.step == 1;
    return r || all ? r : keys_u32(k, &s->ffn, "feed_forward_length", REQUIRED, 1, 1 << 20);
}

/* Experts may read and write less than the model's width, between two products of their own. */
static int width(const struct keys *k)
{
    uint32_t latent = 0;
    int r = keys_u32(k, &latent, "moe_latent_size", OPTIONAL, 0, UINT32_MAX);
    if (r || !latent) return r;
    return error_say(-EOPNOTSUPP,
                     "%s: key '%s.moe_latent_size' is %u; experts of a width of their own are not supported",
                     gguf_path(k->g), k->arch, latent);
}

int hparams_read_experts(struct hparams *s, const struct keys *k)
{
    const struct arch *a = s->desc;
    int r = keys_u32(k, &s->experts.n, "expert_count", a->experts.need == ARCH_MUST ? REQUIRED : OPTIONAL,
                     a->experts.need == ARCH_MUST, UINT32_MAX);
    if (r || !s->experts.n) return r;
    if (a->experts.need == ARCH_NEVER)
        return error_say(-EOPNOTSUPP,
                         "%s: a mixture of experts ('%s.expert_count' is %u) is not supported in a '%s' model",
                         gguf_path(k->g), k->arch, s->experts.n, s->arch);
    if (s->experts.n > HPARAMS_EXPERTS_MAX)
        return error_say(-EINVAL, "%s: key '%s.expert_count' is %u; the limit is %d experts", gguf_path(k->g), k->arch,
                         s->experts.n, HPARAMS_EXPERTS_MAX);
    s->experts.ffn = s->ffn;
    r = keys_u32(k, &s->experts.used, "expert_used_count", REQUIRED, 1, s->experts.n);
    if (!r) r = keys_u32(k, &s->experts.ffn, "expert_feed_forward_length", s->ffn ? OPTIONAL : REQUIRED, 1, 1 << 20);
    if (!r) r = width(k);
    if (!r) r = shared(s, k);
    if (!r) r = layers(s, k);
    if (!r) r = groups(s, k);
    return r ? r : scores(s, k);
}
