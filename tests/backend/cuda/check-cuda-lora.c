/* SPDX-License-Identifier: MIT */
/* Low-rank adapters: what they add to the products of a batch's rows, of any types and ranks. */
#include "kernels/cuda/lora-args.h"
#include "tests/backend/cuda/check-cuda.h"
#include <string.h>

#define ADAPTERS 3
#define SLOTS    (CUDA_PRODUCTS + 1)

/* A matrix of random values, in panels on both sides. */
struct panels {
    enum kern_type type;
    uint32_t rows;
    size_t k, bytes; /* bytes: of a panel */
    uint8_t *host, *device;
};

static struct panels random_panels(uint32_t rows, size_t k)
{
    struct panels p = {.type = (enum kern_type)rng_below(3), .rows = rows, .k = k};
    const size_t n = (rows + KERN_ROWS - 1) / KERN_ROWS, stride = k * kern_type_bytes(p.type);
    uint8_t *src = mem(stride * rows);
    p.bytes = kern_panel_bytes(p.type, k);
    p.host = mem(n * p.bytes);
    fill_source(p.type, src, k * rows, S_TAME);
    for (size_t i = 0; i < n; i++) {
        const size_t left = rows - i * KERN_ROWS;
        kern_panel_pack(p.type, p.host + i * p.bytes, src + i * KERN_ROWS * stride, stride,
                        left < KERN_ROWS ? left : KERN_ROWS, k);
    }
    p.device = dev_up(p.host, n * p.bytes);
    return p;
}

/* What adapters have for the matrices of a case, whose slots are those of the products and an unused one. */
struct pairs {
    struct panels a[ADAPTERS][SLOTS], b[ADAPTERS][SLOTS];
    struct cuda_lora_part parts[ADAPTERS][SLOTS];
    uint32_t rank; /* the largest, in whole panels */
};

static void random_pairs(struct pairs *p, uint32_t products, size_t k, const uint32_t *rows)
{
    memset(p, 0, sizeof(*p));
    for (uint32_t i = 0; i < ADAPTERS; i++)
        for (uint32_t s = 0; s < products; s++) {
            const uint32_t rank = rng_below(4) ? 1 + rng_below(70) : 0;
            if (!rank) continue;
            if (rank > p->rank) p->rank = (rank + CUDA_ROWS - 1) / CUDA_ROWS * CUDA_ROWS;
            const struct panels a = p->a[i][s] = random_panels(rank, k), b = p->b[i][s] = random_panels(rows[s], rank);
            p->parts[i][s] = (struct cuda_lora_part){.a = a.device,
                                                     .b = b.device,
                                                     .a_bytes = (uint32_t)a.bytes,
                                                     .b_bytes = (uint32_t)b.bytes,
                                                     .rank = rank,
                                                     .alpha = rng_below(2) ? 8 : 0,
                                                     .a_type = (uint8_t)a.type,
                                                     .b_type = (uint8_t)b.type};
        }
}

/* The rows [first, first + n) of a batch. */
struct batch {
    uint32_t all, first, n, tiles;
    uint32_t *adapter, *order; /* of a row: ADAPTERS: none */
    float *scale, *scales;     /* of rows; in their order */
    struct cuda_lora_tile *tile;
};

static struct batch random_batch(uint32_t n)
{
    struct batch b = {.n = n, .first = rng_below(3) ? 0 : rng_below(20)};
    b.all = b.first + n + rng_below(20);
    b.tiles = b.all / CUDA_LORA_ROWS + ADAPTERS;
    b.adapter = mem(b.all * sizeof(uint32_t)), b.order = mem(b.all * sizeof(uint32_t));
    b.scale = mem(b.all * sizeof(float)), b.scales = mem(b.all * sizeof(float));
    b.tile = mem(b.tiles * sizeof(*b.tile));
    memset(b.tile, 0, b.tiles * sizeof(*b.tile));
    for (uint32_t i = 0; i < b.all; i++)
        b.adapter[i] = i && rng_below(3) ? b.adapter[i - 1] : rng_below(ADAPTERS + 1), b.scale[i] = rng_float();
    uint32_t at = 0, tile = 0;
    for (uint32_t k = 0; k < ADAPTERS; k++) {
        uint32_t from = at;
        for (uint32_t i = 0; i < b.all; i++)
            if (b.adapter[i] == k) b.scales[at] = b.scale[i], b.order[at++] = i;
        for (; from < at; from += CUDA_LORA_ROWS)
            b.tile[tile++] = (struct cuda_lora_tile){k, from, at - from < 16 ? at - from : 16};
    }
    return b;
}

