/* SPDX-License-Identifier: MIT */
/* Every architecture's description: the fast pass beside the independent one, rule 1, what windows hide, and files that
 * lack what it names. Catches: a norm, bias or scale in the wrong place, rows of a fused tensor mixed up, another
 * pairing in RoPE, a window off by one, results that depend on chunks or threads.
 * usage: test-architectures [NAME]   only the tests whose names match, with * and ? ("*gemma3*") */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/model/items.h"
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH 150 /* tokens; windows are of 70 */

/* The file of "@arch", in F32, or of "@arch/TYPE". */
static void arch_bytes(struct buf *out, const char *arch, uint32_t ctx)
{
    char name[64];
    struct tiny t;
    snprintf(name, sizeof(name), "%s", arch);
    char *type = strchr(name, '/');
    if (type) *type++ = 0;
    tiny_init(&t);
    t.type = type ? (uint32_t)tiny_type(type) : 0;
    t.arch = name;
    t.ctx = ctx;
    t.rope_freqs = !strcmp(name, "llama") || !strcmp(name, "llama4-near") || !strcmp(name, "llama4-ropes");
    model_file_tiny_bytes(out, &t);
}

static struct gguf *open_arch(const char *arch, uint32_t ctx)
{
    struct buf b = BUF_INIT;
    struct gguf *g;
    arch_bytes(&b, arch, ctx);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    buf_fini(&b);
    return g;
}

/* *state: the name. Threads, chunks, instruction sets, KV types. */
static void test_same_bits(void **state)
{
    static const uint32_t chunks[] = {1, 7, 32, LENGTH};
    struct gguf *g = open_arch(*state, 512);
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        struct backend_seq want = {0};
        const struct kernels *k;
        for (uint32_t i = 0; (k = kernels_nth(i)); i++)
            for (uint32_t threads = 1; threads <= 2; threads++) {
                struct backend *b =
                    tiny_backend(g, &(struct tiny_backend_config){.cpu = k->name, .threads = threads, .kv_type = kv});
                struct backend_seq s;
                backend_seq_init(&s, b, LENGTH, 5, 0);
                backend_seq_run(b, &s, chunks[(2 * i + threads + kv) % 4]);
                backend_free(b);
                if (!want.done) {
                    want = s;
                    continue;
                }
                backend_seq_same_logits(&want, &s);
                backend_seq_fini(&s);
            }
        backend_seq_fini(&want);
    }
    gguf_close(g);
}

/* In a batch with other sequences, at other positions, in every step. */
static void test_in_a_batch(void **state)
{
    struct gguf *g = open_arch(*state, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    struct backend_seq alone, s[3];
    backend_seq_init(&alone, b, LENGTH, 5, 0);
    backend_seq_run(b, &alone, 40);
    for (uint32_t i = 0; i < 3; i++) backend_seq_init(&s[i], b, LENGTH, i == 1 ? 5 : 50 + i, 8 + 8 * i);
    for (uint32_t step = 0; s[1].done < LENGTH; step++) {
        uint32_t n[3];
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t left = LENGTH - s[i].done, want = (step * 5 + i * 11) % 23;
            n[i] = want < left ? want : left;
        }
        if (!n[1]) n[1] = 1;
        backend_seq_step(b, s, n, 3);
    }
    backend_seq_same_logits(&alone, &s[1]);
    backend_seq_some_wanted(b, &alone, 32);
    for (uint32_t i = 0; i < 3; i++) backend_seq_fini(&s[i]);
    backend_seq_fini(&alone);
    backend_free(b);
    gguf_close(g);
}

/* In a batch with sequences that begin with the same tokens in the same blocks. */
static void test_common_blocks(void **state)
{
    struct gguf *g = open_arch(*state, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 1});
    struct backend_seq alone, s[2];
    uint32_t n[2];
    backend_seq_init(&alone, b, LENGTH, 5, 0);
    backend_seq_run(b, &alone, 40);
    for (uint32_t i = 0; i < 2; i++) {
        backend_seq_init(&s[i], b, LENGTH, i == 1 ? 5 : 50 + i, 8 + 8 * i);
        memcpy(s[i].tokens, alone.tokens, 4 * KV_BLOCK * sizeof(*s[i].tokens));
        memcpy(s[i].blocks, s[0].blocks, 4 * sizeof(*s[i].blocks));
        n[0] = 4 * KV_BLOCK + 2 * i;
        backend_seq_step(b, &s[i], n, 1);
    }
    for (uint32_t i = 0; i < 2; i++) n[i] = 1;
    while (s[1].done < LENGTH) backend_seq_step(b, s, n, 2);
    backend_seq_same_logits(&alone, &s[1]);
    for (uint32_t i = 0; i < 2; i++) backend_seq_fini(&s[i]);
    backend_seq_fini(&alone);
    backend_free(b);
    gguf_close(g);
}

/* Of a long batch each expert gets rows of several groups of activations. */
static void test_experts_of_a_long_batch(void **state)
{
    struct gguf *g = open_arch(*state, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .batch_tokens = 480});
    const struct cpu *c = (const struct cpu *)b;
    struct backend_seq want, s;
    uint32_t most = 0;
    backend_seq_init(&want, b, 480, 5, 0);
    backend_seq_run(b, &want, 16);
    backend_seq_init(&s, b, 480, 5, 16);
    backend_seq_run(b, &s, 480);
    for (uint32_t e = 0; e < b->hparams.experts.n; e++)
        if (c->scratch.moe.of[e].n > most) most = c->scratch.moe.of[e].n;
    assert_true(most >= 3 * KERN_GROUP);
    backend_seq_same_logits(&want, &s);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

