/* SPDX-License-Identifier: MIT */
/* Products of all types, with few tokens and with many. */
#include "tests/backend/cuda/check-cuda.h"
#include <string.h>

/* The activations in the order of the device. */
static struct cuda_acts upload_acts(const struct kern_acts *x, bool wide)
{
    struct cuda_acts a = dev_acts(x->n, x->k);
    a.wide = wide;
    const size_t nb = x->k / KERN_BLOCK, ld = a.ld, each = wide ? sizeof(uint16_t) : 1;
    void *q = mem(ld * x->k * each);
    float *d = mem(nb * ld * 2 * sizeof(*d));
    int16_t *s = mem(nb * ld * 2 * sizeof(*s));
    for (size_t t = 0; t < x->n; t++)
        for (size_t b = 0; b < nb; b++) {
            const struct kern_act p = kern_act(x->n, t, nb);
            const struct act_place to = act_place(&a, x->k, t, b * KERN_BLOCK);
            const size_t at = p.at + b * p.step;
            for (size_t i = 0; i < KERN_BLOCK; i++) {
                const size_t code = act_place(&a, x->k, t, b * KERN_BLOCK + i).code;
                if (wide)
                    ((uint16_t *)q)[code] = kern_f32_to_f16(x->q[at * KERN_BLOCK + i]);
                else
                    ((int8_t *)q)[code] = x->q[at * KERN_BLOCK + i];
            }
            d[to.d] = x->d[at * 2], d[to.sum] = x->d[at * 2 + 1];
            memcpy(s + to.s, x->s + at * 2, 4);
        }
    a.q = dev_up(q, ld * x->k * each);
    a.d = dev_up(d, nb * ld * 2 * sizeof(*d));
    a.s = dev_up(s, nb * ld * 2 * sizeof(*s));
    return a;
}

/* The products of a case: the device's, and the panels that they are copies of. */
struct products {
    enum kern_type type;
    struct cuda_kind kind;
    struct cuda_matmul a;
    uint8_t *panels[CUDA_PRODUCTS];
    size_t ld;
};

/* @n matrices of up to @rows rows. */
static struct products random_products(enum kern_type t, unsigned rows, size_t k, enum stuff stuff, unsigned n)
{
    const size_t stride = k / kern_type_block(t) * kern_type_bytes(t), each = kern_panel_bytes(t, k);
    struct products p = {.type = t, .a = {.n_products = n, .k = (uint32_t)k}, .ld = rows + rng_below(3)};
    assert_int_equal(cuda_kind(&device, &p.kind, t), 0);
    for (unsigned i = 0; i < n; i++) {
        const unsigned own = i ? 1 + rng_below(rows) : rows, panels = (own + KERN_ROWS - 1) / KERN_ROWS;
        uint8_t *src = mem(stride * own);
        p.panels[i] = mem(panels * each);
        fill_source(t, src, k / kern_type_block(t) * own, stuff);
        for (unsigned j = 0, left = own; j < panels; j++, left -= KERN_ROWS)
            kern_panel_pack(t, p.panels[i] + j * each, src + j * KERN_ROWS * stride, stride, left < 16 ? left : 16, k);
        p.a.of[i] = (struct cuda_matrix){.panels = dev_up(p.panels[i], panels * each),
                                         .rows = own,
                                         .ld = (uint32_t)p.ld,
                                         .panel_bytes = (uint32_t)each};
    }
    return p;
}

static void poison(struct products *p, size_t n)
{
    for (unsigned i = 0; i < p->a.n_products; i++) p->a.of[i].out = dev_poisoned(n * p->ld * sizeof(float));
}

/* The products are those of @x by the definition. */
static void same_products(const struct products *p, const struct kern_acts *x, const char *what)
{
    for (unsigned i = 0; i < p->a.n_products; i++) {
        float *want = mem(x->n * p->ld * sizeof(*want));
        ref->matmul[p->type](want, p->ld, p->panels[i], x, p->a.of[i].rows);
        same_floats(dev_down(p->a.of[i].out, x->n * p->ld * sizeof(float)), want, x->n * p->ld,
                    "%s %s product %u rows %u n %zu k %zu", kern_type_name(p->type), what, i, p->a.of[i].rows, x->n,
                    x->k);
    }
}

