/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/memory.h"
#include "daemon/backend/cpu/weights-plan.h"
#include "daemon/model/tensor-type.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPAN            ((size_t)16 << 20) /* bytes of the file that are packed at once */
#define TRANSPOSED_MOST 1024               /* columns of a matrix that is transposed: hparams-mla.c allows no more */

/* --- memory --- */

static int reserve_memory(struct weights_plan *p, uint8_t **mem)
{
    void *m;
    int r = memory_map(&m, p->size, false, "the weights");
    if (r) return error_in(r, "%s", gguf_path(p->g));
    madvise(m, p->size, MADV_HUGEPAGE); /* fewer TLB misses; if the kernel refuses, only speed is lost */
    p->w->mem = *mem = m;
    return 0;
}

/* Point the weights into the image. */
static void place(const struct weights_plan *p)
{
    for (size_t n = 0; n < p->n; n++) {
        const struct weights_item *i = &p->items[n];
        const uint8_t *at = (const uint8_t *)p->w->mem + i->offset;
        if (i->matrix)
            i->matrix->panels = at, i->matrix->slot = (uint32_t)n + 1;
        else
            *i->vector = (const float *)at;
    }
}

static struct packed_item vector_item(const struct weights_item *i)
{
    const uint64_t n = i->bytes / sizeof(float), *dims = i->t->dims;
    const bool whole = n == dims[0] * dims[1];
    return (struct packed_item){i->offset, i->bytes, whole ? dims[0] : n, whole ? dims[1] : 1, PACKED_VECTOR};
}

/* The table of the image, as the file of packed weights has it. */
static int tabulate(const struct weights_plan *p)
{
    struct packed_table *t = &p->w->table;
    t->items = calloc(p->n, sizeof(*t->items));
    if (!t->items) return error_say(-ENOMEM, "%s: out of memory", gguf_path(p->g));
    for (t->n = 0; t->n < p->n; t->n++) {
        const struct weights_item *i = &p->items[t->n];
        const struct matrix *m = i->matrix;
        t->items[t->n] = m ? (struct packed_item){i->offset, i->bytes, m->k, (uint64_t)m->stacked * m->rows, m->type}
                           : vector_item(i);
    }
    t->size = p->size;
    return 0;
}

/* Map the file of packed weights, if there is one. */
static bool map_packed(struct weights_plan *p)
{
    struct weights *w = p->w;
    struct fingerprint model;
    if (!w->dir || fingerprint_recall(&model, p->g, w->dir)) return false;
    weights_set_model(w, &model);
    atomic_store(&w->recorded, true);
    if (w->no_packed_file || packed_map(&w->packed, &w->table, &model, w->dir)) return false;
    w->mem = packed_image(w->packed);
    return true;
}

/* --- filling it --- */

/* A part of a tensor that is packed at once: some panels of a matrix, or a vector. */
struct span {
    const struct weights_item *item;
    uint32_t begin, end;  /* panels */
    const uint8_t *from;  /* [bytes] in the file's mapping */
    size_t bytes, packed; /* packed: those of the item's rows */
    uint8_t *to;          /* of the item, in the image */
};

/* The next span begins at this panel of this item. */
struct cursor {
    size_t item;
    uint32_t panel;
};

/* Bytes of a row of the file. */
static size_t row_bytes(const struct matrix *m)
{
    return m->k / kern_type_block(m->type) * kern_type_bytes(m->type);
}

/* Rows of panel @p, and the first of them in the tensor. */
static uint32_t panel_rows(const struct weights_item *i, uint32_t p, size_t *first)
{
    const struct matrix *m = i->matrix;
    uint32_t row = p % m->n_panels * KERN_ROWS, at = i->span ? row / i->span * i->step + row % i->span : row;
    *first = (size_t)(p / m->n_panels) * i->all + i->row + at;
    return m->rows - row < KERN_ROWS ? m->rows - row : KERN_ROWS;
}

static void cut_matrix(struct cursor *c, struct span *s)
{
    const struct weights_item *i = s->item;
    if (i->transposed) { /* each panel has a part of every row */
        s->end = i->matrix->stacked * i->matrix->n_panels;
        return;
    }
    const size_t row = row_bytes(i->matrix), most = SPAN / (row * KERN_ROWS);
    uint32_t all = i->matrix->stacked * i->matrix->n_panels, left = all - c->panel;
    size_t first, last;
    s->begin = c->panel;
    s->end = s->begin + (left <= most ? left : most ? (uint32_t)most : 1);
    panel_rows(i, s->begin, &first);
    uint32_t rows = panel_rows(i, s->end - 1, &last);
    s->from = (const uint8_t *)i->t->data + first * row;
    s->bytes = (last + rows - first) * row;
    s->packed = i->span ? (size_t)(s->end - s->begin) * KERN_ROWS * row : s->bytes;
    c->panel = s->end == all ? 0 : s->end;
}

