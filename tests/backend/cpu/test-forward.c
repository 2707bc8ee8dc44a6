/* SPDX-License-Identifier: MIT */
/* Rule 1: a token's logits are the same bits whatever else is in the batch, however its prompt was cut, wherever its
 * blocks lie, and whichever threads and instruction set computed them. */
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct model {
    const char *name;
    uint32_t type;
    bool tied;
};

static const struct model models[] = {
    {"F32 tied", 0, true},   {"F32 untied", 0, false},   {"F16 tied", 1, true},  {"F16 untied", 1, false},
    {"BF16 tied", 30, true}, {"BF16 untied", 30, false}, {"Q8_0 tied", 8, true}, {"Q8_0 untied", 8, false},
    {"Q4_0 tied", 2, true},  {"Q4_0 untied", 2, false},  {"Q4_1 tied", 3, true}, {"Q4_1 untied", 3, false},
    {"Q6_K tied", 14, true}, {"Q6_K untied", 14, false}, {"Q5_0", 6, true},      {"Q5_1", 7, true},
    {"Q2_K", 10, true},      {"Q3_K", 11, true},         {"Q4_K", 12, true},     {"Q5_K", 13, true},
    {"IQ4_NL", 20, true},    {"IQ4_XS", 23, true},       {"MXFP4", 39, true},
};
#define N_MODELS (sizeof(models) / sizeof(*models))

#define LENGTH 75 /* tokens: two whole blocks and a part */

static struct gguf *open_model(const struct model *m)
{
    struct tiny t;
    tiny_init(&t);
    t.type = m->type;
    t.tied = m->tied;
    if ((t.type >= 10 && t.type <= 14) || t.type == 23) t.dim = 256, t.ffn = 512; /* blocks of 256 */
    return model_file_tiny(&t);
}

static void sane(const struct backend_seq *s)
{
    size_t n = (size_t)s->done * s->vocab;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(s->logits[i]));
        sum += s->logits[i];
        squares += (double)s->logits[i] * s->logits[i];
    }
    double deviation = sqrt(squares / n - sum / n * (sum / n));
    assert_true(deviation > 0.5 && deviation < 20);
}

/* Compares @s with *want, and frees it. The first one is checked by itself, and becomes *want. */
static void same_as_first(struct backend_seq *want, struct backend_seq *s)
{
    if (want->done) {
        backend_seq_same_logits(want, s);
        backend_seq_fini(s);
    } else {
        sane(s);
        *want = *s;
    }
}

/* Chunks, threads, instruction sets and KV types of one model; *state is it. */
static void test_one_model(void **state)
{
    static const uint32_t chunks[] = {1, 7, 32, LENGTH};
    struct gguf *g = open_model(*state);
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        struct backend_seq want = {0};
        const struct kernels *k;
        for (size_t i = 0; (k = kernels_nth(i)); i++)
            for (uint32_t threads = 1; threads <= 3; threads++) {
                struct backend *b =
                    tiny_backend(g, &(struct tiny_backend_config){.cpu = k->name, .threads = threads, .kv_type = kv});
                assert_string_equal(b->isa, k->name);
                struct backend_seq s;
                backend_seq_init(&s, b, LENGTH, 5, 0);
                backend_seq_run(b, &s, chunks[(i + threads) % 4]);
                same_as_first(&want, &s);
                backend_free(b);
            }
        backend_seq_fini(&want);
    }
    gguf_close(g);
}

/* Batches of one and several groups of activations, each in one go. *state is the model. */
static void test_long_batches(void **state)
{
    static const uint32_t lengths[] = {47, 48, 49, 95, 96, 97, 143, 144, 145, 191, 192, 239, 240, 241, 288, 300};
    struct gguf *g = open_model(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .batch_tokens = 300});
    struct backend_seq want, s;
    backend_seq_init(&want, b, 300, 5, 0);
    backend_seq_run(b, &want, 20);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        backend_seq_init(&s, b, lengths[i], 5, 20);
        backend_seq_run(b, &s, lengths[i]);
        want.done = lengths[i];
        backend_seq_same_logits(&want, &s);
        backend_seq_fini(&s);
    }
    backend_seq_fini(&want);
    backend_free(b);
    gguf_close(g);
}

