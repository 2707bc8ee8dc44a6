/* SPDX-License-Identifier: MIT */
/* Adapters in batches: beside the independent pass, rule 1 with several adapters in one batch, and files that cannot be
 * loaded. Catches: an adapter of another sequence, of another matrix or of the wrong rows of a fused one, a scale
 * without its alpha, results that depend on the batch, the chunks, the threads or the instruction set. */
#include "daemon/model/adapter.h"
#include "daemon/reference/reference.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include "tests/support/lora-file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH   100
#define ADAPTERS 3

static const char everything[] =
    "attn_q,attn_k,attn_v,attn_qkv,attn_output,attn_gate,ffn_gate,ffn_up,ffn_down,ffn_gate_inp,ffn_gate_shexp,"
    "ffn_up_shexp,ffn_down_shexp,attn_q_a,attn_q_b,attn_kv_a_mqa,shortconv.in_proj,shortconv.out_proj,ssm_in,ssm_out,"
    "ssm_beta,ssm_alpha,ssm_ba,inp_gate,proj,laurel_l,laurel_r,output.weight,";

static struct gguf *open_arch(const char *arch, bool untied)
{
    char name[64];
    struct tiny t;
    struct buf b = BUF_INIT;
    struct gguf *g;
    snprintf(name, sizeof(name), "%s", arch);
    char *type = strchr(name, '/');
    if (type) *type++ = 0;
    tiny_init(&t);
    t.type = type ? (uint32_t)tiny_type(type) : 0;
    t.arch = name;
    t.tied = !untied;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    buf_fini(&b);
    return g;
}

/* As adapter_open of these bytes. */
static int open_bytes(struct adapter **out, const struct buf *b, const struct gguf *g)
{
    _cleanup_(freep) char *path = model_file_write(b->data, b->len);
    int r = adapter_open(out, path, g);
    unlink(path);
    return r;
}

static struct adapter *make(const struct gguf *g, const struct lora_file *l)
{
    struct buf b = BUF_INIT;
    struct adapter *a = NULL;
    assert_int_equal(lora_file_bytes(&b, l, g), 0);
    int r = open_bytes(&a, &b, g);
    if (r) fail_msg("%s", error_text(r));
    buf_fini(&b);
    return a;
}

/* Adapters of different ranks, types and matrices. */
static void make_some(struct adapter *out[ADAPTERS], const struct gguf *g)
{
    static const uint32_t ranks[] = {4, 16, 35}, types[] = {0, 1, 30};
    static const char *const only[] = {everything, NULL, "attn_q,attn_qkv,ffn_up,ffn_down,ssm_in,"};
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        struct lora_file l;
        lora_file_init(&l);
        l.seed = 7 + i;
        l.rank = ranks[i];
        l.type = types[i];
        l.only = only[i];
        l.alpha = i == 1 ? 0 : 8;
        out[i] = make(g, &l);
    }
}

static void load(struct backend *b, struct adapter *const *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = 0;
        uint64_t bytes = 0;
        int r = b->ops->adapter_load(b, a[i], &number, &bytes);
        if (r) fail_msg("%s", error_text(r));
        assert_int_equal(number, i + 1);
        assert_true(bytes > 0);
    }
}

static void close_all(struct adapter **a)
{
    for (uint32_t i = 0; i < ADAPTERS; i++) adapter_close(a[i]);
}

/* --- the independent pass --- */

static float worst_of(const struct gguf *g, const struct adapter *a, struct reference *r)
{
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .kv_type = KERN_KV_F32});
    struct backend_seq s, base;
    load(b, (struct adapter *const *)&a, 1);
    backend_seq_init(&s, b, LENGTH, 3, 0);
    backend_seq_init(&base, b, LENGTH, 3, 8);
    s.adapter = 1;
    s.adapter_scale = 0.75f;
    backend_seq_run(b, &s, 60);
    backend_seq_run(b, &base, 60);
    float *want = malloc((size_t)LENGTH * s.vocab * sizeof(float)), worst = 0, apart = 0;
    assert_non_null(want);
    reference_adapter(r, a, 0.75f, 0);
    assert_int_equal(reference_forward(r, s.tokens, LENGTH, want), 0);
    for (size_t i = 0; i < (size_t)LENGTH * s.vocab; i++) {
        worst = fmaxf(worst, fabsf(want[i] - s.logits[i]));
        apart = fmaxf(apart, fabsf(base.logits[i] - s.logits[i]));
    }
    assert_true(apart > 0.05f); /* the adapter matters */
    free(want);
    backend_seq_fini(&s);
    backend_seq_fini(&base);
    backend_free(b);
    return worst;
}

