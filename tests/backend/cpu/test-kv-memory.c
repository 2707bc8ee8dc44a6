/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/kv-memory.h"
#include "libcommon/error.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct hparams hparams = {.n_layers = 3, .kv_heads = 2, .head_dim = 10, .heads = 4};

/* 3 layers x 2 heads x K and V x 10 dimensions x 32 tokens x 2 bytes */
#define BLOCK (3 * 2 * 2 * 10 * 32 * 2)

static void test_sizes(void **state)
{
    struct kv_memory kv;
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F16, 5 * BLOCK + BLOCK - 1), 0);
    assert_int_equal(kv_memory_block_bytes(&kv), BLOCK);
    assert_true(kv.blocks == 5 && kv.size == 5 * BLOCK);
    kv_memory_fini(&kv);
    kv_memory_fini(&kv);
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F32, BLOCK), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "holds no block"));
}

/* Every (layer, block, head) has memory of its own, aligned, inside the pool. */
static void test_places(void **state)
{
    struct kv_memory kv;
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F32, 4 * 2 * BLOCK), 0);
    uint8_t *seen = calloc(kv.size, 1);
    assert_non_null(seen);
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t b = 0; b < 4; b++)
            for (uint32_t h = 0; h < 2; h++) {
                size_t at = (size_t)(kv_memory_k(&kv, l, b, h) - kv.mem);
                assert_int_equal(at % KERN_ALIGN, 0);
                assert_true(at + 2 * kv.shapes[0].half <= kv.size);
                for (size_t i = at; i < at + 2 * kv.shapes[0].half; i++) assert_int_equal(seen[i]++, 0);
            }
    assert_null(memchr(seen, 0, kv.size));
    free(seen);
    kv_memory_fini(&kv);
}

static void fill(struct kv_memory *kv, uint32_t block, uint8_t seed)
{
    uint8_t *bytes = malloc(BLOCK);
    assert_non_null(bytes);
    for (size_t i = 0; i < BLOCK; i++) bytes[i] = (uint8_t)(i * 31 + i / 256 + seed);
    kv_memory_write(kv, block, bytes);
    free(bytes);
}

/* A token's values after a copy: of the source below @tokens, untouched from there on. */
static void test_copy_by_token(void **state)
{
    static const uint32_t counts[] = {0, 1, 13, 31, 32};
    struct kv_memory kv;
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F16, 4 * BLOCK), 0);
    for (size_t c = 0; c < 5; c++) {
        fill(&kv, 0, 1), fill(&kv, 1, 99), fill(&kv, 2, 99), fill(&kv, 3, 7);
        kv_memory_copy(&kv, 1, 0, counts[c]);
        for (uint32_t l = 0; l < 3; l++)
            for (uint32_t h = 0; h < 2; h++) {
                const uint16_t *src = (void *)kv_memory_k(&kv, l, 0, h), *dst = (void *)kv_memory_k(&kv, l, 1, h);
                const uint16_t *old = (void *)kv_memory_k(&kv, l, 2, h);
                for (uint32_t t = 0; t < 32; t++)
                    for (uint32_t d = 0; d < 10; d++) {
                        const uint16_t *want = t < counts[c] ? src : old;
                        assert_int_equal(dst[d * 32 + t], want[d * 32 + t]);
                        assert_int_equal(dst[320 + t * 10 + d], want[320 + t * 10 + d]);
                    }
            }
    }
    kv_memory_fini(&kv);
}

/* The tokens of @seed from @begin to @end, in every layer and head. */
static void store(struct kv_memory *kv, enum kern_kv type, uint32_t block, uint32_t begin, uint32_t end, float seed)
{
    float k[70], v[70];
    for (uint32_t l = 0; l < kv->layers; l++)
        for (uint32_t h = 0; h < kv->shapes[0].kv_heads; h++)
            for (uint32_t t = begin; t < end; t++) {
                for (uint32_t d = 0; d < kv->shapes[0].head_dim; d++) {
                    k[d] = sinf(seed + (float)(((l * 3 + h) * 32 + t) * 70 + d));
                    v[d] = cosf(seed + (float)(((l * 3 + h) * 32 + t) * 70 + d));
                }
                uint8_t *at = kv_memory_k(kv, l, block, h);
                kernels_get(NULL)->kv_store[type](at, at + kv->shapes[0].half, t, k, v, kv->shapes[0].head_dim);
            }
}

/* For every type, a copy of n tokens equals storing them. */
static void test_copy_of_every_type(void **state)
{
    static const uint32_t counts[] = {0, 1, 17, 31, 32}, dims[] = {10, 32, 70};
    for (enum kern_kv type = 0; type < KERN_KV_TYPES; type++)
        for (size_t i = 0; i < 3; i++) {
            struct hparams y = hparams;
            struct kv_memory kv;
            y.head_dim = dims[i];
            for (size_t c = 0; c < 5; c++) {
                assert_int_equal(kv_memory_init(&kv, &y, 0, y.n_layers, type, 1 << 20), 0);
                store(&kv, type, 0, 0, 32, 1);
                store(&kv, type, 1, 0, 32, 2);
                kv_memory_copy(&kv, 1, 0, counts[c]);
                store(&kv, type, 2, 0, counts[c], 1);
                store(&kv, type, 2, counts[c], 32, 2);
                for (uint32_t l = 0; l < 3; l++)
                    assert_memory_equal(kv_memory_k(&kv, l, 1, 0), kv_memory_k(&kv, l, 2, 0),
                                        2 * 2 * kv.shapes[0].half);
                kv_memory_fini(&kv);
            }
        }
}