/* The span at the cursor, which moves behind it. False: there is none. */
static bool next_span(const struct weights_plan *p, struct cursor *c, struct span *s)
{
    if (c->item == p->n) return false;
    const struct weights_item *i = &p->items[c->item];
    *s = (struct span){.item = i, .from = i->t->data, .bytes = i->source, .packed = i->source};
    if (i->matrix) cut_matrix(c, s);
    if (c->panel == 0) c->item++;
    return true;
}

/* Panel @p of a matrix whose rows are columns of the tensor. */
static void pack_transposed(const struct span *s, uint32_t p)
{
    const struct weights_item *i = s->item;
    const struct matrix *m = i->matrix;
    enum kern_type type = KERN_F32;
    const size_t column = p % m->n_panels * KERN_ROWS, first = (size_t)(p / m->n_panels) * i->all + i->row;
    const uint32_t rows = m->rows - column < KERN_ROWS ? m->rows - (uint32_t)column : KERN_ROWS;
    tensor_type(i->t->type, &type);
    const size_t block = kern_type_block(type), bytes = kern_type_bytes(type), stride = m->rows / block * bytes;
    const size_t from = column / block * block, each = kern_type_bytes(m->type);
    float value[KERN_ROWS * TRANSPOSED_MOST], wide[256 + KERN_ROWS];
    uint8_t *const out = (uint8_t *)value;
    for (uint32_t d = 0; d < m->k; d++) {
        const uint8_t *row = (const uint8_t *)i->t->data + (first + d) * stride + from / block * bytes;
        if (m->type == KERN_F32) kern_dequant(type, wide, row, block > rows ? block : rows);
        for (uint32_t r = 0; r < rows; r++) {
            if (m->type == KERN_F32)
                value[r * m->k + d] = wide[column - from + r];
            else
                memcpy(out + ((size_t)r * m->k + d) * each, row + r * each, each);
        }
    }
    kern_panel_pack(m->type, s->to + p * m->panel_bytes, value, m->k * each, rows, m->k);
}

static void pack(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct span *s = ctx;
    const struct matrix *m = s->item->matrix;
    size_t stride = row_bytes(m), first;
    for (uint32_t p = s->begin + begin; p < s->begin + end; p++) {
        if (s->item->transposed) {
            pack_transposed(s, p);
            continue;
        }
        uint32_t rows = panel_rows(s->item, p, &first);
        kern_panel_pack(m->type, s->to + p * m->panel_bytes, (const uint8_t *)s->item->t->data + first * stride, stride,
                        rows, m->k);
    }
}

/* Rows of @v become columns. */
static int turn(float *v, size_t rows, size_t columns)
{
    _cleanup_(freep) float *old = malloc(rows * columns * sizeof(*old));
    if (!old) return error_origin(-ENOMEM);
    memcpy(old, v, rows * columns * sizeof(*old));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) v[c * rows + r] = old[r * columns + c];
    return 0;
}

static int fill_vector(const struct weights_plan *p, const struct weights_item *i, float *v)
{
    enum kern_type type = KERN_F32;
    uint64_t n = i->bytes / sizeof(*v);
    bool divides = i->vector == &p->w->rope_factors || i->vector == &p->w->rope_short || i->vector == &p->w->rope_long;
    tensor_type(i->t->type, &type);
    kern_dequant(type, v, (const uint8_t *)i->t->data + i->row * kern_type_bytes(type), n);
    for (uint64_t j = 0; j < n; j++)
        if (!isfinite(v[j]) || (divides && v[j] <= 0))
            return error_say(-EINVAL, "%s: tensor '%.*s' has the value %g at index %llu", gguf_path(p->g),
                             (int)i->t->name.len, i->t->name.data, v[j], (unsigned long long)j);
    return i->turned ? turn(v, i->t->dims[1], i->t->dims[0]) : 0;
}

/* Drop the mapping's pages of a span. */
static void forget(const struct span *s)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)s->from + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)s->from + s->bytes) & ~(page - 1);
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Fill the image. A span that was packed is forgotten: it is not needed again, and would be a second copy of the
 * weights in memory. */