/* The rows of tokens[n] as the first layer gets them. */
static float *embed(const struct backend *b, const int32_t *tokens, uint32_t n)
{
    const struct cpu *c = (const struct cpu *)b;
    uint32_t dim = b->hparams.dim;
    float *out = malloc((size_t)n * dim * sizeof(*out));
    assert_non_null(out);
    for (uint32_t i = 0; i < n; i++) {
        weights_embed(&c->weights, (uint32_t)tokens[i], out + (size_t)i * dim);
        if (b->hparams.scale.embedding != 1) c->kern->scale(out + (size_t)i * dim, b->hparams.scale.embedding, dim);
    }
    return out;
}

/* Every second chunk as embeddings, in one batch with a sequence of tokens: the bits of the tokens. */
static void test_embeddings(void **state)
{
    struct gguf *g = open_arch(*state, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    struct backend_seq want, s, beside;
    backend_seq_init(&want, b, LENGTH, 5, 0);
    backend_seq_run(b, &want, 50);
    backend_seq_init(&s, b, LENGTH, 5, 8);
    backend_seq_init(&beside, b, LENGTH, 6, 16);
    float *embd = embed(b, s.tokens, LENGTH), *rows = malloc(2 * (size_t)LENGTH * s.vocab * sizeof(float));
    int32_t ids[LENGTH];
    assert_non_null(rows);
    for (uint32_t k = 0; s.done < LENGTH; k++) {
        uint32_t left = LENGTH - s.done, n = 1 + k * 7 % 29 < left ? 1 + k * 7 % 29 : left;
        struct batch_entry e[2] = {backend_seq_entry(&s, n), backend_seq_entry(&beside, n)};
        for (uint32_t i = 0; i < n; i++) ids[s.done + i] = k % 2 ? ITEM_EMBD : s.tokens[s.done + i];
        if (k % 2) e[0].tokens = NULL, e[0].embd = embd + (size_t)s.done * b->hparams.dim;
        assert_int_equal(b->ops->forward(b, e, 2, rows, NULL), 0);
        memcpy(s.logits + (size_t)s.done * s.vocab, rows, (size_t)n * s.vocab * sizeof(float));
        s.done += n;
        beside.done += n;
    }
    backend_seq_same_logits(&want, &s);
    struct reference *r = NULL;
    if (reference_new(&r, g) == 0) { /* else there is no OpenBLAS */
        assert_int_equal(reference_forward(r, s.tokens, LENGTH, rows), 0);
        assert_int_equal(reference_items(r, ids, embd, NULL, LENGTH, s.logits), 0);
        for (size_t i = 0; i < (size_t)LENGTH * s.vocab; i++) assert_true(fabsf(rows[i] - s.logits[i]) < 1e-4f);
        assert_int_equal(reference_items(r, ids, NULL, NULL, LENGTH, rows), -EINVAL);
    }
    reference_free(r);
    free(embd);
    free(rows);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    backend_seq_fini(&beside);
    backend_free(b);
    gguf_close(g);
}

/* Largest difference of the logits of @n tokens to the reference. -1: it cannot run. */
static float difference(const struct gguf *g, uint32_t n, uint32_t ctx)
{
    struct reference *r = NULL;
    if (reference_new(&r, g) == -ENOENT) return -1;
    struct backend *b =
        tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .ctx = ctx, .kv_type = KERN_KV_F32});
    struct backend_seq s;
    backend_seq_init(&s, b, n, 3, 0);
    backend_seq_run(b, &s, 100);
    float *want = malloc((size_t)n * s.vocab * sizeof(float)), worst = 0;
    assert_non_null(want);
    reference_context(r, b->config.ctx);
    assert_int_equal(reference_forward(r, s.tokens, n, want), 0);
    for (size_t i = 0; i < (size_t)n * s.vocab; i++) worst = fmaxf(worst, fabsf(want[i] - s.logits[i]));
    free(want);
    backend_seq_fini(&s);
    backend_free(b);
    reference_free(r);
    return worst;
}

static void agrees(const char *arch, uint32_t n, uint32_t ctx)
{
    struct gguf *g = open_arch(arch, ctx);
    float d = difference(g, n, ctx);
    gguf_close(g);
    if (d < 0) {
        print_message("skipped: %s\n", error_text(-ENOENT));
        skip();
    }
    if (!(d < 2e-4f)) fail_msg("%s: logits differ by %g", arch, (double)d);
}

static void test_agrees_with_the_reference(void **state)
{
    agrees(*state, LENGTH, 512);
}

/* LongRoPE has other factors up to 256. */
static void test_short_contexts(void **state)
{
    agrees("phi3", LENGTH, 256);
}

/* Windows across the segments of attention. */
static void test_long_windows(void **state)
{
    agrees("gemma2", 620, 1024);
    agrees("olmo3", 620, 1024);
    agrees("gpt-oss", 620, 1024);
    agrees("smallthinker-near", 620, 1024);
    agrees("llama4-near", 620, 1024);
    agrees("gemma4", 620, 1024);
}

