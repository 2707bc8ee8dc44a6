/* SPDX-License-Identifier: MIT */
/*
 * Low-rank adapters, as daemon/backend/cpu/lora.c has them: the host loads them, and adds to embeddings; each device
 * has copies of their panels, and adds to products. A batch with adapters has graphs of its own, for any adapters.
 */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define THREADS (CUDA_LORA_ROWS * CUDA_ROWS)

/* --- loading --- */

/* The largest rank of an adapter, rounded up to whole panels. */
static uint32_t rank_of(const struct lora *l, uint32_t slots)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < slots; i++)
        if (l->parts[i].rank > most) most = l->parts[i].rank;
    return cuda_divide(most, CUDA_ROWS) * CUDA_ROWS;
}

/* Room for what A gives, of ranks up to @rank. */
static int reserve_low(struct cuda *c, uint32_t rank)
{
    const size_t rows = (size_t)CUDA_PRODUCTS * c->host->base.config.batch_tokens;
    void *low = NULL;
    if (rank <= c->adapters.rank) return 0;
    int r = cuda_alloc(&c->device, &low, rows * rank * sizeof(float), "batches with adapters");
    if (r) return r;
    cuda_free(&c->device, c->adapters.low);
    c->adapters.low = low;
    c->adapters.rank = rank;
    return 0;
}

static int find_kernels(struct cuda *c)
{
    struct cuda_adapters *x = &c->adapters;
    const size_t bytes = (size_t)LORA_MOST * x->slots * sizeof(*x->parts);
    int r = cuda_kernel(&c->device, &x->make_low, "cuda_lora_low", 0);
    if (!r) r = cuda_kernel(&c->device, &x->add, "cuda_lora_add", 0);
    return r || x->parts ? r : cuda_alloc(&c->device, (void **)&x->parts, bytes, "adapters");
}

/* The panels of @l, which @to is a copy of, as the kernels find them. */
static struct cuda_lora_part part_of(const struct lora *l, const struct lora_part *p, const uint8_t *to)
{
    const uint8_t *from = l->mem;
    if (!p->rank) return (struct cuda_lora_part){.rank = 0};
    return (struct cuda_lora_part){.a = to + (p->a.panels - from),
                                   .b = to + (p->b.panels - from),
                                   .a_bytes = (uint32_t)p->a.panel_bytes,
                                   .b_bytes = (uint32_t)p->b.panel_bytes,
                                   .rank = p->rank,
                                   .alpha = l->adapter->alpha,
                                   .a_type = (uint8_t)p->a.type,
                                   .b_type = (uint8_t)p->b.type};
}

/* Copy adapter number @i of the host. */
static int upload(struct cuda *c, uint32_t i)
{
    struct cuda_adapters *x = &c->adapters;
    const struct lora *l = &c->host->lora.list[i];
    struct cuda_lora_part *parts = calloc(x->slots, sizeof(*parts));
    if (!parts) return error_say(-ENOMEM, "out of memory for an adapter");
    int r = cuda_alloc(&c->device, (void **)&x->panels[i], l->size, "an adapter");
    for (uint32_t s = 0; !r && s < x->slots; s++) parts[s] = part_of(l, &l->parts[s], x->panels[i]);
    if (!r) r = cuda_upload(&c->device, x->panels[i], l->mem, l->size);
    if (!r) r = cuda_upload(&c->device, x->parts + (size_t)i * x->slots, parts, x->slots * sizeof(*parts));
    const int ended = cuda_wait(&c->device);
    free(parts);
    return r ? r : ended;
}

static int add_adapter(struct cuda *c)
{
    const uint32_t i = c->host->lora.n - 1;
    int r = cuda_device_use(&c->device);
    c->adapters.slots = (uint32_t)c->host->weights.n_items + 1;
    cuda_forget_graphs(c); /* they have the places and the numbers of all that follows */
    if (!r) r = find_kernels(c);
    if (!r) r = reserve_low(c, rank_of(&c->host->lora.list[i], c->adapters.slots));
    return r ? r : upload(c, i);
}

/* Forget the last adapter. */
static void drop(struct cuda_backend *x)
{
    const uint32_t last = x->host.lora.n - 1;
    for (uint32_t i = 0; i < x->n; i++) {
        struct cuda *c = &x->devices[i];
        c->device.driver->cuCtxSetCurrent(c->device.context); /* the message stays */
        cuda_free(&c->device, c->adapters.panels[last]);
        c->adapters.panels[last] = NULL;
    }
    lora_drop(&x->host.lora);
}

int cuda_adapter_load(struct backend *b, const struct adapter *a, uint32_t *number, uint64_t *bytes)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    int r = lora_load(b, a, number, bytes);
    if (r || atomic_load(&x->alone)) return r;
    for (uint32_t i = 0; !r && i < x->n; i++) r = add_adapter(&x->devices[i]);
    if (r) drop(x);
    return r;
}

void cuda_fini_adapters(struct cuda *c)
{
    for (uint32_t i = 0; i < LORA_MOST; i++) cuda_free(&c->device, c->adapters.panels[i]);
    cuda_free(&c->device, c->adapters.parts);
    cuda_free(&c->device, c->adapters.low);
}

/* --- products --- */

/* Some adapter changes the product. */
static bool adapts(const struct cuda *c, const struct product *y)
{
    const struct lora_set *l = &c->host->lora;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->list[i].parts[y->m->slot].rank) return true;
    return false;
}

/* The @n products of @a, of @panels panels in all. */
static int start(const struct cuda_pass *p, struct cuda_lora *a, uint32_t n, uint32_t panels)
{
    const struct cuda_device *d = &p->c->device;
    const struct cuda_adapters *x = &p->c->adapters;
    const uint32_t tiles = p->adapted[p->dropped].n_tiles;
    int r = cuda_launch(d, x->make_low, (struct cuda_grid){n * (x->rank / CUDA_ROWS), tiles, THREADS, 0}, a);
    return r ? r : cuda_launch(d, x->add, (struct cuda_grid){panels, tiles, THREADS, 0}, a);
}

int cuda_add_adapters(const struct cuda_pass *p, const struct product *set, uint32_t n, const float *f)
{
    const struct cuda *c = p->c;
    const struct cuda_adapted *rows = &p->adapted[p->dropped];
    struct cuda_lora a = {.parts = c->adapters.parts,
                          .tiles = cuda_note(c, rows->tiles),
                          .order = cuda_note(c, rows->order),
                          .scales = cuda_note(c, rows->scales),
                          .x = f,
                          .low = c->adapters.low,
                          .slots = c->adapters.slots,
                          .first = p->first,
                          .n = p->n,
                          .k = set->m->k,
                          .rank = c->adapters.rank};
    uint32_t some = 0, panels = 0;
    int r = 0;
    for (uint32_t i = 0; !r && i < n; i++) {
        if (adapts(c, &set[i])) {
            a.of[some++] = (struct cuda_lora_product){set[i].out, set[i].m->rows, set[i].m->slot};
            panels += cuda_divide(set[i].m->rows, CUDA_ROWS);
        }
        if (some < CUDA_PRODUCTS && (i + 1 < n || !some)) continue;
        r = start(p, &a, some, panels);
        some = panels = 0;
    }
    return r;
}
