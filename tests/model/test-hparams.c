/* SPDX-License-Identifier: MIT */
#include "daemon/model/hparams.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A key, as it is in the file: an integer, a real, or a text. All three 0: left out. */
struct key {
    const char *name;
    double number;
    const char *text;
    bool real;
};

static const struct key normal[] = {
    {"general.architecture", 0, "llama", false},
    {"general.name", 0, "a name", false},
    {"llama.context_length", 2048, NULL, false},
    {"llama.embedding_length", 64, NULL, false},
    {"llama.block_count", 3, NULL, false},
    {"llama.feed_forward_length", 96, NULL, false},
    {"llama.attention.head_count", 8, NULL, false},
    {"llama.attention.head_count_kv", 2, NULL, false},
    {"llama.attention.layer_norm_rms_epsilon", 1e-5, NULL, true},
};
#define N_NORMAL (sizeof(normal) / sizeof(*normal))

static void put_key(struct buf *b, const struct key *k)
{
    if (k->text)
        put_key_str(b, k->name, k->text);
    else if (k->real)
        put_key_f32(b, k->name, (float)k->number);
    else
        put_key_u32(b, k->name, (uint32_t)k->number);
}

/* The normal model with up to two keys changed, added, or (no text, number 0) left out; 5 tokens, @rows embeddings. */
static int read_changed(struct hparams *s, const struct key *a, const struct key *b, uint64_t rows)
{
    struct buf file = BUF_INIT;
    struct gguf *g = NULL;
    const struct key *changes[] = {a, b};
    uint64_t n = 1, dims[] = {64, rows}; /* 1: the tokens */
    put_header(&file, 3, rows ? 1 : 0, 0);
    for (size_t i = 0; i < N_NORMAL + 2; i++) {
        const struct key *k = i < N_NORMAL ? &normal[i] : changes[i - N_NORMAL];
        bool replaced = false;
        for (size_t c = 0; c < 2 && i < N_NORMAL; c++) replaced |= changes[c] && !strcmp(changes[c]->name, k->name);
        if (!k || replaced || (!k->text && k->number == 0)) continue;
        put_key(&file, k);
        n++;
    }
    put_str(&file, "tokenizer.ggml.tokens");
    put_u32(&file, GGUF_ARRAY), put_u32(&file, GGUF_STRING), put_u64(&file, 5);
    for (int i = 0; i < 5; i++) put_str(&file, "t");
    if (rows) put_tensor(&file, "token_embd.weight", 0, 0, 2, dims);
    put_padding(&file, 32), put_zeros(&file, 64 * 4 * rows);
    memcpy(file.data + 16, &n, 8);
    int r = model_file_open(&g, file.data, file.len);
    if (r < 0) fail_msg("%s", error_text(r));
    r = hparams_read(s, g);
    if (r < 0) assert_non_null(strstr(error_text(r), gguf_path(g)));
    gguf_close(g);
    buf_fini(&file);
    return r;
}

static void refused(const struct key *a, const struct key *b, int error, const char *why)
{
    struct hparams s;
    int r = read_changed(&s, a, b, 5);
    if (r != error) fail_msg("%d, not %d with \"%s\"", r, error, why);
    if (!strstr(error_text(r), why)) fail_msg("\"%s\" does not say \"%s\"", error_text(r), why);
}

static void test_reads_a_llama(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, NULL, NULL, 5), 0);
    assert_string_equal(s.arch, "llama");
    assert_string_equal(s.name, "a name");
    assert_true(s.n_layers == 3 && s.dim == 64 && s.ffn == 96 && s.heads == 8 && s.kv_heads == 2 && s.head_dim == 8);
    assert_true(s.vocab == 5 && s.ctx == 2048 && s.rope_dim == 8 && s.rope.base == 10000 && s.rope.scale == 1);
    assert_true(s.tied && s.rms_eps == 1e-5f);
    assert_true(s.n_groups == 1 && s.groups[0].n_layers == 3 && s.groups[0].kind == KV_FULL && !s.groups[0].window);
}

static void test_optional_keys(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, &(struct key){"llama.attention.head_count_kv", 0, NULL, false}, NULL, 5), 0);
    assert_int_equal(s.kv_heads, 8);
    assert_int_equal(read_changed(&s, &(struct key){"llama.attention.key_length", 16, NULL, false},
                                  &(struct key){"llama.attention.value_length", 16, NULL, false}, 5),
                     0);
    assert_true(s.head_dim == 16 && s.rope_dim == 16);
    assert_int_equal(read_changed(&s, &(struct key){"llama.rope.dimension_count", 4, NULL, false},
                                  &(struct key){"llama.rope.freq_base", 5e5, NULL, true}, 5),
                     0);
    assert_true(s.head_dim == 8 && s.rope_dim == 4 && s.rope.base == 5e5f);
}

