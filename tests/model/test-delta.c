/* SPDX-License-Identifier: MIT */
/* The keys of models with a gated delta rule: sizes and layers of a good file, and files whose keys are missing,
 * impossible or contradict each other. */
#include "daemon/model/hparams.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include "tests/support/tiny.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void file_of(struct buf *out, const char *arch)
{
    struct tiny t;
    *out = (struct buf)BUF_INIT;
    tiny_init(&t);
    t.type = 0;
    t.arch = arch;
    model_file_tiny_bytes(out, &t);
}

static int read_file(struct hparams *s, struct buf *file)
{
    struct gguf *g;
    assert_int_equal(model_file_open(&g, file->data, file->len), 0);
    int r = hparams_read(s, g);
    gguf_close(g);
    buf_fini(file);
    return r;
}

/* The value of a key behind its name and type. */
static void *value(struct buf *file, const char *key)
{
    return file->data + model_file_find(file, key) + strlen(key) + 4;
}

static void test_sizes(void **state)
{
    struct buf file;
    struct hparams s;
    file_of(&file, "qwen35");
    assert_int_equal(read_file(&s, &file), 0);
    assert_true(s.recurrent.heads == 4 && s.recurrent.key_heads == 2 && s.recurrent.head_dim == 32);
    assert_true(s.recurrent.taps == 4 && s.recurrent.channels == 256 && s.recurrent.out == 128);
    assert_int_equal(s.recurrent.floats, 3 * 256 + 4 * 32 * 32);
    assert_true(s.recurrent.in[2] == 4 && s.recurrent.in[3] == 4);
    for (uint32_t l = 0; l < 5; l++)
        assert_int_equal(s.by_layer.parts[l], LAYER_FFN | (l == 3 ? LAYER_ATTENTION : LAYER_RECURRENT));
    for (uint32_t j = 0; j < 8; j++) assert_int_equal(hparams_axis(&s, j), j % 3);
    assert_true(hparams_state(&s) && hparams_state(&s)->n_layers == 4 && s.groups[0].n_layers == 1);
    file_of(&file, "qwen3next");
    assert_int_equal(read_file(&s, &file), 0);
    assert_true(s.recurrent.in[2] == 8 && s.recurrent.in[3] == 0 && !hparams_grids(&s));
}

static void test_intervals(void **state)
{
    struct buf file;
    struct hparams s;
    file_of(&file, "qwen35moe"); /* every third */
    memcpy(value(&file, "qwen35moe.full_attention_interval"), &(uint32_t){2}, 4);
    assert_int_equal(read_file(&s, &file), 0);
    for (uint32_t l = 0; l < 5; l++)
        assert_true((s.by_layer.parts[l] & LAYER_ATTENTION) == (l % 2 ? LAYER_ATTENTION : 0));
    file_of(&file, "qwen35moe");
    memcpy(value(&file, "qwen35moe.full_attention_interval"), &(uint32_t){1}, 4);
    assert_int_equal(read_file(&s, &file), 0);
    assert_true(!hparams_state(&s) && s.groups[0].n_layers == 5);
}

static void test_bad_values(void **state)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *why;
    } bad[] = {
        {"qwen35.ssm.conv_kernel", 0, "key 'qwen35.ssm.conv_kernel' is 0, not a number from 2 to 8"},
        {"qwen35.ssm.conv_kernel", 4000, "key 'qwen35.ssm.conv_kernel' is 4000, not a number from 2 to 8"},
        {"qwen35.ssm.state_size", 0, "key 'qwen35.ssm.state_size' is 0, not a number from 16 to 256"},
        {"qwen35.ssm.state_size", 1 << 20, "key 'qwen35.ssm.state_size' is 1048576, not a number from 16 to 256"},
        {"qwen35.ssm.state_size", 40, "key 'qwen35.ssm.state_size' is 40, which is no multiple of 16"},
        {"qwen35.ssm.state_size", 64, "key 'qwen35.ssm.inner_size' is 128, but 4 heads of 64 values are 256"},
        {"qwen35.ssm.group_count", 0, "key 'qwen35.ssm.group_count' is 0, not a number from 1 to 1024"},
        {"qwen35.ssm.group_count", 3,
         "key 'qwen35.ssm.time_step_rank' is 4, which is no multiple of 'ssm.group_count', 3"},
        {"qwen35.ssm.time_step_rank", 1 << 30, "key 'qwen35.ssm.time_step_rank' is 1073741824, not a number from 1 to"},
        {"qwen35.ssm.inner_size", 4096, "key 'qwen35.ssm.inner_size' is 4096, but 4 heads of 32 values are 128"},
        {"qwen35moe.full_attention_interval", 0,
         "key 'qwen35moe.full_attention_interval' is 0, not a number from 1 to"},
    };
    struct buf file;
    struct hparams s;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        file_of(&file, strstr(bad[i].key, "moe") ? "qwen35moe" : "qwen35");
        memcpy(value(&file, bad[i].key), &bad[i].value, 4);
        int r = read_file(&s, &file);
        if (r >= 0 || !strstr(error_text(r), bad[i].why)) fail_msg("\"%s\", not \"%s\"", error_text(r), bad[i].why);
    }
}

static void test_missing_keys(void **state)
{
    static const char *const keys[] = {"conv_kernel", "state_size", "group_count", "time_step_rank", "inner_size"};
    struct buf file;
    struct hparams s;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        char name[64], why[96];
        snprintf(name, sizeof(name), "qwen3next.ssm.%s", keys[i]);
        snprintf(why, sizeof(why), "key '%s' is missing", name);
        file_of(&file, "qwen3next");
        memcpy(file.data + model_file_find(&file, name) + strlen("qwen3next."), "SSM", 3);
        int r = read_file(&s, &file);
        if (r >= 0 || !strstr(error_text(r), why)) fail_msg("\"%s\", not \"%s\"", error_text(r), why);
    }
}

/* Sections that mixed pairs cannot have. */
static void test_mixed_sections(void **state)
{
    static const char key[] = "qwen35.rope.dimension_sections";
    static const int32_t bad[][4] = {{2, 3, 3, 0}, {4, 2, 2, 0}, {3, 3, 3, 0}, {3, 3, 2, 1}};
    struct buf file;
    struct hparams s;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        file_of(&file, "qwen35");
        memcpy((uint8_t *)value(&file, key) + 4 + 8, bad[i], sizeof(bad[i]));
        assert_int_equal(read_file(&s, &file), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "does not divide the 8 pairs of RoPE into 3 sections"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),        cmocka_unit_test(test_intervals),      cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_missing_keys), cmocka_unit_test(test_mixed_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
