/* SPDX-License-Identifier: MIT */
/*
 * Every kernel of the CUDA backend against the definition (kernels/ref), bit for bit: all types, random shapes, every
 * tail, worst-case values, poisoned outputs and unseen keys that are NaN. Skips without a device.
 * usage: check-cuda [NAME]   only the tests whose names match, with * and ?
 */
#include "tests/backend/cuda/check-cuda.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TESTS 160
#define MAX_DEV   256

struct cuda_device device;
const struct kernels *ref;

static void *memories[MAX_DEV];
static size_t n_memories;

static void must(int r)
{
    if (r) fail_msg("%s", error_text(r));
}

void *dev_poisoned(size_t bytes)
{
    void *p = NULL, *poison = malloc(bytes + 1);
    assert_true(poison && n_memories < MAX_DEV);
    memset(poison, POISON, bytes + 1);
    must(cuda_alloc(&device, &p, bytes, "a check"));
    must(cuda_upload(&device, p, poison, bytes));
    must(cuda_wait(&device));
    free(poison);
    return memories[n_memories++] = p;
}

void *dev_up(const void *from, size_t bytes)
{
    void *p = dev_poisoned(bytes);
    must(cuda_upload(&device, p, from, bytes));
    must(cuda_wait(&device));
    return p;
}

void *dev_down(const void *p, size_t bytes)
{
    void *to = mem(bytes);
    must(cuda_wait(&device));
    must(cuda_download(&device, to, p, bytes));
    must(cuda_wait(&device));
    return to;
}

void dev_reset(void)
{
    while (n_memories) cuda_free(&device, memories[--n_memories]);
    mem_reset();
}

void dev_run(const char *name, struct cuda_grid grid, const void *args)
{
    CUfunction f = NULL;
    must(cuda_kernel(&device, &f, name, grid.shared));
    must(cuda_launch(&device, f, grid, args));
    must(cuda_wait(&device));
}

struct cuda_acts dev_acts(size_t n, size_t k)
{
    const size_t ld = (n + 127) / 128 * 128, nb = k / KERN_BLOCK;
    return (struct cuda_acts){.q = dev_poisoned(ld * k * sizeof(uint16_t)),
                              .d = dev_poisoned(nb * ld * 2 * sizeof(float)),
                              .s = dev_poisoned(nb * ld * 2 * sizeof(int16_t)),
                              .ld = (uint32_t)ld,
                              .wide = rng_below(2)};
}

struct act_place act_place(const struct cuda_acts *a, size_t k, size_t row, size_t column)
{
    const size_t b = column / KERN_BLOCK, r = row % CUDA_WIDE_TILE;
    const size_t block = row / CUDA_WIDE_TILE * (k / KERN_BLOCK) + b,
                 chunk = 4 * block + column % 32 / 16 * 2 + column % 2;
    const size_t in = r / 16 * 16 + r % 8 / 2 * 4 + r / 8 % 2 * 2 + r % 2;
    if (!a->wide) {
        const size_t at = (b * a->ld + row) * 2;
        return (struct act_place){row * k + column, at, at + 1, at};
    }
    return (struct act_place){.code = (chunk * CUDA_WIDE_TILE + r) * 8 + column % 16 / 2,
                              .d = block * 2 * CUDA_WIDE_TILE + in,
                              .sum = (block * 2 + 1) * CUDA_WIDE_TILE + in,
                              .s = (block * CUDA_WIDE_TILE + in) * 2};
}

