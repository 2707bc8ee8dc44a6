/* SPDX-License-Identifier: MIT */
/* Keys of what differs from layer to layer, in files of Gemma: read as they are, and refused where they are wrong. */
#include "daemon/model/hparams.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEAD  4      /* bytes between a key's name and its value: the type */
#define ARRAY 4 + 12 /* and an array's first element */

/* The tiny model @arch with @value, of 4 bytes, @behind the first @what. */
static int read_changed(struct hparams *s, const char *arch, const char *what, size_t behind, const void *value)
{
    struct buf file = BUF_INIT;
    struct gguf *g = NULL;
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    model_file_tiny_bytes(&file, &t);
    if (what) memcpy(file.data + model_file_find(&file, what) + strlen(what) + behind, value, 4);
    assert_int_equal(model_file_open(&g, file.data, file.len), 0);
    int r = hparams_read(s, g);
    gguf_close(g);
    buf_fini(&file);
    return r;
}

static void refused(const char *arch, const char *what, size_t behind, const void *value, int error, const char *why)
{
    struct hparams s;
    int r = read_changed(&s, arch, what, behind, value);
    if (r != error) fail_msg("%d, not %d with \"%s\"", r, error, why);
    if (!strstr(error_text(r), why)) fail_msg("\"%s\" does not say \"%s\"", error_text(r), why);
}

static void refused_f32(const char *what, size_t behind, float value, int error, const char *why)
{
    refused("gemma3n", what, behind, &value, error, why);
}

static void refused_u32(const char *what, size_t behind, uint32_t value, int error, const char *why)
{
    refused("gemma3n", what, behind, &value, error, why);
}

static void test_reads_gemma3n(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, "gemma3n", NULL, 0, NULL), 0);
    assert_true(s.altup.streams == 4 && s.altup.rank == 64 && s.per_layer == 256 && s.by_layer.shared_kv == 5);
    assert_true(s.ffn == 96 && hparams_ffn(&s, 24) == 96 && s.scale.attention == 1 && s.cap.logits == 30);
    for (uint32_t l = 0; l < 25; l++)
        assert_true(hparams_sparse(&s, l) == (l < 10) && hparams_own_kv(&s, l) == (l < 20));
    assert_true(s.altup.sparsity == 1.6448533535003662f);
}

static void test_widths(void **state)
{
    struct hparams s;
    const uint32_t wide = 128;
    assert_int_equal(read_changed(&s, "gemma3n", ".feed_forward_length", ARRAY + 4 * 7, &wide), 0);
    assert_true(s.ffn == 128 && hparams_ffn(&s, 6) == 96 && hparams_ffn(&s, 7) == 128);
    refused_u32(".feed_forward_length", ARRAY + 4 * 3, 0, -EINVAL,
                "key 'gemma3n.feed_forward_length' has 0 at index 3, not a number from 1 to 1048576");
    refused_u32(".feed_forward_length", ARRAY + 4 * 3, UINT32_MAX, -EINVAL, "has -1 at index 3");
    refused_u32(".feed_forward_length", HEAD, GGUF_F32, -EINVAL,
                "key 'gemma3n.feed_forward_length' is not an array of 25 numbers, one for each layer");
}

static void test_shared_kv(void **state)
{
    struct hparams s;
    const float none = 0;
    assert_int_equal(read_changed(&s, "gemma3n", ".shared_kv_layers", HEAD, &none), 0);
    assert_true(s.by_layer.shared_kv == 0 && s.groups[0].n_layers == 25);
    refused_f32(".shared_kv_layers", HEAD, 25, -EINVAL,
                "key 'gemma3n.attention.shared_kv_layers' is 25, not a number from 0 to 24");
    refused_f32(".shared_kv_layers", HEAD, 1.5f, -EINVAL, "is 1.5, not a number from 0 to 24");
    refused_f32(".shared_kv_layers", HEAD, -1, -EINVAL, "is -1, not a number");
    refused_f32(".shared_kv_layers", HEAD, NAN, -EINVAL, "nan, not a number");
    refused_f32(".shared_kv_layers", HEAD, 21, -EINVAL,
                "is 21: no layer before has K and V that layer 4, without a window, can use");
}

