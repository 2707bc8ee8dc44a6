/* SPDX-License-Identifier: MIT */
/* Keys that tell what an architecture's description has: refused where they contradict it, ignored where the model has
 * no use for them. And the hyperparameters of Llama 4, most of which no key tells. */
#include "daemon/model/hparams.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NUMBER 4     /* bytes between a key's name and its value: the type */
#define TEXT   4 + 8 /* and a text's length */

/* The tiny model @arch with @n bytes of @value, @behind the first @what. */
static int read_changed(struct hparams *s, const char *arch, const char *what, size_t behind, const void *value,
                        size_t n)
{
    struct buf file = BUF_INIT;
    struct gguf *g = NULL;
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    model_file_tiny_bytes(&file, &t);
    if (what) memcpy(file.data + model_file_find(&file, what) + strlen(what) + behind, value, n);
    assert_int_equal(model_file_open(&g, file.data, file.len), 0);
    int r = hparams_read(s, g);
    gguf_close(g);
    buf_fini(&file);
    return r;
}

static void refused(const char *arch, const char *what, size_t behind, const void *value, size_t n, int error,
                    const char *why)
{
    struct hparams s;
    int r = read_changed(&s, arch, what, behind, value, n);
    if (r != error) fail_msg("%s: %d, not %d with \"%s\"", arch, r, error, why);
    if (!strstr(error_text(r), why)) fail_msg("\"%s\" does not say \"%s\"", error_text(r), why);
}

static void number_refused(const char *arch, const char *what, uint32_t value, int error, const char *why)
{
    refused(arch, what, NUMBER, &value, sizeof(value), error, why);
}

static void test_llama4(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, "llama4", NULL, 0, NULL, 0), 0);
    assert_true(s.window == 8192 && s.temperature.floor == 8192 && s.temperature.scale == 0.1f);
    assert_true(s.temperature.first == 1 && s.temperature.unrotated && s.unit_norm && s.experts.scaled_input);
    for (uint32_t l = 0; l < 5; l++) {
        assert_int_equal(hparams_window(&s, l), l == 3 ? 0 : 8192);
        assert_int_equal(hparams_rotates(&s, l), l != 3);
    }
    assert_true(!hparams_warms(&s, 3, 8190) && hparams_warms(&s, 3, 8191) && !hparams_warms(&s, 2, 8191));
    assert_int_equal(hparams_first(&s, 0, 8191), 0);
    assert_int_equal(hparams_first(&s, 0, 8192), 8192);
    assert_int_equal(read_changed(&s, "llama4-near", NULL, 0, NULL, 0), 0);
    assert_true(s.window == 70 && s.temperature.floor == 70 && hparams_ropes(&s) == 1);
    assert_int_equal(
        read_changed(&s, "llama4-near", "llama4.attention.sliding_window", NUMBER, &(uint32_t){96}, sizeof(uint32_t)),
        0);
    assert_true(s.window == 96 && s.temperature.floor == 70); /* which is no multiple of the chunk */
    assert_int_equal(read_changed(&s, "llama4-every", NULL, 0, NULL, 0), 0);
    assert_true(!s.unit_norm && hparams_mixes(&s, 1) && !hparams_mixes(&s, 2));
    assert_int_equal(read_changed(&s, "llama4-ropes", NULL, 0, NULL, 0), 0);
    assert_true(hparams_ropes(&s) == 2 && s.rope.base == 500000 && s.window_rope.base == 20000);
}

static void test_windows(void **state)
{
    static const char *const must[] = {"afmoe", "cohere2", "exaone-moe", "gpt-oss"};
    for (size_t i = 0; i < sizeof(must) / sizeof(*must); i++) {
        char key[64], why[128];
        snprintf(key, sizeof(key), "%s.attention.sliding_window", must[i]);
        snprintf(why, sizeof(why), "key '%s' is 0, not a number from 1 to 2147483647", key);
        number_refused(must[i], key, 0, -EINVAL, why);
    }
    number_refused("smallthinker-near", "smallthinker.attention.sliding_window_pattern", 3, -EOPNOTSUPP,
                   "key 'smallthinker.attention.sliding_window_pattern' gives layer 3 no window; only a period of 4 is "
                   "supported in a 'smallthinker' model");
    number_refused("smallthinker-near", "smallthinker.attention.sliding_window_pattern", 0, -EOPNOTSUPP,
                   "gives layer 0 a window");
}

static void test_experts(void **state)
{
    number_refused("bailingmoe", "bailingmoe.expert_gating_func", 2, -EOPNOTSUPP,
                   "key 'bailingmoe.expert_gating_func' is 2; only softmax (1) is supported in a 'bailingmoe' model");
    refused("minimax-m2", "minimax-m2.expert_weights_norm", NUMBER, "", 1, -EOPNOTSUPP,
            "key 'minimax-m2.expert_weights_norm' is false, which is not supported in a 'minimax-m2' model");
}

static void test_activation(void **state)
{
    refused("smallthinker-near", "smallthinker.hidden_activation", TEXT, "silu", 4, -EOPNOTSUPP,
            "key 'smallthinker.hidden_activation' is 'silu'; only 'relu' is supported in a 'smallthinker' model");
}

/* A key with a number takes the name of the one that tells these layers. */
static void test_layers_that_predict(void **state)
{
    static const char heads[] = "nemotron_h_moe.attention.head_count", nextn[] = "nemotron_h_moe.nextn_predict_layers";
    refused("nemotron_h_moe", heads, 1 - sizeof(heads), nextn, sizeof(nextn) - 1, -EOPNOTSUPP,
            "key 'nemotron_h_moe.nextn_predict_layers' is 4; layers that predict later tokens are not supported in a "
            "'nemotron_h_moe' model");
}

/* A model without rotation. */
static void test_rope_keys(void **state)
{
    struct hparams s;
    const float base = -1;
    const uint32_t pairs = 5;
    number_refused("llama", "llama.rope.dimension_count", pairs, -EINVAL, "an odd number of dimensions, 5");
    assert_int_equal(read_changed(&s, "gpt2", "gpt2.rope.dimension_count", NUMBER, &pairs, sizeof(pairs)), 0);
    assert_int_equal(read_changed(&s, "starcoder", "starcoder.rope.freq_base", NUMBER, &base, sizeof(base)), 0);
    assert_true(!s.rotates && s.rope_dim == s.head_dim && s.rope.base == 10000 && s.rope.scale == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama4),     cmocka_unit_test(test_windows),
        cmocka_unit_test(test_experts),    cmocka_unit_test(test_layers_that_predict),
        cmocka_unit_test(test_activation), cmocka_unit_test(test_rope_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