/* 32 dims and their scale: 34 bytes, where f16 takes 64. */
static void test_q8_takes_half(void **state)
{
    struct hparams y = hparams;
    struct kv_memory q8, f16;
    y.head_dim = 64;
    assert_int_equal(kv_memory_init(&q8, &y, 0, y.n_layers, KERN_KV_Q8, 1 << 20), 0);
    assert_int_equal(kv_memory_init(&f16, &y, 0, y.n_layers, KERN_KV_F16, 1 << 20), 0);
    assert_int_equal(kv_memory_block_bytes(&q8) * 64, kv_memory_block_bytes(&f16) * 34);
    kv_memory_fini(&q8);
    kv_memory_fini(&f16);
}

/* --- other threads --- */

struct traffic {
    struct kv_memory *kv;
    uint32_t block;
    const uint8_t *want; /* [BLOCK] */
    atomic_bool stop;
    int wrong;
};

static void *read_all_the_time(void *arg)
{
    struct traffic *t = arg;
    uint8_t *have = malloc(BLOCK);
    while (!atomic_load(&t->stop)) {
        kv_memory_read(t->kv, t->block, have);
        t->wrong += memcmp(have, t->want, BLOCK) != 0;
    }
    free(have);
    return NULL;
}

static void *write_all_the_time(void *arg)
{
    struct traffic *t = arg;
    while (!atomic_load(&t->stop)) kv_memory_write(t->kv, t->block, t->want);
    return NULL;
}

/* Blocks are read and written by threads of their own while their neighbours change (thread sanitizers see more). */
static void test_threads(void **state)
{
    struct kv_memory kv;
    uint8_t *bytes = malloc(BLOCK), *back = malloc(BLOCK);
    pthread_t threads[3];
    assert_true(bytes && back);
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F16, 5 * BLOCK), 0);
    fill(&kv, 1, 9);
    kv_memory_read(&kv, 1, bytes);
    struct traffic t[3] = {{&kv, 1, bytes, false, 0}, {&kv, 3, bytes, false, 0}, {&kv, 1, bytes, false, 0}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i == 1 ? write_all_the_time : read_all_the_time, &t[i]), 0);
    for (uint32_t i = 0; i < 300; i++) {
        store(&kv, KERN_KV_F16, i % 3 * 2, 0, 32, (float)i);
        kv_memory_copy(&kv, 4, 1, 32); /* which is being read */
    }
    for (int i = 0; i < 3; i++) atomic_store(&t[i].stop, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_true(!t[0].wrong && !t[2].wrong);
    kv_memory_read(&kv, 3, back);
    assert_memory_equal(bytes, back, BLOCK);
    kv_memory_read(&kv, 4, back);
    assert_memory_equal(bytes, back, BLOCK);
    free(bytes);
    free(back);
    kv_memory_fini(&kv);
}

static void test_read_gives_what_was_written(void **state)
{
    struct kv_memory kv;
    uint8_t *a = malloc(BLOCK), *b = malloc(BLOCK);
    assert_true(a && b);
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F16, 3 * BLOCK), 0);
    fill(&kv, 0, 3), fill(&kv, 1, 50), fill(&kv, 2, 200);
    kv_memory_read(&kv, 0, a);
    kv_memory_write(&kv, 2, a);
    kv_memory_read(&kv, 2, b);
    assert_memory_equal(a, b, BLOCK);
    assert_memory_equal(a + BLOCK / 3, kv_memory_k(&kv, 1, 0, 0), BLOCK / 3); /* layers in order */
    kv_memory_read(&kv, 1, b);
    assert_memory_not_equal(a, b, BLOCK);
    free(a);
    free(b);
    kv_memory_fini(&kv);
}

/* Released whole pages read as zero, and nothing beside them changes. */
static void test_release(void **state)
{
    static const struct hparams wide = {.n_layers = 3, .kv_heads = 2, .head_dim = 160, .heads = 2};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), layer = 2 * 2 * 160 * 32 * 2, blocks = 9;
    struct kv_memory kv;
    assert_int_equal(kv_memory_init(&kv, &wide, 0, wide.n_layers, KERN_KV_F16, blocks * 3 * layer), 0);
    assert_int_equal(kv.blocks, blocks);
    assert_true(layer % page == 0 || page > 4096);
    static const uint32_t runs[][2] = {{0, 1}, {2, 3}, {8, 1}, {4, 0}, {9, 0}, {0, 9}};
    for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
        uint32_t first = runs[i][0], n = runs[i][1];
        memset(kv.mem, 0x5a, kv.size);
        kv_memory_release(&kv, first, n);
        size_t zeros = 0;
        for (size_t at = 0; at < kv.size; at++) {
            size_t block = at / layer % blocks;
            assert_true(kv.mem[at] == 0x5a || (kv.mem[at] == 0 && block >= first && block < first + n));
            zeros += kv.mem[at] == 0;
        }
        if (page <= 4096) assert_int_equal(zeros, 3 * n * layer);
    }
    kv_memory_fini(&kv);
    /* Blocks smaller than a page: only whole pages inside are released. */
    assert_int_equal(kv_memory_init(&kv, &hparams, 0, hparams.n_layers, KERN_KV_F16, 50 * BLOCK), 0);
    memset(kv.mem, 0x5a, kv.size);
    kv_memory_release(&kv, 7, 1);
    assert_null(memchr(kv.mem, 0, kv.size));
    kv_memory_release(&kv, 7, 30);
    assert_non_null(memchr(kv.mem, 0, kv.size));
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t b = 0; b < 50; b++) {
            const uint8_t *from = kv_memory_k(&kv, l, b, 0);
            if (b < 7 || b >= 37) assert_null(memchr(from, 0, BLOCK / 3));
        }
    kv_memory_fini(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_copy_by_token),
        cmocka_unit_test(test_copy_of_every_type),
        cmocka_unit_test(test_q8_takes_half),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_read_gives_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
