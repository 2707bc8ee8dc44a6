/* SPDX-License-Identifier: MIT */
/* Models that give texts vectors or scores: the fast pass beside the independent one; rule 1: a text's rows are a
 * function of the text, whatever else is in the batch, with how many threads and which instructions; what follows
 * pooling; and files that lack something. Catches: a norm or type in the wrong place, a window that is not symmetric,
 * keys of another text that a query sees, a wrong ALiBi distance. */
#include "daemon/backend/cpu/cpu.h"
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST 700
#define BATCH   1100

static const char *const encoders[] = {
    "bert",        "bert-rank",        "nomic-bert",     "jina-bert-v2", "jina-bert-v2-code",
    "modern-bert", "modern-bert-rank", "gemma-embedding"};
#define N_ENCODERS (sizeof(encoders) / sizeof(*encoders))

/* The file of "@arch", in F32, or of "@arch/TYPE". */
static void arch_bytes(struct buf *out, const char *arch)
{
    char name[64];
    struct tiny t;
    snprintf(name, sizeof(name), "%s", arch);
    char *type = strchr(name, '/');
    if (type) *type++ = 0;
    tiny_init(&t);
    t.type = type ? (uint32_t)tiny_type(type) : 0;
    t.arch = name;
    t.ctx = 1024;
    model_file_tiny_bytes(out, &t);
}

static struct gguf *open_arch(const char *arch)
{
    struct buf b = BUF_INIT;
    struct gguf *g;
    arch_bytes(&b, arch);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    buf_fini(&b);
    return g;
}

static struct backend *backend_of(const struct gguf *g, const char *cpu, uint32_t threads)
{
    return tiny_backend(g, &(struct tiny_backend_config){.cpu = cpu, .threads = threads, .batch_tokens = BATCH});
}

struct some_text {
    int32_t ids[LONGEST];
    uint8_t types[LONGEST], want[LONGEST];
    uint32_t n;
};

/* Tokens of @seed, the second half of type 1 in a model with types. */
static void make_text(struct some_text *t, const struct backend *b, uint32_t n, uint64_t seed)
{
    t->n = n;
    seeded_tokens(t->ids, n, b->hparams.vocab, seed);
    for (uint32_t i = 0; i < n; i++) t->types[i] = b->hparams.embedding.types && i >= n / 2;
    memset(t->want, WANT_HIDDEN, n);
}

static struct batch_entry entry_of(const struct backend *b, const struct some_text *t)
{
    const bool typed = b->hparams.embedding.types;
    return (struct batch_entry){
        .n = t->n, .tokens = t->ids, .types = typed ? t->types : NULL, .want = t->want, .whole = true};
}

static void forward(struct backend *b, const struct batch_entry *e, size_t n, float *rows)
{
    int r = b->ops->forward(b, e, n, NULL, rows);
    if (r) fail_msg("%s", error_text(r));
}

/* --- the independent pass --- */

static void agrees(const char *arch, uint32_t n)
{
    struct gguf *g = open_arch(arch);
    struct reference *r = NULL;
    int e = reference_new(&r, g);
    if (e == -ENOENT) {
        print_message("skipped: %s\n", error_text(e));
        gguf_close(g);
        skip();
    }
    assert_int_equal(e, 0);
    struct backend *b = backend_of(g, NULL, 2);
    const size_t all = (size_t)n * b->hparams.dim;
    struct some_text t;
    make_text(&t, b, n, 7);
    float *rows = malloc(2 * all * sizeof(*rows)), *want = rows + all, worst = 0;
    assert_non_null(rows);
    const struct batch_entry entry = entry_of(b, &t);
    forward(b, &entry, 1, rows);
    e = reference_text(r, t.ids, entry.types, n, want);
    if (e) fail_msg("%s", error_text(e));
    for (size_t i = 0; i < all; i++) worst = fmaxf(worst, fabsf(rows[i] - want[i]));
    if (!(worst < 1e-4f)) fail_msg("%s: rows of %u tokens differ by %g", arch, n, (double)worst);
    free(rows);
    backend_free(b);
    reference_free(r);
    gguf_close(g);
}

