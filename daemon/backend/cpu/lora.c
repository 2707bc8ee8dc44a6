/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/lora.h"
#include "daemon/backend/cpu/cpu.h"
#include "daemon/model/tensor-type.h"
#include <assert.h>
#include <string.h>

/* --- the rows of the batch --- */

/* Rows of @order from @i on, before @end, that follow each other in the batch; at most @most. */
static uint32_t consecutive(const uint32_t *order, uint32_t i, uint32_t end, uint32_t most)
{
    uint32_t n = 1;
    while (n < most && i + n < end && order[i + n] == order[i] + n) n++;
    return n;
}

static void cut_tiles(struct lora_scratch *s, uint32_t lora)
{
    for (uint32_t i = s->first[lora], end = s->first[lora + 1]; i < end;) {
        struct lora_tile *t = &s->tiles[s->n_tiles++];
        *t = (struct lora_tile){.lora = lora, .first = i, .n = consecutive(s->order, i, end, TOKEN_TILE)};
        if (t->n < LORA_GATHER && t->n < end - i) {
            t->n = end - i < LORA_GATHER ? end - i : LORA_GATHER;
            t->apart = true;
        }
        i += t->n;
    }
}

void lora_sort(struct pass *p)
{
    struct lora_set *l = &p->c->lora;
    struct lora_scratch *s = &l->scratch;
    uint32_t n = 0;
    s->n_tiles = 0;
    if (!l->n) return;
    for (uint32_t k = 0; k < l->n; k++) {
        s->first[k] = n;
        for (uint32_t i = 0; i < p->n; i++)
            if (p->c->scratch.tokens[i].entry->adapter == k + 1) s->order[n++] = i;
    }
    s->first[l->n] = n;
    for (uint32_t k = 0; k < l->n; k++) cut_tiles(s, k);
}

bool lora_any(const struct pass *p)
{
    return p->c->lora.n && p->c->lora.scratch.n_tiles;
}

/* --- s * (A x) --- */

struct low_job {
    const struct pass *p;
    const struct product *set;
    const struct acts *in;
};

/* The rows of @part that begin at number @at of the order. */
static float *low_of(const struct pass *p, uint32_t product, const struct lora_part *part, uint32_t lora, uint32_t at)
{
    const struct lora_scratch *s = &p->c->lora.scratch;
    const size_t tokens = p->c->base.config.batch_tokens;
    return s->low + (product * tokens + s->first[lora]) * s->rank + (size_t)(at - s->first[lora]) * part->rank;
}

/* The rows of the tile; where they are apart, copied together. */
static const float *rows_of(const struct low_job *j, const struct lora_tile *t, uint32_t thread)
{
    const struct lora_scratch *s = &j->p->c->lora.scratch;
    const size_t k = j->in->k;
    if (!t->apart) return j->in->f + s->order[t->first] * k;
    float *to = s->gathered + (size_t)thread * LORA_GATHER * s->width;
    for (uint32_t i = 0; i < t->n; i++) memcpy(to + i * k, j->in->f + s->order[t->first + i] * k, k * sizeof(*to));
    return to;
}

static void low_tile(const struct low_job *j, uint32_t product, const struct lora_tile *t, uint32_t thread)
{
    const struct cpu *c = j->p->c;
    const struct lora *l = &c->lora.list[t->lora];
    const struct lora_part *part = &l->parts[j->set[product].m->slot];
    if (!part->rank) return;
    assert(part->a.k == j->in->k);
    float *low = low_of(j->p, product, part, t->lora, t->first);
    const struct kern_acts in = {.f = rows_of(j, t, thread), .n = t->n, .k = j->in->k};
    c->kern->matmul[part->a.type](low, part->rank, part->a.panels, &in, part->rank);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct token *token = &c->scratch.tokens[c->lora.scratch.order[t->first + i]];
        const float s = adapter_scale(l->adapter, part->rank, token->entry->adapter_scale);
        c->kern->scale(low + (size_t)i * part->rank, s, part->rank);
    }
}

static void run_low(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct low_job *j = ctx;
    const struct lora_scratch *s = &j->p->c->lora.scratch;
    for (; begin < end; begin++) low_tile(j, begin / s->n_tiles, &s->tiles[begin % s->n_tiles], thread);
}

