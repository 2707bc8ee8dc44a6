/* SPDX-License-Identifier: MIT */
/* The CPU backend's configuration, valid and refused. */
#include "daemon/model/backend.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gguf *g;

static int setup(void **state)
{
    g = model_file_tiny(NULL);
    return 0;
}

static int teardown(void **state)
{
    g = gguf_close(g);
    return 0;
}

static struct backend_config usual(void)
{
    return (struct backend_config){
        .threads = 1, .ctx = 256, .kv_type = KERN_KV_F16, .kv_bytes = 1 << 20, .batch_tokens = 64};
}

static void test_tells_what_it_has(void **state)
{
    struct backend_config c = usual();
    struct backend *b = NULL;
    c.kv_bytes += 1000;
    assert_int_equal(backend_new(&b, g, &c), 0);
    /* 2 layers x 2 KV heads x K and V x 16 dimensions x 2 bytes */
    assert_int_equal(b->hparams.groups[0].bytes_per_token, 256);
    assert_int_equal(b->kv_blocks[0], (1 << 20) / (256 * KV_BLOCK));
    assert_int_equal(b->config.kv_bytes, 1 << 20);
    assert_true(b->config.ctx == 256 && b->config.threads == 1 && b->weight_bytes > 50000);
    assert_string_equal(b->isa, kernels_get(NULL)->name);
    assert_null(backend_free(b));
    assert_null(backend_free(NULL));
}

static void test_fills_in(void **state)
{
    struct backend_config c = usual();
    struct backend *b = NULL;
    c.ctx = 100000; /* the model has 512 */
    c.threads = 0;
    c.kv_type = KERN_KV_F32;
    assert_int_equal(backend_new(&b, g, &c), 0);
    assert_int_equal(b->config.ctx, 512);
    assert_true(b->config.threads >= 1);
    assert_int_equal(b->hparams.groups[0].bytes_per_token, 512);
    backend_free(b);
}

static void refused(const struct backend_config *c, int error, const char *why)
{
    struct backend *b = NULL;
    int r = backend_new(&b, g, c);
    if (r != error || !strstr(error_text(r), why)) fail_msg("%d \"%s\", not \"%s\"", r, error_text(r), why);
    assert_null(b);
}

static void test_refuses(void **state)
{
    struct backend_config c = usual();
    c.cpu = "pentium";
    refused(&c, -EINVAL, "HOB_CPU=pentium: not one of scalar, avx2, avx512, amx");
    c = usual();
    c.kv_bytes = 256 * KV_BLOCK - 1;
    refused(&c, -EINVAL, "a KV pool of 8191 bytes holds no block; one block of 32 tokens takes 8192 bytes");
    c = usual();
    c.threads = 100000;
    refused(&c, -EINVAL, "100000 compute threads");
    c = usual();
    c.kv_type = KERN_KV_TYPES;
    refused(&c, -EOPNOTSUPP, "KV type");
}

static void test_default_tokens(void **state)
{
    struct backend_config c = usual();
    struct backend *b = NULL;
    c.batch_tokens = 0;
    assert_int_equal(backend_new(&b, g, &c), 0);
    assert_int_equal(b->config.batch_tokens, BACKEND_TOKENS);
    backend_free(b);
}

static void test_too_much_memory(void **state)
{
    struct backend_config c = usual();
    c.kv_bytes = 1ull << 60;
    refused(&c, -ENOMEM, "bytes) for the KV pool, ");
    c = usual();
    c.batch_tokens = UINT32_MAX;
    c.ctx = 512;
    refused(&c, -ENOMEM, "bytes) for batches of 4294967295 tokens, ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tells_what_it_has), cmocka_unit_test(test_fills_in),
        cmocka_unit_test(test_refuses),           cmocka_unit_test(test_default_tokens),
        cmocka_unit_test(test_too_much_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