static void one(enum kern_type t, unsigned rows, size_t n, size_t k, enum stuff stuff, unsigned n_products)
{
    static const char *const names[] = {"best kernel", "few",   "several", "some", "many", "batch",
                                        "split",       "hold8", "hold16",  "half", "wide"};
    struct products p = random_products(t, rows, k, stuff, n_products);
    struct kern_acts x;
    fill_acts(&x, t, n, k, stuff);
    p.a.n = (uint32_t)n;
    if (x.f)
        p.a.f = dev_up(x.f, n * k * sizeof(float));
    else
        p.a.x = upload_acts(&x, false);
    for (enum cuda_which which = CUDA_BEST; which <= (p.kind.wide   ? CUDA_USE_WIDE
                                                      : p.kind.many ? CUDA_USE_MANY
                                                                    : CUDA_BEST);
         which++) {
        poison(&p, n);
        if (which == CUDA_USE_HALF) p.a.x = upload_acts(&x, true);
        assert_int_equal(cuda_multiply(&device, &p.kind, &p.a, which), 0);
        same_products(&p, &x, names[which]);
    }
    dev_reset();
}

/* So many panels that a CTA of the kernels that hold their tokens has several rounds of them, and more pieces than
 * there is room for. */
static void held(enum kern_type t, uint32_t n, enum stuff stuff)
{
    const size_t k = kern_type_block(t) == KERN_BLOCK ? 20 * KERN_BLOCK : 768;
    struct products p = random_products(t, (unsigned)device.processors * 17 * KERN_ROWS + 5, k, stuff, 1);
    struct kern_acts x;
    fill_acts(&x, t, n, k, stuff);
    p.a.n = n;
    if (p.kind.hold[0]) {
        p.a.x = upload_acts(&x, false);
        for (enum cuda_which which = CUDA_USE_HOLD8; which <= CUDA_USE_HOLD16; which++) {
            poison(&p, n);
            assert_int_equal(cuda_multiply(&device, &p.kind, &p.a, which), 0);
            same_products(&p, &x, which == CUDA_USE_HOLD8 ? "hold8" : "hold16");
        }
    }
    dev_reset();
}

void check_cuda_matmul(void **state)
{
    const enum kern_type t = (enum kern_type)(uintptr_t)*state;
    const size_t unit = kern_type_block(t), most = unit == 1 ? 300 : unit == KERN_BLOCK ? 12 : 4;
    rng_seed(1);
    for (size_t n = 1; n <= 20; n++)
        one(t, 1 + rng_below(90), n, unit * (1 + rng_below((uint32_t)most)), (enum stuff)(n % 3), 1 + n % 3);
    for (unsigned rows = 1; rows <= 40; rows += 1 + rng_below(5))
        one(t, rows, 1 + rng_below(30), unit * (1 + rng_below((uint32_t)most)), (enum stuff)(rows % 3), 1);
    one(t, 70, 130, unit * most, S_TAME, 4);
    one(t, 33, 300, unit * 3, S_WILD, 2);
    one(t, 300, 150, unit * (640 / unit + 5), S_EXTREME, 2);           /* several tiles and pieces */
    one(t, 3, 17100, unit == KERN_BLOCK ? 5 * unit : unit, S_TAME, 1); /* more tiles than multiprocessors */
    one(t, 40, 5, 8192, S_EXTREME, 1);                                 /* several chunks */
    one(t, 20, 1, 12288, S_TAME, 1);
    held(t, 13, S_TAME);
    held(t, 7, S_EXTREME);
}

/* --- experts --- */

#define STACK 4 /* matrices of a stack */

/* Tiles of random experts with up to @most rows, each from a multiple of CUDA_ROW_ALIGN on; the last one has none.
 * Returns the rows in all. */