/* Batches of several tiles of tokens, more threads than pieces, then single tokens. With 4 KV heads, the columns of one
 * are no whole quantization block. */
static void test_many_threads(void **state)
{
    static const uint32_t threads[] = {1, 2, 5, 16}, first[] = {40, 250, 97, 200}, all = 256;
    for (uint32_t kv_heads = 2; kv_heads <= 4; kv_heads += 2) {
        struct tiny t;
        tiny_init(&t);
        t.type = 3; /* Q4_1 */
        t.kv_heads = kv_heads;
        struct gguf *g = model_file_tiny(&t);
        struct backend_seq want = {0};
        for (size_t i = 0; i < 4; i++) {
            struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = threads[i]});
            struct backend_seq s;
            backend_seq_init(&s, b, all, 5, 0);
            while (s.done < 250)
                backend_seq_step(b, &s, &(uint32_t){s.done + first[i] > 250 ? 250 - s.done : first[i]}, 1);
            backend_seq_run(b, &s, 1);
            same_as_first(&want, &s);
            backend_free(b);
        }
        backend_seq_fini(&want);
        gguf_close(g);
    }
}

/* So few tokens that gate and up are computed for many columns at once: more of them than the buffer holds of all these
 * tokens. *state is the model. */
static void test_few_tokens_of_a_wide_model(void **state)
{
    struct tiny t;
    tiny_init(&t);
    t.type = ((const struct model *)*state)->type;
    t.ffn = 2080;
    struct gguf *g = model_file_tiny(&t);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = threads});
        struct backend_seq want, s;
        backend_seq_init(&want, b, 40, 5, 0);
        backend_seq_run(b, &want, 40);
        sane(&want);
        for (uint32_t n = 1; n <= 8; n++) {
            backend_seq_init(&s, b, 40, 5, 20);
            backend_seq_run(b, &s, n);
            backend_seq_same_logits(&want, &s);
            backend_seq_fini(&s);
        }
        backend_seq_fini(&want);
        backend_free(b);
    }
    gguf_close(g);
}

/* --- a fixture: one Q4_1 model, and for each KV type a backend of two threads and a sequence computed alone, as the
 * standard --- */

static struct gguf *file;
static struct backend *backends[KERN_KV_TYPES], *backend;  /* the one of the test */
static struct backend_seq standards[KERN_KV_TYPES], alone; /* likewise */

static int setup(void **state)
{
    file = open_model(&(struct model){"", 3, true});
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        backends[kv] = tiny_backend(file, &(struct tiny_backend_config){.threads = 2, .kv_type = kv});
        backend_seq_init(&standards[kv], backends[kv], LENGTH, 5, 0);
        backend_seq_run(backends[kv], &standards[kv], LENGTH);
    }
    return 0;
}

static int teardown(void **state)
{
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        backend_seq_fini(&standards[kv]);
        backend_free(backends[kv]);
    }
    file = gguf_close(file);
    return 0;
}

/* *state is the KV type. */
static int choose(void **state)
{
    enum kern_kv kv = (enum kern_kv)(uintptr_t)*state;
    backend = backends[kv];
    alone = standards[kv];
    return 0;
}

static void test_chunks(void **state)
{
    for (uint32_t chunk = 1; chunk <= LENGTH; chunk += chunk < 9 ? 1 : 13) {
        struct backend_seq s;
        backend_seq_init(&s, backend, LENGTH, 5, 10);
        backend_seq_run(backend, &s, chunk);
        backend_seq_same_logits(&alone, &s);
        backend_seq_fini(&s);
    }
}