/* *state: an architecture; each matrix that can have an adapter has one. */
static void test_agrees_with_the_reference(void **state)
{
    struct gguf *g = open_arch(*state, true);
    struct reference *r = NULL;
    struct lora_file l;
    char only[1024];
    if (reference_new(&r, g) == -ENOENT) {
        gguf_close(g);
        print_message("skipped: %s\n", error_text(-ENOENT));
        skip();
    }
    lora_file_init(&l);
    snprintf(only, sizeof(only), "%s%s", everything, gguf_find_tensor(g, "output.weight") ? "token_embd.weight," : "");
    l.only = only;
    struct adapter *a = make(g, &l);
    const float d = worst_of(g, a, r);
    if (!(d < 5e-4f)) fail_msg("%s: logits differ by %g", (const char *)*state, (double)d);
    reference_free(r);
    adapter_close(a);
    gguf_close(g);
}

/* --- the same bits --- */

static const float scales[] = {1, -0.5f, 2};

/* The sequence of adapter @i (ADAPTERS: none) alone. */
static void run_alone(struct backend *b, struct backend_seq *s, uint32_t i, uint32_t chunk)
{
    backend_seq_init(s, b, LENGTH, 5, 0);
    s->adapter = i < ADAPTERS ? i + 1 : 0;
    s->adapter_scale = scales[i % ADAPTERS];
    backend_seq_run(b, s, chunk);
}

/* Threads, chunks and instruction sets. */
static void test_same_bits(void **state)
{
    static const uint32_t chunks[] = {1, 7, 32, LENGTH};
    struct gguf *g = open_arch(*state, false);
    struct adapter *a[ADAPTERS];
    make_some(a, g);
    for (uint32_t n = 0; n < ADAPTERS; n++) {
        struct backend_seq want = {0};
        const struct kernels *k;
        for (uint32_t i = 0; (k = kernels_nth(i)); i++)
            for (uint32_t threads = 1; threads <= 2; threads++) {
                struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.cpu = k->name, .threads = threads});
                struct backend_seq s;
                load(b, a, ADAPTERS);
                run_alone(b, &s, n, chunks[(2 * i + threads + n) % 4]);
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
    close_all(a);
    gguf_close(g);
}

/* Sequences with different adapters, with none and with other scales, in one batch in every step. */
static void test_in_a_batch(void **state)
{
    enum { N = 8 };
    struct gguf *g = open_arch(*state, false);
    struct adapter *a[ADAPTERS];
    make_some(a, g);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .blocks = 64});
    struct backend_seq alone[ADAPTERS + 1], s[N];
    load(b, a, ADAPTERS);
    for (uint32_t i = 0; i <= ADAPTERS; i++) run_alone(b, &alone[i], i, 40);
    for (uint32_t i = 0; i < N; i++) {
        backend_seq_init(&s[i], b, LENGTH, i < 4 ? 5 : 50 + i, 8 + 4 * i);
        s[i].state = 1 + i;
        s[i].adapter = i % 4 < ADAPTERS ? i % 4 + 1 : 0;
        s[i].adapter_scale = i < 4 ? scales[i % ADAPTERS] : 3;
    }
    for (uint32_t step = 0, left = 1; left; step++) {
        uint32_t n[N];
        left = 0;
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t rest = LENGTH - s[i].done, want = step < 40 ? 1 : 1 + (step * 5 + i * 11) % 29;
            n[i] = want < rest ? want : rest;
            left += n[i];
        }
        if (left) backend_seq_step(b, s, n, N);
    }
    for (uint32_t i = 0; i <= ADAPTERS; i++) {
        backend_seq_same_logits(&alone[i], &s[i]);
        backend_seq_some_wanted(b, &alone[i], 40);
        backend_seq_fini(&alone[i]);
    }
    for (uint32_t i = 0; i < N; i++) backend_seq_fini(&s[i]);
    backend_free(b);
    close_all(a);
    gguf_close(g);
}

/* A scale of 0 is the model. */
static void test_nothing_added(void **state)
{
    struct gguf *g = open_arch("llama/Q8_0", false);
    struct adapter *a[ADAPTERS];
    make_some(a, g);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    struct backend_seq s, base;
    load(b, a, ADAPTERS);
    run_alone(b, &base, ADAPTERS, 30);
    backend_seq_init(&s, b, LENGTH, 5, 8);
    s.adapter = 1;
    backend_seq_run(b, &s, 50);
    for (size_t i = 0; i < (size_t)LENGTH * s.vocab; i++) assert_true(s.logits[i] == base.logits[i]);
    backend_seq_fini(&s);
    backend_seq_fini(&base);
    backend_free(b);
    close_all(a);
    gguf_close(g);
}

/* --- what cannot be loaded --- */

static void refused(const struct gguf *g, const struct buf *b, int want, const char *text)
{
    struct adapter *a = NULL;
    int r = open_bytes(&a, b, g);
    assert_int_equal(r, want);
    if (!strstr(error_text(r), text)) fail_msg("'%s' is not in '%s'", text, error_text(r));
}