/* The tokens that depend on token 9, with windows of 70 in all layers. */
static void test_window_hides_old_tokens(void **state)
{
    struct gguf *g = open_arch("gemma2", 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 1, .kv_type = KERN_KV_F32});
    memset(b->hparams.by_layer.slides, 0xff,
           sizeof(b->hparams.by_layer.slides)); /* 4 layers: nothing reaches further than 4 x 69 */
    struct backend_seq one, two;
    backend_seq_init(&one, b, 400, 5, 0);
    backend_seq_init(&two, b, 400, 5, 16);
    two.tokens[9] = (two.tokens[9] + 1) % (int32_t)two.vocab;
    backend_seq_run(b, &one, 64);
    backend_seq_run(b, &two, 13);
    for (uint32_t i = 0; i < 400; i++) {
        size_t bytes = one.vocab * sizeof(float);
        bool same = !memcmp(one.logits + (size_t)i * one.vocab, two.logits + (size_t)i * two.vocab, bytes);
        if (i < 9 || i > 9 + 4 * 69)
            assert_true(same);
        else if (i < 9 + 69)
            assert_false(same);
    }
    backend_seq_fini(&one);
    backend_seq_fini(&two);
    backend_free(b);
    gguf_close(g);
}

/* No token depends on those of another chunk of 70, where all layers have chunks. */
static void test_chunks_hide_each_other(void **state)
{
    struct gguf *g = open_arch("llama4-near", 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .kv_type = KERN_KV_F32});
    memset(b->hparams.by_layer.slides, 0xff, sizeof(b->hparams.by_layer.slides));
    struct backend_seq one, two;
    backend_seq_init(&one, b, 300, 5, 0);
    backend_seq_init(&two, b, 300, 5, 16);
    two.tokens[75] = (two.tokens[75] + 1) % (int32_t)two.vocab;
    backend_seq_run(b, &one, 64);
    backend_seq_run(b, &two, 13);
    for (uint32_t i = 0; i < 300; i++) {
        const size_t at = (size_t)i * one.vocab;
        const bool same = !memcmp(one.logits + at, two.logits + at, one.vocab * sizeof(float));
        assert_int_equal(same, i < 75 || i >= 140);
    }
    backend_seq_fini(&one);
    backend_seq_fini(&two);
    backend_free(b);
    gguf_close(g);
}

/* Forward refuses to rotate a model of @arch, for the reason @why. */
static void rotation_refused(const char *arch, const char *why)
{
    struct gguf *g = open_arch(arch, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq s;
    float *logits = malloc(b->hparams.vocab * sizeof(float));
    backend_seq_init(&s, b, 1, 5, 0);
    s.window = 64;
    struct batch_entry e = backend_seq_entry(&s, 1);
    assert_int_equal(b->ops->forward(b, &e, 1, logits, NULL), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), why));
    free(logits);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

static void test_what_does_not_rotate(void **state)
{
    rotation_refused("gemma3", "a 'gemma3' model has layers with sliding windows");
    rotation_refused("llama4-near", "a 'llama4' model has layers with sliding windows");
    rotation_refused("gpt2", "a 'gpt2' model has learned positions and cannot rotate");
}

/* --- files that lack something, or have too much --- */

/* Ends @file. */
static void file_refused(struct buf *file, const char *why)
{
    struct gguf *g;
    struct hparams s;
    size_t bytes;
    assert_int_equal(model_file_open(&g, file->data, file->len), 0);
    int r = hparams_read(&s, g);
    if (!r) r = backend_check(NULL, g, &s, &bytes);
    if (!r || !strstr(error_text(r), why)) fail_msg("\"%s\", not \"%s\"", r ? error_text(r) : "", why);
    gguf_close(g);
    buf_fini(file);
}

static void refused(const char *arch, const char *find, const char *put, const char *why)
{
    struct buf file = BUF_INIT;
    arch_bytes(&file, arch, 512);
    memcpy(file.data + model_file_find(&file, find), put, strlen(put));
    file_refused(&file, why);
}

static void test_files_that_lack_something(void **state)
{
    refused("qwen2", "blk.1.attn_k.bias", "blk.1.attn_K", "tensor 'blk.1.attn_k.bias' is missing");
    refused("qwen3", "blk.1.attn_q_norm", "blk.1.attn_Q", "tensor 'blk.1.attn_q_norm.weight' is missing");
    refused("olmo2", "blk.0.post_ffw_norm", "blk.0.Post", "tensor 'blk.0.post_ffw_norm.weight' is missing");
    refused("phi3", "rope_factors_short", "Rope", "tensor 'rope_factors_short.weight' is missing");
    refused("phi3", "blk.1.ffn_up", "blk.1.ffn_UP", "tensor 'blk.1.ffn_up.weight' is missing");
    refused("mixtral", "blk.1.ffn_gate_inp", "blk.1.ffn_gate_INP", "tensor 'blk.1.ffn_gate_inp.weight' is missing");
    refused("mixtral", "llama.expert_used_count", "llama.Expert", "key 'llama.expert_used_count' is missing");
    refused("qwen2moe", "blk.0.ffn_up_shexp", "blk.0.Ffn", "tensor 'blk.0.ffn_up_shexp.weight' is missing");
    refused("qwen3moe", "qwen3moe.expert_count", "qwen3moe.Expert", "key 'qwen3moe.expert_count' is missing");
    refused("gpt-oss", "gpt-oss.attention.sliding_window", "gpt-oss.Attention",
            "key 'gpt-oss.attention.sliding_window' is missing");
    refused("gpt-oss", "blk.2.attn_sinks", "blk.2.attn_Sinks", "tensor 'blk.2.attn_sinks.weight' is missing");
    refused("gpt-oss", "blk.2.ffn_up_exps.bias", "blk.2.ffn_UP", "tensor 'blk.2.ffn_up_exps.bias' is missing");
    refused("qwen35", "blk.1.ssm_beta", "blk.1.ssm_BETA", "tensor 'blk.1.ssm_beta.weight' is missing");
    refused("qwen35", "blk.2.ssm_a", "blk.2.ssm_A", "tensor 'blk.2.ssm_a' is missing");
    refused("qwen3next", "blk.0.ssm_ba", "blk.0.ssm_BA", "tensor 'blk.0.ssm_ba.weight' is missing");
    refused("qwen3next", "blk.0.ssm_ba", "blk.0.ssm_in", "tensor 'blk.0.ssm_in.weight' has q, k, v and z mixed");
    refused("granite", "granite.logit_scale", "granite.Logit", "key 'granite.logit_scale' is missing");
}