static void test_in_a_batch_of_seven(void **state)
{
    struct backend_seq s[7];
    for (uint32_t i = 0; i < 7; i++)
        backend_seq_init(&s[i], backend, i == 3 ? LENGTH : 20 + 9 * i, i == 3 ? 5 : 100 + i, 4 + 4 * i);
    for (uint32_t step = 0; s[3].done < LENGTH; step++) {
        uint32_t n[7];
        for (uint32_t i = 0; i < 7; i++) {
            uint32_t left = s[i].n - s[i].done, want = (step * 5 + i * 3) % 17;
            n[i] = want < left ? want : left;
        }
        n[3] = n[3] || !(s[3].n - s[3].done) ? n[3] : 1;
        backend_seq_step(backend, s, n, 7);
    }
    backend_seq_same_logits(&alone, &s[3]);
    for (uint32_t i = 0; i < 7; i++) { /* and the others are what they are alone */
        struct backend_seq again;
        backend_seq_run(backend, &s[i], 50);
        backend_seq_init(&again, backend, s[i].n, i == 3 ? 5 : 100 + i, 60);
        backend_seq_run(backend, &again, 11);
        backend_seq_same_logits(&again, &s[i]);
        backend_seq_fini(&again);
        backend_seq_fini(&s[i]);
    }
}

static void test_decoding_together(void **state)
{
    struct backend_seq s[5];
    for (uint32_t i = 0; i < 5; i++) backend_seq_init(&s[i], backend, LENGTH, i == 2 ? 5 : i, 4 + 4 * i);
    for (uint32_t i = 0; i < LENGTH; i++) backend_seq_step(backend, s, (uint32_t[]){1, 1, 1, 1, 1}, 5);
    backend_seq_same_logits(&alone, &s[2]);
    for (uint32_t i = 0; i < 5; i++) backend_seq_fini(&s[i]);
}

static void test_shuffled_blocks(void **state)
{
    struct backend_seq s;
    backend_seq_init(&s, backend, LENGTH, 5, 0);
    memcpy(s.blocks, (uint32_t[]){91, 3, 40}, 3 * sizeof(uint32_t));
    backend_seq_run(backend, &s, 19);
    backend_seq_same_logits(&alone, &s);
    backend_seq_fini(&s);
}

/* Values that a block's last owner left behind count for nothing. */
static void test_used_blocks(void **state)
{
    struct backend_seq s;
    for (uint64_t seed = 1; seed < 3; seed++) {
        backend_seq_init(&s, backend, 96, seed, 20);
        backend_seq_run(backend, &s, 40);
        backend_seq_fini(&s);
    }
    size_t bytes = backend->hparams.groups[0].bytes_per_token * KV_BLOCK;
    void *nan = malloc(bytes);
    assert_non_null(nan);
    memset(nan, 0xff, bytes); /* NaNs */
    for (uint32_t i = 20; i < 23; i++) backend->ops->kv_write(backend, 0, i, nan);
    free(nan);
    backend_seq_init(&s, backend, LENGTH, 5, 20);
    backend_seq_run(backend, &s, 19);
    backend_seq_same_logits(&alone, &s);
    backend_seq_fini(&s);
}

static void test_copied_block(void **state)
{
    struct backend_seq s;
    backend_seq_init(&s, backend, LENGTH, 5, 0);
    s.blocks[0] = 0, s.blocks[1] = 50, s.blocks[2] = 51;
    backend->ops->kv_copy(backend, 0, 50, 1, 9);
    memcpy(s.logits, alone.logits, 41 * sizeof(float) * s.vocab);
    s.done = 41; /* a block shared, 9 tokens of the second copied, the rest computed */
    backend_seq_run(backend, &s, 6);
    backend_seq_same_logits(&alone, &s);
    backend_seq_fini(&s);
}

static void test_copy_takes_no_more_than_asked(void **state)
{
    size_t bytes = backend->hparams.groups[0].bytes_per_token * KV_BLOCK;
    uint8_t *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
    assert_true(a && b && c);
    for (size_t i = 0; i < bytes; i++) a[i] = (uint8_t)(i * 7), b[i] = (uint8_t)(255 - i * 3);
    backend->ops->kv_write(backend, 0, 70, a);
    backend->ops->kv_write(backend, 0, 71, b);
    backend->ops->kv_copy(backend, 0, 71, 70, 0);
    backend->ops->kv_read(backend, 0, 71, c);
    assert_memory_equal(b, c, bytes);
    backend->ops->kv_copy(backend, 0, 71, 70, 31);
    backend->ops->kv_read(backend, 0, 71, c);
    assert_memory_not_equal(a, c, bytes);
    backend->ops->kv_copy(backend, 0, 71, 70, 32);
    backend->ops->kv_read(backend, 0, 71, c);
    assert_memory_equal(a, c, bytes);
    free(a), free(b), free(c);
}