static void test_rope_scaling(void **state)
{
    struct key factor = {"llama.rope.scaling.factor", 4, NULL, true};
    struct hparams s;
    assert_int_equal(read_changed(&s, &factor, &(struct key){"llama.rope.scaling.type", 0, "linear", false}, 5), 0);
    assert_true(s.rope.scale == 0.25f);
    assert_int_equal(read_changed(&s, &factor, NULL, 5), 0);
    assert_true(s.rope.scale == 0.25f);
    assert_int_equal(read_changed(&s, &factor, &(struct key){"llama.rope.scaling.type", 0, "none", false}, 5), 0);
    assert_true(s.rope.scale == 1);
    assert_int_equal(read_changed(&s, &(struct key){"llama.rope.scale_linear", 2, NULL, true}, NULL, 5), 0);
    assert_true(s.rope.scale == 0.5f);
    refused(&factor, &(struct key){"llama.rope.scaling.type", 0, "ntk", false}, -EOPNOTSUPP,
            "RoPE scaling 'ntk' ('llama.rope.scaling.type') is not supported; supported: none, linear, yarn");
    refused(&(struct key){"llama.rope.scaling.factor", -2, NULL, true}, NULL, -EINVAL, "is -2, not above 0");
}

static void test_other_architectures(void **state)
{
    refused(&(struct key){"general.architecture", 0, "rwkv7", false}, NULL, -EOPNOTSUPP,
            "architecture 'rwkv7' is not supported; 'hobd inspect --supported' lists those that are");
    refused(&(struct key){"general.architecture", 0, "llam", false}, NULL, -EOPNOTSUPP,
            "architecture 'llam' is not supported");
    refused(&(struct key){"general.architecture", 0, "a\033b", false}, NULL, -EOPNOTSUPP,
            "architecture 'a?b' is not supported");
    refused(&(struct key){"general.architecture", 0, NULL, false}, NULL, -EINVAL, "'general.architecture' is missing");
}

/* Only the first part of a split model has an architecture. */
static void test_parts_of_a_split_model(void **state)
{
    struct key three = {"split.count", 3, NULL, false}, second = {"split.no", 1, NULL, false};
    struct hparams s;
    refused(&three, &second, -EOPNOTSUPP, "part 2 of 3 of a split model: name its first part, /");
    refused(&three, &(struct key){"general.architecture", 0, NULL, false}, -ENOENT, "part 2 of 3 is missing: /");
    assert_int_equal(read_changed(&s, &(struct key){"split.count", 1, NULL, false}, NULL, 5), 0);
    refused(&(struct key){"split.count", 0, "three", false}, NULL, -EINVAL, "key 'split.count' is of type string");
}

/* Names of other architectures in this model's keys: what they make of them. */
static void test_scales(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, NULL, NULL, 5), 0);
    assert_true(s.scale.embedding == 1 && s.scale.residual == 1 && s.scale.logits == 1);
    assert_true(s.scale.attention == (float)(1 / sqrt(8)) && s.cap.attention == 0 && s.cap.logits == 0);
    assert_true(s.rotates && !s.window && hparams_ropes(&s) == 1 && !s.desc->rope.neox);
    refused(&(struct key){"llama.logit_scale", 2, NULL, true}, NULL, -EOPNOTSUPP,
            "key 'llama.logit_scale' is 2, which is not supported in a 'llama' model");
    refused(&(struct key){"llama.attn_logit_softcapping", 50, NULL, true}, NULL, -EOPNOTSUPP,
            "key 'llama.attn_logit_softcapping' is 50");
    assert_int_equal(read_changed(&s, &(struct key){"llama.logit_scale", 1, NULL, true}, NULL, 5), 0);
}

static struct hparams hparams_of(const char *arch)
{
    struct tiny t;
    struct hparams s;
    tiny_init(&t);
    t.type = 0;
    t.arch = arch;
    struct gguf *g = model_file_tiny(&t);
    int r = hparams_read(&s, g);
    if (r) fail_msg("%s", error_text(r));
    gguf_close(g);
    return s;
}

