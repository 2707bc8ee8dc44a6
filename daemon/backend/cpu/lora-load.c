/* SPDX-License-Identifier: MIT */
/* Adapters as panels. A tensor of the model may be several matrices (fused ones): each gets its rows of B, and A. */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/backend/cpu/lora.h"
#include "daemon/backend/cpu/memory.h"
#include "daemon/backend/cpu/weights-plan.h"
#include "daemon/model/tensor-type.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Counts bytes in a first run (base NULL), and fills in a second. */
struct carver {
    uint8_t *base;
    size_t at;
};

static void *carve(struct carver *c, size_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += kern_align(n * size);
    return p;
}

/* --- matrices --- */

/* Room for the panels of @rows rows of @t, and in the second run these, packed; @i NULL: the rows of @t, else those of
 * the item, whose matrix they belong to. */
static struct matrix pack(struct carver *c, const struct gguf_tensor *t, uint32_t rows, const struct weights_item *i)
{
    struct matrix m = {.rows = rows, .k = (uint32_t)t->dims[0], .stacked = 1};
    m.n_panels = (rows + KERN_ROWS - 1) / KERN_ROWS;
    tensor_type(t->type, &m.type);
    m.panel_bytes = kern_panel_bytes(m.type, m.k);
    m.panels = carve(c, m.n_panels, m.panel_bytes);
    const size_t stride = m.k * kern_type_bytes(m.type);
    for (uint32_t p = 0; c->base && p < m.n_panels; p++) {
        const uint32_t row = p * KERN_ROWS, n = rows - row < KERN_ROWS ? rows - row : KERN_ROWS;
        const size_t at = !i ? row : i->row + (i->span ? row / i->span * i->step + row % i->span : row);
        kern_panel_pack(m.type, (uint8_t *)m.panels + p * m.panel_bytes, (const uint8_t *)t->data + at * stride, stride,
                        n, m.k);
    }
    return m;
}

static void pack_part(struct carver *c, struct lora_part *part, const struct adapter_pair *pair,
                      const struct weights_item *i)
{
    part->rank = pair->rank;
    part->a = pack(c, pair->a, pair->rank, NULL);
    part->b = pack(c, pair->b, i->matrix->rows, i);
}

/* The pair's matrix of the model is one that adapters can be added to. */
static int check_item(const struct adapter *a, const struct adapter_pair *pair, const struct weights_item *i)
{
    char name[80];
    gguf_text(name, sizeof(name), pair->of->name);
    if (!i->matrix)
        return error_say(-EINVAL, "%s: '%s' is no matrix that the model multiplies with", gguf_path(a->gguf), name);
    if (i->matrix->stacked > 1 || i->transposed || strstr(name, "_exps."))
        return error_say(-EOPNOTSUPP,
                         "%s: '%s' is of experts or of latent attention's heads: such adapters are not "
                         "supported",
                         gguf_path(a->gguf), name);
    return 0;
}

static int pack_rows(struct carver *c, const struct cpu *cpu, struct lora *l, const struct adapter_pair *pair)
{
    if (!cpu->weights.embd)
        return error_say(-EOPNOTSUPP, "%s: '%.*s' is also the model's output matrix: an adapter of it is not supported",
                         gguf_path(l->adapter->gguf), (int)pair->of->name.len, pair->of->name.data);
    l->rows.rank = pair->rank;
    l->rows_a = pair->a;
    l->rows.b = pack(c, pair->b, (uint32_t)pair->b->dims[1], NULL);
    return 0;
}