static void test_files_of_dense_models_that_lack_something(void **state)
{
    refused("cohere2", "cohere2.logit_scale", "cohere2.Logit", "key 'cohere2.logit_scale' is missing");
    refused("cohere2", "cohere2.attention.sliding_window", "cohere2.Attention",
            "key 'cohere2.attention.sliding_window' is missing");
    refused("cohere2", "cohere2.attention.layer_norm_epsilon", "cohere2.Attention",
            "key 'cohere2.attention.layer_norm_epsilon' is missing");
    refused("nemotron", "blk.1.attn_norm.bias", "blk.1.attn_Norm", "tensor 'blk.1.attn_norm.bias' is missing");
    refused("nemotron", "output_norm.bias", "output_Norm", "tensor 'output_norm.bias' is missing");
    refused("starcoder2", "blk.0.ffn_up.bias", "blk.0.ffn_Up", "tensor 'blk.0.ffn_up.bias' is missing");
    refused("stablelm-parallel", "blk.1.attn_k_norm", "blk.1.attn_K", "tensor 'blk.1.attn_k_norm.weight' is missing");
    refused("stablelm", "blk.1.ffn_norm.weight", "blk.1.ffn_Norm", "tensor 'blk.1.ffn_norm.weight' is missing");
    refused("stablelm", "blk.0.ffn_norm.weight", "blk.0.ffn_Norm",
            "key 'stablelm.use_parallel_residual' is false, but tensor 'blk.0.ffn_norm.weight' is missing");
    refused("gpt2", "position_embd", "position_Embd", "tensor 'position_embd.weight' is missing");
    refused("arcee", "blk.0.ffn_up.weight", "blk.0.ffn_UP", "tensor 'blk.0.ffn_up.weight' is missing");
}

static void test_keys_of_dense_models(void **state)
{
    refused("apertus", "xielu.alpha_n", "xielu.Alpha", "key 'xielu.alpha_n' is missing");
    refused("gptneox", "gptneox.use_parallel_residual", "gptneox.Use",
            "key 'gptneox.use_parallel_residual' is missing");
    refused("gptneox", "blk.1.attn_qkv.bias", "blk.1.attn_QKV", "tensor 'blk.1.attn_qkv.bias' is missing");
    refused("phi2", "blk.1.attn_output.bias", "blk.1.attn_Output", "tensor 'blk.1.attn_output.bias' is missing");
    refused("bitnet", "blk.0.ffn_sub_norm", "blk.0.ffn_Sub", "tensor 'blk.0.ffn_sub_norm.weight' is missing");
}

/* The file of @arch with the names in @out, pairs of names of the same length, changed; its hyperparameters. */
static void read_renamed(struct hparams *s, const char *arch, const char *const *pairs)
{
    struct buf file = BUF_INIT;
    struct gguf *g;
    arch_bytes(&file, arch, 512);
    for (; *pairs; pairs += 2) memcpy(file.data + model_file_find(&file, pairs[0]), pairs[1], strlen(pairs[1]));
    assert_int_equal(model_file_open(&g, file.data, file.len), 0);
    assert_int_equal(hparams_read(s, g), 0);
    gguf_close(g);
    buf_fini(&file);
}

static void test_scales_without_keys(void **state)
{
    static const char *const none[] = {NULL};
    static const char *const all[] = {"minicpm.embedding_scale",
                                      "minicpm.Embedding_scale",
                                      "minicpm.residual_scale",
                                      "minicpm.Residual_scale",
                                      "minicpm.logit_scale",
                                      "minicpm.Logit_scale",
                                      NULL};
    struct hparams s;
    read_renamed(&s, "minicpm", none);
    assert_true(s.scale.embedding == 12 && s.scale.residual == 0.9f && s.scale.logits == 1 / 1.5f);
    read_renamed(&s, "minicpm", all);
    assert_true(s.scale.embedding == 12 && fabsf(s.scale.residual - 1.4f / sqrtf(2)) < 1e-6f);
    assert_true(s.scale.logits == 256.0f / 64);
}

static void test_temperature(void **state)
{
    static const char *const none[] = {NULL};
    static const char *const cold[] = {"mistral3.attention.temperature_scale", "mistral3.attention.Temperature_scale",
                                       NULL};
    struct hparams s;
    struct buf file = BUF_INIT;
    read_renamed(&s, "mistral3", none);
    assert_true(s.temperature.scale == 0.3f && s.temperature.floor == 48 && s.rope.original == 48);
    assert_true(fabs(s.rope.magnitude - (1 + 0.1 * log(4)) / (1 + 0.07 * log(4))) < 1e-6);
    read_renamed(&s, "mistral3", cold);
    assert_true(s.temperature.scale == 0);
    arch_bytes(&file, "mistral3", 512);
    const char *key = "mistral3.attention.temperature_scale"; /* then its type, and the value */
    memset(file.data + model_file_find(&file, key) + strlen(key) + 4, 0x7f, 4);
    file_refused(&file, "key 'mistral3.attention.temperature_scale' has the invalid value 3.39615e+38");
}

