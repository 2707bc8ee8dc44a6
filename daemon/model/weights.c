/* SPDX-License-Identifier: MIT */
#include "daemon/model/weights.h"
#include "daemon/model/memory.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* One tensor, or some rows of it, and where it goes: a matrix, or a vector. */
struct item {
    const struct gguf_tensor *t;
    uint32_t row, all; /* of a matrix: first of the tensor's rows, of how many (of each that is stacked) */
    struct matrix *matrix;
    const float **vector;
    size_t offset, bytes; /* in the image */
    uint64_t source;      /* bytes of it in the file */
};

#define LAYER_ITEMS 28 /* at most */
#define OTHER_ITEMS 6

struct plan {
    struct weights *w;
    const struct gguf *g;
    const struct shape *s;
    struct item *items;
    size_t n, size;
    size_t tensors;  /* that the items are of */
    uint64_t source; /* bytes in the file */
};

int weights_type(uint32_t ggml, enum kern_type *out)
{
    static const struct {
        uint32_t ggml;
        enum kern_type type;
    } types[] = {{0, KERN_F32},   {1, KERN_F16},     {30, KERN_BF16},   {8, KERN_Q8_0},
                 {2, KERN_Q4_0},  {3, KERN_Q4_1},    {6, KERN_Q5_0},    {7, KERN_Q5_1},
                 {10, KERN_Q2_K}, {11, KERN_Q3_K},   {12, KERN_Q4_K},   {13, KERN_Q5_K},
                 {14, KERN_Q6_K}, {20, KERN_IQ4_NL}, {23, KERN_IQ4_XS}, {39, KERN_MXFP4}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i].ggml == ggml) {
            *out = types[i].type;
            return 0;
        }
    return 1;
}

/* --- the plan: which tensors, checked against the shape --- */

static int type_of(const struct plan *p, const struct gguf_tensor *t, enum kern_type *type)
{
    if (!weights_type(t->type, type)) return 0;
    uint32_t block, bytes;
    char number[32], known[256];
    const char *name = gguf_tensor_type_name(t->type, &block, &bytes);
    size_t n = 0;
    for (enum kern_type k = 0; k < KERN_TYPES; k++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", k ? ", " : "", kern_type_name(k));
    snprintf(number, sizeof(number), "number %u", t->type);
    return error_say(-EOPNOTSUPP, "%s: tensor '%.*s' is of type %s, which is not supported; supported: %s",
                     gguf_path(p->g), (int)t->name.len, t->name.data, name ? name : number, known);
}

/* "a x b", with what follows only if that is not 1. */
static const char *dims_text(char out[96], const uint64_t d[4])
{
    int n = snprintf(out, 96, "%llu x %llu", (unsigned long long)d[0], (unsigned long long)d[1]);
    if (d[2] != 1 || d[3] != 1) n += snprintf(out + n, 96 - (size_t)n, " x %llu", (unsigned long long)d[2]);
    if (d[3] != 1) snprintf(out + n, 96 - (size_t)n, " x %llu", (unsigned long long)d[3]);
    return out;
}

/* @stacked: of matrices how many are in it. */
static int find(const struct plan *p, const char *name, uint64_t k, uint64_t rows, uint64_t stacked,
                const struct gguf_tensor **out)
{
    const uint64_t want[4] = {k, rows, stacked, 1};
    const struct gguf_tensor *t = gguf_find_tensor(p->g, name);
    char has[96], says[96];
    if (!t) return error_say(-EINVAL, "%s: tensor '%s' is missing", gguf_path(p->g), name);
    if (memcmp(t->dims, want, sizeof(want)))
        return error_say(-EINVAL, "%s: tensor '%s' is %s, but the model's keys say %s", gguf_path(p->g), name,
                         dims_text(has, t->dims), dims_text(says, want));
    *out = t;
    return 0;
}

static struct item *reserve(struct plan *p, const struct gguf_tensor *t, size_t bytes, uint64_t source)
{
    struct item *i = &p->items[p->n++];
    *i = (struct item){.t = t, .offset = p->size, .bytes = bytes, .source = source};
    p->source += source;
    p->size += kern_align(bytes);
    return i;
}

/* The tensor has more rows than ours when several matrices share it, and more matrices than one when it stacks them. */
struct source {
    uint32_t first, all, stacked;
};

static int want_rows(struct plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows, struct source from)
{
    const struct gguf_tensor *t = NULL;
    int r = find(p, name, k, from.all, from.stacked, &t);
    if (!r) r = type_of(p, t, &m->type);
    if (r) return r;
    m->rows = rows;
    m->k = k;
    m->n_panels = (rows + KERN_ROWS - 1) / KERN_ROWS;
    m->stacked = from.stacked;
    m->panel_bytes = kern_panel_bytes(m->type, k);
    struct item *i = reserve(p, t, (size_t)m->stacked * m->n_panels * m->panel_bytes, t->size / from.all * rows);
    i->matrix = m;
    i->row = from.first;
    i->all = from.all;
    p->tensors += from.first == 0;
    return 0;
}

static int want_matrix(struct plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows)
{
    return want_rows(p, m, name, k, rows, (struct source){0, rows, 1});
}

/* @stacked: as many after each other. */
static int want_vectors(struct plan *p, const float **v, const char *name, uint32_t n, uint32_t stacked)
{
    const struct gguf_tensor *t = NULL;
    enum kern_type type;
    int r = find(p, name, n, stacked, 1, &t);
    if (!r) r = type_of(p, t, &type);
    if (r) return r;
    if (kern_type_quantized(type))
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' is quantized (%s); vectors must be F32, F16 or BF16",
                         gguf_path(p->g), name, kern_type_name(type));
    reserve(p, t, (size_t)n * stacked * sizeof(float), t->size)->vector = v;
    p->tensors++;
    return 0;
}

