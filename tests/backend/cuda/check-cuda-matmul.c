/* SPDX-License-Identifier: MIT */
/* Products of all types, with few tokens and with many. */
#include "tests/backend/cuda/check-cuda.h"
#include <string.h>

/* The activations in the order of the device. */
static struct cuda_acts upload_acts(const struct kern_acts *x)
{
    struct cuda_acts a = dev_acts(x->n, x->k);
    const size_t nb = x->k / KERN_BLOCK, ld = a.ld;
    int8_t *q = mem(ld * x->k);
    float *d = mem(nb * ld * 2 * sizeof(*d));
    int16_t *s = mem(nb * ld * 2 * sizeof(*s));
    for (size_t t = 0; t < x->n; t++)
        for (size_t b = 0; b < nb; b++) {
            const struct kern_act p = kern_act(x->n, t, nb);
            const size_t at = p.at + b * p.step;
            memcpy(q + t * x->k + b * KERN_BLOCK, x->q + at * KERN_BLOCK, KERN_BLOCK);
            memcpy(d + (b * ld + t) * 2, x->d + at * 2, 8);
            memcpy(s + (b * ld + t) * 2, x->s + at * 2, 4);
        }
    a.q = dev_up(q, ld * x->k);
    a.d = dev_up(d, nb * ld * 2 * sizeof(*d));
    a.s = dev_up(s, nb * ld * 2 * sizeof(*s));
    return a;
}

/* @n_products matrices of up to @rows rows. */
static void one(enum kern_type t, unsigned rows, size_t n, size_t k, enum stuff stuff, unsigned n_products)
{
    const size_t stride = k / kern_type_block(t) * kern_type_bytes(t), each = kern_panel_bytes(t, k);
    struct cuda_kind kind;
    struct cuda_matmul a = {.n_products = n_products, .n = (uint32_t)n, .k = (uint32_t)k};
    struct kern_acts x;
    float *want[CUDA_PRODUCTS];
    size_t ld = rows + rng_below(3);
    fill_acts(&x, t, n, k, stuff);
    if (x.f)
        a.f = dev_up(x.f, n * k * sizeof(float));
    else
        a.x = upload_acts(&x);
    for (unsigned i = 0; i < n_products; i++) {
        const unsigned own = i ? 1 + rng_below(rows) : rows, panels = (own + KERN_ROWS - 1) / KERN_ROWS;
        uint8_t *src = mem(stride * own), *panel = mem(panels * each);
        fill_source(t, src, k / kern_type_block(t) * own, stuff);
        for (unsigned p = 0, left = own; p < panels; p++, left -= KERN_ROWS)
            kern_panel_pack(t, panel + p * each, src + p * KERN_ROWS * stride, stride, left < 16 ? left : 16, k);
        want[i] = mem(n * ld * sizeof(float));
        ref->matmul[t](want[i], ld, panel, &x, own);
        a.of[i] = (struct cuda_matrix){
            .panels = dev_up(panel, panels * each), .rows = own, .ld = (uint32_t)ld, .panel_bytes = (uint32_t)each};
    }
    assert_int_equal(cuda_kind(&device, &kind, t), 0);
    for (enum cuda_which which = CUDA_BEST; which <= (kind.many ? CUDA_USE_MANY : CUDA_BEST); which++) {
        for (unsigned i = 0; i < n_products; i++) a.of[i].out = dev_poisoned(n * ld * sizeof(float));
        assert_int_equal(cuda_multiply(&device, &kind, &a, which), 0);
        for (unsigned i = 0; i < n_products; i++)
            same_floats(dev_down(a.of[i].out, n * ld * sizeof(float)), want[i], n * ld,
                        "%s kernel %d product %u rows %u n %zu k %zu stuff %d", kern_type_name(t), which, i,
                        a.of[i].rows, n, k, stuff);
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
    one(t, 40, 5, 8192, S_EXTREME, 1); /* several chunks */
    one(t, 20, 1, 12288, S_TAME, 1);
}