static void test_values_that_contradict(void **state)
{
    struct buf file = BUF_INIT;
    const char *key = "stablelm.use_parallel_residual"; /* then its type, and the value */
    arch_bytes(&file, "stablelm-parallel", 512);
    memset(file.data + model_file_find(&file, key) + strlen(key) + 4, 0, 1);
    file_refused(&file, "key 'stablelm.use_parallel_residual' is false, but tensor 'blk.0.ffn_norm.weight' is missing");
    file = (struct buf)BUF_INIT;
    key = "cohere2.logit_scale";
    arch_bytes(&file, "cohere2", 512);
    memset(file.data + model_file_find(&file, key) + strlen(key) + 4, 0, 4);
    file_refused(&file, "key 'cohere2.logit_scale' is missing");
    file = (struct buf)BUF_INIT;
    key = "xielu.eps"; /* then its type, that of its elements, their number, and they */
    arch_bytes(&file, "apertus", 512);
    memset(file.data + model_file_find(&file, key) + strlen(key) + 16, 0x3f, 4);
    file_refused(&file, "key 'xielu.eps' is 0.747059, which is above 0");
}

/* The u32 key @key becomes @value. */
static void refused_value(const char *arch, const char *key, uint32_t value, const char *why)
{
    struct buf file = BUF_INIT;
    arch_bytes(&file, arch, 512);
    memcpy(file.data + model_file_find(&file, key) + strlen(key) + 4, &value, sizeof(value));
    file_refused(&file, why);
}

static void test_recurrent_layers_that_cannot_be(void **state)
{
    refused("lfm2", "lfm2.shortconv.l_cache", "lfm2.Shortconv", "key 'lfm2.shortconv.l_cache' is missing");
    refused_value("lfm2", "lfm2.shortconv.l_cache", 0, "key 'lfm2.shortconv.l_cache' is 0, not a number from 2 to 8");
    refused_value("lfm2", "lfm2.shortconv.l_cache", 4, "tensor 'blk.0.shortconv.conv.weight' is 3 x 64, but the");
    refused("lfm2", "blk.2.shortconv.in_proj", "blk.2.Short", "tensor 'blk.2.shortconv.in_proj.weight' is missing");
    refused("mamba2", "mamba2.ssm.state_size", "mamba2.Ssm", "key 'mamba2.ssm.state_size' is missing");
    refused_value("mamba2", "mamba2.ssm.state_size", 0, "key 'mamba2.ssm.state_size' is 0, not a number from 1");
    refused_value("mamba2", "mamba2.ssm.inner_size", 1u << 31, "key 'mamba2.ssm.inner_size' is 2147483648, not a");
    refused_value("mamba2", "mamba2.ssm.time_step_rank", 3, "key 'mamba2.ssm.inner_size' is 128, which");
    refused_value("mamba2", "mamba2.ssm.group_count", 3, "key 'mamba2.ssm.group_count' is 3, which does not divide 4");
    refused_value("mamba2", "mamba2.ssm.group_count", 4, "tensor 'blk.0.ssm_in.weight' is 64 x 356, but the");
    refused("granitehybrid", "blk.0.ssm_norm", "blk.0.Ssm", "tensor 'blk.0.ssm_norm.weight' is missing");
    refused("nemotron_h", "nemotron_h.feed_forward_length", "nemotron_h.Feed",
            "key 'nemotron_h.feed_forward_length' is not an array of 6 numbers, one for each layer");
    refused("nemotron_h", "blk.1.attn_norm", "blk.1.Attn", "tensor 'blk.1.attn_norm.weight' is missing");
    refused("falcon-h1", "blk.1.ssm_a", "blk.1.Ssm", "tensor 'blk.1.ssm_a' is missing");
}

/* The key's first @n numbers become @heads. */
static void heads_refused(int32_t heads, uint32_t n, const char *why)
{
    struct buf file = BUF_INIT;
    const char *key = "lfm2.attention.head_count_kv"; /* then the type, that of the elements, their number, these */
    arch_bytes(&file, "lfm2", 512);
    for (size_t at = model_file_find(&file, key) + strlen(key) + 4 + 4 + 8; n; n--, at += 4)
        memcpy(file.data + at, &heads, sizeof(heads));
    file_refused(&file, why);
}

static void test_heads_of_layers(void **state)
{
    heads_refused(-1, 1, "key 'lfm2.attention.head_count_kv' has -1 at index 0, not a number from 0 to 4096");
    heads_refused(4, 1, "key 'lfm2.attention.head_count_kv' has 4 and 2; layers with other numbers are not supported");
    heads_refused(0, 5, "key 'lfm2.attention.head_count_kv' has only zeros");
}

static void test_stacks_of_another_height(void **state)
{
    struct buf file = BUF_INIT;
    arch_bytes(&file, "mixtral", 512);
    const char *name = "blk.1.ffn_down_exps.weight"; /* then the number of dimensions, and these */
    memcpy(file.data + model_file_find(&file, name) + strlen(name) + 4 + 2 * 8, &(uint64_t){7}, 8);
    file_refused(&file, "tensor 'blk.1.ffn_down_exps.weight' is 96 x 64 x 7, but the model's keys say 96 x 64 x 8");
}

/* The oldest files of Mixtral. */
static void test_experts_that_are_not_stacked(void **state)
{
    struct buf file = BUF_INIT;
    arch_bytes(&file, "mixtral-apart", 512);
    file_refused(&file, "each expert is a tensor of its own ('blk.0.ffn_gate.0.weight'), as in files made before April "
                        "2024: take a newer file of this model, or convert it again");
}