static int want_vector(struct plan *p, const float **v, const char *name, uint32_t n)
{
    return want_vectors(p, v, name, n, 1);
}

struct layer_name {
    char s[64];
};

/* @what: "weight" or "bias". */
static struct layer_name layer_name(uint32_t l, const char *which, const char *what)
{
    struct layer_name n;
    snprintf(n.s, sizeof(n.s), "blk.%u.%s.%s", l, which, what);
    return n;
}

/* A vector that only some architectures have. */
static int want_norm(struct plan *p, const float **v, uint32_t l, const char *which, uint32_t n, bool there)
{
    return there ? want_vector(p, v, layer_name(l, which, "weight").s, n) : 0;
}

/* Of each row of @m. */
static int want_bias(struct plan *p, const float **v, uint32_t l, const char *which, const struct matrix *m,
                     enum arch_need need)
{
    const struct layer_name name = layer_name(l, which, "bias");
    if (need == ARCH_NEVER || (need == ARCH_MAY && !gguf_find_tensor(p->g, name.s))) return 0;
    return want_vectors(p, v, name.s, m->rows, m->stacked);
}

static int want_norms(struct plan *p, struct layer *y, uint32_t l)
{
    const struct shape *s = p->s;
    const struct arch *a = s->desc;
    bool whole = a->qk_norm == QK_NORM_WHOLE, qk = a->qk_norm != QK_PLAIN;
    int r = want_norm(p, &y->attn_norm, l, "attn_norm", s->dim, a->pre_norm);
    if (!r) r = want_norm(p, &y->q_norm, l, "attn_q_norm", s->head_dim * (whole ? s->heads : 1), qk);
    if (!r) r = want_norm(p, &y->k_norm, l, "attn_k_norm", s->head_dim * (whole ? s->kv_heads : 1), qk);
    if (!r) r = want_norm(p, &y->attn_post_norm, l, "post_attention_norm", s->dim, a->post_norm);
    if (!r) r = want_norm(p, &y->ffn_norm, l, a->ffn_norm ? a->ffn_norm : "ffn_norm", s->dim, a->pre_norm);
    if (!r) r = want_norm(p, &y->sink_scores, l, "attn_sinks", s->heads, a->sink_scores);
    return r ? r : want_norm(p, &y->ffn_post_norm, l, "post_ffw_norm", s->dim, a->post_norm);
}

static int want_biases(struct plan *p, struct layer *y, uint32_t l)
{
    const struct arch *a = p->s->desc;
    const bool experts = p->s->experts > 0;
    const enum arch_need ffn = !experts ? a->ffn_bias : a->expert_bias ? ARCH_MUST : ARCH_NEVER;
    int r = want_bias(p, &y->q_bias, l, "attn_q", &y->q, a->qkv_bias);
    if (!r) r = want_bias(p, &y->k_bias, l, "attn_k", &y->k, a->qkv_bias);
    if (!r) r = want_bias(p, &y->v_bias, l, "attn_v", &y->v, a->qkv_bias);
    if (!r) r = want_bias(p, &y->o_bias, l, "attn_output", &y->o, a->o_bias);
    if (!r && experts) r = want_bias(p, &y->router_bias, l, "ffn_gate_inp", &y->router, ffn);
    if (!r) r = want_bias(p, &y->gate_bias, l, experts ? "ffn_gate_exps" : "ffn_gate", &y->gate, ffn);
    if (!r) r = want_bias(p, &y->up_bias, l, experts ? "ffn_up_exps" : "ffn_up", &y->up, ffn);
    return r ? r : want_bias(p, &y->down_bias, l, experts ? "ffn_down_exps" : "ffn_down", &y->down, ffn);
}