static void test_agrees_with_the_reference(void **state)
{
    static const uint32_t lengths[] = {1, 2, 31, 32, 33, 64, 150, 513, LONGEST};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) agrees(*state, lengths[i]);
}

/* --- rule 1 --- */

#define COMPANY 6

/* The texts of a batch: @t[0] is that which is compared. */
static void make_company(struct some_text t[COMPANY], const struct backend *b)
{
    static const uint32_t lengths[COMPANY] = {100, 1, 64, 33, 3, 600};
    for (uint32_t i = 0; i < COMPANY; i++) make_text(&t[i], b, lengths[i], i ? 50 + i : 5);
}

/* Text 0 in a batch at place @at, of which only the rows of @first and the last token are wanted if @few. */
static void in_company(struct backend *b, const struct some_text t[COMPANY], uint32_t at, bool few, const float *alone)
{
    const uint32_t dim = b->hparams.dim;
    struct batch_entry e[COMPANY];
    float *rows = malloc((size_t)BATCH * dim * sizeof(*rows)), *own = rows;
    uint8_t ends[LONGEST] = {0};
    assert_non_null(rows);
    for (uint32_t i = 0, k = 1; i < COMPANY; i++) e[i] = entry_of(b, &t[i == at ? 0 : k++]);
    for (uint32_t i = 0; i < at; i++) own += (size_t)e[i].n * dim;
    ends[0] = ends[t[0].n - 1] = WANT_HIDDEN;
    if (few) e[at].want = ends;
    forward(b, e, COMPANY, rows);
    if (few) {
        assert_memory_equal(own, alone, dim * sizeof(*own));
        assert_memory_equal(own + dim, alone + (size_t)(t[0].n - 1) * dim, dim * sizeof(*own));
    } else {
        assert_memory_equal(own, alone, (size_t)t[0].n * dim * sizeof(*own));
    }
    free(rows);
}

static void test_same_bits(void **state)
{
    struct gguf *g = open_arch(*state);
    struct some_text *t = malloc(COMPANY * sizeof(*t));
    float *alone = NULL;
    const struct kernels *k;
    assert_non_null(t);
    for (uint32_t i = 0; (k = kernels_nth(i)); i++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct backend *b = backend_of(g, k->name, threads);
            make_company(t, b);
            if (!alone) {
                alone = malloc((size_t)LONGEST * b->hparams.dim * sizeof(*alone));
                assert_non_null(alone);
                const struct batch_entry e = entry_of(b, &t[0]);
                forward(b, &e, 1, alone);
            }
            in_company(b, t, (i + threads) % COMPANY, threads == 1, alone);
            in_company(b, t, COMPANY - 1, threads == 2, alone);
            backend_free(b);
        }
    free(alone);
    free(t);
    gguf_close(g);
}

/* Where all layers have windows, a token depends on those at most layers * 35 away, to both sides. */
static void test_windows_are_symmetric(void **state)
{
    struct gguf *g = open_arch("modern-bert");
    struct backend *b = backend_of(g, NULL, 2);
    const uint32_t n = 500, changed = 250, reach = 4 * 35;
    const size_t dim = b->hparams.dim;
    struct some_text one, two;
    float *rows = malloc(2 * n * dim * sizeof(*rows)), *others = rows + n * dim;
    assert_non_null(rows);
    memset(b->hparams.by_layer.slides, 0xff, sizeof(b->hparams.by_layer.slides));
    make_text(&one, b, n, 5);
    two = one;
    two.ids[changed] = (two.ids[changed] + 1) % (int32_t)b->hparams.vocab;
    const struct batch_entry e[2] = {entry_of(b, &one), entry_of(b, &two)};
    forward(b, e, 2, rows);
    for (uint32_t i = 0; i < n; i++) {
        const bool same = !memcmp(rows + i * dim, others + i * dim, dim * sizeof(*rows));
        const uint32_t away = i < changed ? changed - i : i - changed;
        if (away > reach) assert_true(same);
        if (away <= 35) assert_false(same);
    }
    free(rows);
    backend_free(b);
    gguf_close(g);
}

