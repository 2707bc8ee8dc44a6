/* SPDX-License-Identifier: MIT */
/* Loading a model and sizing its KV memory. */
#include "libcommon/cgroup.h"
#include "libcommon/error.h"
#include "tests/engine/harness.h"

static void test_kv_bytes(void **state)
{
    const uint64_t gib = 1ull << 30;
    /* a quarter of what there is */
    assert_int_equal(load_kv_bytes(8 * gib, 1 << 20, 16, 32768), 2 * gib);
    /* no more than can be used: 2 sequences of 2 blocks */
    assert_int_equal(load_kv_bytes(8 * gib, 1 << 20, 2, 33), 4 << 20);
    /* no less than a block */
    assert_int_equal(load_kv_bytes(0, 1 << 20, 16, 32768), 1 << 20);
    /* no overflow */
    assert_int_equal(load_kv_bytes(8 * gib, UINT64_MAX / 2, UINT32_MAX, UINT32_MAX), UINT64_MAX / 2);
}

static void test_memory_is_known(void **state)
{
    assert_true(cgroup_memory_available("") > 1 << 20);
}

static void test_limits(void **state)
{
    struct tiny t;
    struct engine_config c;
    struct loaded m;
    tiny_init(&t);
    engine_config_init(&c);
    c.ctx = 100000; /* the model's is 512 */
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_int_equal(m.ctx, 512);
    assert_true(m.n_eog >= 1);
    for (size_t i = 0; i < m.n_eog; i++) assert_true(tokenizer_is_eog(m.tokenizer, m.eog[i]));
    assert_int_equal(m.piece_max, strlen("<|endoftext|>"));
    loaded_fini(&m);
    c.ctx = 64;
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_int_equal(m.ctx, 64);
    loaded_fini(&m);
    c.ctx = 0;
    c.kv_bytes = 3 * 2 * 2 * 32 * 2 * 16 * 2; /* 3 blocks */
    assert_int_equal(harness_load(&m, &t, &c), 0);
    assert_int_equal(m.ctx, 96);
    loaded_fini(&m);
    c.kv_bytes = 1000;
    assert_int_equal(harness_load(&m, &t, &c), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "kv-bytes"));
    loaded_fini(&m); /* nothing is left; harmless */
}

static void test_unsupported(void **state)
{
    struct tiny t;
    struct engine_config c;
    struct loaded m;
    tiny_init(&t);
    engine_config_init(&c);
    t.arch = "mamba";
    assert_int_equal(harness_load(&m, &t, &c), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "mamba"));
    t.arch = NULL;
    t.tokenizer = "t5";
    assert_int_equal(harness_load(&m, &t, &c), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "t5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_bytes),
        cmocka_unit_test(test_memory_is_known),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
