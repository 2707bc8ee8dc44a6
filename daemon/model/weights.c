/* SPDX-License-Identifier: MIT */
#include "daemon/model/weights.h"
#include "daemon/model/memory.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* One tensor, or some rows of it, and where it goes: a matrix, or a vector. */
struct item {
    const struct gguf_tensor *t;
    uint32_t row; /* first of the tensor's */
    struct matrix *matrix;
    const float **vector;
    size_t offset, bytes; /* in the image */
    uint64_t source;      /* bytes of it in the file */
};

#define LAYER_ITEMS 20 /* at most */
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

static int find(const struct plan *p, const char *name, uint64_t k, uint64_t rows, const struct gguf_tensor **out)
{
    const struct gguf_tensor *t = gguf_find_tensor(p->g, name);
    if (!t) return error_say(-EINVAL, "%s: tensor '%s' is missing", gguf_path(p->g), name);
    if (t->dims[0] != k || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1)
        return error_say(-EINVAL,
                         "%s: tensor '%s' is %llu x %llu (x %llu x %llu), but the model's keys say %llu x %llu",
                         gguf_path(p->g), name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                         (unsigned long long)t->dims[2], (unsigned long long)t->dims[3], (unsigned long long)k,
                         (unsigned long long)rows);
    *out = t;
    return 0;
}

static struct item *reserve(struct plan *p, const struct gguf_tensor *t, size_t bytes, uint64_t source)
{
    struct item *i = &p->items[p->n++];
    *i = (struct item){.t = t, .offset = p->size, .bytes = bytes, .source = source};
    p->source += source;
    p->size += (bytes + KERN_ALIGN - 1) & ~(size_t)(KERN_ALIGN - 1);
    return i;
}

/* The tensor has more rows than ours when several matrices share it. */
struct source {
    uint32_t first, all;
};

static int want_rows(struct plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows, struct source from)
{
    const struct gguf_tensor *t = NULL;
    int r = find(p, name, k, from.all, &t);
    if (!r) r = type_of(p, t, &m->type);
    if (r) return r;
    m->rows = rows;
    m->k = k;
    m->n_panels = (rows + KERN_ROWS - 1) / KERN_ROWS;
    m->panel_bytes = kern_panel_bytes(m->type, k);
    struct item *i = reserve(p, t, m->n_panels * m->panel_bytes, t->size / from.all * rows);
    i->matrix = m;
    i->row = from.first;
    p->tensors += from.first == 0;
    return 0;
}

static int want_matrix(struct plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows)
{
    return want_rows(p, m, name, k, rows, (struct source){0, rows});
}

static int want_vector(struct plan *p, const float **v, const char *name, uint32_t n)
{
    const struct gguf_tensor *t = NULL;
    enum kern_type type;
    int r = find(p, name, n, 1, &t);
    if (!r) r = type_of(p, t, &type);
    if (r) return r;
    if (kern_type_quantized(type))
        return error_say(-EOPNOTSUPP, "%s: tensor '%s' is quantized (%s); vectors must be F32, F16 or BF16",
                         gguf_path(p->g), name, kern_type_name(type));
    reserve(p, t, n * sizeof(float), t->size)->vector = v;
    p->tensors++;
    return 0;
}

/* A vector that only some architectures have. */
static int want_norm(struct plan *p, const float **v, uint32_t l, const char *which, uint32_t n, bool there)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", l, which);
    return there ? want_vector(p, v, name, n) : 0;
}

static int want_bias(struct plan *p, const float **v, uint32_t l, const char *which, uint32_t n, enum arch_need need)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.bias", l, which);
    return need == ARCH_MUST || (need == ARCH_MAY && gguf_find_tensor(p->g, name)) ? want_vector(p, v, name, n) : 0;
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
    if (!r) r = want_norm(p, &y->ffn_norm, l, "ffn_norm", s->dim, a->pre_norm);
    return r ? r : want_norm(p, &y->ffn_post_norm, l, "post_ffw_norm", s->dim, a->post_norm);
}

static int want_biases(struct plan *p, struct layer *y, uint32_t l)
{
    const struct arch *a = p->s->desc;
    int r = want_bias(p, &y->q_bias, l, "attn_q", y->q.rows, a->qkv_bias);
    if (!r) r = want_bias(p, &y->k_bias, l, "attn_k", y->k.rows, a->qkv_bias);
    if (!r) r = want_bias(p, &y->v_bias, l, "attn_v", y->v.rows, a->qkv_bias);
    if (!r) r = want_bias(p, &y->o_bias, l, "attn_output", y->o.rows, a->o_bias);
    if (!r) r = want_bias(p, &y->gate_bias, l, "ffn_gate", y->gate.rows, a->ffn_bias);
    if (!r) r = want_bias(p, &y->up_bias, l, "ffn_up", y->up.rows, a->ffn_bias);
    return r ? r : want_bias(p, &y->down_bias, l, "ffn_down", y->down.rows, a->ffn_bias);
}