static void test_read_and_written_blocks(void **state)
{
    struct backend *other = tiny_backend(
        file, &(struct tiny_backend_config){.threads = 1, .blocks = 7, .kv_type = backend->config.kv_type});
    size_t bytes = backend->hparams.groups[0].bytes_per_token * KV_BLOCK;
    void *payload = malloc(bytes);
    assert_non_null(payload);
    struct backend_seq s;
    backend_seq_init(&s, other, LENGTH, 5, 4);
    for (uint32_t i = 0; i < 2; i++) {
        backend->ops->kv_read(backend, 0, i, payload);
        other->ops->kv_write(other, 0, 4 + i, payload);
    }
    free(payload);
    memcpy(s.logits, alone.logits, 64 * sizeof(float) * s.vocab);
    s.done = 64;
    backend_seq_run(other, &s, 4);
    backend_seq_same_logits(&alone, &s);
    backend_seq_fini(&s);
    backend_free(other);
}

/* --- other threads --- */

struct traffic {
    uint32_t block;
    const void *want;
    void *have;
    atomic_bool stop;
    int wrong, rounds;
};

static void *read_blocks(void *arg)
{
    struct traffic *t = arg;
    size_t bytes = backend->hparams.groups[0].bytes_per_token * KV_BLOCK;
    while (!atomic_load(&t->stop) || !t->rounds) {
        backend->ops->kv_read(backend, 0, t->block, t->have);
        t->wrong += memcmp(t->have, t->want, bytes) != 0;
        t->rounds++;
    }
    return NULL;
}

static void *write_blocks(void *arg)
{
    struct traffic *t = arg;
    while (!atomic_load(&t->stop) || !t->rounds) {
        backend->ops->kv_write(backend, 0, t->block, t->want);
        t->rounds++;
    }
    return NULL;
}

/* A block is saved while a batch reads it, and another one restored, beside the batches (thread sanitizers see more).
 */
static void test_saved_and_restored_beside(void **state)
{
    size_t bytes = backend->hparams.groups[0].bytes_per_token * KV_BLOCK;
    void *first = malloc(bytes), *have = malloc(bytes);
    pthread_t threads[2];
    assert_true(first && have);
    backend->ops->kv_read(backend, 0, 0, first);
    struct traffic t[2] = {{.want = first, .have = have}, {.block = 100, .want = first}};
    assert_int_equal(pthread_create(&threads[0], NULL, read_blocks, &t[0]), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, write_blocks, &t[1]), 0);
    for (int i = 0; i < 10; i++) {
        struct backend_seq s;
        backend_seq_init(&s, backend, LENGTH, 5, 0);
        s.blocks[1] = 60, s.blocks[2] = 101;
        memcpy(s.logits, alone.logits, KV_BLOCK * sizeof(float) * s.vocab);
        s.done = KV_BLOCK; /* of the block that is read */
        backend_seq_run(backend, &s, 9);
        backend_seq_same_logits(&alone, &s);
        backend_seq_fini(&s);
    }
    for (int i = 0; i < 2; i++) atomic_store(&t[i].stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(t[0].wrong, 0);
    backend->ops->kv_read(backend, 0, 100, have);
    assert_memory_equal(first, have, bytes);
    free(first), free(have);
}

static void test_time_is_counted_by_part(void **state)
{
    struct timing t[TIMING_PARTS] = {0};
    struct backend_seq s;
    backend_seq_init(&s, backend, LENGTH, 5, 8);
    backend->timing = t;
    backend_seq_run(backend, &s, LENGTH);
    backend->timing = NULL;
    for (size_t i = 0; i < TIMING_PARTS; i++) assert_true(t[i].work_ns > 0);
    backend_seq_fini(&s);
}