static void test_experts(void **state)
{
    struct key eight = {"llama.expert_count", 8, NULL, false}, two = {"llama.expert_used_count", 2, NULL, false};
    struct hparams s;
    assert_int_equal(read_changed(&s, &eight, &two, 5), 0);
    assert_true(s.experts.n == 8 && s.experts.used == 2 && s.experts.ffn == 96 && !s.experts.shared_ffn &&
                !s.experts.of_all);
    assert_int_equal(read_changed(&s, &(struct key){"llama.expert_count", 0, NULL, false}, &two, 5), 0);
    assert_true(!s.experts.n && !s.experts.used);
    refused(&eight, NULL, -EINVAL, "key 'llama.expert_used_count' is missing");
    refused(&eight, &(struct key){"llama.expert_used_count", 9, NULL, false}, -EINVAL,
            "key 'llama.expert_used_count' is 9, not a number from 1 to 8");
    refused(&(struct key){"llama.expert_count", 4e9, NULL, false}, &two, -EINVAL,
            "key 'llama.expert_count' is 4000000000; the limit is 1024 experts");
    s = hparams_of("qwen2moe");
    assert_true(s.experts.n == 12 && s.experts.used == 4 && s.experts.ffn == 32 && s.experts.shared_ffn == 128);
    assert_true(s.experts.of_all && s.experts.scale == 1);
    assert_false(hparams_of("gpt-oss").experts.of_all);
}

static void test_windows(void **state)
{
    struct hparams s = hparams_of("gemma3"); /* 7 layers: every sixth sees everything */
    for (uint32_t l = 0; l < 7; l++) assert_int_equal(hparams_window(&s, l), l == 5 ? 0 : 70);
    assert_true(hparams_ropes(&s) == 2 && s.rope.base == 1e6f && s.rope.scale == 0.125f);
    assert_true(s.window_rope.base == 10000 && s.window_rope.scale == 1);
    assert_true(s.scale.embedding == 8 && s.scale.attention == (float)(1 / sqrt(24)) && s.cap.logits == 0);
    s = hparams_of("gemma2"); /* the first of two slides, all turn alike */
    for (uint32_t l = 0; l < 4; l++) assert_int_equal(hparams_window(&s, l), l % 2 ? 0 : 70);
    assert_true(hparams_ropes(&s) == 1 && s.cap.attention == 3 && s.cap.logits == 12);
    s = hparams_of("olmo3"); /* said of each layer */
    for (uint32_t l = 0; l < 5; l++) assert_int_equal(hparams_window(&s, l), l == 3 ? 0 : 70);
    assert_true(s.rope.kind == ROPE_YARN && s.window_rope.kind == ROPE_LINEAR && s.window_rope.magnitude == 1);
    s = hparams_of("phi3"); /* its window is not looked at */
    assert_true(!s.window && s.rope_dim == 12 && s.head_dim == 16 && s.rope.kind == ROPE_LONG);
}

static void test_other_numbers(void **state)
{
    struct hparams s = hparams_of("granite");
    assert_true(s.scale.embedding == 12 && s.scale.residual == 0.22f && s.scale.attention == 0.3f);
    assert_true(s.scale.logits == 1 / 1.5f);
    s = hparams_of("smollm3");
    for (uint32_t l = 0; l < 5; l++) assert_int_equal(hparams_rotates(&s, l), l != 3);
}

static void test_sections(void **state)
{
    static const char key[] = "qwen2vl.rope.dimension_sections";
    static const int32_t bad[][4] = {{2, 3, 2, 0}, {2, 3, 3, 1}, {8, 0, 0, 0}, {-1, 6, 3, 0}, {2, 3, 4, 0}};
    struct hparams s = hparams_of("qwen2vl");
    assert_true(s.sections[0] == 2 && s.sections[1] == 3 && s.sections[2] == 3 && hparams_grids(&s));
    for (uint32_t j = 0; j < 8; j++) assert_int_equal(hparams_axis(&s, j), j < 2 ? 0 : j < 5 ? 1 : 2);
    s = hparams_of("qwen2");
    assert_false(hparams_grids(&s));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct buf b = BUF_INIT;
        struct gguf *g;
        struct tiny t;
        tiny_init(&t);
        t.type = 0;
        t.arch = "qwen2vl";
        model_file_tiny_bytes(&b, &t);
        memcpy(b.data + model_file_find(&b, key) + strlen(key) + 4 + 4 + 8, bad[i], sizeof(bad[i]));
        assert_int_equal(model_file_open(&g, b.data, b.len), 0);
        assert_int_equal(hparams_read(&s, g), -EINVAL);
        assert_non_null(strstr(error_text(-EINVAL), "does not divide the 8 pairs of RoPE into 3 sections"));
        gguf_close(g);
        buf_fini(&b);
    }
}