/* The bytes of an adapter in which @from, wherever it is, became @to, of the same length. */
static struct buf changed(const struct gguf *g, const struct lora_file *l, const char *from, const char *to)
{
    struct buf b = BUF_INIT;
    const size_t n = strlen(from);
    assert_int_equal(strlen(to), n);
    assert_int_equal(lora_file_bytes(&b, l, g), 0);
    for (char *at = b.data; n && (at = memmem(at, (size_t)(b.data + b.len - at), from, n)); at += n) memcpy(at, to, n);
    return b;
}

static void test_files_that_are_no_adapters(void **state)
{
    static const struct {
        const char *from, *to;
        int r;
        const char *text;
    } cases[] = {
        {"adapter\x0c", "adapted\x0c", -EINVAL, "general.type"},
        {"lora\x12", "dora\x12", -EINVAL, "adapter.type is 'dora', not 'lora'"},
        {"adapter.type", "adapter.kind", -EINVAL, "adapter.type is missing"},
        {"llama", "gemma", -EINVAL, "an adapter of a 'gemma' model, and the model is of 'llama'"},
        {"blk.1.attn_k.weight", "blk.7.attn_k.weight", -EINVAL,
         "the model has no tensor for 'blk.7.attn_k.weight.lora_"},
        {"blk.1.ffn_up.weight.lora_b", "blk.1.ffn_up.weight.lora_c", -EOPNOTSUPP, "neither a .lora_a nor a .lora_b"},
        {"blk.1.attn_q.weight.lora_b", "blk.1.attn_k.weight.lora_x", -EOPNOTSUPP, "neither a .lora_a nor a .lora_b"},
        {"blk.1.ffn_up.weight.lora_b", "blk.1.ffn_gate.weight.lora", -EOPNOTSUPP, "neither a .lora_a nor a .lora_b"},
    };
    struct gguf *g = open_arch("llama", false);
    struct lora_file l;
    lora_file_init(&l);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct buf b = changed(g, &l, cases[i].from, cases[i].to);
        if (i == 0) { /* the value of general.type, which the key's bytes follow */
            char *at = memmem(b.data, b.len, "general.type", 12);
            memcpy(at + 12 + 4 + 8, "adaptor", 7);
        }
        if (i == 1) memcpy((char *)memmem(b.data, b.len, "adapter.type", 12) + 12 + 4 + 8, "dora", 4);
        refused(g, &b, cases[i].r, cases[i].text);
        buf_fini(&b);
    }
    struct buf model = BUF_INIT;
    model_file_tiny_bytes(&model, NULL);
    refused(g, &model, -EINVAL, "the key general.type is missing");
    buf_fini(&model);
    gguf_close(g);
}

/* Where the shape or type of tensor @name is, in its entry. */
static char *entry(const struct buf *b, const char *name)
{
    char *at = memmem(b->data, b->len, name, strlen(name));
    assert_non_null(at);
    return at + strlen(name) + 4;
}

static void test_tensors_that_do_not_fit(void **state)
{
    struct gguf *g = open_arch("llama", false), *moe = open_arch("mixtral", false);
    struct lora_file l;
    uint64_t v;
    const uint32_t quantized = 8;
    lora_file_init(&l);
    l.only = "ffn_down,";
    struct buf b = changed(g, &l, "", "");
    memcpy(&v, entry(&b, "blk.1.ffn_down.weight.lora_b") + 8, 8);
    v -= 16;
    memcpy(entry(&b, "blk.1.ffn_down.weight.lora_b") + 8, &v, 8);
    refused(g, &b, -EINVAL, "the adapter of 'blk.1.ffn_down.weight' is 96 x 4 and 4 x 48, which does not fit 96 x 64");
    buf_fini(&b);
    b = changed(g, &l, "", "");
    memcpy(entry(&b, "blk.0.ffn_down.weight.lora_a") + 16, &quantized, 4);
    refused(g, &b, -EOPNOTSUPP, "'blk.0.ffn_down.weight.lora_a' is of type Q8_0; adapters must be F32, F16 or BF16");
    buf_fini(&b);
    b = changed(g, &l, "", "");
    memcpy(b.data + b.len - 4, &(float){NAN}, 4);
    refused(g, &b, -EINVAL, "tensor 'blk.1.ffn_down.weight.lora_b' has the value nan at index 255");
    buf_fini(&b);
    b = changed(g, &l, "", "");
    memcpy((char *)memmem(b.data, b.len, "adapter.lora.alpha", 18) + 22, &(float){INFINITY}, 4);
    refused(g, &b, -EINVAL, "adapter.lora.alpha is inf");
    buf_fini(&b);
    b = changed(g, &l, "blk.1.ffn_down.weight.lora_b", "blk.1.ffn_down.weight.lora_a");
    struct adapter *a = NULL;
    assert_int_equal(open_bytes(&a, &b, g), -EINVAL); /* a name twice */
    buf_fini(&b);
    b = changed(g, &l, "blk.0.ffn_down.weight.lora_b", "blk.0.ffn_gate.weight.lora_b");
    refused(g, &b, -EINVAL, "has no .lora_");
    buf_fini(&b);
    gguf_close(moe);
    gguf_close(g);
}

