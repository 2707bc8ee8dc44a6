/* SPDX-License-Identifier: MIT */
#include "daemon/model/hparams-read.h"
#include "libcommon/error.h"
#include <math.h>

static int refuse_architecture(const struct hparams *s, const struct gguf *g)
{
    return error_say(-EOPNOTSUPP,
                     "%s: architecture '%s' is not supported; 'hobd inspect --supported' lists those that are",
                     gguf_path(g), s->arch);
}

static int architecture(struct hparams *s, const struct gguf *g)
{
    struct gguf_str arch, name;
    int r = gguf_get_str(g, "general.architecture", &arch);
    if (r < 0) return r;
    if (r) return error_say(-EINVAL, "%s: key 'general.architecture' is missing", gguf_path(g));
    gguf_text(s->arch, sizeof(s->arch), arch);
    r = gguf_get_str(g, "general.name", &name);
    if (r < 0) return r;
    if (!r) gguf_text(s->name, sizeof(s->name), name);
    s->desc = arch_find(arch.data, arch.len);
    return s->desc ? 0 : refuse_architecture(s, g);
}

static bool where(const struct hparams *s, enum recurrent_where where)
{
    return s->desc->recurrent.kind && s->desc->recurrent.where == where;
}

/* No layer has attention or a feed-forward: the file has 0 for their sizes. */
static bool alone(const struct hparams *s)
{
    return where(s, RECURRENT_ALONE);
}

/* Layers that predict later tokens, which the keys of nemotron_h's layers do not distinguish from others. */
static int no_nextn(const struct hparams *s, const struct keys *k)
{
    uint32_t n = 0;
    int r = keys_u32(k, &n, "nextn_predict_layers", OPTIONAL, 0, UINT32_MAX);
    if (r || !n) return r;
    return error_say(-EOPNOTSUPP,
                     "%s: key '%s.nextn_predict_layers' is %u; layers that predict later tokens are not supported in a "
                     "'%s' model",
                     gguf_path(k->g), k->arch, n, s->arch);
}

static int sizes(struct hparams *s, const struct keys *k)
{
    int r = keys_u32(k, &s->n_layers, "block_count", REQUIRED, 1, HPARAMS_LAYERS_MAX);
    if (!r && s->desc->mtp) r = keys_u32(k, &s->mtp.nextn, "nextn_predict_layers", OPTIONAL, 0, s->n_layers - 1);
    s->n_layers -= s->mtp.nextn;
    if (!r && !s->desc->mtp && where(s, RECURRENT_OR_FFN)) r = no_nextn(s, k);
    if (!r) r = hparams_check_nextn(s, k);
    if (!r) r = keys_u32(k, &s->dim, "embedding_length", REQUIRED, 1, 1 << 17);
    if (!r && !alone(s) && !where(s, RECURRENT_OR_FFN)) /* else hparams_layers */
        r = hparams_read_ffn(s, k, s->desc->experts.need == ARCH_MUST ? OPTIONAL : REQUIRED);
    if (!r) r = keys_u32(k, &s->ctx, "context_length", REQUIRED, 1, 1 << 30);
    return r;
}

static int heads(struct hparams *s, const struct keys *k)
{
    const char *path = gguf_path(k->g);
    if (alone(s)) {
        s->heads = s->kv_heads = 1;
        s->head_dim = 2;
        return hparams_layers(s, k);
    }
    int r = keys_u32(k, &s->heads, "attention.head_count", REQUIRED, 1, 4096);
    s->kv_heads = s->heads;
    if (!r) r = hparams_layers(s, k);
    if (r || s->desc->attention.mla) return r ? r : hparams_read_mla(s, k);
    if (s->heads % s->kv_heads)
        return error_say(-EINVAL, "%s: %u attention heads cannot share %u KV heads evenly", path, s->heads,
                         s->kv_heads);
    s->head_dim = s->dim / s->heads;
    r = keys_u32(k, &s->head_dim, "attention.key_length", OPTIONAL, 1, 1024);
    uint32_t value = s->head_dim;
    if (!r) r = keys_u32(k, &value, "attention.value_length", OPTIONAL, 1, 1024);
    if (r) return r;
    char full[96];
    if (!gguf_find(k->g, keys_name(k, full, "attention.key_length")) && s->dim % s->heads)
        return error_say(-EINVAL, "%s: a width of %u is no multiple of %u attention heads", path, s->dim, s->heads);
    if (value != s->head_dim)
        return error_say(-EOPNOTSUPP,
                         "%s: keys of %u and values of %u dimensions are not supported; they must be equal", path,
                         s->head_dim, value);
    if (s->head_dim > 1024)
        return error_say(-EINVAL, "%s: heads of %u dimensions; the limit is 1024", path, s->head_dim);
    return 0;
}