static void test_sparsity(void **state)
{
    struct hparams s;
    const float none = -INFINITY;
    assert_int_equal(read_changed(&s, "gemma3n", ".activation_sparsity_scale", ARRAY, &none), 0);
    assert_true(!hparams_sparse(&s, 0) && hparams_sparse(&s, 1));
    refused_f32(".activation_sparsity_scale", ARRAY + 4, 2, -EOPNOTSUPP,
                "key 'gemma3n.activation_sparsity_scale' has 2 at index 1; one number");
    refused_f32(".activation_sparsity_scale", ARRAY + 4, NAN, -EINVAL, "nan at index 1");
    refused_f32(".activation_sparsity_scale", ARRAY, 1e3f, -EOPNOTSUPP, "has 1000 at index 0");
}

static void test_altup(void **state)
{
    refused_u32(".altup.num_inputs", HEAD, 3, -EOPNOTSUPP, "key 'gemma3n.altup.num_inputs' is 3; only 4 is supported");
    refused_u32(".altup.active_idx", HEAD, 1, -EOPNOTSUPP, "key 'gemma3n.altup.active_idx' is 1; only 0 is supported");
    refused_u32(".embedding_length_per_layer_input", HEAD, 0, -EINVAL,
                "key 'gemma3n.embedding_length_per_layer_input' is 0, not a number from 1 to 16384");
    refused_u32("blk.0.laurel", 0, 0x6c6c6c6c, -EINVAL, "tensor 'blk.0.laurel_l.weight' is missing");
}

static void refused_gemma4(const char *what, size_t behind, uint32_t value, int error, const char *why)
{
    refused("gemma4-dense", what, behind, &value, error, why);
}

static void test_two_heads(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, "gemma4-dense", NULL, 0, NULL), 0);
    const struct hparams_heads window = hparams_heads(&s, 0), full = hparams_heads(&s, 6);
    assert_true(window.kv_heads == 4 && window.head_dim == 16 && window.rope_dim == 16);
    assert_true(full.kv_heads == 1 && full.head_dim == 32 && full.rope_dim == 32);
    assert_true(hparams_ropes(&s) == 2 && hparams_rotated(&s, 0) == 32 && hparams_rotated(&s, 1) == 16);
    refused_gemma4(".head_count_kv", ARRAY + 4, 2, -EOPNOTSUPP,
                   "key 'gemma4.attention.head_count_kv' has 4 and 2 for layers with a window; other numbers");
    refused_gemma4(".head_count_kv", ARRAY + 4, 3, -EINVAL, "has 3 at index 1, which does not divide 4 heads");
    refused_gemma4(".head_count_kv", ARRAY + 4 * 6, 0, -EINVAL, "has 0 at index 6, which does not divide 4 heads");
    refused_gemma4(".attention.key_length_swa", HEAD, 2000, -EINVAL,
                   "key 'gemma4.attention.key_length_swa' is 2000, not a number from 1 to 1024");
    refused_gemma4(".attention.value_length_swa", HEAD, 8, -EOPNOTSUPP,
                   "key 'gemma4.attention.value_length_swa' is 8; values must have the 16 dimensions of keys");
    refused_gemma4(".rope.dimension_count_swa", HEAD, 18, -EINVAL,
                   "key 'gemma4.rope.dimension_count_swa' is 18, not a number from 2 to 16");
    refused_gemma4(".rope.dimension_count_swa", HEAD, 7, -EINVAL, "is 7, an odd number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_gemma3n), cmocka_unit_test(test_widths), cmocka_unit_test(test_shared_kv),
        cmocka_unit_test(test_sparsity),      cmocka_unit_test(test_altup),  cmocka_unit_test(test_two_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