static uint32_t random_tiles(struct cuda_tile_rows *tiles, uint32_t n, uint32_t most)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        tiles[i] = (struct cuda_tile_rows){rng_below(STACK), at, 1 + rng_below(most)};
        at += (tiles[i].n + CUDA_ROW_ALIGN - 1) / CUDA_ROW_ALIGN * CUDA_ROW_ALIGN;
    }
    tiles[n - 1] = (struct cuda_tile_rows){0};
    return at;
}

/* The rows of a tile are the products with its expert's matrix, of @rows rows; no other row is written. */
static void same_tile(const struct products *p, const struct kern_acts *x, const struct cuda_tile_rows *tile,
                      uint32_t rows, uint32_t stack, const float *got)
{
    float *want = mem(x->n * p->ld * sizeof(*want));
    const size_t at = tile->first * p->ld;
    ref->matmul[p->type](want, p->ld, p->panels[0] + (size_t)tile->expert * stack * p->a.of[0].panel_bytes, x, rows);
    same_floats(got + at, want + at, tile->n * p->ld, "%s tile at %u of %u rows of expert %u, %u rows, k %zu",
                kern_type_name(p->type), tile->first, tile->n, tile->expert, rows, x->k);
}

static void one_stack(enum kern_type t, uint32_t panels, size_t k, enum stuff stuff, bool large)
{
    struct cuda_tile_rows tiles[4];
    struct products p = random_products(t, STACK * panels * KERN_ROWS, k, stuff, 1);
    const uint32_t n = random_tiles(tiles, 4, large ? CUDA_TILE_ROWS : 8) + (large ? CUDA_TILE_ROWS : 0);
    const uint32_t rows = panels * KERN_ROWS - rng_below(3);
    struct kern_acts x;
    fill_acts(&x, t, n, k, stuff);
    assert_int_equal(cuda_tile_kinds(&device, &p.kind, t), 0);
    if (x.f)
        p.a.f = dev_up(x.f, n * k * sizeof(float));
    else
        p.a.x = upload_acts(&x, false);
    poison(&p, n);
    struct cuda_group a = {.m = p.a, .tiles = dev_up(tiles, sizeof(tiles))};
    a.m.of[0].rows = rows;
    assert_int_equal(cuda_multiply_tiles(&device, &p.kind, &a, 4, large), 0);
    const float *got = dev_down(p.a.of[0].out, n * p.ld * sizeof(float));
    for (uint32_t i = 0; i < 3; i++) same_tile(&p, &x, &tiles[i], rows, panels, got);
    dev_reset();
}

/* The same without a list of tiles: @n rows of each matrix. */
static void equal_tiles(enum kern_type t, uint32_t n, size_t k, bool large)
{
    const bool quantized = kern_type_quantized(t);
    const uint32_t apart = (n + 7) / 8 * 8 + 8 * rng_below(2), most = !quantized ? 16 : large ? CUDA_TILE_ROWS : 8;
    const uint32_t all = STACK * apart + CUDA_TILE_ROWS, panels = 1 + rng_below(9),
                   rows = panels * KERN_ROWS - rng_below(3);
    struct products p = random_products(t, STACK * panels * KERN_ROWS, k, S_TAME, 1);
    struct kern_acts x;
    fill_acts(&x, t, all, k, S_TAME);
    assert_int_equal(cuda_tile_kinds(&device, &p.kind, t), 0);
    if (x.f)
        p.a.f = dev_up(x.f, all * k * sizeof(float));
    else
        p.a.x = upload_acts(&x, false);
    poison(&p, all);
    struct cuda_group a = {.m = p.a, .apart = apart, .most = most};
    a.m.of[0].rows = rows;
    a.m.n = n;
    assert_int_equal(cuda_multiply_tiles(&device, &p.kind, &a, STACK * ((n + most - 1) / most), large), 0);
    const float *got = dev_down(p.a.of[0].out, all * p.ld * sizeof(float));
    for (uint32_t e = 0; e < STACK; e++) {
        const struct cuda_tile_rows tile = {e, e * apart, n};
        same_tile(&p, &x, &tile, rows, panels, got);
    }
    dev_reset();
}