static void test_no_experts_for_a_token(void **state)
{
    struct buf file = BUF_INIT;
    arch_bytes(&file, "mixtral", 512);
    const char *key = "llama.expert_used_count"; /* then its type, and the value */
    memset(file.data + model_file_find(&file, key) + strlen(key) + 4, 0, 4);
    file_refused(&file, "key 'llama.expert_used_count' is 0, not a number from 1 to 8");
}

/* @arch with @value for its number @key. */
static void number_refused(const char *arch, const char *key, uint32_t value, const char *why)
{
    struct buf file = BUF_INIT;
    arch_bytes(&file, arch, 512);
    memcpy(file.data + model_file_find(&file, key) + strlen(key) + 4, &value, 4); /* behind its type */
    file_refused(&file, why);
}

static void test_numbers_of_experts(void **state)
{
    number_refused("glm4moe", "glm4moe.expert_count", 0, "key 'glm4moe.expert_count' is 0, not a number from 1 to");
    number_refused("glm4moe", "glm4moe.expert_count", 10000,
                   "key 'glm4moe.expert_count' is 10000; the limit is 1024 experts");
    number_refused("glm4moe", "glm4moe.expert_used_count", 13,
                   "key 'glm4moe.expert_used_count' is 13, not a number from 1 to 12");
    number_refused("glm4moe", "glm4moe.expert_shared_count", 1000000,
                   "key 'glm4moe.expert_shared_count' is 1000000, not a number from 0 to 1024");
    number_refused("glm4moe", "glm4moe.expert_gating_func", 7,
                   "key 'glm4moe.expert_gating_func' is 7; only softmax (1, 3) and sigmoid (2) are supported");
    number_refused("glm4moe", "glm4moe.leading_dense_block_count", 4,
                   "key 'glm4moe.leading_dense_block_count' is 4, not a number from 0 to 3");
    number_refused("glm4moe", "glm4moe.leading_dense_block_count", 0, "tensor 'blk.0.ffn_gate_inp.weight' is missing");
    number_refused("glm4moe", "glm4moe.nextn_predict_layers", 4,
                   "key 'glm4moe.nextn_predict_layers' is 4, not a number from 0 to 3");
    number_refused("glm4moe", "glm4moe.nextn_predict_layers", 0,
                   "tensor 'blk.3.nextn.eh_proj.weight' is not supported in a 'glm4moe' model");
    number_refused("glm4moe", "glm4moe.nextn_predict_layers", 2,
                   "key 'glm4moe.nextn_predict_layers' is 2, but layer 2 has no tensor of a layer that predicts later");
    number_refused("ernie4_5-moe", "ernie4_5-moe.interleave_moe_layer_step", 0,
                   "key 'ernie4_5-moe.interleave_moe_layer_step' is 0, not a number from 1 to");
    number_refused("ernie4_5-moe", "ernie4_5-moe.interleave_moe_layer_step", 2,
                   "tensor 'blk.2.ffn_gate.weight' is missing");
    number_refused("llama4-near", "llama4.attention.sliding_window", 0,
                   "key 'llama4.attention.sliding_window' is 0; a 'llama4' model without chunks is not supported");
    refused("llama4", "blk.1.ffn_up_shexp", "blk.1.ffn_Up", "tensor 'blk.1.ffn_up_shexp.weight' is missing");
    refused("phimoe", "blk.1.ffn_norm.bias", "blk.1.ffn_Norm", "tensor 'blk.1.ffn_norm.bias' is missing");
    refused("nemotron_h_moe", "nemotron_h_moe.ssm.group_count", "nemotron_h_moe.moe_latent_size",
            "key 'nemotron_h_moe.moe_latent_size' is 2; experts of a width of their own are not supported");
    refused("nemotron_h_moe", "blk.1.ffn_up_exps", "blk.1.ffn_Up", "tensor 'blk.1.ffn_up_exps.weight' is missing");
    refused("afmoe", "blk.1.attn_gate", "blk.1.attn_Gate", "tensor 'blk.1.attn_gate.weight' is missing");
    refused("minimax-m2", "blk.0.exp_probs_b", "blk.0.exp_probs_c", "tensor 'blk.0.exp_probs_b.bias' is missing");
    refused("glm4moe", "blk.1.exp_probs_b", "blk.1.exp_probs_c", "tensor 'blk.1.exp_probs_b.bias' is missing");
}

static void test_ranks_of_latent_attention(void **state)
{
    number_refused("deepseek2", "deepseek2.attention.kv_lora_rank", 0,
                   "key 'deepseek2.attention.kv_lora_rank' is 0, not a number from 1 to");
    number_refused("deepseek2", "deepseek2.attention.kv_lora_rank", 1020,
                   "key 'deepseek2.attention.kv_lora_rank' is 1020: with the rotated 16 more than 1024");
    number_refused("deepseek2", "deepseek2.attention.kv_lora_rank", 32,
                   "key 'deepseek2.attention.key_length' is 80, but the ranks say 48");
    number_refused("deepseek2", "deepseek2.attention.value_length", 24,
                   "key 'deepseek2.attention.value_length' is 24, but the ranks say 64");
    number_refused("deepseek2", "deepseek2.attention.key_length_mla", 16,
                   "keys of 16 dimensions, of which 'deepseek2.rope.dimension_count' rotates 16");
    number_refused("deepseek2", "deepseek2.attention.key_length_mla", 64, "but the model's keys say");
    number_refused("deepseek2", "deepseek2.rope.dimension_count", 15,
                   "key 'deepseek2.attention.key_length' is 80, but the ranks say 79");
    number_refused("deepseek2", "deepseek2.attention.q_lora_rank", 33, "but the model's keys say 33 x 192");
    number_refused("deepseek2", "deepseek2.attention.q_lora_rank", 0, "tensor 'blk.0.attn_q.weight' is missing");
    refused("deepseek2", "deepseek2.attention.kv_lora_rank", "deepseek2.attention.kv_LORA",
            "key 'deepseek2.attention.kv_lora_rank' is missing");
    refused("deepseek2", "blk.1.attn_k_b", "blk.1.attn_k_B", "tensor 'blk.1.attn_k_b.weight' is missing");
}