/* M-RoPE. A fourth section would rotate by nothing. */
static int sections(struct hparams *s, const struct keys *k)
{
    char full[96];
    uint64_t sum = 0;
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, "rope.dimension_sections"));
    if (!s->desc->rope.sections) return 0;
    bool valid =
        kv && kv->type == GGUF_ARRAY && (kv->elem == GGUF_I32 || kv->elem == GGUF_U32) && kv->n >= 3 && kv->n <= 4;
    for (uint32_t i = 0; valid && i < kv->n; i++) {
        int32_t pairs = gguf_array_i32(kv, i);
        valid = i < 3 ? pairs > 0 : pairs == 0;
        if (valid && i < 3) sum += s->sections[i] = (uint32_t)pairs;
    }
    if (valid && s->desc->rope.sections == SECTIONS_MIXED) /* as hparams_axis has it: pairs j, j + 3, … */
        for (uint32_t i = 0; i < 3; i++) valid &= s->sections[i] == (s->rope_dim / 2 + 2 - i) / 3;
    if (valid && sum == s->rope_dim / 2) return 0;
    return error_say(-EINVAL, "%s: key '%s' does not divide the %u pairs of RoPE into 3 sections", gguf_path(k->g),
                     full, s->rope_dim / 2);
}

static int rotation(struct hparams *s, const struct keys *k)
{
    char full[96];
    s->rope_dim = s->head_dim;
    s->rotates = !alone(s) && !s->desc->block.positions && s->desc->encoder.alibi == 0;
    rope_none(&s->rope, s->ctx);
    if (!s->rotates) return 0;
    int r = keys_u32(k, &s->rope_dim, "rope.dimension_count", OPTIONAL, 1, s->head_dim);
    if (!r && s->rope_dim % 2)
        r = error_say(-EINVAL, "%s: rotary embedding over an odd number of dimensions, %u", gguf_path(k->g),
                      s->rope_dim);
    if (!r) r = sections(s, k);
    if (!r) r = rope_read(&s->rope, k->g, k->arch, s->ctx, s->desc->keys & KEY_YARN_MULTIPLIER);
    if (!r && s->desc->rope.may_be_off)
        r = gguf_get_bool(k->g, keys_name(k, full, "rope.scaling.finetuned"), &s->rotates);
    return r < 0 ? r : 0;
}

/* --- sliding windows --- */

/* Of @period layers one has no window; 0: all have one. */
static bool slides_by(const struct hparams *s, uint32_t period, uint32_t layer)
{
    const uint32_t full = s->desc->window.first || !period ? 0 : period - 1;
    return !period || layer % period != full;
}

static void mark_period(struct hparams *s, uint32_t period)
{
    for (uint32_t l = 0; l < s->n_layers; l++)
        if (slides_by(s, period, l)) s->by_layer.slides[l / 8] |= (uint8_t)(1 << l % 8);
}

/* llama.cpp rotates the layers of the description's period whatever the key says. A file in which these are not those
 * with windows would have other results. */
static int check_pattern(const struct hparams *s, const struct keys *k)
{
    const struct arch_window *w = &s->desc->window;
    char full[96];
    for (uint32_t l = 0; w->rope_only && (w->chunks || w->first) && l < s->n_layers; l++)
        if (slides_by(s, w->period, l) != (hparams_window(s, l) > 0))
            return error_say(-EOPNOTSUPP,
                             "%s: key '%s' gives layer %u %s window; only a period of %u is supported in a '%s' model",
                             gguf_path(k->g), keys_name(k, full, "attention.sliding_window_pattern"), l,
                             hparams_window(s, l) ? "a" : "no", w->period, s->arch);
    return 0;
}