static void test_only_wanted_rows(void **state)
{
    struct backend_seq s;
    backend_seq_init(&s, backend, LENGTH, 5, 8);
    memset(s.want, WANT_NOTHING, LENGTH);
    s.want[3] = s.want[40] = s.want[LENGTH - 1] = WANT_LOGITS;
    struct batch_entry e = backend_seq_entry(&s, LENGTH);
    float *out = malloc(3 * sizeof(float) * s.vocab);
    assert_non_null(out);
    assert_int_equal(backend->ops->forward(backend, &e, 1, out, NULL), 0);
    static const uint32_t rows[] = {3, 40, LENGTH - 1};
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(out + i * s.vocab, alone.logits + (size_t)rows[i] * s.vocab, s.vocab * sizeof(float));
    e.want = NULL; /* of what nothing is wanted, the next token sees all the same */
    e.n = LENGTH - 1;
    assert_int_equal(backend->ops->forward(backend, &e, 1, NULL, NULL), 0);
    s.done = LENGTH - 1;
    e = backend_seq_entry(&s, 1);
    assert_int_equal(backend->ops->forward(backend, &e, 1, out, NULL), 0);
    assert_memory_equal(out, alone.logits + (size_t)s.done * s.vocab, s.vocab * sizeof(float));
    free(out);
    backend_seq_fini(&s);
}

/* The hidden state is the normed input of the product with the vocabulary, in any order of the logits. */
static void test_hidden_state(void **state)
{
    struct tiny t;
    tiny_init(&t);
    t.type = 0;
    struct gguf *g = model_file_tiny(&t);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq s;
    backend_seq_init(&s, b, 10, 5, 0);
    memset(s.want, WANT_NOTHING, 10);
    s.want[4] = WANT_HIDDEN;
    s.want[9] = WANT_LOGITS | WANT_HIDDEN;
    struct batch_entry e = backend_seq_entry(&s, 10);
    float hidden[2][64], *logits = malloc(s.vocab * sizeof(float));
    assert_non_null(logits);
    assert_int_equal(b->ops->forward(b, &e, 1, logits, hidden[0]), 0);
    const float *w = gguf_find_tensor(g, "token_embd.weight")->data;
    for (uint32_t v = 0; v < s.vocab; v++) {
        float acc = 0;
        for (uint32_t d = 0; d < 64; d++) acc = fmaf(w[v * 64 + d], hidden[1][d], acc);
        assert_memory_equal(&acc, &logits[v], sizeof(acc));
    }
    assert_memory_not_equal(hidden[0], hidden[1], sizeof(hidden[0]));
    free(logits);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

/* Embeddings given instead of ids. */
static void test_embeddings_as_input(void **state)
{
    struct tiny t;
    tiny_init(&t);
    t.type = 0, t.tied = false;
    struct gguf *g = model_file_tiny(&t);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    const float *w = gguf_find_tensor(g, "token_embd.weight")->data;
    struct backend_seq a, c;
    backend_seq_init(&a, b, 40, 5, 0);
    backend_seq_init(&c, b, 40, 5, 2);
    backend_seq_run(b, &a, 40);
    float *embd = malloc(40 * 64 * sizeof(float));
    assert_non_null(embd);
    for (uint32_t i = 0; i < 40; i++) memcpy(embd + i * 64, w + a.tokens[i] * 64, 64 * sizeof(float));
    struct batch_entry e = backend_seq_entry(&c, 40);
    e.tokens = NULL;
    e.embd = embd;
    assert_int_equal(b->ops->forward(b, &e, 1, c.logits, NULL), 0);
    c.done = 40;
    backend_seq_same_logits(&a, &c);
    free(embd);
    backend_seq_fini(&a);
    backend_seq_fini(&c);
    backend_free(b);
    gguf_close(g);
}

static void test_what_cannot_run(void **state)
{
    struct backend_seq s;
    backend_seq_init(&s, backend, 512, 5, 0);
    struct batch_entry e = backend_seq_entry(&s, 257), two[2];
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "a batch of more than 256 tokens"));
    two[0] = two[1] = backend_seq_entry(&s, 129);
    assert_int_equal(backend->ops->forward(backend, two, 2, s.logits, NULL), -EINVAL);
    e = backend_seq_entry(&s, 0);
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    s.done = 500;
    e = backend_seq_entry(&s, 12);
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), 0);
    e.n = 13;
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "position 512 is outside the context of 512"));
    s.done = 0;
    s.tokens[2] = (int32_t)s.vocab;
    e = backend_seq_entry(&s, 5);
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "is outside the vocabulary of"));
    s.tokens[2] = -1;
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    s.tokens[2] = 0;
    s.blocks[0] = backend->kv_blocks[0];
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    s.blocks[0] = 0;
    assert_int_equal(backend->ops->forward(backend, &e, 1, NULL, NULL), -EINVAL);
    e.adapter = 1; /* there is none */
    assert_int_equal(backend->ops->forward(backend, &e, 1, s.logits, NULL), -EINVAL);
    assert_int_equal(backend->ops->forward(backend, NULL, 0, NULL, NULL), 0);
    backend_seq_fini(&s);
}