/* The largest Gemma 2 scales q·k by the width's share of a head, which need not be whole. */
static void test_scale_by_width(void **state)
{
    static const char key[] = "gemma2.block_count";
    for (uint32_t layers = 45; layers <= 46; layers++) {
        struct buf b = BUF_INIT;
        struct gguf *g;
        struct hparams s;
        struct tiny t;
        tiny_init(&t);
        t.type = 0;
        t.arch = "gemma2";
        t.heads = 6;
        model_file_tiny_bytes(&b, &t);
        memcpy(b.data + model_file_find(&b, key) + strlen(key) + 4, &layers, sizeof(layers));
        assert_int_equal(model_file_open(&g, b.data, b.len), 0);
        assert_int_equal(hparams_read(&s, g), 0);
        assert_true(s.n_layers == layers && s.dim == 64);
        assert_true(s.scale.attention == (float)(1 / sqrt(layers == 46 ? 64 / 6. : s.head_dim)));
        gguf_close(g);
        buf_fini(&b);
    }
}

static void test_missing_keys(void **state)
{
    for (size_t i = 2; i < N_NORMAL; i++) {
        if (!strcmp(normal[i].name, "llama.attention.head_count_kv")) continue;
        char why[128];
        snprintf(why, sizeof(why), "key '%s' is missing", normal[i].name);
        refused(&(struct key){normal[i].name, 0, NULL, false}, NULL, -EINVAL, why);
    }
}

static void test_values_that_cannot_be(void **state)
{
    refused(&(struct key){"llama.attention.head_count_kv", 3, NULL, false}, NULL, -EINVAL,
            "8 attention heads cannot share 3 KV heads evenly");
    refused(&(struct key){"llama.attention.head_count", 6, NULL, false}, NULL, -EINVAL,
            "a width of 64 is no multiple of 6 attention heads");
    refused(&(struct key){"llama.block_count", 5000, NULL, false}, NULL, -EINVAL,
            "'llama.block_count' is 5000, not a number from 1");
    refused(&(struct key){"llama.embedding_length", 4e9, NULL, false}, NULL, -EINVAL,
            "'llama.embedding_length' is 4000000000");
    refused(&(struct key){"llama.embedding_length", 0, "wide", false}, NULL, -EINVAL,
            "'llama.embedding_length' is of type string, not an integer");
    refused(&(struct key){"llama.attention.key_length", 16, NULL, false},
            &(struct key){"llama.attention.value_length", 8, NULL, false}, -EOPNOTSUPP,
            "keys of 16 and values of 8 dimensions");
    refused(&(struct key){"llama.rope.dimension_count", 5, NULL, false}, NULL, -EINVAL,
            "an odd number of dimensions, 5");
    refused(&(struct key){"llama.rope.dimension_count", 10, NULL, false}, NULL, -EINVAL,
            "'llama.rope.dimension_count' is 10");
    refused(&(struct key){"llama.attention.layer_norm_rms_epsilon", -1, NULL, true}, NULL, -EINVAL,
            "is -1, not above 0");
    refused(&(struct key){"llama.attention.layer_norm_rms_epsilon", 1, NULL, false}, NULL, -EINVAL,
            "is of type u32, not f32");
    refused(&(struct key){"llama.hidden_activation", 0, "relu2", false}, NULL, -EOPNOTSUPP,
            "key 'llama.hidden_activation' is 'relu2'; only 'silu' is supported in a 'llama' model");
    refused(&(struct key){"llama.rope.scaling.alpha", 1000, NULL, true}, NULL, -EOPNOTSUPP,
            "key 'llama.rope.scaling.alpha' is 1000; only 1 is supported");
}

static void test_vocabulary(void **state)
{
    struct hparams s;
    assert_int_equal(read_changed(&s, NULL, NULL, 6), -EINVAL);
    assert_non_null(
        strstr(error_text(-EINVAL), "5 tokens in the vocabulary, but tensor 'token_embd.weight' has 6 rows"));
    assert_int_equal(read_changed(&s, NULL, NULL, 0), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "tensor 'token_embd.weight' is missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_a_llama), cmocka_unit_test(test_optional_keys),
        cmocka_unit_test(test_rope_scaling),  cmocka_unit_test(test_other_architectures),
        cmocka_unit_test(test_missing_keys),  cmocka_unit_test(test_values_that_cannot_be),
        cmocka_unit_test(test_vocabulary),    cmocka_unit_test(test_scales),
        cmocka_unit_test(test_windows),       cmocka_unit_test(test_other_numbers),
        cmocka_unit_test(test_sections),      cmocka_unit_test(test_scale_by_width),
        cmocka_unit_test(test_experts),       cmocka_unit_test(test_parts_of_a_split_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