static int pack_pair(struct carver *c, const struct cpu *cpu, struct lora *l, const struct adapter_pair *pair)
{
    const struct weights *w = &cpu->weights;
    if (pair->rows) return pack_rows(c, cpu, l, pair);
    if (pair->of->data == w->per_layer.embd)
        return error_say(-EOPNOTSUPP, "%s: an adapter of '%.*s' is not supported", gguf_path(l->adapter->gguf),
                         (int)pair->of->name.len, pair->of->name.data);
    int r = 0;
    for (size_t n = 0; !r && n < w->n_items; n++) {
        const struct weights_item *i = &w->items[n];
        if (i->t != pair->of) continue;
        r = check_item(l->adapter, pair, i);
        if (!r) pack_part(c, &l->parts[i->matrix->slot], pair, i);
    }
    return r; /* a tensor that the model does not compute with may have a pair, too */
}

static int pack_pairs(struct carver *c, const struct cpu *cpu, struct lora *l)
{
    int r = 0;
    for (size_t i = 0; !r && i < l->adapter->n_pairs; i++) r = pack_pair(c, cpu, l, &l->adapter->pairs[i]);
    return r;
}

/* --- buffers --- */

static void lay_out(struct lora_scratch *s, struct carver *c, size_t tokens, size_t threads)
{
    s->order = carve(c, tokens, sizeof(*s->order));
    s->tiles = carve(c, tokens, sizeof(*s->tiles));
    s->low = carve(c, LORA_SET * tokens * s->rank, sizeof(*s->low));
    s->gathered = carve(c, threads * LORA_GATHER * s->width, sizeof(*s->gathered));
    s->more = carve(c, threads * LORA_MORE, sizeof(*s->more));
}

/* Buffers that are wide enough for @l too. */
static int widen(struct cpu *c, const struct lora *l)
{
    struct lora_scratch *old = &c->lora.scratch, s = {.rank = old->rank, .width = old->width};
    for (size_t i = 0; i <= c->weights.n_items; i++) {
        const struct lora_part *part = &l->parts[i];
        if (part->rank > s.rank) s.rank = part->rank;
        if (part->rank && part->a.k > s.width) s.width = part->a.k;
    }
    if (old->mem && s.rank == old->rank && s.width == old->width) return 0;
    const size_t tokens = c->base.config.batch_tokens, threads = compute_pool_threads(c->pool);
    struct carver at = {0};
    lay_out(&s, &at, tokens, threads);
    s.size = at.at;
    int r = memory_map(&s.mem, s.size, true, "batches with adapters");
    if (r) return r;
    at = (struct carver){s.mem, 0};
    lay_out(&s, &at, tokens, threads);
    if (old->mem) munmap(old->mem, old->size);
    *old = s;
    return 0;
}

static void free_lora(struct lora *l)
{
    if (l->mem) munmap(l->mem, l->size);
    free(l->parts);
    *l = (struct lora){0};
}

int lora_load(struct backend *b, const struct adapter *a, uint32_t *number, uint64_t *bytes)
{
    struct cpu *c = (struct cpu *)b;
    struct lora l = {.adapter = a};
    struct carver at = {0};
    if (c->lora.n == LORA_MOST)
        return error_say(-E2BIG, "%s: a model has at most %d adapters", gguf_path(a->gguf), LORA_MOST);
    l.parts = calloc(c->weights.n_items + 1, sizeof(*l.parts));
    if (!l.parts) return error_origin(-ENOMEM);
    int r = pack_pairs(&at, c, &l);
    l.size = at.at;
    if (!r) r = memory_map(&l.mem, l.size, false, "an adapter");
    if (!r) {
        at = (struct carver){l.mem, 0};
        r = pack_pairs(&at, c, &l);
    }
    if (!r) r = widen(c, &l);
    if (r) {
        free_lora(&l);
        return r;
    }
    c->lora.list[c->lora.n++] = l;
    *number = c->lora.n;
    *bytes = l.size;
    return 0;
}

void lora_drop(struct lora_set *s)
{
    free_lora(&s->list[--s->n]);
}

void lora_fini(struct lora_set *s)
{
    for (uint32_t i = 0; i < s->n; i++) free_lora(&s->list[i]);
    if (s->scratch.mem) munmap(s->scratch.mem, s->scratch.size);
    *s = (struct lora_set){0};
}