/* The key is a period, or an array with a flag for each layer. */
static int pattern(struct hparams *s, const struct keys *k)
{
    char full[96];
    uint32_t period = s->desc->window.period;
    const struct gguf_kv *kv = gguf_find(k->g, keys_name(k, full, "attention.sliding_window_pattern"));
    if (!kv || kv->type != GGUF_ARRAY) {
        int r = keys_u32(k, &period, "attention.sliding_window_pattern", OPTIONAL, 0, HPARAMS_LAYERS_MAX);
        if (!r) mark_period(s, period);
        return r;
    }
    bool wide = kv->elem == GGUF_I32 || kv->elem == GGUF_U32;
    if ((kv->elem != GGUF_BOOL && !wide) || (kv->n != s->n_layers && kv->n != s->n_layers + s->mtp.nextn))
        return error_say(-EINVAL, "%s: key '%s' is not an array of %u booleans, one for each layer", gguf_path(k->g),
                         full, s->n_layers + s->mtp.nextn);
    for (uint32_t l = 0; l < s->n_layers; l++)
        if (wide ? gguf_array_i32(kv, l) != 0 : ((const uint8_t *)kv->value)[l] != 0)
            s->by_layer.slides[l / 8] |= (uint8_t)(1 << l % 8);
    return 0;
}

static int window(struct hparams *s, const struct keys *k)
{
    const struct arch *a = s->desc;
    s->window_rope = s->rope;
    if (a->window.need == ARCH_NEVER) return 0;
    s->window = a->window.size;
    const bool must = a->window.need == ARCH_MUST;
    int r = keys_u32(k, &s->window, "attention.sliding_window", must ? REQUIRED : OPTIONAL, must, INT32_MAX);
    if (!r && a->window.chunks && !s->window)
        return error_say(-EOPNOTSUPP,
                         "%s: key '%s.attention.sliding_window' is 0; a '%s' model without chunks is not supported",
                         gguf_path(k->g), k->arch, k->arch);
    if (r || !s->window) return r;
    if (a->window.unscaled) s->window_rope.kind = ROPE_LINEAR, s->window_rope.scale = s->window_rope.magnitude = 1;
    if (a->window.rope_base > 0) s->window_rope.base = a->window.rope_base;
    r = keys_f32(k, &s->window_rope.base, "rope.freq_base_swa", OPTIONAL, 1e12f);
    if (!r) r = pattern(s, k);
    return r ? r : check_pattern(s, k);
}

/* --- scales and caps --- */

/* Read a scale or cap. Without its @bit in the architecture's keys, only 0 and 1 are accepted. 0 means none. */
static int factor(const struct hparams *s, const struct keys *k, float *out, const char *name, unsigned bit)
{
    char full[96];
    float v = 0;
    int r = gguf_get_f32(k->g, keys_name(k, full, name), &v);
    if (r) return r < 0 ? r : 0;
    if (!(fabsf(v) <= 1e6f))
        return error_say(-EINVAL, "%s: key '%s' has the invalid value %g", gguf_path(k->g), full, v);
    if (s->desc->keys & bit)
        *out = v;
    else if (v != 0 && v != 1)
        return error_say(-EOPNOTSUPP, "%s: key '%s' is %g, which is not supported in a '%s' model", gguf_path(k->g),
                         full, v, s->arch);
    return 0;
}