#define FOR_KV(f)                                                                                                      \
    {                                                                                                                  \
#f, f                                                                                                          \
    }

static const struct {
    const char *name;
    CMUnitTestFunction run;
} kv_tests[] = {
    FOR_KV(test_chunks),
    FOR_KV(test_in_a_batch_of_seven),
    FOR_KV(test_decoding_together),
    FOR_KV(test_shuffled_blocks),
    FOR_KV(test_used_blocks),
    FOR_KV(test_copied_block),
    FOR_KV(test_copy_takes_no_more_than_asked),
    FOR_KV(test_read_and_written_blocks),
    FOR_KV(test_saved_and_restored_beside),
};
#define N_KV (sizeof(kv_tests) / sizeof(*kv_tests))

int main(void)
{
    struct CMUnitTest tests[N_MODELS + KERN_KV_TYPES * N_KV + 11] = {{0}};
    char names[N_MODELS][64], kv_names[KERN_KV_TYPES][N_KV][64];
    size_t n = 0;
    for (size_t i = 0; i < N_MODELS; i++) {
        snprintf(names[i], sizeof(names[i]), "same bits on every path: %s", models[i].name);
        tests[n++] = (struct CMUnitTest){names[i], test_one_model, NULL, NULL, (void *)&models[i]};
    }
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++)
        for (size_t i = 0; i < N_KV; i++) {
            snprintf(kv_names[kv][i], sizeof(kv_names[kv][i]), "%s: %s", kv_tests[i].name, kern_kv_name(kv));
            tests[n++] = (struct CMUnitTest){kv_names[kv][i], kv_tests[i].run, choose, NULL, (void *)(uintptr_t)kv};
        }
    const struct CMUnitTest more[] = {
        cmocka_unit_test_setup(test_time_is_counted_by_part, choose),
        cmocka_unit_test_setup(test_only_wanted_rows, choose),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_hidden_state),
        cmocka_unit_test(test_embeddings_as_input),
        cmocka_unit_test_setup(test_what_cannot_run, choose),
        {"few tokens: F32", test_few_tokens_of_a_wide_model, NULL, NULL, (void *)&models[0]},
        {"few tokens: Q8_0", test_few_tokens_of_a_wide_model, NULL, NULL, (void *)&models[6]},
        {"long batches: F32", test_long_batches, NULL, NULL, (void *)&models[0]},
        {"long batches: Q8_0", test_long_batches, NULL, NULL, (void *)&models[6]},
        {"long batches: Q4_K", test_long_batches, NULL, NULL, (void *)&models[18]},
    };
    memcpy(tests + n, more, sizeof(more));
    n += sizeof(more) / sizeof(*more);
    return _cmocka_run_group_tests("tests", tests, n, setup, teardown);
}