static bool has_layer_tensor(const struct plan *p, uint32_t l, const char *which)
{
    return gguf_find_tensor(p->g, layer_name(l, which, "weight").s);
}

/* A matrix of a layer. */
struct part {
    const char *name;
    struct matrix *m;
    uint32_t k, rows;
    struct source from;
};

static int want_parts(struct plan *p, uint32_t l, const struct part *parts, size_t n)
{
    int r = 0;
    for (size_t i = 0; !r && i < n; i++)
        r = want_rows(p, parts[i].m, layer_name(l, parts[i].name, "weight").s, parts[i].k, parts[i].rows,
                      parts[i].from);
    return r;
}

static int want_attention(struct plan *p, struct layer *y, uint32_t l)
{
    const struct shape *s = p->s;
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const bool qkv = s->desc->fused && has_layer_tensor(p, l, "attn_qkv");
    const struct part parts[] = {
        {qkv ? "attn_qkv" : "attn_q", &y->q, s->dim, q, {0, qkv ? q + 2 * kv : q, 1}},
        {qkv ? "attn_qkv" : "attn_k", &y->k, s->dim, kv, {qkv ? q : 0, qkv ? q + 2 * kv : kv, 1}},
        {qkv ? "attn_qkv" : "attn_v", &y->v, s->dim, kv, {qkv ? q + kv : 0, qkv ? q + 2 * kv : kv, 1}},
        {"attn_output", &y->o, q, s->dim, {0, s->dim, 1}},
    };
    return want_parts(p, l, parts, sizeof(parts) / sizeof(*parts));
}

static int want_feed_forward(struct plan *p, struct layer *y, uint32_t l)
{
    const uint32_t dim = p->s->dim, f = p->s->ffn;
    const bool gate = p->s->desc->fused;
    const struct part parts[] = {
        {gate ? "ffn_up" : "ffn_gate", &y->gate, dim, f, {0, gate ? 2 * f : f, 1}},
        {"ffn_up", &y->up, dim, f, {gate ? f : 0, gate ? 2 * f : f, 1}},
        {"ffn_down", &y->down, f, dim, {0, dim, 1}},
    };
    return want_parts(p, l, parts, sizeof(parts) / sizeof(*parts));
}

static int want_experts(struct plan *p, struct layer *y, uint32_t l)
{
    const struct shape *s = p->s;
    const uint32_t dim = s->dim, n = s->experts, f = s->expert_ffn, one = s->shared_ffn;
    if (has_layer_tensor(p, l, "ffn_gate.0"))
        return error_say(
            -EOPNOTSUPP,
            "%s: each expert is a tensor of its own ('%s'), as in files made before April 2024: take a newer "
            "file of this model, or convert it again",
            gguf_path(p->g), layer_name(l, "ffn_gate.0", "weight").s);
    const struct part parts[] = {
        {"ffn_gate_inp", &y->router, dim, n, {0, n, 1}},
        {"ffn_gate_exps", &y->gate, dim, f, {0, f, n}},
        {"ffn_up_exps", &y->up, dim, f, {0, f, n}},
        {"ffn_down_exps", &y->down, f, dim, {0, dim, n}},
        {"ffn_gate_inp_shexp", &y->shared_router, dim, 1, {0, 1, 1}},
        {"ffn_gate_shexp", &y->shared_gate, dim, one, {0, one, 1}},
        {"ffn_up_shexp", &y->shared_up, dim, one, {0, one, 1}},
        {"ffn_down_shexp", &y->shared_down, one, dim, {0, dim, 1}},
    };
    return want_parts(p, l, parts, s->shared_ffn ? 8 : 4);
}

static int want_layer(struct plan *p, uint32_t l)
{
    struct layer *y = &p->w->layers[l];
    int r = want_norms(p, y, l);
    if (!r) r = want_attention(p, y, l);
    if (!r) r = p->s->experts ? want_experts(p, y, l) : want_feed_forward(p, y, l);
    return r ? r : want_biases(p, y, l);
}

