/* SPDX-License-Identifier: MIT */
#include "tests/support/tiny.h"
#include "tests/support/tiny-arch.h"
#include "tests/support/tiny-quant.h"
#include "tests/support/tiny-vocab.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 32

static const char chatml[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                             "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
                             "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

int tiny_type(const char *name)
{
    const struct tiny_type *t = tiny_type_named(name);
    return t ? (int)t->number : -EINVAL;
}

void tiny_init(struct tiny *t)
{
    *t = (struct tiny){.seed = 1,
                       .layers = 2,
                       .dim = 64,
                       .ffn = 96,
                       .heads = 4,
                       .kv_heads = 2,
                       .ctx = 512,
                       .type = 8,
                       .tied = true,
                       .tokenizer = "gpt2",
                       .pre = "smollm"};
}

/* --- random numbers --- */

/* About normal, variance 1: four 16-bit uniforms of one splitmix64 draw. */
static float gauss(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    int sum = (int)(z & 0xffff) + (int)(z >> 16 & 0xffff) + (int)(z >> 32 & 0xffff) + (int)(z >> 48);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

static void pack_row(const struct tiny_type *t, uint8_t *p, const float *x, size_t k)
{
    for (size_t i = 0; i < k; i += t->block, p += t->bytes) t->pack(p, x + i);
}

/* --- tensors: listed twice, for the directory and for the data, by one function --- */

enum pass { COUNT, DIRECTORY, DATA };

struct writer {
    const struct tiny *t;
    const struct tiny_arch *a;
    const struct vocab *v;
    FILE *f;
    enum pass pass;
    uint64_t n, offset, state;
    float *row;
    uint8_t *packed;
};

static void put_u32(FILE *f, uint32_t v)
{
    fwrite(&v, 4, 1, f);
}

static void put_u64(FILE *f, uint64_t v)
{
    fwrite(&v, 8, 1, f);
}

static void pad(FILE *f, uint64_t to)
{
    while (to--) fputc(0, f);
}

/* Of a recurrent layer: ssm_a, whose name has no ending. */
static bool is_decay(const char *name)
{
    const char *at = strstr(name, "ssm_a");
    return at && at[5] == 0;
}

static void fill_row(struct writer *w, const char *name, uint64_t r, uint64_t k)
{
    float scale = 1 / sqrtf((float)k);
    if (!strncmp(name, "position_embd", 13)) scale *= 2;
    if (!strncmp(name, "token_embd", 10) || !strcmp(name, "output.weight"))
        scale *= (w->t->logit_size > 0 ? w->t->logit_size : 3) * vocab_weight(w->v, r);
    if (!strncmp(name, "per_layer_token_embd", 20)) scale = 1 / sqrtf((float)w->a->per_layer);
    if (strstr(name, "altup_router.")) scale *= (float)k / 2; /* its input is divided by k */
    if (strstr(name, "altup_predict")) scale *= 0.1f;
    if (strstr(name, "ffn_down") && w->a->down_share > 0) scale *= w->a->down_share;
    for (uint64_t i = 0; i < k; i++) w->row[i] = gauss(&w->state) * scale;
    if (strstr(name, "ssm_norm")) /* rows of near 1 */
        for (uint64_t i = 0; i < k; i++) w->row[i] = 1 + 0.1f * w->row[i] / scale;
    if (is_decay(name)) w->row[0] = -0.2f - 0.4f * (float)(r % 4);
}

/* Norms near 1; the last one with random signs, or a tied model would only ever repeat its last token. */
static void fill_vector(struct writer *w, const char *name, uint64_t k)
{
    for (uint64_t i = 0; i < k; i++) {
        float x = gauss(&w->state);
        w->row[i] = 1 + 0.1f * x;
        if ((strstr(name, "post_ffw_norm") || strstr(name, ".post_norm.")) && w->a->ffn_share > 0)
            w->row[i] *= w->a->ffn_share;
        if (strstr(name, "attn_q_norm") && w->a->q_share > 0) w->row[i] *= w->a->q_share;
        if (strstr(name, ".bias")) w->row[i] = 0.3f * x;
        if (is_decay(name)) w->row[i] = -0.1f - 0.5f * x * x;
        if (strstr(name, "attn_sinks") || strstr(name, "ffn_gate_inp_shexp")) w->row[i] = x;
        if (!strcmp(name, "rope_factors_short.weight")) w->row[i] = 1 + 0.05f * (float)i;
        if (!strcmp(name, "rope_factors_long.weight")) w->row[i] = 1 + 2 * (float)i;
        if (!strcmp(name, "output_norm.weight") || !strcmp(name, "token_embd_norm.weight"))
            w->row[i] = x < 0 ? -1 + 0.1f * x : 1 + 0.1f * x;
        if (strstr(name, "layer_output_scale")) w->row[i] = 0.9f + 0.1f * x;
        if (!strcmp(name, "rope_freqs.weight") && w->a->window_head)
            w->row[i] = i < k / 4 ? 1 : 1e30f; /* as for a rotation of a quarter of the pairs */
        else if (!strcmp(name, "rope_freqs.weight"))
            w->row[i] = i < k / 4 ? 1 : i < k / 2 ? 3.5f : 8;
    }
}

/* @stack matrices of @rows, or one (0); @rows 0: a vector. */
static void tensors_of(struct writer *w, const char *name, uint64_t k, uint64_t rows, uint64_t stack)
{
    const bool matrix = rows && !strstr(name, ".bias") && (!strstr(name, "_norm.") || strstr(name, "ssm_norm"));
    const bool plain = strstr(name, "ffn_gate_inp.") || strstr(name, "conv.") || strstr(name, "ssm_conv1d") ||
                       strstr(name, "altup_") || strstr(name, ".scale") || strstr(name, "ssm_norm") || is_decay(name) ||
                       strstr(name, "ssm_d") || strstr(name, "position_embd") || strstr(name, "token_types");
    const struct tiny_type *t = tiny_type_numbered(matrix && !plain ? w->t->type : 0);
    const uint64_t all = (rows ? rows : 1) * (stack ? stack : 1);
    uint64_t row_bytes = k / t->block * t->bytes, size = row_bytes * all;
    w->n++;
    if (w->pass == DIRECTORY) {
        put_u64(w->f, strlen(name));
        fputs(name, w->f);
        put_u32(w->f, 1 + (rows > 0) + (stack > 0));
        put_u64(w->f, k);
        if (rows) put_u64(w->f, rows);
        if (stack) put_u64(w->f, stack);
        put_u32(w->f, t->number);
        put_u64(w->f, w->offset);
    } else if (w->pass == DATA) {
        for (uint64_t r = 0; r < all; r++) {
            if (matrix)
                fill_row(w, name, r, k);
            else
                fill_vector(w, name, k);
            pack_row(t, w->packed, w->row, k);
            fwrite(w->packed, 1, row_bytes, w->f);
        }
        pad(w->f, -size % ALIGN);
    }
    w->offset += size + -size % ALIGN;
}

static void tensor(struct writer *w, const char *name, uint64_t k, uint64_t rows)
{
    tensors_of(w, name, k, rows, 0);
}

static uint32_t head_dim(const struct tiny *t)
{
    return t->head_dim ? t->head_dim : t->dim / t->heads;
}

static void rope_tensors(struct writer *w)
{
    uint64_t n = head_dim(w->t) / 2;
    for (const struct tiny_key *k = w->a->keys; k->name; k++)
        if (!strcmp(k->name, ".rope.dimension_count")) n = (uint64_t)k->number / 2;
    if (w->t->rope_freqs || w->a->window_head) tensor(w, "rope_freqs.weight", n, 0);
    if (!w->a->long_rope) return;
    tensor(w, "rope_factors_long.weight", n, 0);
    tensor(w, "rope_factors_short.weight", n, 0);
}

/* A layer of @kind has the tensors of @only. y and Y: see below. Capitals are layers with experts, E; a small letter is
 * one without, D. */
static bool has_part(char kind, char only)
{
    if (only == 'Y') return kind != 't' && kind != 'u';                /* K */
    if (only == 'y') return kind != 't' && kind != 'u' && kind != 'k'; /* V */
    if (only == 'E' || only == 'D') return (kind < 'a') == (only == 'E');
    return kind == only || (only < 'a' && kind == only - 'A' + 'a');
}

/* The sizes of heads and of the feed-forward in layer @l, where they differ. */
static void layer_sizes(const struct tiny *t, const struct tiny_arch *a, uint64_t size[128], uint32_t l)
{
    if (!a->window_head) return;
    const bool window = a->kinds[l] == 'w' || a->kinds[l] == 't', shared = a->kinds[l] == 't' || a->kinds[l] == 'u';
    size['h'] = window ? a->window_head : head_dim(t);
    size['q'] = t->heads * size['h'];
    size['v'] = (window ? a->window_kv : t->kv_heads) * size['h'];
    size['f'] = shared && a->window_ffn ? a->window_ffn : t->ffn;
}

static void tensors(struct writer *w, enum pass pass)
{
    const struct tiny *t = w->t;
    uint64_t head = head_dim(t), q = t->heads * head, v = t->kv_heads * head;
    const struct tiny_arch *a = w->a;
    uint64_t size[128] = {
        ['d'] = t->dim, ['f'] = t->ffn, ['q'] = q, ['v'] = v, ['h'] = head, ['Q'] = q + 2 * v, ['F'] = 2 * t->ffn};
    size['H'] = t->heads, size['K'] = t->kv_heads, size['n'] = a->experts, size['s'] = a->shared_ffn;
    size['e'] = a->expert_ffn ? a->expert_ffn : t->ffn;
    size['i'] = a->mla.q_rank, size['j'] = a->mla.kv_rank, size['J'] = a->mla.kv_rank + a->mla.rope;
    size['p'] = a->mla.nope;
    size['o'] = a->per_layer, size['O'] = a->per_layer * t->layers, size['l'] = a->laurel, size['V'] = w->v->n;
    size['a'] = a->altup, size['A'] = a->altup * a->altup, size['b'] = a->altup ? a->altup - 1 : 0;
    size['S'] = 2 * size['e'], size['D'] = 2 * t->dim;
    size['c'] = a->taps, size['B'] = 3 * t->dim;
    size['I'] = a->inner, size['m'] = a->mamba_heads, size['g'] = a->mamba_groups;
    size['1'] = 1, size['2'] = 2, size['3'] = 3;
    size['G'] = a->mamba_groups ? a->inner / a->mamba_groups : 0;
    size['C'] = a->inner + 2 * a->mamba_groups * a->state;
    size['P'] = size['I'] + size['C'] + size['m'];
    size['X'] = 2 * q, size['Z'] = 2 * a->value_heads;
    if (a->mla.kv_rank) {
        size['y'] = a->mla.value, size['x'] = t->heads * (a->mla.nope + a->mla.rope);
        size['z'] = t->heads * a->mla.value, size['w'] = t->heads * (a->mla.nope + a->mla.value);
    } else {
        size['w'] = a->delta_dim, size['z'] = a->value_heads;
        size['y'] = size['z'] * size['w'], size['x'] = size['y'] + 2 * a->key_heads * size['w'];
    }
    w->pass = pass;
    w->n = w->offset = 0;
    w->state = t->seed;
    tensor(w, a->output_only ? "output.weight" : "token_embd.weight", t->dim, w->v->n);
    if (a->positions) tensor(w, "position_embd.weight", t->dim, t->ctx);
    for (uint32_t l = 0; l < t->layers; l++)
        for (const struct tiny_tensor *i = w->a->tensors; i->name; i++) {
            char name[64];
            if (i == w->a->tensors) layer_sizes(t, a, size, l);
            if (i->only && !has_part(a->kinds[l], i->only)) continue;
            snprintf(name, sizeof(name), "blk.%u.%s", l, i->name);
            tensors_of(w, name, size[(int)i->k], size[(int)i->rows], size[(int)i->stack]);
        }
    for (const struct tiny_tensor *i = a->shared; i && i->name; i++)
        tensors_of(w, i->name, size[(int)i->k], size[(int)i->rows], size[(int)i->stack]);
    rope_tensors(w);
    char norm[64];
    snprintf(norm, sizeof(norm), "%s.weight", a->output_norm ? a->output_norm : "output_norm");
    if (!a->outer) tensor(w, norm, t->dim, 0);
    for (const struct tiny_tensor *i = a->tensors; i->name; i++)
        if (!strcmp(i->name, "attn_norm.bias")) tensor(w, "output_norm.bias", t->dim, 0);
    if (!t->tied) tensor(w, "output.weight", t->dim, w->v->n);
    if (a->output_bias) tensor(w, "output.bias", w->v->n, 0);
}

/* --- metadata --- */

struct meta {
    FILE *f;
    const char *arch;
    uint64_t n;
};

static void key(struct meta *m, const char *name, uint32_t type)
{
    char full[128];
    snprintf(full, sizeof(full), "%s%s", name[0] == '.' ? m->arch : "", name);
    put_u64(m->f, strlen(full));
    fputs(full, m->f);
    put_u32(m->f, type);
    m->n++;
}

static void meta_u32(struct meta *m, const char *name, uint32_t v)
{
    key(m, name, 4);
    put_u32(m->f, v);
}

static void meta_f32(struct meta *m, const char *name, float v)
{
    key(m, name, 6);
    fwrite(&v, 4, 1, m->f);
}

static void meta_bool(struct meta *m, const char *name, bool v)
{
    key(m, name, 7);
    fputc(v, m->f);
}

static void put_str(FILE *f, const char *s)
{
    put_u64(f, strlen(s));
    fputs(s, f);
}

static void meta_str(struct meta *m, const char *name, const char *v)
{
    key(m, name, 8);
    put_str(m->f, v);
}

static void meta_array(struct meta *m, const char *name, uint32_t elem, uint64_t n)
{
    key(m, name, 9);
    put_u32(m->f, elem);
    put_u64(m->f, n);
}

/* @n numbers of @text. */
static void meta_i32s(struct meta *m, const char *name, uint32_t n, const char *text)
{
    char *end;
    meta_array(m, name, 5, n);
    for (; n; n--, text = end) put_u32(m->f, (uint32_t)strtol(text, &end, 10));
}

/* @n numbers from @first on, each a tenth larger. */
static void meta_f32s(struct meta *m, const char *name, uint32_t n, float first)
{
    meta_array(m, name, 6, n);
    for (uint32_t i = 0; i < n; i++, first *= 1.1f) fwrite(&first, 4, 1, m->f);
}

/* @n numbers: @first in the first layers, as many as @text says, -infinity in the others. */
static void meta_first_f32s(struct meta *m, const char *name, uint32_t n, float first, const char *text)
{
    const uint32_t many = (uint32_t)strtoul(text, NULL, 10);
    const float none = -INFINITY;
    meta_array(m, name, 6, n);
    for (uint32_t i = 0; i < n; i++) fwrite(i < many ? &first : &none, 4, 1, m->f);
}

/* @n times @text. */
static void meta_texts(struct meta *m, const char *name, uint32_t n, const char *text)
{
    meta_array(m, name, 8, n);
    for (; n; n--) put_str(m->f, text);
}

/* A flag for each of @n layers: it has a window. */
static void meta_windows(struct meta *m, const char *name, uint32_t n, const char *kinds)
{
    meta_array(m, name, 7, n);
    for (uint32_t l = 0; l < n; l++) fputc(kinds[l] == 'w' || kinds[l] == 't', m->f);
}

static void tokenizer_keys(struct meta *m, const struct tiny *t, const struct vocab *v)
{
    meta_str(m, "tokenizer.ggml.model", t->tokenizer);
    if (v->n_merges) meta_str(m, "tokenizer.ggml.pre", t->pre);
    meta_array(m, "tokenizer.ggml.tokens", 8, v->n);
    for (uint32_t i = 0; i < v->n; i++) put_str(m->f, v->tokens[i].text);
    meta_array(m, "tokenizer.ggml.token_type", 5, v->n);
    for (uint32_t i = 0; i < v->n; i++) put_u32(m->f, v->tokens[i].kind);
    if (v->n_merges) {
        meta_array(m, "tokenizer.ggml.merges", 8, v->n_merges);
        for (uint32_t i = 0; i < v->n_merges; i++) put_str(m->f, v->merges[i]);
    } else {
        meta_array(m, "tokenizer.ggml.scores", 6, v->n);
        for (uint32_t i = 0; i < v->n; i++) fwrite(&v->tokens[i].score, 4, 1, m->f);
        if (strcmp(t->tokenizer, "rwkv") != 0) meta_u32(m, "tokenizer.ggml.unknown_token_id", 0);
    }
    meta_u32(m, "tokenizer.ggml.bos_token_id", v->bos);
    meta_u32(m, "tokenizer.ggml.eos_token_id", v->eos);
    meta_bool(m, "tokenizer.ggml.add_bos_token", v->n_merges == 0);
    meta_str(m, "tokenizer.chat_template", t->chat_template ? t->chat_template : chatml);
}

/* Of @t->fim: the texts, and the keys that name them. */
static const struct fim {
    const char *name, *texts[3], *keys[3];
} fims[] = {
    {"texts", {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}, {0}},
    {"keys",
     {"<a>", "<b>", "<c>"},
     {"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id"}},
    {"old-keys",
     {"<a>", "<b>", "<c>"},
     {"tokenizer.ggml.prefix_token_id", "tokenizer.ggml.suffix_token_id", "tokenizer.ggml.middle_token_id"}},
    {"mistral", {"[PREFIX]", "[SUFFIX]"}, {0}},
};

static const struct fim *fim_of(const struct tiny *t)
{
    for (size_t i = 0; t->fim && i < sizeof(fims) / sizeof(*fims); i++)
        if (!strcmp(t->fim, fims[i].name)) return &fims[i];
    return NULL;
}

static void fim_keys(struct meta *m, const struct fim *fim, uint32_t n)
{
    for (uint32_t i = 0; fim && i < 3; i++)
        if (fim->keys[i]) meta_u32(m, fim->keys[i], n - 3 + i);
}

static bool own_key(const struct tiny_arch *a, const char *name)
{
    for (const struct tiny_key *k = a->keys; k->name; k++)
        if (!strcmp(k->name, name)) return true;
    return false;
}

static void own_keys(struct meta *m, const struct tiny *t, const struct tiny_arch *a)
{
    for (const struct tiny_key *k = a->keys; k->name; k++) {
        uint32_t period = (uint32_t)k->number;
        if (k->kind == 'u') meta_u32(m, k->name, (uint32_t)k->number);
        if (k->kind == 'f') meta_f32(m, k->name, (float)k->number);
        if (k->kind == 's') meta_str(m, k->name, k->text);
        if (k->kind == 'b') meta_bool(m, k->name, k->number != 0);
        if (k->kind == 'a') meta_f32s(m, k->name, t->layers, (float)k->number);
        if (k->kind == 'c') meta_first_f32s(m, k->name, t->layers, (float)k->number, k->text);
        if (k->kind == 'w') meta_windows(m, k->name, t->layers, a->kinds);
        if (k->kind == 't') meta_texts(m, k->name, (uint32_t)k->number, k->text);
        if (k->kind == 'i') meta_i32s(m, k->name, period, k->text);
        if (k->kind != 'p') continue;
        meta_array(m, k->name, 7, t->layers);
        for (uint32_t l = 0; l < t->layers; l++) fputc(l % period < period - 1, m->f);
    }
}

static void mamba_keys(struct meta *m, const struct tiny_arch *a)
{
    meta_u32(m, ".ssm.conv_kernel", a->taps);
    meta_u32(m, ".ssm.inner_size", a->inner);
    meta_u32(m, ".ssm.state_size", a->state);
    meta_u32(m, ".ssm.time_step_rank", a->mamba_heads);
    meta_u32(m, ".ssm.group_count", a->mamba_groups);
}

static uint64_t metadata(FILE *f, const struct tiny *t, const struct tiny_arch *a, const struct vocab *v)
{
    struct meta m = {.f = f, .arch = a->arch ? a->arch : a->name};
    meta_str(&m, "general.architecture", m.arch);
    meta_str(&m, "general.name", "tiny");
    meta_u32(&m, "general.alignment", ALIGN);
    meta_u32(&m, ".context_length", t->ctx);
    if (t->pooling) meta_u32(&m, ".pooling_type", t->pooling);
    meta_u32(&m, ".embedding_length", t->dim);
    meta_u32(&m, ".block_count", t->layers);
    if (!own_key(a, ".feed_forward_length")) meta_u32(&m, ".feed_forward_length", a->alone ? 0 : t->ffn);
    meta_u32(&m, ".attention.head_count", a->alone ? 0 : t->heads);
    if (!a->alone && !own_key(a, ".attention.head_count_kv")) meta_u32(&m, ".attention.head_count_kv", t->kv_heads);
    meta_f32(&m, ".attention.layer_norm_rms_epsilon", 1e-5f);
    if (!own_key(a, ".rope.freq_base")) meta_f32(&m, ".rope.freq_base", t->rope_base > 0 ? t->rope_base : 10000);
    if (!a->alone && !own_key(a, ".rope.dimension_count")) meta_u32(&m, ".rope.dimension_count", head_dim(t));
    own_keys(&m, t, a);
    if (a->inner) mamba_keys(&m, a);
    if (a->experts) meta_u32(&m, ".expert_count", a->experts);
    if (a->experts) meta_u32(&m, ".expert_used_count", a->experts_used);
    if (a->expert_ffn) meta_u32(&m, ".expert_feed_forward_length", a->expert_ffn);
    if (a->shared_ffn) meta_u32(&m, ".expert_shared_feed_forward_length", a->shared_ffn);
    meta_u32(&m, ".vocab_size", v->n);
    if (t->head_dim) {
        meta_u32(&m, ".attention.key_length", t->head_dim);
        meta_u32(&m, ".attention.value_length", t->head_dim);
    }
    if (t->rope_linear != 0) {
        meta_str(&m, ".rope.scaling.type", "linear");
        meta_f32(&m, ".rope.scaling.factor", t->rope_linear);
    }
    tokenizer_keys(&m, t, v);
    fim_keys(&m, fim_of(t), v->n);
    return m.n;
}

/* --- the file --- */

static void write_all(struct writer *w)
{
    FILE *f = w->f;
    tensors(w, COUNT);
    fputs("GGUF", f);
    put_u32(f, 3);
    put_u64(f, w->n);
    long n_kv_at = ftell(f);
    put_u64(f, 0);
    uint64_t n_kv = metadata(f, w->t, w->a, w->v);
    tensors(w, DIRECTORY);
    pad(f, -(uint64_t)ftell(f) % ALIGN);
    tensors(w, DATA);
    fseek(f, n_kv_at, SEEK_SET);
    put_u64(f, n_kv);
}

static bool writable(const struct tiny *t)
{
    const struct tiny_type *ty = tiny_type_numbered(t->type);
    if (t->fim && !fim_of(t)) return false;
    if (!ty || !t->heads || !t->kv_heads || !t->layers || !t->dim || !t->ffn) return false;
    return t->dim % ty->block == 0 && t->ffn % ty->block == 0 && t->heads * head_dim(t) % ty->block == 0;
}

/* @t as its architecture has it. An architecture that is not in the table is written as llama, under its name. */
static struct tiny resolve(const struct tiny *t, struct tiny_arch *a)
{
    struct tiny own = *t;
    const struct tiny_arch *known = tiny_arch_find(t->arch ? t->arch : "llama");
    *a = known ? *known : *tiny_arch_find("llama");
    if (!known) a->name = t->arch;
    if (a->layers) own.layers = a->layers;
    if (a->head_dim && !own.head_dim) own.head_dim = a->head_dim;
    if (a->kv_heads) own.kv_heads = a->kv_heads;
    if (a->untied) own.tied = false;
    return own;
}

int tiny_write(const struct tiny *as_told, const char *path)
{
    struct tiny_arch a;
    const struct tiny own = resolve(as_told, &a), *t = &own;
    if (!writable(t)) return -EINVAL;
    uint64_t widest = (uint64_t)t->heads * head_dim(t);
    if (widest < t->dim) widest = t->dim;
    if (widest < t->ffn) widest = t->ffn;
    if (widest < a.shared_ffn) widest = a.shared_ffn;
    if (widest < 4096) widest = 4096; /* biases of the vocabulary, and of q, k and v */
    if (widest < a.inner + 2 * a.mamba_groups * a.state) widest = a.inner + 2 * a.mamba_groups * a.state;
    if (widest < 2 * t->dim) widest = 2 * t->dim;
    if (widest < a.per_layer * t->layers) widest = a.per_layer * t->layers;
    if (widest < t->heads * a.mla.value) widest = t->heads * a.mla.value;
    struct vocab *v = vocab_new(t->tokenizer);
    const struct fim *fim = fim_of(t);
    for (int i = 0; v && fim && i < 3 && fim->texts[i]; i++) vocab_control(v, fim->texts[i]);
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"};
    for (int i = 0; v && t->harmony && i < 6; i++) vocab_control(v, marks[i]);
    for (const char *const *c = t->controls; v && c && *c; c++) vocab_control(v, *c);
    for (const char *const *m = t->merges; v && m && *m; m++) vocab_merge(v, *m);
    struct writer w = {.t = t, .a = &a, .v = v, .row = malloc(widest * 4), .packed = malloc(widest * 4)};
    int r = v && w.row && w.packed ? 0 : -ENOMEM;
    if (!r && !(w.f = fopen(path, "wb"))) r = -errno;
    if (!r) {
        write_all(&w);
        if (ferror(w.f)) r = -EIO;
        if (fclose(w.f) && !r) r = -errno;
    }
    vocab_free(v);
    free(w.row);
    free(w.packed);
    return r;
}