/* A rank of 0, and one that is too large. */
static void test_ranks(void **state)
{
    static const uint64_t ranks[] = {0, 1u << 20};
    struct gguf *g = open_arch("llama", false);
    struct lora_file l;
    lora_file_init(&l);
    l.only = "attn_q,";
    for (int i = 0; i < 2; i++) {
        struct buf b = changed(g, &l, "", "");
        struct adapter *a = NULL;
        memcpy(entry(&b, "blk.0.attn_q.weight.lora_a") + 8, &ranks[i], 8);
        memcpy(entry(&b, "blk.0.attn_q.weight.lora_b"), &ranks[i], 8);
        int r = open_bytes(&a, &b, g);
        assert_true(r == -EINVAL && strstr(error_text(r), "blk.0.attn_q.weight"));
        buf_fini(&b);
    }
    gguf_close(g);
}

/* Matrices that exist, and that no adapter can be added to. */
static void test_matrices_that_cannot(void **state)
{
    static const struct {
        const char *arch, *only, *text;
    } cases[] = {
        {"llama", "token_embd.weight,", "is also the model's output matrix"},
        {"mixtral", "ffn_gate_inp,", NULL},
        {"deepseek2-older", "attn_kv_b,", "of latent attention's heads"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct gguf *g = open_arch(cases[i].arch, false);
        struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
        struct lora_file l;
        uint32_t number;
        uint64_t bytes;
        lora_file_init(&l);
        l.only = cases[i].only;
        struct adapter *a = make(g, &l);
        int r = b->ops->adapter_load(b, a, &number, &bytes);
        assert_int_equal(r, cases[i].text ? -EOPNOTSUPP : 0);
        if (r && !strstr(error_text(r), cases[i].text)) fail_msg("%s", error_text(r));
        adapter_close(a);
        backend_free(b);
        gguf_close(g);
    }
}

static void test_invocations(void **state)
{
    static const int32_t ids[] = {1, 2, 3, 1, 2, 9, 1}, call[] = {1, 2};
    struct adapter a = {.invocation = (int32_t *)call, .n_invocation = 2}, always = {0};
    assert_int_equal(adapter_from(&a, ids, 7), 3);
    assert_int_equal(adapter_from(&a, ids, 4), 0);
    assert_int_equal(adapter_from(&a, ids + 1, 2), 2);
    assert_int_equal(adapter_from(&a, ids, 1), 1);
    assert_int_equal(adapter_from(&always, ids, 7), 0);
    struct gguf *g = open_arch("llama", false);
    struct lora_file l;
    lora_file_init(&l);
    l.invocation = call;
    l.n_invocation = 2;
    struct adapter *read = make(g, &l);
    assert_int_equal(read->n_invocation, 2);
    assert_memory_equal(read->invocation, call, sizeof(call));
    adapter_close(read);
    gguf_close(g);
}

#define AGREES(arch)                                                                                                   \
    {                                                                                                                  \
        "agrees " arch, test_agrees_with_the_reference, NULL, NULL, arch                                               \
    }
#define SAME(arch)                                                                                                     \
    {"same bits " arch, test_same_bits, NULL, NULL, arch},                                                             \
    {                                                                                                                  \
        "in a batch " arch, test_in_a_batch, NULL, NULL, arch                                                          \
    }

static const struct CMUnitTest tests[] = {
    AGREES("llama"),
    AGREES("qwen2"),
    AGREES("qwen3"),
    AGREES("phi3"),
    AGREES("gemma2"),
    AGREES("gemma3n"),
    AGREES("gpt2"),
    AGREES("falcon"),
    AGREES("cohere2"),
    AGREES("bitnet"),
    AGREES("starcoder2"),
    AGREES("qwen2moe"),
    AGREES("deepseek2"),
    AGREES("deepseek2-lite"),
    SAME("llama"),
    SAME("llama/Q8_0"),
    SAME("llama/Q4_0"),
    SAME("phi3/Q8_0"),
    SAME("gemma3n"),
    SAME("cohere2/Q8_0"),
    SAME("qwen2moe/Q8_0"),
    cmocka_unit_test(test_nothing_added),
    cmocka_unit_test(test_files_that_are_no_adapters),
    cmocka_unit_test(test_tensors_that_do_not_fit),
    cmocka_unit_test(test_ranks),
    cmocka_unit_test(test_matrices_that_cannot),
    cmocka_unit_test(test_invocations),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
