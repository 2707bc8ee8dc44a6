/* SPDX-License-Identifier: MIT */
#include "daemon/model/kv_memory.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct shape shape = {.n_layers = 3, .kv_heads = 2, .head_dim = 10, .heads = 4};

/* 3 layers x 2 heads x K and V x 10 dimensions x 32 tokens x 2 bytes */
#define BLOCK (3 * 2 * 2 * 10 * 32 * 2)

static void test_sizes(void **state)
{
    struct kv_memory kv;
    assert_int_equal(kv_memory_init(&kv, &shape, KERN_KV_F16, 5 * BLOCK + BLOCK - 1), 0);
    assert_int_equal(kv_memory_block_bytes(&kv), BLOCK);
    assert_true(kv.blocks == 5 && kv.size == 5 * BLOCK);
    kv_memory_fini(&kv);
    kv_memory_fini(&kv);
    assert_int_equal(kv_memory_init(&kv, &shape, KERN_KV_F32, BLOCK), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "holds no block"));
}

/* Every (layer, block, head) has memory of its own, aligned, inside the pool. */
static void test_places(void **state)
{
    struct kv_memory kv;
    assert_int_equal(kv_memory_init(&kv, &shape, KERN_KV_F32, 4 * 2 * BLOCK), 0);
    uint8_t *seen = calloc(kv.size, 1);
    assert_non_null(seen);
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t b = 0; b < 4; b++)
            for (uint32_t h = 0; h < 2; h++) {
                size_t at = (size_t)(kv_memory_k(&kv, l, b, h) - kv.mem);
                assert_int_equal(at % KERN_ALIGN, 0);
                assert_true(at + 2 * kv.half <= kv.size);
                for (size_t i = at; i < at + 2 * kv.half; i++) assert_int_equal(seen[i]++, 0);
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
    assert_int_equal(kv_memory_init(&kv, &shape, KERN_KV_F16, 4 * BLOCK), 0);
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

static void test_read_gives_what_was_written(void **state)
{
    struct kv_memory kv;
    uint8_t *a = malloc(BLOCK), *b = malloc(BLOCK);
    assert_true(a && b);
    assert_int_equal(kv_memory_init(&kv, &shape, KERN_KV_F16, 3 * BLOCK), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_copy_by_token),
        cmocka_unit_test(test_read_gives_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
