/* SPDX-License-Identifier: MIT */
/* The choice of a backend by name, and batches that run through a backend which is not the CPU's. */
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include "tests/backend/counting.h"
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

static struct backend *made(const char *name)
{
    const struct backend_config c = {
        .backend = name, .threads = 1, .ctx = 256, .kv_type = KERN_KV_F16, .kv_bytes = 1 << 20, .batch_tokens = 64};
    struct backend *b = NULL;
    int r = backend_new(&b, g, &c);
    if (r) fail_msg("%s", error_text(r));
    return b;
}

static void test_by_name(void **state)
{
    const struct backend_type *type;
    assert_int_equal(backend_find(&type, NULL), 0);
    assert_string_equal(type->name, "counting");
    assert_int_equal(backend_find(&type, "cpu"), 0);
    assert_string_equal(type->name, "cpu");
    const uint64_t before = counting.made;
    backend_free(made("cpu"));
    assert_int_equal(counting.made, before);
    backend_free(made("counting"));
    backend_free(made(NULL));
    assert_int_equal(counting.made, before + 2);
}

static void refused(const char *name, const char *why)
{
    const struct backend_config c = {.backend = name, .ctx = 256, .kv_bytes = 1 << 20, .batch_tokens = 64};
    struct hparams h;
    struct backend *b = NULL;
    size_t bytes = 0;
    assert_int_equal(hparams_read(&h, g), 0);
    assert_int_equal(backend_new(&b, g, &c), -EINVAL);
    assert_string_equal(error_text(-EINVAL), why);
    assert_null(b);
    assert_int_equal(backend_check(name, g, &h, &bytes), -EINVAL);
    assert_string_equal(error_text(-EINVAL), why);
    assert_int_equal(backend_is_packed(name, g, "/"), -EINVAL);
}

static void test_unknown_names(void **state)
{
    refused("vulkan", "backend 'vulkan' is unknown; known: counting, cpu");
    refused("", "backend '' is unknown; known: counting, cpu");
    refused("CPU", "backend 'CPU' is unknown; known: counting, cpu");
}

/* DEVICE_AUTO takes the first backend behind the first that makes the model, here the CPU's. */
static void test_devices(void **state)
{
    struct backend_config c = {
        .device = {.kind = DEVICE_AUTO}, .threads = 1, .ctx = 256, .kv_bytes = 1 << 20, .batch_tokens = 64};
    struct backend *b = NULL;
    const uint64_t before = counting.made;
    assert_int_equal(backend_new(&b, g, &c), 0);
    assert_int_equal(counting.made, before);
    backend_free(b);
    c.kv_bytes = 1; /* not an error that another backend would not have */
    assert_int_equal(backend_new(&b, g, &c), -EINVAL);
    c.kv_bytes = 1 << 20;
    c.device.kind = DEVICE_CUDA;
    assert_int_equal(backend_new(&b, g, &c), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "device 'cuda': this program is built without CUDA");
    assert_int_equal(backend_probe(&c.device, true), -ENODEV);
    assert_string_equal(error_text(-ENODEV), "device 'cuda': this program is built without CUDA");
    c.device.kind = DEVICE_AUTO; /* the CPU, here */
    assert_int_equal(backend_probe(&c.device, true), 0);
    c.device.kind = DEVICE_CPU;
    assert_int_equal(backend_probe(&c.device, true), 0);
    c.device.kind = DEVICE_CUDA;
    c.backend = "counting"; /* a name overrides the device */
    assert_int_equal(backend_new(&b, g, &c), 0);
    assert_int_equal(counting.made, before + 1);
    backend_free(b);
}

static void test_check(void **state)
{
    struct hparams h;
    size_t bytes[2] = {0};
    assert_int_equal(hparams_read(&h, g), 0);
    assert_int_equal(backend_check("counting", g, &h, &bytes[0]), 0);
    assert_int_equal(backend_check("cpu", g, &h, &bytes[1]), 0);
    assert_true(bytes[0] > 50000 && bytes[0] == bytes[1]);
}

/* Both backends give the same bits and have the same identity; only one counts. */
static void test_batches(void **state)
{
    struct backend *b[] = {made("cpu"), made("counting")};
    struct backend_seq s[2];
    const struct counts before = counting;
    for (int i = 0; i < 2; i++) {
        backend_seq_init(&s[i], b[i], 100, 7, 0);
        backend_seq_run(b[i], &s[i], 40);
    }
    backend_seq_same_logits(&s[0], &s[1]);
    assert_int_equal(counting.forwards - before.forwards, 3);
    assert_int_equal(counting.tokens - before.tokens, 100);
    assert_int_equal(counting.rows - before.rows, 100);
    float max[2], lse[2];
    for (int i = 0; i < 2; i++) backend_logsumexp(b[i], s[i].logits, &max[i], &lse[i]);
    assert_memory_equal(&max[0], &max[1], sizeof(*max));
    assert_memory_equal(&lse[0], &lse[1], sizeof(*lse));
    assert_int_equal(counting.logsumexps - before.logsumexps, 1);
    for (int i = 0; i < 2; i++) {
        backend_seq_fini(&s[i]);
        backend_free(b[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_name), cmocka_unit_test(test_unknown_names), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_check),   cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