static void test_types_matter(void **state)
{
    struct gguf *g = open_arch("bert");
    struct backend *b = backend_of(g, NULL, 1);
    struct some_text t;
    make_text(&t, b, 20, 5);
    float *rows = malloc(3 * 20 * b->hparams.dim * sizeof(*rows));
    struct batch_entry e[3] = {entry_of(b, &t), entry_of(b, &t), entry_of(b, &t)};
    const size_t row = 20 * b->hparams.dim;
    uint8_t none[20] = {0};
    e[1].types = NULL;
    e[2].types = none;
    forward(b, e, 3, rows);
    assert_memory_equal(rows + row, rows + 2 * row, row * sizeof(*rows));
    assert_memory_not_equal(rows, rows + row, row * sizeof(*rows));
    free(rows);
    backend_free(b);
    gguf_close(g);
}

/* --- what cannot be computed --- */

static void entry_refused(struct backend *b, const struct batch_entry *e, int error, const char *why)
{
    float rows[1];
    int r = b->ops->forward(b, e, 1, rows, rows);
    if (r != error || !strstr(error_text(r), why)) fail_msg("%d \"%s\", not \"%s\"", r, error_text(r), why);
}

static void test_entries_that_are_refused(void **state)
{
    struct gguf *g = open_arch("bert");
    struct backend *b = backend_of(g, NULL, 1);
    struct some_text t;
    make_text(&t, b, 20, 5);
    struct batch_entry e = entry_of(b, &t);
    e.pos = 1;
    entry_refused(b, &e, -EINVAL, "a 'bert' model computes a text whole, in one entry from position 0 on");
    e = entry_of(b, &t);
    e.whole = false;
    entry_refused(b, &e, -EINVAL, "computes a text whole");
    e = entry_of(b, &t);
    e.n = BATCH + 1;
    entry_refused(b, &e, -EINVAL, "a batch of more than 1100 tokens");
    t.types[4] = 2;
    e = entry_of(b, &t);
    entry_refused(b, &e, -EINVAL, "token type 2 of 2");
    t.types[4] = 0;
    t.want[7] = WANT_LOGITS;
    e = entry_of(b, &t);
    entry_refused(b, &e, -EOPNOTSUPP, "a 'bert' model has no logits");
    float row[64] = {0};
    assert_int_equal(b->ops->head(b, POOLING_RANK, row, 1, row), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "no classifier"));
    backend_free(b);
    gguf_close(g);
    g = open_arch("qwen3-embedding");
    b = backend_of(g, NULL, 1);
    e.types = t.types;
    entry_refused(b, &e, -EOPNOTSUPP, "a 'qwen3' model has no token types");
    backend_free(b);
    gguf_close(g);
}

/* --- what follows pooling --- */

static const float *tensor(const struct gguf *g, const char *name)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    return t ? t->data : NULL;
}

/* out[rows] = W in + bias, in double. */
static void dense(const struct gguf *g, const char *name, const double *in, uint32_t k, uint32_t rows, double *out)
{
    char full[64];
    snprintf(full, sizeof(full), "%s.weight", name);
    const float *w = tensor(g, full);
    snprintf(full, sizeof(full), "%s.bias", name);
    const float *bias = tensor(g, full);
    assert_non_null(w);
    for (uint32_t i = 0; i < rows; i++) {
        out[i] = bias ? (double)bias[i] : 0;
        for (uint32_t j = 0; j < k; j++) out[i] += (double)w[i * k + j] * in[j];
    }
}