static int want_embedding(struct plan *p)
{
    const struct shape *s = p->s;
    if (s->tied) return want_matrix(p, &p->w->output, "token_embd.weight", s->dim, s->vocab);
    const struct gguf_tensor *t = NULL;
    int r = find(p, "token_embd.weight", s->dim, s->vocab, 1, &t);
    if (!r) r = type_of(p, t, &p->w->embd_type);
    if (r) return r;
    p->w->embd = t->data;
    return want_matrix(p, &p->w->output, "output.weight", s->dim, s->vocab);
}

static bool planned(const struct plan *p, const struct gguf_tensor *t)
{
    if (t->data == p->w->embd && t->data) return true;
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].t == t) return true;
    return false;
}

/* A tensor that is not computed with would make every answer wrong: extra biases and norms. */
static int refuse_others(const struct plan *p)
{
    char name[72];
    if (gguf_n_tensors(p->g) == p->tensors + (p->w->embd != NULL)) return 0;
    for (size_t i = 0; i < gguf_n_tensors(p->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(p->g, i);
        if (planned(p, t)) continue;
        gguf_text(name, sizeof(name), t->name);
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' is not supported in a '%s' model", gguf_path(p->g), name,
                         p->s->arch);
    }
    return 0;
}

/* Factors of the RoPE frequencies: one set, or LongRoPE's two. */
static int want_rope(struct plan *p)
{
    uint32_t n = p->s->rope_dim / 2;
    if (!p->s->rotates) return 0;
    if (!p->s->desc->rope_tensors)
        return p->s->rope.kind == ROPE_LONG
                   ? error_say(-EOPNOTSUPP, "%s: RoPE scaling 'longrope' is not supported in a '%s' model",
                               gguf_path(p->g), p->s->arch)
                   : 0;
    if (p->s->rope.kind == ROPE_LONG) {
        int r = want_vector(p, &p->w->rope_short, ROPE_SHORT_TENSOR, n);
        return r ? r : want_vector(p, &p->w->rope_long, ROPE_LONG_TENSOR, n);
    }
    return gguf_find_tensor(p->g, ROPE_TENSOR) ? want_vector(p, &p->w->rope_factors, ROPE_TENSOR, n) : 0;
}

static int plan(struct plan *p)
{
    int r = want_embedding(p);
    for (uint32_t l = 0; !r && l < p->s->n_layers; l++) r = want_layer(p, l);
    if (!r) r = want_vector(p, &p->w->output_norm, "output_norm.weight", p->s->dim);
    if (!r) r = want_rope(p);
    return r ? r : refuse_others(p);
}

/* --- memory --- */

static int reserve_memory(struct plan *p, uint8_t **mem)
{
    void *m;
    int r = memory_map(&m, p->size, false, "the weights");
    if (r) return error_in(r, "%s", gguf_path(p->g));
    madvise(m, p->size, MADV_HUGEPAGE); /* fewer TLB misses; a refusal costs nothing but speed */
    p->w->mem = *mem = m;
    return 0;
}

/* Point the weights into the image. */
static void place(const struct plan *p)
{
    for (size_t n = 0; n < p->n; n++) {
        const struct item *i = &p->items[n];
        const uint8_t *at = (const uint8_t *)p->w->mem + i->offset;
        if (i->matrix)
            i->matrix->panels = at;
        else
            *i->vector = (const float *)at;
    }
}

/* The image, for who keeps it in a file. */
static int tabulate(const struct plan *p)
{
    struct packed_table *t = &p->w->table;
    t->items = calloc(p->n, sizeof(*t->items));
    if (!t->items) return error_say(-ENOMEM, "%s: out of memory", gguf_path(p->g));
    for (t->n = 0; t->n < p->n; t->n++) {
        const struct item *i = &p->items[t->n];
        const struct matrix *m = i->matrix;
        t->items[t->n] = m ? (struct packed_item){i->offset, i->bytes, m->k, (uint64_t)m->stacked * m->rows, m->type}
                           : (struct packed_item){i->offset, i->bytes, i->t->dims[0], i->t->dims[1], PACKED_VECTOR};
    }
    t->size = p->size;
    return 0;
}

/* Is there a file of them? */
static bool map_packed(struct plan *p)
{
    struct weights *w = p->w;
    if (!w->dir || fingerprint_recall(&w->model, p->g, w->dir)) return false;
    atomic_store(&w->model_known, true);
    if (packed_map(&w->packed, &w->table, &w->model, w->dir)) return false;
    w->mem = packed_image(w->packed);
    return true;
}

/* --- filling it --- */

struct packing {
    const struct item *item;
    uint8_t *panels;
};