void same_acts(const struct cuda_acts *got, const float *x, size_t n, size_t k, const char *what)
{
    const size_t nb = k / KERN_BLOCK, ld = got->ld;
    const void *q = dev_down(got->q, ld * k * (got->wide ? sizeof(uint16_t) : 1));
    const float *d = dev_down(got->d, nb * ld * 2 * sizeof(*d));
    const int16_t *s = dev_down(got->s, nb * ld * 2 * sizeof(*s));
    int8_t *want = mem(k);
    float *scale = mem(nb * 2 * sizeof(*scale));
    int16_t *sum = mem(nb * 2 * sizeof(*sum));
    for (size_t t = 0; t < n; t++) {
        ref->quantize(want, scale, sum, x + t * k, k, 1);
        for (size_t i = 0; i < k; i++) {
            const size_t at = act_place(got, k, t, i).code;
            const int code = got->wide ? (int)kern_f16_to_f32(((const uint16_t *)q)[at]) : ((const int8_t *)q)[at];
            if (code != want[i]) fail_msg("%s: code %zu of row %zu of %zu is %d, not %d", what, i, t, n, code, want[i]);
        }
        for (size_t b = 0; b < nb; b++) {
            const struct act_place p = act_place(got, k, t, b * KERN_BLOCK);
            same_floats(&d[p.d], &scale[b * 2], 1, "%s: scale %zu of row %zu", what, b, t);
            same_floats(&d[p.sum], &scale[b * 2 + 1], 1, "%s: scaled sum %zu of row %zu", what, b, t);
            same_bytes(&s[p.s], &sum[b * 2], 4, "%s: sums %zu of row %zu", what, b, t);
        }
    }
}

static struct CMUnitTest tests[MAX_TESTS];
static char names[MAX_TESTS][64];
static size_t n_tests;

static void add(CMUnitTestFunction fn, const char *name, const char *type, uintptr_t state)
{
    assert_true(n_tests < MAX_TESTS);
    snprintf(names[n_tests], sizeof(names[0]), "%s %s", name, type);
    tests[n_tests] = (struct CMUnitTest){names[n_tests], fn, NULL, NULL, (void *)state};
    n_tests++;
}

int main(int argc, char **argv)
{
    int r = cuda_device_open(&device, 0);
    if (r) {
        printf("1..0 # SKIP %s\n", error_text(r));
        return 77;
    }
    printf("# %s\n", device.name);
    ref = kernels_nth(0);
    add(check_cuda_norm, "norm", "", 0);
    add(check_cuda_gated, "gated", "", 0);
    add(check_cuda_norm_any, "norm of any kind", "", 0);
    add(check_cuda_gates, "gates", "", 0);
    add(check_cuda_layers, "embeddings of layers", "", 0);
    add(check_cuda_altup, "altup", "", 0);
    add(check_cuda_route, "choices of experts", "", 0);
    add(check_cuda_sort, "order of experts", "", 0);
    add(check_cuda_rows, "rows of experts", "", 0);
    add(check_cuda_conv, "convolutions", "", 0);
    add(check_cuda_scans, "scans", "", 0);
    add(check_cuda_state_out, "outputs of recurrent layers", "", 0);
    add(check_cuda_latent_join, "latent values", "", 0);
    add(check_cuda_lora, "adapters", "", 0);
    add(check_cuda_logits, "logits", "", 0);
    add(check_cuda_largest, "largest", "", 0);
    for (uintptr_t t = 0; t < KERN_KV_TYPES; t++) {
        add(check_cuda_heads, "heads", kern_kv_name((enum kern_kv)t), t);
        add(check_cuda_copy, "copy", kern_kv_name((enum kern_kv)t), t);
        add(check_cuda_attn, "attention", kern_kv_name((enum kern_kv)t), t);
        add(check_cuda_decode, "decode", kern_kv_name((enum kern_kv)t), t);
        add(check_cuda_latent_heads, "latent heads", kern_kv_name((enum kern_kv)t), t);
        add(check_cuda_attn_latent, "latent attention", kern_kv_name((enum kern_kv)t), t);
    }
    for (uintptr_t t = 0; t < KERN_TYPES; t++) add(check_cuda_matmul, "matmul", kern_type_name((enum kern_type)t), t);
    for (uintptr_t t = 0; t < KERN_TYPES; t++)
        add(check_cuda_tiles, "tiles of experts", kern_type_name((enum kern_type)t), t);
    for (uintptr_t t = 0; t < KERN_TYPES; t++)
        if (kern_type_quantized((enum kern_type)t))
            add(check_cuda_one, "one token", kern_type_name((enum kern_type)t), t);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    r = _cmocka_run_group_tests("check-cuda", tests, n_tests, NULL, NULL);
    cuda_device_close(&device);
    return r;
}
