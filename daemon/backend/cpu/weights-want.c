/* SPDX-License-Identifier: MIT */
/* Items of a plan: one tensor of the file, or a part of it. */
#include "daemon/backend/cpu/weights-want.h"
#include "daemon/model/tensor-type.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

int weights_type_of(const struct weights_plan *p, const struct gguf_tensor *t, enum kern_type *type)
{
    if (!tensor_type(t->type, type)) return 0;
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

/* "a x b", and further dimensions that are not 1. */
static const char *dims_text(char out[96], const uint64_t d[4])
{
    int n = snprintf(out, 96, "%llu x %llu", (unsigned long long)d[0], (unsigned long long)d[1]);
    if (d[2] != 1 || d[3] != 1) n += snprintf(out + n, 96 - (size_t)n, " x %llu", (unsigned long long)d[2]);
    if (d[3] != 1) snprintf(out + n, 96 - (size_t)n, " x %llu", (unsigned long long)d[3]);
    return out;
}

int weights_find(const struct weights_plan *p, const char *name, uint64_t k, uint64_t rows, uint64_t stacked,
                 const struct gguf_tensor **out)
{
    const uint64_t want[4] = {k, rows, stacked, 1};
    const struct gguf_tensor *t = gguf_find_tensor(p->g, name);
    char has[96], says[96];
    if (!t) return error_say(-EINVAL, "%s: tensor '%s' is missing", gguf_path(p->g), name);
    if (memcmp(t->dims, want, sizeof(want)) != 0)
        return error_say(-EINVAL, "%s: tensor '%s' is %s, but the model's keys say %s", gguf_path(p->g), name,
                         dims_text(has, t->dims), dims_text(says, want));
    *out = t;
    return 0;
}

struct weights_item *weights_reserve(struct weights_plan *p, const struct gguf_tensor *t, size_t bytes, uint64_t source)
{
    struct weights_item *i = &p->items[p->n++];
    *i = (struct weights_item){.t = t, .offset = p->size, .bytes = bytes, .source = source};
    p->source += source;
    p->size += kern_align(bytes);
    return i;
}

int weights_want_part(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows,
                      struct weights_source from)
{
    const struct gguf_tensor *t = NULL;
    int r = weights_find(p, name, k, from.all, from.stacked, &t);
    if (!r) r = weights_type_of(p, t, &m->type);
    if (r) return r;
    m->rows = rows;
    m->k = k;
    m->n_panels = (rows + KERN_ROWS - 1) / KERN_ROWS;
    m->stacked = from.stacked;
    m->panel_bytes = kern_panel_bytes(m->type, k);
    struct weights_item *i =
        weights_reserve(p, t, (size_t)m->stacked * m->n_panels * m->panel_bytes, t->size / from.all * rows);
    i->matrix = m;
    i->row = from.first;
    i->all = from.all;
    i->span = from.span;
    i->step = from.step;
    p->tensors += from.first == 0;
    return 0;
}

int weights_want_named(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows)
{
    return weights_want_part(p, m, name, k, rows, (struct weights_source){0, rows, 1});
}

int weights_check_vector(const struct weights_plan *p, const struct gguf_tensor *t, const char *name)
{
    enum kern_type type;
    int r = weights_type_of(p, t, &type);
    if (r || !kern_type_quantized(type)) return r;
    return error_say(-EOPNOTSUPP, "%s: tensor '%s' is quantized (%s); vectors must be F32, F16 or BF16",
                     gguf_path(p->g), name, kern_type_name(type));
}

int weights_want_vectors(struct weights_plan *p, const float **v, const char *name, uint32_t n, uint32_t stacked)
{
    const struct gguf_tensor *t = NULL;
    int r = weights_find(p, name, n, stacked, 1, &t);
    if (!r) r = weights_check_vector(p, t, name);
    if (r) return r;
    weights_reserve(p, t, (size_t)n * stacked * sizeof(float), t->size)->vector = v;
    p->tensors++;
    return 0;
}

int weights_want_named_vector(struct weights_plan *p, const float **v, const char *name, uint32_t n)
{
    return weights_want_vectors(p, v, name, n, 1);
}

struct weights_name weights_name(uint32_t l, const char *which, const char *what)
{
    struct weights_name n;
    snprintf(n.s, sizeof(n.s), "blk.%u.%s.%s", l, which, what);
    return n;
}

int weights_want_norm(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n, bool there)
{
    return there ? weights_want_named_vector(p, v, weights_name(l, which, "weight").s, n) : 0;
}

bool weights_has_weight(const struct weights_plan *p, uint32_t l, const char *which)
{
    return gguf_find_tensor(p->g, weights_name(l, which, "weight").s);
}

int weights_want_parts(struct weights_plan *p, uint32_t l, const struct weights_part *parts, size_t n)
{
    int r = 0;
    for (size_t i = 0; !r && i < n; i++)
        r = weights_want_part(p, parts[i].m, weights_name(l, parts[i].name, "weight").s, parts[i].k, parts[i].rows,
                              parts[i].from);
    return r;
}

int weights_want_matrix(struct weights_plan *p, struct matrix *m, uint32_t l, const char *which, uint32_t k,
                        uint32_t rows)
{
    return weights_want_named(p, m, weights_name(l, which, "weight").s, k, rows);
}

int weights_want_rows(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n, uint32_t rows)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s", l, which);
    return weights_want_vectors(p, v, name, n, rows);
}

bool weights_has(const struct weights_plan *p, uint32_t l, const char *which)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s", l, which);
    return gguf_find_tensor(p->g, name);
}

int weights_want_vector(struct weights_plan *p, const float **v, uint32_t l, const char *which, uint32_t n,
                        uint32_t rows)
{
    int r = weights_want_rows(p, v, l, which, n, rows ? rows : 1);
    if (!r) p->items[p->n - 1].turned = rows > 0;
    return r;
}

int weights_want_table(struct weights_plan *p, const char *name, uint32_t k, const void **data, enum kern_type *type)
{
    const struct gguf_tensor *t = NULL;
    int r = weights_find(p, name, k, p->s->vocab, 1, &t);
    if (!r) r = weights_type_of(p, t, type);
    if (!r) *data = t->data, p->tensors++;
    return r;
}

int weights_want_stack(struct weights_plan *p, struct matrix *m, const char *name, uint32_t k, uint32_t rows,
                       uint32_t stacked)
{
    return weights_want_part(p, m, name, k, rows, (struct weights_source){0, rows, stacked});
}