/* Add to the product @y of the row @x by the definition. */
static void add_row(const struct pairs *p, uint32_t adapter, uint32_t slot, float scale, const float *x, float *y)
{
    const struct panels *a = &p->a[adapter][slot], *b = &p->b[adapter][slot];
    const struct cuda_lora_part *part = &p->parts[adapter][slot];
    float low[80], *more = mem(b->rows * sizeof(*more));
    const struct kern_acts in = {.f = x, .n = 1, .k = a->k}, between = {.f = low, .n = 1, .k = part->rank};
    if (!part->rank) return;
    ref->matmul[a->type](low, part->rank, a->host, &in, part->rank);
    ref->scale(low, part->alpha != 0 ? scale * part->alpha / (float)part->rank : scale, part->rank);
    ref->matmul[b->type](more, b->rows, b->host, &between, b->rows);
    ref->add(y, more, b->rows);
}

static void one(uint32_t n, uint32_t products, size_t k)
{
    static struct pairs p;
    const struct batch b = random_batch(n);
    uint32_t rows[CUDA_PRODUCTS], panels = 0;
    float *want[CUDA_PRODUCTS];
    const float *x = kv_floats((size_t)n * k);
    for (uint32_t s = 0; s < products; s++) rows[s] = 1 + rng_below(90);
    random_pairs(&p, products, k, rows);
    if (!p.rank) p.rank = CUDA_ROWS;
    struct cuda_lora a = {.parts = dev_up(p.parts, sizeof(p.parts)),
                          .tiles = dev_up(b.tile, b.tiles * sizeof(*b.tile)),
                          .order = dev_up(b.order, b.all * sizeof(uint32_t)),
                          .scales = dev_up(b.scales, b.all * sizeof(float)),
                          .x = kv_up(x, (size_t)n * k),
                          .low = dev_poisoned((size_t)products * n * p.rank * sizeof(float)),
                          .slots = SLOTS,
                          .first = b.first,
                          .n = n,
                          .k = (uint32_t)k,
                          .rank = p.rank};
    for (uint32_t s = 0; s < products; s++) {
        want[s] = kv_floats((size_t)n * rows[s]);
        a.of[s] = (struct cuda_lora_product){kv_up(want[s], (size_t)n * rows[s]), rows[s], s};
        panels += (rows[s] + CUDA_ROWS - 1) / CUDA_ROWS;
    }
    dev_run("cuda_lora_low", (struct cuda_grid){products * (p.rank / CUDA_ROWS), b.tiles, 256, 0}, &a);
    dev_run("cuda_lora_add", (struct cuda_grid){panels, b.tiles, 256, 0}, &a);
    for (uint32_t s = 0; s < products; s++) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t row = b.first + i;
            if (b.adapter[row] < ADAPTERS)
                add_row(&p, b.adapter[row], s, b.scale[row], x + i * k, want[s] + (size_t)i * rows[s]);
        }
        same_floats(dev_down(a.of[s].y, (size_t)n * rows[s] * sizeof(float)), want[s], (size_t)n * rows[s],
                    "adapted product %u of %u, n %u k %zu", s, products, n, k);
    }
    dev_reset();
}

void check_cuda_lora(void **state)
{
    rng_seed(1);
    for (uint32_t i = 0; i < 60; i++)
        one(1 + rng_below(i % 3 ? 50 : 3), 1 + i % CUDA_PRODUCTS, 1 + rng_below(i % 2 ? 700 : 130));
}