/* The adapters of the batch change one of the products. */
static bool adapts(const struct pass *p, const struct product *set, uint32_t n)
{
    const struct lora_scratch *s = &p->c->lora.scratch;
    for (uint32_t i = 0; i < n * s->n_tiles; i++)
        if (p->c->lora.list[s->tiles[i % s->n_tiles].lora].parts[set[i / s->n_tiles].m->slot].rank) return true;
    return false;
}

void lora_low(struct pass *p, const struct product *set, uint32_t n, const struct acts *in)
{
    struct low_job j = {p, set, in};
    assert(n <= LORA_SET);
    if (!lora_any(p) || !adapts(p, set, n)) return;
    cpu_run(p, p->w ? TIMING_PROJECTIONS : TIMING_LOGITS, run_low, &j, n * p->c->lora.scratch.n_tiles, 1, 1);
}

/* --- B times it --- */

/* The first of order[begin, end) that is not below @row. */
static uint32_t find_row(const uint32_t *order, uint32_t begin, uint32_t end, uint32_t row)
{
    while (begin < end) {
        const uint32_t mid = begin + (end - begin) / 2;
        if (order[mid] < row)
            begin = mid + 1;
        else
            end = mid;
    }
    return begin;
}

static void add_adapter(const struct pass *p, const struct lora_piece *y, uint32_t lora, uint32_t thread)
{
    const struct cpu *c = p->c;
    const struct lora_scratch *s = &c->lora.scratch;
    const struct lora_part *part = &c->lora.list[lora].parts[y->m->slot];
    if (!part->rank) return;
    const uint32_t begin = find_row(s->order, s->first[lora], s->first[lora + 1], y->t);
    const uint32_t end = find_row(s->order, begin, s->first[lora + 1], y->t + y->n);
    if (begin == end) return;
    float *more = s->more + (size_t)thread * LORA_MORE;
    const struct kern_acts in = {.f = low_of(p, y->product, part, lora, begin), .n = end - begin, .k = part->rank};
    const uint32_t most = LORA_MORE / (end - begin) / KERN_ROWS * KERN_ROWS;
    for (uint32_t at = 0, rows; at < y->rows; at += rows) {
        rows = y->rows - at < most ? y->rows - at : most;
        const uint8_t *panels = part->b.panels + (y->row + at) / KERN_ROWS * part->b.panel_bytes;
        c->kern->matmul[part->b.type](more, rows, panels, &in, rows);
        for (uint32_t i = begin; i < end; i++)
            c->kern->add(y->out + (s->order[i] - y->t) * y->ld + at, more + (size_t)(i - begin) * rows, rows);
    }
}

void lora_add(const struct pass *p, const struct lora_piece *y, uint32_t thread)
{
    assert(y->n <= TILE_MOST);
    for (uint32_t k = 0; k < p->c->lora.n; k++)
        if (p->c->lora.scratch.first[k] < p->c->lora.scratch.first[k + 1]) add_adapter(p, y, k, thread);
}

/* --- the embeddings of tokens --- */

void lora_embed(const struct pass *p, uint32_t adapter, float scale, uint32_t token, float *x, uint32_t thread)
{
    const struct cpu *c = p->c;
    if (!adapter || !c->lora.list[adapter - 1].rows.rank) return;
    const struct lora *l = &c->lora.list[adapter - 1];
    const struct lora_part *part = &l->rows;
    float low[ADAPTER_RANK_MAX], *more = c->lora.scratch.more + (size_t)thread * LORA_MORE;
    enum kern_type type = KERN_F32;
    tensor_type(l->rows_a->type, &type);
    kern_dequant(type, low, (const uint8_t *)l->rows_a->data + (size_t)token * part->rank * kern_type_bytes(type),
                 part->rank);
    c->kern->scale(low, adapter_scale(l->adapter, part->rank, scale), part->rank);
    const struct kern_acts in = {.f = low, .n = 1, .k = part->rank};
    for (uint32_t row = 0; row < part->b.rows; row += LORA_MORE) {
        const uint32_t rows = part->b.rows - row < LORA_MORE ? part->b.rows - row : LORA_MORE;
        c->kern->matmul[part->b.type](more, rows, part->b.panels + row / KERN_ROWS * part->b.panel_bytes, &in, rows);
        c->kern->add(x + row, more, rows);
    }
}