static bool has_layer_tensor(const struct plan *p, uint32_t l, const char *which)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", l, which);
    return gguf_find_tensor(p->g, name);
}

static int want_layer(struct plan *p, uint32_t l)
{
    const struct shape *s = p->s;
    struct layer *y = &p->w->layers[l];
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, f = s->ffn;
    const bool qkv = s->desc->fused && has_layer_tensor(p, l, "attn_qkv"), gate = s->desc->fused;
    const struct {
        const char *name;
        struct matrix *m;
        uint32_t k, rows;
        struct source from;
    } parts[] = {
        {qkv ? "attn_qkv" : "attn_q", &y->q, s->dim, q, {0, qkv ? q + 2 * kv : q}},
        {qkv ? "attn_qkv" : "attn_k", &y->k, s->dim, kv, {qkv ? q : 0, qkv ? q + 2 * kv : kv}},
        {qkv ? "attn_qkv" : "attn_v", &y->v, s->dim, kv, {qkv ? q + kv : 0, qkv ? q + 2 * kv : kv}},
        {"attn_output", &y->o, q, s->dim, {0, s->dim}},
        {gate ? "ffn_up" : "ffn_gate", &y->gate, s->dim, f, {0, gate ? 2 * f : f}},
        {"ffn_up", &y->up, s->dim, f, {gate ? f : 0, gate ? 2 * f : f}},
        {"ffn_down", &y->down, f, s->dim, {0, s->dim}},
    };
    int r = want_norms(p, y, l);
    for (size_t i = 0; !r && i < sizeof(parts) / sizeof(*parts); i++) {
        char name[64];
        snprintf(name, sizeof(name), "blk.%u.%s.weight", l, parts[i].name);
        r = want_rows(p, parts[i].m, name, parts[i].k, parts[i].rows, parts[i].from);
    }
    return r ? r : want_biases(p, y, l);
}

static int want_embedding(struct plan *p)
{
    const struct shape *s = p->s;
    if (s->tied) return want_matrix(p, &p->w->output, "token_embd.weight", s->dim, s->vocab);
    const struct gguf_tensor *t = NULL;
    int r = find(p, "token_embd.weight", s->dim, s->vocab, &t);
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

/* A tensor that is not computed with would make every answer wrong: extra biases and norms, experts. */
static int refuse_others(const struct plan *p)
{
    if (gguf_n_tensors(p->g) == p->tensors + (p->w->embd != NULL)) return 0;
    for (size_t i = 0; i < gguf_n_tensors(p->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(p->g, i);
        if (!planned(p, t))
            return error_say(-EOPNOTSUPP, "%s: tensor '%.*s' is not supported in a '%s' model", gguf_path(p->g),
                             (int)t->name.len, t->name.data, p->s->arch);
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
        t->items[t->n] = m ? (struct packed_item){i->offset, i->bytes, m->k, m->rows, m->type}
                           : (struct packed_item){i->offset, i->bytes, i->t->dims[0], 1, PACKED_VECTOR};
    }
    p->w->size = t->size = p->size;
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
        uint32_t row = p * KERN_ROWS, rows = m->rows - row < KERN_ROWS ? m->rows - row : KERN_ROWS;
        kern_panel_pack(m->type, to->panels + p * m->panel_bytes,
                        (const uint8_t *)to->item->t->data + (to->item->row + row) * stride, stride, rows, m->k);
    }
}

static int fill_vector(const struct plan *p, const struct item *i, float *v)
{
    enum kern_type type = KERN_F32;
    uint64_t n = i->t->dims[0];
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
            pool_run(pool, pack, &to, i->matrix->n_panels, 4);
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
    *w = (struct weights){.n_layers = s->n_layers, .dim = s->dim, .g = g};
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
    if (w->mem && !w->packed) munmap((void *)w->mem, w->size);
    packed_unmap(w->packed);
    free(w->table.items);
    free(w->dir);
    free(w->layers);
    *w = (struct weights){0};
}

void weights_embed(const struct weights *w, uint32_t token, float *out)
{
    if (w->embd) {
        size_t stride = w->dim / kern_type_block(w->embd_type) * kern_type_bytes(w->embd_type);
        kern_dequant(w->embd_type, out, (const uint8_t *)w->embd + token * stride, w->dim);
        return;
    }
    const struct matrix *m = &w->output;
    kern_panel_row(m->type, out, m->panels + token / KERN_ROWS * m->panel_bytes, token % KERN_ROWS, w->dim);
}