void check_cuda_tiles(void **state)
{
    const enum kern_type t = (enum kern_type)(uintptr_t)*state;
    const size_t unit = kern_type_block(t), most = unit == 1 ? 300 : unit == KERN_BLOCK ? 12 : 4;
    rng_seed(1);
    for (unsigned i = 0; i < 12; i++)
        one_stack(t, 1 + rng_below(9), unit * (1 + rng_below((uint32_t)most)), (enum stuff)(i % 3),
                  i % 2 && kern_type_quantized(t));
    one_stack(t, 2, 8192, S_EXTREME, false); /* several chunks */
    for (unsigned i = 0; i < 8; i++)
        equal_tiles(t, 1 + rng_below(i % 2 ? 150 : 12), unit * (1 + rng_below((uint32_t)most)),
                    i % 2 && kern_type_quantized(t));
}

/* --- one token --- */

static float *random_row(size_t k)
{
    float *x = mem(k * sizeof(*x));
    for (size_t i = 0; i < k; i++) x[i] = rng_float();
    return x;
}

/* What the definition makes of a row. */
static struct kern_acts quantized(const float *x, size_t k)
{
    int8_t *q = mem(k);
    float *d = mem(k / KERN_BLOCK * 2 * sizeof(*d));
    int16_t *s = mem(k / KERN_BLOCK * 2 * sizeof(*s));
    ref->quantize(q, d, s, x, k, 1);
    return (struct kern_acts){.q = q, .d = d, .s = s, .n = 1, .k = k};
}

/* The input is the norm of a row to which another one is joined, as @bits say. */
static void one_normed(struct products *p, unsigned bits)
{
    const size_t k = p->a.k, bytes = k * sizeof(float);
    const struct norm_case c = {
        .k = k, .h = bits & 1, .bias = bits & 2, .post = bits & 4, .norm = true, .out_scale = bits & 8, .residual = 1};
    float *x = random_row(k), *h = random_row(k), *out = mem(bytes);
    const float *bias = random_row(k), *post = random_row(k), *w = random_row(k), *scale = random_row(1);
    struct cuda_one a = {.norm = {.x = dev_up(x, bytes),
                                  .h = c.h ? dev_up(h, bytes) : NULL,
                                  .bias = c.bias ? dev_up(bias, bytes) : NULL,
                                  .post = c.post ? dev_up(post, bytes) : NULL,
                                  .out_scale = c.out_scale ? dev_up(scale, sizeof(*scale)) : NULL,
                                  .w = dev_up(w, bytes),
                                  .to = c.h ? dev_poisoned(bytes) : NULL,
                                  .eps = 1e-5f,
                                  .residual = 1,
                                  .k = (uint32_t)k}};
    check_norm_row(&c, x, h, bias, post, w, scale, out);
    const struct kern_acts acts = quantized(out, k);
    a.m = p->a;
    assert_int_equal(cuda_multiply_one(&device, &p->kind, &a), 0);
    same_products(p, &acts, "one, normed");
    if (c.h) same_floats(dev_down(a.norm.to, bytes), x, k, "joined row, k %zu", k);
}

/* The input is a row of f32. Some blocks, or all, have no largest value of usual exponent. */
static void one_row(struct products *p)
{
    static const float all[] = {1.0f, 0x1p-135f}, scales[] = {1.0f, 1.0f, 0.0f, 0x1p95f};
    const size_t k = p->a.k;
    const uint32_t tiny = rng_below(2);
    float *x = random_row(k);
    for (size_t b = 0; b < k; b += KERN_BLOCK) {
        const float scale = all[tiny] * scales[rng_below(tiny ? 3 : 4)];
        for (size_t i = b; i < b + KERN_BLOCK; i++) x[i] *= scale;
    }
    struct cuda_one a = {.m = p->a, .row = dev_up(x, k * sizeof(*x))};
    const struct kern_acts acts = quantized(x, k);
    assert_int_equal(cuda_multiply_one(&device, &p->kind, &a), 0);
    same_products(p, &acts, "one, quantized");
}