static void test_numbers_of_groups(void **state)
{
    number_refused("bailingmoe2", "bailingmoe2.expert_group_count", 5,
                   "key 'bailingmoe2.expert_group_count' is 5, which does not divide 16 experts");
    number_refused("bailingmoe2", "bailingmoe2.expert_group_count", 17,
                   "key 'bailingmoe2.expert_group_count' is 17, not a number from 0 to 16");
    number_refused("bailingmoe2", "bailingmoe2.expert_group_count", 16,
                   "key 'bailingmoe2.expert_used_count' is 4, but 2 of 16 groups "
                   "('bailingmoe2.expert_group_used_count') have only 2 experts");
    number_refused("bailingmoe2", "bailingmoe2.expert_group_used_count", 0,
                   "key 'bailingmoe2.expert_group_used_count' is 0, not a number from 1 to 4");
}

static void test_files_of_gemma_that_lack_something(void **state)
{
    refused("gemma3n", "blk.3.laurel_r", "blk.3.laurel_R", "tensor 'blk.3.laurel_r.weight' is missing");
    refused("gemma3n", "blk.24.altup_router.", "blk.24.altup_Router.",
            "tensor 'blk.24.altup_router.weight' is missing");
    refused("gemma3n", "altup_unembd_proj", "altup_unembd_Proj", "tensor 'altup_unembd_proj.weight' is missing");
    refused("gemma3n", "per_layer_token_embd", "per_layer_token_Embd", "'per_layer_token_embd.weight' is missing");
    refused("gemma3n", "blk.19.attn_k.", "blk.19.attn_K.", "tensor 'blk.19.attn_k.weight' is missing");
    refused("gemma3n", "blk.20.attn_k.", "blk.20.attn_K.", "tensor 'blk.20.attn_K.weight' is not supported");
    refused("gemma4", "blk.8.inp_gate", "blk.8.inp_Gate", "tensor 'blk.8.inp_gate.weight' is missing");
    refused("gemma4", "per_layer_proj_norm", "per_layer_proj_Norm", "tensor 'per_layer_proj_norm.weight' is missing");
    refused("gemma4", "rope_freqs", "rope_Freqs", "tensor 'rope_freqs.weight' is missing");
    refused("gemma4", "blk.3.attn_k_norm", "blk.3.attn_K_norm", "tensor 'blk.3.attn_k_norm.weight' is missing");
    refused("gemma4-experts", "blk.1.ffn_gate_inp.scale", "blk.1.ffn_gate_inp.Scale",
            "tensor 'blk.1.ffn_gate_inp.scale' is missing");
    refused("gemma4-experts", "blk.2.pre_ffw_norm_2", "blk.2.pre_ffw_Norm_2",
            "'blk.2.pre_ffw_norm_2.weight' is missing");
    number_refused("gemma4", "gemma4.attention.key_length_swa", 32, "values must have the 32 dimensions of keys");
    number_refused("gemma4", "gemma4.embedding_length_per_layer_input", 16, "but the model's keys say 64 x 16");
}

/* Tensors and keys of other architectures. */
static void test_files_that_have_too_much(void **state)
{
    refused("llama-biases", "blk.0.ffn_up.bias", "blk.0.ffn_xx.bias",
            "tensor 'blk.0.ffn_xx.bias' is not supported in a 'llama' model");
    refused("gemma2", "gemma2.rope.freq_base", "gemma2.residual_scale",
            "key 'gemma2.residual_scale' is 10000, which is not supported in a 'gemma2' model");
}

#define SAME(name)                                                                                                     \
    {"same bits " name, test_same_bits, NULL, NULL, (void *)(name)},                                                   \
        {"in a batch " name, test_in_a_batch, NULL, NULL, (void *)(name)},                                             \
        {"common blocks " name, test_common_blocks, NULL, NULL, (void *)(name)},                                       \
    {                                                                                                                  \
        "embeddings " name, test_embeddings, NULL, NULL, (void *)(name)                                                \
    }

#define LONG(name)                                                                                                     \
    {                                                                                                                  \
        "long batch " name, test_experts_of_a_long_batch, NULL, NULL, (void *)(name)                                   \
    }

#define EACH(name) {"agrees " name, test_agrees_with_the_reference, NULL, NULL, (void *)(name)}, SAME(name)

/* Layers have embeddings of tokens: what is not a token has other bits. */
#define TOKENS(name)                                                                                                   \
    {"same bits " name, test_same_bits, NULL, NULL, (void *)(name)},                                                   \
        {"in a batch " name, test_in_a_batch, NULL, NULL, (void *)(name)},                                             \
    {                                                                                                                  \
        "common blocks " name, test_common_blocks, NULL, NULL, (void *)(name)                                          \
    }