static void layer_norm(double *x, uint32_t n, const float *w, double eps)
{
    double mean = 0, var = 0;
    for (uint32_t i = 0; i < n; i++) mean += x[i] / n;
    for (uint32_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / n;
    for (uint32_t i = 0; i < n; i++) x[i] = (x[i] - mean) / sqrt(var + eps) * (double)w[i];
}

/* The head of @arch by its tensors: of in[64] -> out. Returns how many values. */
static uint32_t expected(const struct gguf *g, const char *arch, const double *in, double *out)
{
    double hidden[128];
    if (!strcmp(arch, "gemma-embedding")) {
        dense(g, "dense_2", in, 64, 128, hidden);
        dense(g, "dense_3", hidden, 128, 64, out);
        return 64;
    }
    if (!strcmp(arch, "qwen3-rank")) {
        dense(g, "cls.output", in, 64, 2, out);
        const double a = exp(out[0]), b = exp(out[1]);
        out[0] = a / (a + b), out[1] = b / (a + b);
        return 2;
    }
    const bool modern = strcmp(arch, "bert-rank") != 0;
    dense(g, "cls", in, 64, 64, hidden);
    for (uint32_t i = 0; i < 64; i++)
        hidden[i] = modern ? 0.5 * hidden[i] * (1 + erf(hidden[i] / sqrt(2))) : tanh(hidden[i]);
    if (modern) layer_norm(hidden, 64, tensor(g, "cls.norm.weight"), 1e-5);
    dense(g, "cls.output", hidden, 64, modern ? 1 : 3, out);
    return modern ? 1 : 3;
}

#define TEXTS 70 /* more than are computed at once */

static void test_heads(void **state)
{
    const char *arch = *state;
    struct gguf *g = open_arch(arch);
    struct backend *b = backend_of(g, NULL, 2);
    const enum pooling kind = b->hparams.embedding.pooling;
    const uint32_t values = hparams_outputs(&b->hparams, kind);
    float *rows = malloc(TEXTS * 64 * sizeof(*rows)), *out = malloc(TEXTS * values * sizeof(*out)), one[128];
    assert_true(rows && out && b->hparams.dim == 64);
    for (uint32_t i = 0; i < TEXTS * 64; i++) rows[i] = sinf((float)(i * i % 977));
    assert_int_equal(b->ops->head(b, kind, rows, TEXTS, out), 0);
    for (uint32_t t = 0; t < TEXTS; t++) {
        double in[64], want[64];
        for (uint32_t i = 0; i < 64; i++) in[i] = (double)rows[t * 64 + i];
        assert_int_equal(expected(g, arch, in, want), values);
        for (uint32_t i = 0; i < values; i++)
            if (!(fabs(want[i] - (double)out[t * values + i]) < 2e-5))
                fail_msg("%s: value %u of text %u is %g, not %g", arch, i, t, (double)out[t * values + i], want[i]);
        assert_int_equal(b->ops->head(b, kind, rows + t * 64, 1, one), 0);
        assert_memory_equal(one, out + t * values, values * sizeof(*one));
    }
    free(rows);
    free(out);
    backend_free(b);
    gguf_close(g);
}

/* The row that a head reads. */
static void test_pooled(void **state)
{
    static const struct {
        const char *arch;
        enum pooling pooled;
    } cases[] = {{"bert-rank", POOLING_CLS},
                 {"modern-bert-rank", POOLING_MEAN},
                 {"qwen3-rank", POOLING_LAST},
                 {"qwen3-embedding", POOLING_LAST},
                 {"bert", POOLING_MEAN}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct gguf *g = open_arch(cases[i].arch);
        struct hparams s;
        assert_int_equal(hparams_read(&s, g), 0);
        assert_int_equal(hparams_pooled(&s, s.embedding.pooling), cases[i].pooled);
        assert_int_equal(s.embedding.whole, s.desc->encoder.is);
        gguf_close(g);
    }
}

/* --- files --- */

static void refused(const char *arch, const char *find, size_t behind, const void *put, size_t n, const char *why)
{
    struct buf file = BUF_INIT;
    struct gguf *g;
    struct hparams s;
    size_t bytes;
    arch_bytes(&file, arch);
    memcpy(file.data + model_file_find(&file, find) + behind, put, n);
    assert_int_equal(model_file_open(&g, file.data, file.len), 0);
    int r = hparams_read(&s, g);
    if (!r) r = backend_check(NULL, g, &s, &bytes);
    if (!r || !strstr(error_text(r), why)) fail_msg("\"%s\", not \"%s\"", r ? error_text(r) : "", why);
    gguf_close(g);
    buf_fini(&file);
}

static void lacks(const char *arch, const char *find, const char *put, const char *why)
{
    refused(arch, find, 0, put, strlen(put), why);
}

/* The number of a key. */
static void number(const char *arch, const char *key, uint32_t value, const char *why)
{
    refused(arch, key, strlen(key) + 4, &value, sizeof(value), why);
}

static void test_files_that_are_refused(void **state)
{
    const uint8_t causal = 1;
    refused("bert", "bert.attention.causal", strlen("bert.attention.causal") + 4, &causal, 1,
            "key 'bert.attention.causal' is true; only false is supported in a 'bert' model");
    number("bert", "bert.pooling_type", 17, "key 'bert.pooling_type' is 17; it must be 0 (none), 1 (mean)");
    number("bert", "bert.context_length", 2048,
           "tensor 'position_embd.weight' is 64 x 1024, but the model's keys say 64 x 2048");
    number("bert", "tokenizer.ggml.token_type_count", 3,
           "tensor 'token_types.weight' is 64 x 2, but the model's keys say 64 x 3");
    number("bert", "tokenizer.ggml.token_type_count", 0,
           "key 'tokenizer.ggml.token_type_count' is 0, not a number from 1");
    lacks("bert", "tokenizer.ggml.token_type_count", "tokenizer.ggml.token_type_Count",
          "key 'tokenizer.ggml.token_type_count' is missing");
    lacks("jina-bert-v2", "token_types.weight", "token_Types.weight", "tensor 'token_types.weight' is missing");
    lacks("bert", "position_embd", "position_Embd", "tensor 'position_embd.weight' is missing");
    lacks("bert", "token_embd_norm.bias", "token_embd_norm.Bias", "tensor 'token_embd_norm.bias' is missing");
    lacks("bert", "blk.1.layer_output_norm.bias", "blk.1.Layer", "tensor 'blk.1.layer_output_norm.bias' is missing");
    lacks("nomic-bert", "blk.0.attn_output_norm.weight", "blk.0.attn_Output",
          "tensor 'blk.0.attn_output_norm.weight' is missing");
    lacks("modern-bert", "blk.2.attn_norm", "blk.2.attn_Norm", "tensor 'blk.2.attn_norm.weight' is missing");
    lacks("gemma-embedding", "gemma-embedding.attention.sliding_window", "gemma-embedding.Attention",
          "key 'gemma-embedding.attention.sliding_window' is missing");
    lacks("gemma-embedding", "dense_3.weight", "dense_4.weight", "tensor 'dense_3.weight' is missing");
    lacks("qwen3-rank", "cls.output.weight", "cls.Output.weight",
          "tensor 'cls.output.weight' is missing, but key 'qwen3.pooling_type' is 4 (rank)");
    number("bert-rank", "bert.pooling_type", 5, "key 'bert.pooling_type' is 5");
}

static void add(struct CMUnitTest *tests, size_t *n, CMUnitTestFunction fn, const char *what, const char *arch)
{
    static char names[100][64];
    snprintf(names[*n], sizeof(names[*n]), "%s %s", what, arch);
    tests[*n] = (struct CMUnitTest){names[*n], fn, NULL, NULL, (void *)(uintptr_t)arch};
    ++*n;
}

int main(void)
{
    static const char *const quantized[] = {"bert/Q8_0", "modern-bert/Q4_0", "gemma-embedding/Q8_0"};
    static const char *const heads[] = {"bert-rank", "modern-bert-rank", "qwen3-rank", "gemma-embedding"};
    struct CMUnitTest tests[100] = {cmocka_unit_test(test_windows_are_symmetric), cmocka_unit_test(test_types_matter),
                                    cmocka_unit_test(test_entries_that_are_refused), cmocka_unit_test(test_pooled),
                                    cmocka_unit_test(test_files_that_are_refused)};
    size_t n = 5;
    for (size_t i = 0; i < N_ENCODERS; i++) {
        add(tests, &n, test_agrees_with_the_reference, "agrees_with_the_reference", encoders[i]);
        add(tests, &n, test_same_bits, "same_bits", encoders[i]);
    }
    for (size_t i = 0; i < 3; i++) add(tests, &n, test_same_bits, "same_bits", quantized[i]);
    for (size_t i = 0; i < 4; i++) add(tests, &n, test_heads, "head", heads[i]);
    return _cmocka_run_group_tests("encoders", tests, n, NULL, NULL);
}
