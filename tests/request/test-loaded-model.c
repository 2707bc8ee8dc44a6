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

/* The memory of a model with recurrent layers is divided between KV and states. */
static void test_states(void **state)
{
    (void)state;
    const uint64_t block = 1000, one = 50000;
    /* a share, as long as it is more than each sequence needs */
    assert_int_equal(load_states(100 * one, block, one, 33, 4), 33);
    assert_int_equal(load_states(100 * one, block, one, 99, 4), 99);
    /* one for each of 16 sequences and two more, though the share is less */
    assert_int_equal(load_states(100 * one, block, one, 1, 16), 18);
    assert_int_equal(load_states(36 * one, block, one, 1, 16), 18);
    /* ... unless that is more than half of the memory */
    assert_int_equal(load_states(35 * one, block, one, 1, 16), 17);
    assert_int_equal(load_states(10 * one, block, one, 1, UINT32_MAX), 5);
    /* one in any case: a pool with room for a state and a block, and a state that is larger than all the rest */
    assert_int_equal(load_states(block + one, block, one, 1, 16), 1);
    assert_int_equal(load_states(1ull << 50, block, (1ull << 50) - block, 33, 16), 1);
    /* no more than are of use: states smaller than blocks */
    assert_int_equal(load_states(100 * block, block, 1, 99, 4), 100 + 4 + 8);
    /* without attention all is for states */
    assert_int_equal(load_states(100 * one, 0, one, 1, 4), 100);
    assert_int_equal(load_states(one, 0, one, 33, 4), 1);
    assert_int_equal(load_states(UINT64_MAX, 0, 1, 33, 4), UINT32_MAX);
    assert_int_equal(load_states(UINT64_MAX, 1, 1, 99, UINT32_MAX), UINT32_MAX);
}

/* With any sizes and shares, states and a block of KV have room together. */
static void test_states_leave_a_block(void **state)
{
    (void)state;
    harness_seed = 1;
    for (int i = 0; i < 20000; i++) {
        const uint64_t block = harness_draw(3) ? 1 + harness_draw(3000) : 0, one = 1 + harness_draw(5000);
        const uint64_t bytes = block + one + harness_draw(20000);
        const uint64_t n = load_states(bytes, block, one, 1 + harness_draw(99), 1 + harness_draw(20));
        assert_true(n >= 1 && n * one + block <= bytes);
    }
}

/* The bytes for states are the share of all that was asked for. */
static void test_state_room(void **state)
{
    (void)state;
    const uint64_t block = 1000, one = 50000, kv = 2 * 10 * block; /* 2 sequences of 10 blocks */
    assert_int_equal(load_state_room(block, one, 50, 2, 320), 10 * one + kv);
    assert_int_equal(load_state_room(block, one, 1, 2, 320), 10 * one + kv / 99);
    assert_int_equal(load_state_room(block, one, 99, 2, 320), 10 * one + kv * 99);
    assert_int_equal(load_state_room(0, one, 33, 2, 320), 10 * one);
    /* no overflow: in KV, in its share, in the states */
    assert_true(load_state_room(UINT64_MAX / 2, one, 33, 2, 320) == UINT64_MAX);
    assert_true(load_state_room(UINT64_MAX / 200, one, 99, 1, 320) == UINT64_MAX);
    assert_true(load_state_room(block, UINT64_MAX / 2, 1, 2, 320) == UINT64_MAX);
    assert_true(load_state_room(block, UINT64_MAX / 10, 99, 2, 320) == UINT64_MAX);
    assert_true(load_state_room(0, 1, 1, UINT32_MAX, UINT32_MAX) == (uint64_t)UINT32_MAX + 8);
}

/* A model with recurrent layers loads with any share in the least memory that is accepted. */
static void test_least_states(void **state)
{
    (void)state;
    const char *const archs[] = {"lfm2", "granitehybrid", "qwen35", "mamba2"};
    struct tiny t;
    struct engine_config c;
    struct loaded m;
    engine_config_init(&c);
    for (size_t i = 0; i < sizeof(archs) / sizeof(*archs); i++) {
        tiny_init(&t);
        t.arch = archs[i];
        c.kv_bytes = 4 << 20;
        assert_int_equal(harness_load(&m, &t, &c), 0);
        const struct hparams *s = &m.backend->hparams;
        const uint64_t least = load_block_bytes(s, c.kv_type) + hparams_state(s)->state_bytes;
        loaded_fini(&m);
        for (c.state_share = 1; c.state_share <= 90; c.state_share += 89)
            for (c.kv_bytes = least; c.kv_bytes < 2 * least; c.kv_bytes += least / 7) {
                assert_int_equal(harness_load(&m, &t, &c), 0);
                assert_true(m.backend->config.kv_bytes <= c.kv_bytes && m.ctx >= KV_BLOCK);
                loaded_fini(&m);
            }
        c.kv_bytes = least - 1;
        assert_int_equal(harness_load(&m, &t, &c), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "with the state of its recurrent layers"));
    }
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
    t.tokenizer = "hybriddna";
    assert_int_equal(harness_load(&m, &t, &c), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "hybriddna"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_bytes),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_states_leave_a_block),
        cmocka_unit_test(test_state_room),
        cmocka_unit_test(test_least_states),
        cmocka_unit_test(test_memory_is_known),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