static const struct CMUnitTest tests[] = {
    EACH("llama"),
    EACH("llama-biases"),
    EACH("llama-yarn"),
    EACH("llama-keys"),
    EACH("qwen2"),
    EACH("qwen2vl"),
    EACH("qwen3"),
    EACH("qwen35"),
    SAME("qwen35/Q8_0"),
    EACH("qwen35moe"),
    EACH("qwen3next"),
    EACH("phi3"),
    EACH("smollm3"),
    EACH("granite"),
    EACH("lfm2"),
    SAME("lfm2/Q8_0"),
    EACH("lfm2moe"),
    EACH("mamba2"),
    EACH("granitehybrid"),
    SAME("granitehybrid/Q8_0"),
    EACH("granitehybrid-experts"),
    EACH("nemotron_h"),
    EACH("nemotron_h_moe"),
    SAME("nemotron_h_moe/Q8_0"),
    EACH("falcon-h1"),
    SAME("falcon-h1/Q4_0"),
    EACH("olmo2"),
    EACH("olmo3"),
    EACH("gemma2"),
    EACH("gemma3"),
    {"agrees gemma3n", test_agrees_with_the_reference, NULL, NULL, "gemma3n"},
    TOKENS("gemma3n"),
    TOKENS("gemma3n/Q8_0"),
    {"agrees gemma4", test_agrees_with_the_reference, NULL, NULL, "gemma4"},
    TOKENS("gemma4"),
    TOKENS("gemma4/Q8_0"),
    EACH("gemma4-dense"),
    EACH("gemma4-experts"),
    SAME("gemma4-experts/Q8_0"),
    EACH("mixtral"),
    EACH("qwen2moe"),
    EACH("qwen3moe"),
    EACH("gpt-oss"),
    EACH("phimoe"),
    EACH("smallthinker-near"),
    EACH("smallthinker-softmax"),
    EACH("llama4"),
    EACH("llama4-every"),
    EACH("llama4-near"),
    EACH("llama4-ropes"),
    SAME("llama4-near/Q8_0"),
    LONG("llama4-near"),
    SAME("smallthinker-near/Q8_0"),
    EACH("ernie4_5"),
    EACH("exaone"),
    EACH("gemma"),
    EACH("glm4"),
    EACH("internlm2"),
    EACH("seed_oss"),
    EACH("arcee"),
    EACH("cohere2"),
    EACH("command-r"),
    EACH("command-r-plus"),
    EACH("exaone4"),
    EACH("exaone4-window"),
    EACH("hunyuan-dense"),
    EACH("minicpm"),
    EACH("mistral3"),
    EACH("nemotron"),
    EACH("stablelm"),
    EACH("stablelm-parallel"),
    EACH("starcoder2"),
    EACH("apertus"),
    EACH("bitnet"),
    EACH("chatglm"),
    EACH("falcon"),
    EACH("gpt2"),
    SAME("gpt2/Q8_0"),
    EACH("starcoder"),
    EACH("gptneox"),
    EACH("gptneox-serial"),
    EACH("phi2"),
    EACH("qwen3vl"),
    SAME("cohere2/Q8_0"),
    SAME("bitnet/Q8_0"),
    SAME("gptneox/Q4_0"),
    EACH("afmoe"),
    SAME("afmoe/Q8_0"),
    EACH("bailingmoe2"),
    EACH("bailingmoe"),
    EACH("exaone-moe"),
    EACH("codeshell"),
    EACH("codeshell-output"),
    EACH("jais2"),
    EACH("pangu-embedded"),
    EACH("minimax-m2"),
    EACH("deepseek"),
    EACH("dots1"),
    EACH("ernie4_5-moe"),
    EACH("glm4moe"),
    EACH("glm4moe-normed"),
    EACH("granitemoe"),
    EACH("hunyuan-moe"),
    EACH("olmoe"),
    EACH("qwen3vlmoe"),
    EACH("deepseek2"),
    EACH("deepseek2-lite"),
    EACH("deepseek2-older"),
    EACH("minicpm3"),
    EACH("mistral4"),
    SAME("deepseek2/Q8_0"),
    SAME("deepseek2-older/Q8_0"),
    SAME("glm4moe/Q8_0"),
    SAME("mixtral/Q4_0"),
    SAME("qwen2moe/Q8_0"),
    SAME("gpt-oss/MXFP4"),
    LONG("qwen2moe"),
    LONG("qwen2moe/Q8_0"),
    LONG("gpt-oss/MXFP4"),
    cmocka_unit_test(test_short_contexts),
    cmocka_unit_test(test_long_windows),
    cmocka_unit_test(test_window_hides_old_tokens),
    cmocka_unit_test(test_chunks_hide_each_other),
    cmocka_unit_test(test_what_does_not_rotate),
    cmocka_unit_test(test_files_that_lack_something),
    cmocka_unit_test(test_files_of_dense_models_that_lack_something),
    cmocka_unit_test(test_keys_of_dense_models),
    cmocka_unit_test(test_scales_without_keys),
    cmocka_unit_test(test_temperature),
    cmocka_unit_test(test_values_that_contradict),
    cmocka_unit_test(test_recurrent_layers_that_cannot_be),
    cmocka_unit_test(test_heads_of_layers),
    cmocka_unit_test(test_stacks_of_another_height),
    cmocka_unit_test(test_experts_that_are_not_stacked),
    cmocka_unit_test(test_no_experts_for_a_token),
    cmocka_unit_test(test_numbers_of_experts),
    cmocka_unit_test(test_numbers_of_groups),
    cmocka_unit_test(test_ranks_of_latent_attention),
    cmocka_unit_test(test_files_of_gemma_that_lack_something),
    cmocka_unit_test(test_files_that_have_too_much),
};

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
