/* SPDX-License-Identifier: MIT */
/* Storing K and V of one token, and copying the first tokens of a block. */
#include "kernels/kv.h"
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

/* Put the f32 or f16 values of @x at element first + step * d. */
static void expect_values(enum kern_kv kv, uint8_t *block, size_t first, size_t step, const float *x, size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        uint16_t h = kern_f32_to_f16(x[d]);
        size_t at = first + step * d;
        if (kv == KERN_KV_F32)
            memcpy(block + at * 4, &x[d], 4);
        else
            memcpy(block + at * 2, &h, 2);
    }
}

/* The same for q8's codes, and the scale of group g at element scale + scale_step * g behind them. */
static void expect_q8(uint8_t *block, size_t first, size_t step, size_t scale, size_t scale_step, const float *x,
                      size_t dim)
{
    size_t codes = (32 * dim + 63) / 64 * 64;
    for (size_t g = 0; g * 32 < dim; g++) {
        size_t end = g * 32 + 32 < dim ? g * 32 + 32 : dim;
        float amax = 0;
        for (size_t d = g * 32; d < end; d++) amax = fmaxf(amax, fabsf(x[d]));
        uint16_t h = kern_f32_to_f16(fminf(amax / 127, 65504));
        memcpy(block + codes + (scale + scale_step * g) * 2, &h, 2);
        for (size_t d = g * 32; d < end; d++) {
            double q = h ? nearbyint((double)(x[d] / kern_f16_to_f32(h))) : 0;
            block[first + step * d] = (uint8_t)(int8_t)fmax(fmin(q, 127), -127);
        }
    }
}

static void one_store(struct check *c, size_t dim, enum taste taste, float size)
{
    enum kern_kv kv = (enum kern_kv)c->type;
    size_t bytes = kern_kv_bytes(kv, dim), groups = (dim + 31) / 32;
    uint8_t *want[2] = {mem(bytes), mem(bytes)}, *got[2] = {mem(bytes), mem(bytes)};
    float *k = mem(dim * 4), *v = mem(dim * 4);
    for (size_t i = 0; i < dim; i++) k[i] = rng_value(taste) * size, v[i] = rng_value(taste) * size;
    unsigned slot = rng_below(KV_BLOCK);
    if (kv == KERN_KV_Q8) {
        expect_q8(want[0], slot, 32, slot, 32, k, dim);
        expect_q8(want[1], slot * dim, 1, slot * groups, 1, v, dim);
    } else {
        expect_values(kv, want[0], slot, 32, k, dim);
        expect_values(kv, want[1], slot * dim, 1, v, dim);
    }
    c->table->kv_store[kv](got[0], got[1], slot, k, v, dim);
    same_bytes(got[0], want[0], bytes, "kv_store K dim %zu slot %u size %g", dim, slot, (double)size);
    same_bytes(got[1], want[1], bytes, "kv_store V dim %zu slot %u size %g", dim, slot, (double)size);
    mem_reset();
}

void check_kv_store(void **state)
{
    CHECK_BEGIN(state);
    for (size_t dim = 1; dim <= 256; dim++) {
        one_store(c, dim, WILD, 1);
        one_store(c, dim, TAME, 1);
        one_store(c, dim, TAME, 1e-4f); /* q8: the scale is a subnormal f16 */
        one_store(c, dim, TAME, 1e-7f); /* and the smallest, or 0 */
        one_store(c, dim, TAME, 0);
        one_store(c, dim, TAME, 2e6f);
        one_store(c, dim, TAME, 1e38f); /* q8: more than the largest scale can hold */
    }
}

/* Blocks of random bytes; each slot is compared by storing nothing: through the layout kv_store defines. */
static void one_copy(enum kern_kv kv, size_t dim, unsigned tokens)
{
    const struct kernels *ref = kernels_nth(0);
    size_t bytes = kern_kv_bytes(kv, dim);
    uint8_t *old = mem(2 * bytes), *src = mem(2 * bytes), *want = mem(2 * bytes), *got = mem(2 * bytes);
    float *x = mem(2 * dim * 4);
    for (size_t i = 0; i < 2 * bytes; i++) old[i] = (uint8_t)rng(), src[i] = (uint8_t)rng();
    memcpy(want, old, 2 * bytes);
    memcpy(got, old, 2 * bytes);
    for (unsigned slot = 0; slot < KV_BLOCK; slot++) {
        for (size_t i = 0; i < 2 * dim; i++) x[i] = rng_float();
        ref->kv_store[kv](src, src + bytes, slot, x, x + dim, dim);
        if (slot < tokens) ref->kv_store[kv](want, want + bytes, slot, x, x + dim, dim);
    }
    kern_kv_copy(kv, got, src, tokens, dim);
    same_bytes(got, want, 2 * bytes, "kv_copy %s dim %zu tokens %u", kern_kv_name(kv), dim, tokens);
    kern_kv_copy(kv, got, got, tokens, dim);
    same_bytes(got, want, 2 * bytes, "kv_copy onto itself");
    memcpy(got, old, 2 * bytes);
    kern_k_copy(kv, got, src, tokens, dim);
    same_bytes(got, want, bytes, "k_copy %s dim %zu tokens %u", kern_kv_name(kv), dim, tokens);
    same_bytes(got + bytes, old + bytes, bytes, "k_copy leaves V");
    mem_reset();
}

void check_kv_copy(void **state)
{
    struct check *c = *state;
    enum kern_kv kv = (enum kern_kv)c->type;
    rng_seed(1);
    for (size_t dim = 1; dim <= 130; dim++) one_copy(kv, dim, rng_below(KV_BLOCK + 1));
    for (unsigned tokens = 0; tokens <= KV_BLOCK; tokens++) one_copy(kv, 64, tokens);
    for (size_t dim = 1; dim <= 512; dim++) {
        size_t bytes = kern_kv_bytes(kv, dim), each = kv == KERN_KV_F32 ? 4 : 2;
        assert_int_equal(bytes % KERN_ALIGN, 0);
        if (kv != KERN_KV_Q8)
            assert_int_equal(bytes, 32 * dim * each);
        else if (dim % 32 == 0)
            assert_int_equal(bytes, dim * 34); /* 17/32 of f16 */
    }
}