static void pack(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct packing *to = ctx;
    const struct matrix *m = to->item->matrix;
    size_t stride = m->k / kern_type_block(m->type) * kern_type_bytes(m->type);
    for (uint32_t p = begin; p < end; p++) {
        uint32_t row = p % m->n_panels * KERN_ROWS, rows = m->rows - row < KERN_ROWS ? m->rows - row : KERN_ROWS;
        size_t from = (size_t)(p / m->n_panels) * to->item->all + to->item->row + row;
        kern_panel_pack(m->type, to->panels + p * m->panel_bytes, (const uint8_t *)to->item->t->data + from * stride,
                        stride, rows, m->k);
    }
}

static int fill_vector(const struct plan *p, const struct item *i, float *v)
{
    enum kern_type type = KERN_F32;
    uint64_t n = i->t->dims[0] * i->t->dims[1];
    bool divides = i->vector == &p->w->rope_factors || i->vector == &p->w->rope_short || i->vector == &p->w->rope_long;
    weights_type(i->t->type, &type);
    kern_dequant(type, v, i->t->data, n);
    for (uint64_t j = 0; j < n; j++)
        if (!isfinite(v[j]) || (divides && v[j] <= 0))
            return error_say(-EINVAL, "%s: tensor '%.*s' has the value %g at index %llu", gguf_path(p->g),
                             (int)i->t->name.len, i->t->name.data, v[j], (unsigned long long)j);
    return 0;
}

/* The file's pages were needed once: let the page cache have them back. */
static void forget(const struct gguf_tensor *t)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)t->data + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)t->data + t->size) & ~(page - 1);
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

static int fill(struct plan *p, uint8_t *mem, struct pool *pool,
                void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx)
{
    uint64_t done = 0;
    for (size_t n = 0; n < p->n; n++) {
        const struct item *i = &p->items[n];
        if (i->matrix) {
            struct packing to = {i, mem + i->offset};
            pool_run(pool, pack, &to, i->matrix->stacked * i->matrix->n_panels, 4);
        } else {
            int r = fill_vector(p, i, (float *)(mem + i->offset));
            if (r) return r;
        }
        forget(i->t);
        done += i->source;
        if (progress) progress(ctx, done, p->source);
    }
    return 0;
}

/* The plan for *w, whose layers are made here; *items is the caller's to free, also on error. */
static int make_plan(struct plan *p, struct weights *w, const struct gguf *g, const struct shape *s,
                     struct item **items)
{
    *w = (struct weights){.g = g};
    *items = calloc(LAYER_ITEMS * (size_t)s->n_layers + OTHER_ITEMS, sizeof(**items));
    w->layers = calloc(s->n_layers, sizeof(*w->layers));
    *p = (struct plan){.w = w, .g = g, .s = s, .items = *items};
    if (!*items || !w->layers) return error_say(-ENOMEM, "%s: out of memory: %u layers", gguf_path(g), s->n_layers);
    return plan(p);
}

int weights_load(struct weights *w, const struct gguf *g, const struct shape *s, struct pool *pool, const char *dir,
                 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx)
{
    _cleanup_(freep) struct item *items = NULL;
    struct plan p;
    uint8_t *mem = NULL;
    int r = make_plan(&p, w, g, s, &items);
    if (!r) r = tabulate(&p);
    if (!r && dir && !(w->dir = strdup(dir))) r = error_origin(-ENOMEM);
    if (!r && !map_packed(&p)) {
        r = reserve_memory(&p, &mem);
        if (!r) r = fill(&p, mem, pool, progress, progress_ctx);
    }
    if (r)
        weights_fini(w);
    else
        place(&p);
    return r;
}

int weights_check(const struct gguf *g, const struct shape *s, size_t *bytes)
{
    _cleanup_(freep) struct item *items = NULL;
    struct weights w;
    struct plan p;
    int r = make_plan(&p, &w, g, s, &items);
    if (!r) *bytes = p.size;
    weights_fini(&w);
    return r;
}

void weights_fini(struct weights *w)
{
    if (w->mem && !w->packed) munmap((void *)w->mem, w->table.size);
    packed_unmap(w->packed);
    free(w->table.items);
    free(w->dir);
    free(w->layers);
    *w = (struct weights){0};
}

void weights_embed(const struct weights *w, uint32_t token, float *out)
{
    const struct matrix *m = &w->output;
    if (w->embd) {
        size_t stride = m->k / kern_type_block(w->embd_type) * kern_type_bytes(w->embd_type);
        kern_dequant(w->embd_type, out, (const uint8_t *)w->embd + token * stride, m->k);
        return;
    }
    kern_panel_row(m->type, out, m->panels + token / KERN_ROWS * m->panel_bytes, token % KERN_ROWS, m->k);
}