/* The activation follows two products of as many rows. */
static void one_activated(struct products *p, const struct kern_acts *x)
{
    const uint32_t rows = p->a.of[0].rows;
    float *up = mem(p->ld * sizeof(*up)), *gate = mem(p->ld * sizeof(*gate));
    const float *bias = random_row(rows);
    const bool biased = rng_below(2);
    struct cuda_one a = {.m = p->a, .gated = {.gate = dev_up(bias, rows * sizeof(*bias)), .k = rows}};
    a.gated.up_bias = biased ? a.gated.gate : NULL;
    a.gated.up = a.gated.gate; /* not NULL: there are two products */
    a.gated.f = dev_poisoned(rows * sizeof(float));
    a.m.x = upload_acts(x, false);
    a.m.of[1] = a.m.of[0];
    a.m.n_products = 2;
    ref->matmul[p->type](up, p->ld, p->panels[0], x, rows);
    memcpy(gate, up, rows * sizeof(*up));
    if (biased) ref->add(up, bias, rows);
    ref->silu_mul(gate, up, rows);
    assert_int_equal(cuda_multiply_one(&device, &p->kind, &a), 0);
    same_floats(dev_down(a.gated.f, rows * sizeof(float)), gate, rows, "one, activated: %s rows %u k %u",
                kern_type_name(p->type), rows, a.m.k);
}

/* The same of @p and as many matrices of a type that may be in the same kernel. */
static void two_types(struct products *p, enum stuff stuff)
{
    static const enum kern_type types[] = {KERN_Q4_K, KERN_Q5_K, KERN_Q6_K};
    const size_t k = p->a.k;
    struct products o = random_products(types[rng_below(3)], 1 + rng_below(400), k, stuff, p->a.n_products);
    const struct cuda_kind *kinds[] = {&p->kind, &o.kind};
    const float *x = random_row(k);
    struct cuda_two a = {.of[0].row = dev_up(x, k * sizeof(*x))};
    poison(p, 1), poison(&o, 1);
    o.a.n = 1;
    a.of[0].m = p->a, a.of[1].m = o.a, a.of[1].row = a.of[0].row;
    const struct kern_acts acts = quantized(x, k);
    assert_int_equal(cuda_multiply_two(&device, kinds, &a), 0);
    same_products(p, &acts, "the first of two types");
    same_products(&o, &acts, "the second of two types");
}

/* The kernel for one token, if it can compute the case. */
static void alone(enum kern_type t, unsigned rows, size_t k, enum stuff stuff, unsigned n_products)
{
    struct products p = random_products(t, rows, k, stuff, n_products);
    struct kern_acts x;
    fill_acts(&x, t, 1, k, stuff);
    if (cuda_one_fits(&p.kind, (uint32_t)k)) {
        struct cuda_one a;
        p.a.n = 1;
        poison(&p, 1);
        a = (struct cuda_one){.m = p.a};
        a.m.x = upload_acts(&x, false);
        assert_int_equal(cuda_multiply_one(&device, &p.kind, &a), 0);
        same_products(&p, &x, "one");
        poison(&p, 1);
        one_normed(&p, rng());
        poison(&p, 1);
        one_row(&p);
        one_activated(&p, &x);
        if (p.kind.two) two_types(&p, stuff);
    }
    dev_reset();
}

void check_cuda_one(void **state)
{
    const enum kern_type t = (enum kern_type)(uintptr_t)*state;
    const size_t unit = kern_type_block(t);
    rng_seed(1);
    if (!device.early) skip();
    for (unsigned i = 0; i < 16; i++)
        alone(t, 1 + rng_below(90), unit * (1 + rng_below(unit == KERN_BLOCK ? 140 : 18)), (enum stuff)(i % 3),
              1 + i % 4);
    alone(t, 4000, unit * (256 / unit), S_TAME, 2); /* several panels for a CTA */
    alone(t, 2200, 8192, S_TAME, 1);                /* more pieces than there is room for */
    alone(t, 40, 12288, S_EXTREME, 2);
}