static int factors(struct hparams *s, const struct keys *k)
{
    const struct arch *a = s->desc;
    float attention = 0, logits = 0, cap = a->attention_cap, logit_cap = a->logit_cap;
    s->scale.embedding = a->embedding_sqrt ? sqrtf((float)s->dim) : 0;
    if (a->keys & KEY_SCALES_OF_MINICPM) {
        s->scale.embedding = 12;
        s->scale.residual = 1.4f / sqrtf((float)s->n_layers);
        logits = (float)s->dim / 256;
    }
    int r = factor(s, k, &s->scale.embedding, "embedding_scale", KEY_EMBEDDING_SCALE);
    if (!r) r = factor(s, k, &s->scale.residual, "residual_scale", KEY_RESIDUAL_SCALE);
    if (!r) r = factor(s, k, &attention, "attention.scale", KEY_ATTENTION_SCALE);
    if (!r) r = factor(s, k, &logits, "logit_scale", KEY_LOGIT_SCALE | KEY_LOGIT_FACTOR);
    if (!r) r = factor(s, k, &cap, "attn_logit_softcapping", KEY_ATTENTION_CAP);
    if (!r) r = factor(s, k, &logit_cap, "final_logit_softcapping", KEY_LOGIT_CAP);
    if (r) return r;
    if (cap < 0 || logit_cap < 0)
        return error_say(-EINVAL, "%s: invalid soft cap %g", gguf_path(k->g), cap < 0 ? cap : logit_cap);
    if (a->keys & (KEY_LOGIT_SCALE | KEY_LOGIT_FACTOR) && logits == 0)
        return error_say(-EINVAL, "%s: key '%s.logit_scale' is missing", gguf_path(k->g), s->arch);
    bool wide = a->attention.wide_layers && s->n_layers == a->attention.wide_layers;
    double width = wide ? (double)s->dim / s->heads : s->head_dim;
    if (s->mla.kv_rank) width = (s->mla.nope + s->mla.rope) / pow(s->rope.spread, 4);
    if (s->scale.embedding == 0) s->scale.embedding = 1;
    if (s->scale.residual == 0) s->scale.residual = 1;
    if (a->attention.unscaled) width = 1;
    s->scale.attention = attention != 0 ? attention : (float)(1 / sqrt(width));
    s->cap.attention = cap;
    s->scale.logits = logits == 0 ? 1 : a->keys & KEY_LOGIT_FACTOR ? logits : 1 / logits;
    s->cap.logits = logit_cap;
    return 0;
}

/* --- norms and blocks --- */

static int temperature(struct hparams *s, const struct keys *k)
{
    const struct arch_attention *a = &s->desc->attention;
    const bool fixed = a->temperature != 0, keys = s->desc->keys & KEY_TEMPERATURE;
    if (fixed) s->temperature = (struct hparams_temperature){a->temperature, a->temperature_floor, 1, true};
    if (keys) s->temperature.floor = s->rope.original;
    int r = fixed || (keys && s->mla.kv_rank)
                ? keys_u32(k, &s->temperature.floor, "attention.temperature_length", OPTIONAL, 1, 1 << 30)
                : 0;
    return r || !keys ? r : factor(s, k, &s->temperature.scale, "attention.temperature_scale", KEY_TEMPERATURE);
}

/* The activation is that of the description. A file that tells another one is refused, but where that is GELU, which
 * has many names, or a form without a gate. */
static int told_activation(const struct hparams *s, const struct keys *k)
{
    const enum arch_activation own = s->desc->activation;
    const bool silu = own == ACT_SILU, erf = own == ACT_GELU_ERF;
    char full[96], told[32];
    struct gguf_str name;
    int r = gguf_get_str(k->g, keys_name(k, full, "hidden_activation"), &name);
    if (r || (!silu && !erf && own != ACT_RELU)) return r < 0 ? r : 0;
    gguf_text(told, sizeof(told), name);
    if (silu && strncmp(told, "relu", 4) != 0 && strncmp(told, "gelu", 4) != 0) return 0;
    if (!silu && !strcmp(told, erf ? "gelu" : "relu")) return 0;
    return error_say(-EOPNOTSUPP, "%s: key '%s' is '%s'; only '%s' is supported in a '%s' model", gguf_path(k->g), full,
                     told,
                     silu  ? "silu"
                     : erf ? "gelu"
                           : "relu",
                     s->arch);
}