static int fill(struct weights_plan *p, uint8_t *mem, struct compute_pool *pool,
                void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx)
{
    struct cursor at = {0};
    struct span s;
    uint64_t done = 0;
    while (next_span(p, &at, &s)) {
        s.to = mem + s.item->offset;
        if (s.item->matrix) {
            compute_pool_run(pool, pack, &s, s.end - s.begin, 1, 4);
        } else {
            int r = fill_vector(p, s.item, (float *)s.to);
            if (r) return r;
        }
        forget(&s);
        done += s.packed;
        if (progress) progress(ctx, done, p->source);
    }
    return 0;
}

/* Allocate w->layers and *items, and plan. The caller frees *items, also on error. @begin: as in struct weights_plan.
 */
static int make_plan(struct weights_plan *p, struct weights *w, const struct gguf *g, const struct hparams *s,
                     struct weights_item **items, size_t *begin)
{
    *w = (struct weights){.g = g};
    *items = calloc(WEIGHTS_LAYER_ITEMS * (size_t)s->n_layers + WEIGHTS_OTHER_ITEMS, sizeof(**items));
    w->layers = calloc(s->n_layers, sizeof(*w->layers));
    *p = (struct weights_plan){.w = w, .g = g, .s = s, .items = *items, .begin = begin};
    if (!*items || !w->layers) return error_say(-ENOMEM, "%s: out of memory: %u layers", gguf_path(g), s->n_layers);
    return weights_plan(p);
}

int weights_load(struct weights *w, const struct gguf *g, const struct hparams *s, const struct weights *model,
                 struct compute_pool *pool, const struct backend_config *config)
{
    struct weights_item *items = NULL;
    struct weights_plan p;
    uint8_t *mem = NULL;
    int r = make_plan(&p, w, g, s, &items, NULL);
    w->items = items;
    w->n_items = p.n;
    if (!r) r = tabulate(&p);
    w->no_packed_file = config->no_packed_file;
    if (!r && config->packed_dir && !(w->dir = strdup(config->packed_dir))) r = error_origin(-ENOMEM);
    if (!r && !map_packed(&p)) {
        r = reserve_memory(&p, &mem);
        if (!r) r = fill(&p, mem, pool, config->progress, config->progress_ctx);
    }
    if (r) {
        weights_fini(w);
        return r;
    }
    place(&p);
    if (model && !w->output.rows) w->output = model->output;
    if (model && !w->output_norm) w->output_norm = model->output_norm;
    return 0;
}

int weights_layers(const struct gguf *g, const struct hparams *s, size_t *begin)
{
    _cleanup_(freep) struct weights_item *items = NULL;
    struct weights w;
    struct weights_plan p;
    int r = make_plan(&p, &w, g, s, &items, s->mtp.first ? NULL : begin);
    if (!r) begin[s->n_layers + 1] = p.size;
    weights_fini(&w);
    return r;
}

int weights_check(const struct gguf *g, const struct hparams *s, size_t *bytes)
{
    _cleanup_(freep) size_t *begin = calloc(s->n_layers + 2, sizeof(*begin));
    if (!begin) return error_say(-ENOMEM, "%s: out of memory", gguf_path(g));
    int r = weights_layers(g, s, begin);
    if (!r) *bytes = begin[s->n_layers + 1];
    return r;
}

void weights_fini(struct weights *w)
{
    if (w->mem && !w->packed) munmap((void *)w->mem, w->table.size);
    packed_unmap(w->packed);
    free(w->table.items);
    free(w->items);
    free(w->dir);
    free(w->layers);
    *w = (struct weights){0};
}

/* Row @token of a table of @k columns, as in the file. */
static void embed_row(const void *table, enum kern_type type, uint32_t token, size_t k, float *out)
{
    const size_t stride = k / kern_type_block(type) * kern_type_bytes(type);
    kern_dequant(type, out, (const uint8_t *)table + token * stride, k);
}

void weights_embed(const struct weights *w, uint32_t token, float *out)
{
    const struct matrix *m = &w->output;
    if (w->embd)
        embed_row(w->embd, w->embd_type, token, m->k, out);
    else
        kern_panel_row(m->type, out, m->panels + token / KERN_ROWS * m->panel_bytes, token % KERN_ROWS, m->k);
}

void weights_embed_layers(const struct weights *w, uint32_t token, float *out)
{
    embed_row(w->per_layer.embd, w->per_layer.embd_type, token, w->per_layer.proj.rows, out);
}