/* A file that says that its blocks are parallel has no norm for the feed-forward, and the reverse. */
static int blocks(struct hparams *s, const struct keys *k)
{
    const struct arch_block *b = &s->desc->block;
    char full[96];
    const bool norm = gguf_find_tensor(k->g, "blk.0.ffn_norm.weight");
    bool told = !norm;
    int r = keys_f32(k, &s->rms_eps,
                     b->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", REQUIRED, 1);
    s->unit_norm = s->desc->qk_norm == QK_NORM_UNIT && s->experts.n != s->desc->attention.plain_experts;
    s->parallel = b->parallel == PARALLEL_ALWAYS || (b->parallel == PARALLEL_WITHOUT_NORM && !norm);
    if (!r && b->parallel == PARALLEL_BY_KEY) {
        r = gguf_get_bool(k->g, keys_name(k, full, "use_parallel_residual"), &s->parallel);
        return r > 0 ? error_say(-EINVAL, "%s: key '%s' is missing", gguf_path(k->g), full) : r;
    }
    if (r || b->parallel != PARALLEL_WITHOUT_NORM) return r;
    r = gguf_get_bool(k->g, keys_name(k, full, "use_parallel_residual"), &told);
    if (r < 0 || told == s->parallel) return r < 0 ? r : 0;
    return error_say(-EINVAL, "%s: key '%s' is %s, but tensor 'blk.0.ffn_norm.weight' %s", gguf_path(k->g), full,
                     told ? "true" : "false", norm ? "exists" : "is missing");
}

const char *hparams_embedding(const struct hparams *s, const struct gguf *g)
{
    static const char own[] = "token_embd.weight";
    return s->desc->block.embd_may && !gguf_find_tensor(g, own) ? "output.weight" : own;
}

static int vocabulary(struct hparams *s, const struct gguf *g)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    const char *name = hparams_embedding(s, g);
    const struct gguf_tensor *embd = gguf_find_tensor(g, name), *output = gguf_find_tensor(g, "output.weight");
    if (!tokens) return error_say(-EINVAL, "%s: key 'tokenizer.ggml.tokens' is missing: no vocabulary", gguf_path(g));
    if (tokens->type != GGUF_ARRAY || tokens->elem != GGUF_STRING || !tokens->n || tokens->n > 1 << 24)
        return error_say(-EINVAL, "%s: key 'tokenizer.ggml.tokens' is not an array of 1 to %u strings", gguf_path(g),
                         1 << 24);
    if (!embd) return error_say(-EINVAL, "%s: tensor 'token_embd.weight' is missing", gguf_path(g));
    if (embd->n_dims != 2 || embd->dims[1] != tokens->n)
        return error_say(-EINVAL, "%s: %llu tokens in the vocabulary, but tensor '%s' has %llu rows", gguf_path(g),
                         (unsigned long long)tokens->n, name, (unsigned long long)embd->dims[1]);
    s->vocab = (uint32_t)tokens->n;
    s->tied = !output || output == embd;
    return 0;
}

int hparams_read(struct hparams *s, const struct gguf *g)
{
    *s = (struct hparams){0};
    int r = architecture(s, g), parts = r == -EOPNOTSUPP ? 0 : gguf_complete(g);
    if (parts || r) return parts ? parts : r;
    struct keys k = {g, s->arch};
    r = sizes(s, &k);
    if (!r) r = hparams_read_experts(s, &k);
    if (!r) r = heads(s, &k);
    if (!r) r = rotation(s, &k);
    if (!r) r = window(s, &k);
    if (!r) r = hparams_read_layers(s, &k);
    if (!r) r = factors(s, &k);
    if (!r) r = temperature(s, &k);
    if (!r) r = blocks(s, &k);
    if (!r) r = told_activation(s, &k);
    if (!r) r = hparams_read_embedding(s, &k);
    if (!r) r = vocabulary(s, g);
    if (r) return r;
    return hparams_recurrent(s, &k);
}

bool hparams_drafts(const struct hparams *s)
{
    return s->mtp.nextn && s->desc->mtp != MTP_UNUSED;
}

void hparams_mtp(struct hparams *s)
{
    s->mtp.first = s->n_layers++;
    s->mtp.nextn = 0;
    s->by_layer.parts[s->mtp.first] = LAYER_ATTENTION | LAYER_FFN;
    s->recurrent = (struct hparams_recurrent){0};
    s->groups[0] = (struct kv_group){.n_layers = 1, .kind = KV_FULL};
    s->n_groups = 1;
}

void hparams_split(struct hparams *s)
{
    uint32_t slide = 0;
    if (s->embedding.whole) return; /* nothing is cached */
    for (uint32_t l = 0; l < s->n_layers; l++)
        slide += s->by_layer.parts[l] & LAYER_ATTENTION && hparams_own_kv(s, l) && hparams_window(s, l);
    if (slide == 0 || slide == s->groups[0].n_layers) return;
    s->groups[2] = s->groups[1]; /* of the recurrent layers, if there are any */
    s->groups[1] = (struct kv_group){.n_layers = slide, .kind = KV_WINDOW, .window = s->window};
    s->groups[0].n_layers -= slide;
    s->n_groups++;
}
