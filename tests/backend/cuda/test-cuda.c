/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend beside the CPU's, bit for bit: logits, states and KV blocks of every architecture and type that it
 * supports, in chunks and batches, with windows, sinks, long contexts, and sequences that move between both. Models it
 * does not support are refused. Skips without a device. With HOB_TEST_MODEL=FILE that model alone. With
 * HOB_TEST_DEVICES=0,1 the layers of all models are split over these devices, 2 to 4 of them, which must exist.
 * usage: test-cuda [NAME]   only the tests whose names match, with * and ?
 */
#include "tests/backend/cuda/test-cuda.h"
#include "daemon/backend/cuda/device.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH    150
#define MAX_TESTS 250

struct device_choice devices; /* n 0: the first one */

/* The file of "@arch", in F32, of "@arch/TYPE", of "@arch/TYPE/N" with heads of N values, or of "@arch/TYPE/N/G" with G
 * of these heads and one KV head. */
static struct gguf *open_arch(const char *arch, uint32_t ctx)
{
    struct buf b = BUF_INIT;
    struct gguf *g;
    char name[64];
    struct tiny t;
    snprintf(name, sizeof(name), "%s", arch);
    char *type = strchr(name, '/');
    if (type) *type++ = 0;
    char *values = type ? strchr(type, '/') : NULL;
    if (values) *values++ = 0;
    char *heads = values ? strchr(values, '/') : NULL;
    if (heads) *heads++ = 0;
    tiny_init(&t);
    if (values) t.head_dim = (uint32_t)atoi(values);
    if (heads) t.heads = (uint32_t)atoi(heads), t.kv_heads = 1;
    t.type = type ? (uint32_t)tiny_type(type) : 0;
    t.arch = name;
    t.ctx = ctx;
    if (type && strchr(type, '_') && (strstr(type, "_K") || type[0] == 'I' || type[0] == 'T')) t.dim = t.ffn = 256;
    t.rope_freqs = !strcmp(name, "llama");
    if (devices.n) t.layers = devices.n + 1;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    buf_fini(&b);
    return g;
}

struct pair open_both(struct gguf *g, struct tiny_backend_config c)
{
    struct pair p = {.g = g};
    c.threads = 2;
    p.cpu = tiny_backend(p.g, &c);
    c.backend = "cuda";
    c.device = devices;
    p.gpu = tiny_backend(p.g, &c);
    return p;
}

static struct pair open_pair(const char *arch, uint32_t ctx, struct tiny_backend_config c)
{
    return open_both(open_arch(arch, ctx), c);
}

void close_pair(struct pair *p)
{
    backend_free(p->cpu);
    backend_free(p->gpu);
    gguf_close(p->g);
}

/* The states in block @block are equal. */
static void same_states(const struct pair *p, uint32_t block)
{
    const struct hparams *s = &p->cpu->hparams;
    const size_t bytes = hparams_state(s) ? hparams_state(s)->state_bytes : 0;
    uint8_t *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    assert_true(a && b);
    if (bytes) p->cpu->ops->kv_read(p->cpu, s->n_groups - 1, block, a);
    if (bytes) p->gpu->ops->kv_read(p->gpu, s->n_groups - 1, block, b);
    if (memcmp(a, b, bytes)) fail_msg("the states in block %u differ", block);
    free(a);
    free(b);
}

void same_blocks(const struct pair *p, uint32_t first, uint32_t n)
{
    for (uint32_t g = 0; g < hparams_kv_groups(&p->cpu->hparams); g++) {
        const size_t bytes = kv_group_payload(&p->cpu->hparams.groups[g]);
        uint8_t *a = malloc(bytes + 1), *b = malloc(bytes + 1);
        assert_true(a && b);
        for (uint32_t i = first; bytes && i < first + n; i++) {
            p->cpu->ops->kv_read(p->cpu, g, i, a);
            p->gpu->ops->kv_read(p->gpu, g, i, b);
            if (memcmp(a, b, bytes)) fail_msg("KV block %u of group %u differs", i, g);
        }
        free(a);
        free(b);
    }
}

/* Copy the first @n blocks of @from to blocks @at … of @to. */
static void move_blocks(struct backend *from, struct backend *to, uint32_t n, uint32_t at)
{
    for (uint32_t g = 0; g < hparams_kv_groups(&from->hparams); g++) {
        const size_t bytes = kv_group_payload(&from->hparams.groups[g]);
        uint8_t *block = malloc(bytes + 1);
        assert_non_null(block);
        for (uint32_t i = 0; bytes && i < n; i++) {
            from->ops->kv_read(from, g, i, block);
            to->ops->kv_write(to, g, at + i, block);
        }
        free(block);
    }
}

#define SAVED 5 /* block of a state that is saved in the middle of an entry */

/* Compute the first tokens again, save the state behind the third block, and copy it to that of @s. */
static void move_state(struct backend *from, struct backend *to, const struct backend_seq *s)
{
    const struct kv_group *g = hparams_state(&from->hparams);
    const struct state_save save = {96 - 70, SAVED};
    const uint32_t n[2] = {70, 55}, number = from->hparams.n_groups - 1;
    struct backend_seq first;
    if (!g) return;
    uint8_t *state = malloc(g->state_bytes);
    assert_non_null(state);
    backend_seq_init(&first, from, LENGTH, 5, 0);
    backend_seq_step(from, &first, &n[0], 1);
    first.saves = &save, first.n_saves = 1;
    backend_seq_step(from, &first, &n[1], 1);
    from->ops->kv_copy(from, number, SAVED + 1, SAVED, 0);
    from->ops->kv_read(from, number, SAVED + 1, state);
    to->ops->kv_write(to, number, s->state, state);
    backend_seq_fini(&first);
    free(state);
}

/* A sequence that begins on one backend and continues on the other, behind its third block. */
static void check_move(struct backend *from, struct backend *to, const struct backend_seq *want)
{
    struct backend_seq s;
    move_blocks(from, to, 3, 20);
    backend_seq_init(&s, to, want->n, 5, 20);
    memcpy(s.logits, want->logits, (size_t)want->n * want->vocab * sizeof(float));
    memset(s.logits + (size_t)96 * want->vocab, 0, (size_t)(want->n - 96) * want->vocab * sizeof(float));
    s.done = 96;
    move_state(from, to, &s);
    backend_seq_run(to, &s, 25);
    backend_seq_same_logits(want, &s);
    backend_seq_fini(&s);
}

/* The first of the largest logits. */
static int32_t best_of(const float *x, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return (int32_t)at;
}

/* Ids of the largest logits, beside logits and states of the same and of other tokens, @chunk tokens at once. */
static void check_best(const struct pair *p, const struct backend_seq *all, uint32_t chunk)
{
    struct backend_seq s;
    int32_t ids[LENGTH];
    const size_t dim = p->gpu->hparams.dim, vocab = all->vocab;
    float *logits = malloc(chunk * vocab * sizeof(float)), *rows = malloc(chunk * dim * sizeof(float));
    assert_true(logits && rows);
    backend_seq_init(&s, p->gpu, LENGTH, 5, 60);
    for (uint32_t i = 0; i < LENGTH; i++) s.want[i] = (uint8_t)(chunk > 1 ? i * 5 % 8 : WANT_BEST | (i % 9 == 0));
    for (; s.done < LENGTH; s.done += chunk) {
        struct batch_entry e = backend_seq_entry(&s, chunk);
        uint32_t row = 0, id = 0;
        e.best = ids;
        assert_int_equal(p->gpu->ops->forward(p->gpu, &e, 1, logits, rows), 0);
        for (uint32_t i = 0; i < chunk; i++) {
            const float *want = all->logits + (s.done + i) * vocab;
            if (e.want[i] & WANT_LOGITS) assert_memory_equal(logits + row++ * vocab, want, vocab * sizeof(float));
            if (e.want[i] & WANT_BEST) assert_int_equal(ids[id++], best_of(want, vocab));
        }
    }
    free(logits);
    free(rows);
    backend_seq_fini(&s);
}

static void check_alone(const struct pair *p)
{
    struct backend_seq want, s;
    backend_seq_init(&want, p->cpu, LENGTH, 5, 0);
    backend_seq_init(&s, p->gpu, LENGTH, 5, 0);
    backend_seq_run(p->cpu, &want, 40);
    backend_seq_run(p->gpu, &s, 33);
    backend_seq_same_logits(&want, &s);
    same_blocks(p, 0, LENGTH / KV_BLOCK);
    same_states(p, 0);
    check_move(p->cpu, p->gpu, &want);
    check_move(p->gpu, p->cpu, &want);
    same_states(p, SAVED);
    backend_seq_some_wanted(p->gpu, &want, 40);
    s.done = 0;
    backend_seq_run(p->gpu, &s, LENGTH); /* in one batch */
    backend_seq_same_logits(&want, &s);
    check_best(p, &want, LENGTH);
    check_best(p, &want, 1);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
}

/* In batches with others, up to one token of each. */
static void check_batch(const struct pair *p)
{
    struct backend_seq want, s[5];
    backend_seq_init(&want, p->cpu, LENGTH, 5, 0);
    backend_seq_run(p->cpu, &want, 64);
    for (uint32_t i = 0; i < 5; i++) backend_seq_init(&s[i], p->gpu, LENGTH, i == 1 ? 5 : 50 + i, 8 + 8 * i);
    for (uint32_t step = 0; s[1].done < LENGTH; step++) {
        uint32_t n[5];
        for (uint32_t i = 0; i < 5; i++) {
            const uint32_t left = LENGTH - s[i].done, some = step % 3 ? 1 : (step * 5 + i * 11) % 23;
            n[i] = some < left ? some : left;
        }
        if (!n[1]) n[1] = 1;
        backend_seq_step(p->gpu, s, n, 5);
    }
    backend_seq_same_logits(&want, &s[1]);
    for (uint32_t i = 0; i < 5; i++) backend_seq_fini(&s[i]);
    backend_seq_fini(&want);
}

/* The states of some tokens. */
static void check_hidden(const struct pair *p)
{
    struct backend_seq s;
    const size_t dim = p->cpu->hparams.dim, vocab = p->cpu->hparams.vocab;
    float *rows[2], *logits = malloc(LENGTH * vocab * sizeof(float));
    backend_seq_init(&s, p->cpu, LENGTH, 5, 40);
    for (uint32_t i = 0; i < LENGTH; i++) s.want[i] = (uint8_t)(i % 7 == 2 ? i % 4 : 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct backend *b = i ? p->gpu : p->cpu;
        const struct batch_entry e = backend_seq_entry(&s, LENGTH);
        rows[i] = calloc(LENGTH * dim, sizeof(float));
        assert_true(rows[i] && logits);
        assert_int_equal(b->ops->forward(b, &e, 1, logits, rows[i]), 0);
    }
    if (memcmp(rows[0], rows[1], LENGTH * dim * sizeof(float))) fail_msg("the states of tokens differ");
    free(rows[0]);
    free(rows[1]);
    free(logits);
    backend_seq_fini(&s);
}

/* *state: "arch" or "arch/TYPE". */
static void test_model(void **state)
{
    const char *arch = *state;
    size_t bytes;
    struct hparams h;
    struct gguf *g = open_arch(arch, 512);
    assert_int_equal(hparams_read(&h, g), 0);
    int r = backend_check("cuda", g, &h, &bytes);
    if (r) {
        struct backend *b = NULL;
        print_message("# refused: %s\n", error_text(r));
        assert_int_equal(r, -EOPNOTSUPP);
        const struct backend_config c = {.backend = "cuda", .device = devices, .batch_tokens = 1};
        assert_int_equal(backend_new(&b, g, &c), r);
        gguf_close(g);
        skip();
    }
    gguf_close(g);
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        struct pair p = open_pair(arch, 512, (struct tiny_backend_config){.kv_type = kv});
        check_alone(&p);
        check_batch(&p);
        if (kv == KERN_KV_F16) check_hidden(&p);
        close_pair(&p);
    }
}

#define TEXTS 7

/* Texts that are computed whole, in one batch and alone: the rows of all tokens, the same in any batch. */
static void test_texts(void **state)
{
    static const uint32_t lengths[TEXTS] = {1, 150, 33, 600, 2, 64, 100};
    struct pair p = open_pair(*state, 1024, (struct tiny_backend_config){.batch_tokens = 1000});
    const size_t dim = p.cpu->hparams.dim;
    struct batch_entry e[TEXTS];
    int32_t ids[1000];
    uint8_t types[1000], want[1000];
    float *rows[2] = {calloc(1000 * dim, sizeof(float)), calloc(1000 * dim, sizeof(float))};
    uint32_t at = 0;
    assert_true(rows[0] && rows[1]);
    seeded_tokens(ids, 1000, p.cpu->hparams.vocab, 5);
    for (uint32_t i = 0; i < 1000; i++) types[i] = i % 3 == 1, want[i] = i % 9 ? WANT_HIDDEN : 0;
    for (uint32_t i = 0; i < TEXTS; at += lengths[i++])
        e[i] = (struct batch_entry){.n = lengths[i],
                                    .tokens = ids + at,
                                    .types = p.cpu->hparams.embedding.types ? types + at : NULL,
                                    .want = want + at,
                                    .whole = true};
    for (uint32_t first = 0; first < TEXTS; first += first ? 1 : TEXTS - 3) {
        const uint32_t n = first ? 1 : TEXTS;
        assert_int_equal(p.cpu->ops->forward(p.cpu, e + first, n, NULL, rows[0]), 0);
        assert_int_equal(p.gpu->ops->forward(p.gpu, e + first, n, NULL, rows[1]), 0);
        if (memcmp(rows[0], rows[1], 1000 * dim * sizeof(float))) fail_msg("rows of texts from %u on differ", first);
    }
    free(rows[0]);
    free(rows[1]);
    close_pair(&p);
}

/* @n tokens in chunks, and those from @from on once more, one by one. @want becomes the sequence of the CPU. */
static void check_single(const struct pair *p, struct backend_seq *want, uint32_t n, uint32_t from)
{
    struct backend_seq s;
    backend_seq_init(want, p->cpu, n, 5, 0);
    backend_seq_init(&s, p->gpu, n, 5, 0);
    backend_seq_run(p->cpu, want, 200);
    backend_seq_run(p->gpu, &s, 290);
    backend_seq_same_logits(want, &s);
    same_blocks(p, 0, n / KV_BLOCK);
    memset(s.logits + (size_t)from * s.vocab, 0, (size_t)(n - from) * s.vocab * sizeof(float));
    s.done = from;
    backend_seq_run(p->gpu, &s, 1);
    backend_seq_same_logits(want, &s);
    same_blocks(p, 0, n / KV_BLOCK);
    backend_seq_fini(&s);
}

/* Single tokens that see most of a segment, and two. */
static void test_deep(void **state)
{
    struct pair p = open_pair(*state, 1024, (struct tiny_backend_config){.kv_type = KERN_KV_F16, .batch_tokens = 512});
    struct backend_seq want;
    check_single(&p, &want, 550, 490);
    backend_seq_fini(&want);
    close_pair(&p);
}

/* Texts are not computed by several devices. */
static void test_whole_texts(void **state)
{
    struct gguf *g = open_arch(*state, 512);
    struct backend *b = NULL;
    const struct backend_config c = {.backend = "cuda", .device = devices, .batch_tokens = 64};
    assert_int_equal(backend_new(&b, g, &c), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "cannot be split over several devices"));
    gguf_close(g);
}

#define LONG 1700

/* In large batches, whose pieces several devices compute at the same time: logits of the last tokens alone. */
static void check_pieces(const struct pair *p, const struct backend_seq *want)
{
    struct backend_seq s;
    const uint32_t all = LONG;
    backend_seq_init(&s, p->gpu, LONG, 5, 0);
    memcpy(s.logits, want->logits, (size_t)LONG * s.vocab * sizeof(float));
    memset(s.want, 0, LONG);
    memset(s.want + LONG - 9, WANT_LOGITS, 9);
    struct batch_entry e = backend_seq_entry(&s, all);
    float *last = s.logits + (size_t)(LONG - 9) * s.vocab;
    memset(last, 0, 9 * s.vocab * sizeof(float));
    assert_int_equal(p->gpu->ops->forward(p->gpu, &e, 1, last, NULL), 0);
    s.done = LONG;
    backend_seq_same_logits(want, &s);
    same_blocks(p, 0, LONG / KV_BLOCK);
    same_states(p, 0);
    backend_seq_fini(&s);
}

/* Pieces of a prompt, with logits of all tokens and of few. */
static void test_pieces(void **state)
{
    const struct tiny_backend_config c = {.batch_tokens = LONG, .kv_type = KERN_KV_F16};
    struct pair p = open_pair(*state, 2048, c);
    struct backend_seq want, s;
    backend_seq_init(&want, p.cpu, LONG, 5, 0);
    backend_seq_init(&s, p.gpu, LONG, 5, 0);
    backend_seq_run(p.cpu, &want, 700);
    backend_seq_run(p.gpu, &s, LONG);
    backend_seq_same_logits(&want, &s);
    for (uint32_t i = 0; i < 2; i++) check_pieces(&p, &want);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    close_pair(&p);
}

/* Several segments, and a window of its own group. */
static void test_long(void **state)
{
    struct pair p = open_pair(*state, 2048, (struct tiny_backend_config){.batch_tokens = 512, .kv_type = KERN_KV_F16});
    struct backend_seq want, s;
    backend_seq_init(&want, p.cpu, 1400, 5, 0);
    backend_seq_init(&s, p.gpu, 1400, 5, 0);
    backend_seq_run(p.cpu, &want, 300);
    backend_seq_run(p.gpu, &s, 512);
    backend_seq_same_logits(&want, &s);
    same_blocks(&p, 0, 1400 / KV_BLOCK);
    s.done = 1300;
    backend_seq_run(p.gpu, &s, 1);
    backend_seq_same_logits(&want, &s);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    close_pair(&p);
}

static void test_window_group(void **state)
{
    struct pair p = open_pair(*state, 1024, (struct tiny_backend_config){.window_group = true, .kv_type = KERN_KV_Q8});
    struct backend_seq want, s;
    assert_int_equal(p.cpu->hparams.n_groups, 2);
    backend_seq_init(&want, p.cpu, 400, 5, 0);
    backend_seq_init(&s, p.gpu, 400, 5, 0);
    backend_seq_run(p.cpu, &want, 60);
    backend_seq_run(p.gpu, &s, 200);
    backend_seq_same_logits(&want, &s);
    same_blocks(&p, 0, 400 / KV_BLOCK);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    close_pair(&p);
}

/* A model of many layers: a short prompt, and some tokens behind it. */
static void test_short(void **state)
{
    struct pair p = open_pair(*state, 512, (struct tiny_backend_config){.kv_type = KERN_KV_F16});
    struct backend_seq want, s;
    backend_seq_init(&want, p.cpu, 40, 5, 0);
    backend_seq_init(&s, p.gpu, 40, 5, 0);
    backend_seq_run(p.cpu, &want, 40);
    backend_seq_run(p.gpu, &s, 35);
    s.done = 34;
    backend_seq_run(p.gpu, &s, 1);
    backend_seq_same_logits(&want, &s);
    same_blocks(&p, 0, 1);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    close_pair(&p);
}

/* Sinks and a window of the sequence; blocks that nobody sees are not in the table. */
static void test_rotate(void **state)
{
    static const uint32_t policies[][2] = {{4, 100}, {0, 64}, {33, 200}, {600, 300}, {512, 512}};
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
        struct pair p = open_pair(*state, 1024, (struct tiny_backend_config){.kv_type = KERN_KV_F16});
        struct backend_seq want, s;
        backend_seq_init(&want, p.cpu, 1300, 5, 0);
        backend_seq_init(&s, p.gpu, 1300, 5, 0);
        want.sinks = s.sinks = policies[i][0];
        want.window = s.window = policies[i][1];
        backend_seq_run(p.cpu, &want, 256);
        while (s.done < s.n) {
            const uint32_t n = s.n - s.done < 150 ? s.n - s.done : 150, edge = s.sinks + s.window;
            const uint32_t start = s.done >= edge ? s.done + 1 - s.window : 0;
            for (uint32_t j = (s.sinks + KV_BLOCK - 1) / KV_BLOCK; (j + 1) * KV_BLOCK <= start; j++)
                s.blocks[j] = KV_NO_BLOCK;
            backend_seq_step(p.gpu, &s, &n, 1);
        }
        backend_seq_same_logits(&want, &s);
        backend_seq_fini(&want);
        backend_seq_fini(&s);
        close_pair(&p);
    }
}

/* The same identity: KV blocks on disk serve both. */
static void test_identity(void **state)
{
    struct buf b = BUF_INIT;
    struct tiny t;
    struct pair p = {0};
    atomic_bool stop = false;
    uint8_t ids[2][16];
    tiny_init(&t);
    if (devices.n) t.layers = devices.n;
    model_file_tiny_bytes(&b, &t);
    char *path = model_file_write(b.data, b.len);
    assert_int_equal(gguf_open(&p.g, path), 0);
    p.cpu = tiny_backend(p.g, &(struct tiny_backend_config){.kv_type = KERN_KV_F16});
    p.gpu =
        tiny_backend(p.g, &(struct tiny_backend_config){.kv_type = KERN_KV_F16, .backend = "cuda", .device = devices});
    assert_int_equal(p.cpu->ops->verify_weights(p.cpu, &stop), 0);
    assert_int_equal(p.gpu->ops->verify_weights(p.gpu, &stop), 0);
    assert_int_equal(backend_kv_identity(p.cpu, ids[0]), 0);
    assert_int_equal(backend_kv_identity(p.gpu, ids[1]), 0);
    assert_memory_equal(ids[0], ids[1], 16);
    close_pair(&p);
    unlink(path);
    free(path);
    buf_fini(&b);
}

static void test_copy(void **state)
{
    struct pair p = open_pair(*state, 512, (struct tiny_backend_config){.kv_type = KERN_KV_Q8});
    struct backend_seq want, s;
    const size_t bytes = kv_group_payload(&p.cpu->hparams.groups[0]);
    backend_seq_init(&want, p.cpu, 32, 5, 0);
    backend_seq_init(&s, p.gpu, 32, 5, 0);
    backend_seq_run(p.cpu, &want, 32);
    backend_seq_run(p.gpu, &s, 32);
    uint8_t *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    p.cpu->ops->kv_write(p.cpu, 0, 9, zeros);
    p.gpu->ops->kv_write(p.gpu, 0, 9, zeros);
    p.cpu->ops->kv_copy(p.cpu, 0, 9, 0, 13);
    p.gpu->ops->kv_copy(p.gpu, 0, 9, 0, 13);
    same_blocks(&p, 9, 1);
    free(zeros);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    close_pair(&p);
}

/* The model of HOB_TEST_MODEL, a file: prompts and batches of a size that tiny models do not have. */
static void test_file(void **state)
{
    struct pair p = {0};
    if (gguf_open(&p.g, *state)) fail_msg("%s", error_text(-EINVAL));
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        struct tiny_backend_config c = {.kv_type = kv, .ctx = 1024, .batch_tokens = 512, .threads = 16};
        p.cpu = tiny_backend(p.g, &c);
        c.backend = "cuda";
        c.device = devices;
        p.gpu = tiny_backend(p.g, &c);
        struct backend_seq want;
        check_single(&p, &want, 600, 570);
        check_move(p.cpu, p.gpu, &want);
        check_batch(&p);
        backend_seq_fini(&want);
        backend_free(p.cpu);
        backend_free(p.gpu);
    }
    gguf_close(p.g);
}

static struct CMUnitTest tests[MAX_TESTS];
static size_t n_tests;

static void add(CMUnitTestFunction fn, const char *name, const char *arch)
{
    assert_true(n_tests < MAX_TESTS);
    tests[n_tests++] = (struct CMUnitTest){name, fn, NULL, NULL, (void *)(uintptr_t)arch};
}

/* The devices of HOB_TEST_DEVICES, or the first one, exist: 0; -errno and the error message. */
static int find_devices(void)
{
    const char *list = getenv("HOB_TEST_DEVICES");
    char name[64];
    struct cuda_device device;
    snprintf(name, sizeof(name), "cuda:%s", list ? list : "0");
    int r = device_parse(&devices, name);
    for (uint32_t i = 0; !r && i < devices.n; i++) {
        r = cuda_device_open(&device, devices.number[i]);
        if (!r) cuda_device_close(&device);
    }
    if (!list) devices.n = 0;
    return r;
}

int main(int argc, char **argv)
{
    static const char *const models[] = {
        "llama", "llama/F16", "llama/BF16", "llama/Q4_0", "llama/Q4_1", "llama/Q5_0", "llama/Q5_1", "llama/Q8_0",
        "llama/Q2_K", "llama/Q3_K", "llama/Q4_K", "llama/Q5_K", "llama/Q6_K", "llama/IQ4_NL", "llama/IQ4_XS",
        "llama/MXFP4", "llama/TQ1_0", "llama/TQ2_0", "llama/IQ1_S", "llama/IQ1_M", "llama/IQ2_XXS", "llama/IQ2_XS",
        "llama/IQ2_S", "llama/IQ3_XXS", "llama/IQ3_S",
        /* dense ones */
        "qwen2/Q8_0", "qwen3/Q8_0", "phi3/Q8_0", "gemma/Q8_0", "gemma2/Q8_0", "gemma3/Q8_0", "granite/Q8_0",
        "minicpm/Q8_0", "mistral3/Q8_0", "smollm3/Q8_0", "exaone4/Q8_0", "arcee/Q8_0", "glm4/Q8_0", "seed_oss/Q8_0",
        "ernie4_5/Q8_0", "hunyuan-dense/Q8_0", "internlm2/Q8_0", "qwen2", "gemma3", "llama-biases/Q8_0",
        "llama-keys/Q8_0", "llama-yarn/Q8_0", "exaone/Q8_0", "exaone4-window/Q8_0", "gemma4-dense/Q8_0", "chatglm/Q8_0",
        "qwen2vl/Q8_0", "qwen3vl/Q8_0", "pangu-embedded/Q8_0", "llama/Q8_0/256", "qwen3/Q8_0/320", "llama/Q4_0/512",
        /* LayerNorm, products with biases */
        "gpt2", "gpt2/Q8_0", "starcoder/Q8_0", "starcoder2/Q8_0", "codeshell/Q8_0", "codeshell-output/Q8_0",
        "nemotron/Q8_0", "jais2/Q8_0", "stablelm/Q8_0", "gptneox-serial/Q8_0",
        /* attention and feed-forward beside each other */
        "falcon", "falcon/Q8_0", "phi2/Q8_0", "gptneox/Q4_0", "cohere2", "cohere2/Q8_0", "command-r/Q8_0",
        "command-r-plus/Q8_0", "stablelm-parallel/Q8_0",
        /* norms of all heads and within a block, activations */
        "olmo2", "olmo2/Q8_0", "olmo3/Q8_0", "bitnet", "bitnet/Q8_0", "apertus/Q8_0",
        /* embeddings of layers, shared K and V, several streams */
        "gemma4", "gemma4/Q8_0", "gemma3n", "gemma3n/Q8_0",
        /* experts */
        "mixtral", "mixtral/Q8_0", "mixtral/Q4_K", "qwen2moe/Q8_0", "qwen3moe", "qwen3moe/Q4_0", "phimoe/Q8_0",
        "llama4/Q8_0", "llama4-every/Q8_0", "llama4-near/Q8_0", "llama4-ropes/Q8_0", "gpt-oss", "gpt-oss/MXFP4",
        "afmoe/Q8_0", "exaone-moe/Q8_0", "bailingmoe/Q8_0", "minimax-m2/Q8_0", "bailingmoe2/Q8_0", "deepseek/Q8_0",
        "dots1/Q8_0", "ernie4_5-moe/Q8_0", "glm4moe/Q8_0", "glm4moe-normed/Q8_0", "granitemoe/Q8_0", "hunyuan-moe/Q8_0",
        "olmoe/Q8_0", "qwen3vlmoe/Q8_0", "smallthinker", "smallthinker/Q8_0", "smallthinker-near/Q8_0",
        "smallthinker-softmax/Q8_0", "gemma4-experts", "gemma4-experts/Q8_0",
        /* recurrent layers */
        "mamba2", "mamba2/Q8_0", "lfm2", "lfm2/Q8_0", "lfm2moe/Q8_0", "qwen35", "qwen35/Q8_0", "qwen35moe/Q8_0",
        "qwen3next/Q8_0", "granitehybrid/Q8_0", "granitehybrid-experts/Q8_0", "falcon-h1/Q8_0", "nemotron_h/Q8_0",
        "nemotron_h_moe/Q8_0",
        /* latent attention */
        "deepseek2", "deepseek2/Q8_0", "deepseek2-older", "deepseek2-older/Q8_0", "minicpm3", "minicpm3/Q8_0",
        "mistral4/Q8_0"};
    static const char *const encoders[] = {"bert",
                                           "bert/Q8_0",
                                           "bert-rank/Q8_0",
                                           "nomic-bert/Q8_0",
                                           "jina-bert-v2/Q8_0",
                                           "jina-bert-v2-code/Q8_0",
                                           "modern-bert",
                                           "modern-bert/Q8_0",
                                           "modern-bert-rank",
                                           "gemma-embedding",
                                           "gemma-embedding/Q8_0"};
    static const char *const adapted[] = {
        "adapters, llama",         "adapters, llama/Q8_0",  "adapters, phi3/Q8_0",          "adapters, gpt2/Q8_0",
        "adapters, cohere2/Q8_0",  "adapters, bitnet/Q8_0", "adapters, gemma3n/Q8_0",       "adapters, gemma4/Q8_0",
        "adapters, qwen2moe/Q8_0", "adapters, qwen35/Q8_0", "adapters, granitehybrid/Q8_0", "adapters, deepseek2/Q8_0"};
    static const char *const pieces[][2] = {{"pieces, llama", "llama/Q8_0"},
                                            {"pieces, gemma3n", "gemma3n/Q8_0"},
                                            {"pieces, qwen35", "qwen35/Q8_0"},
                                            {"pieces, mixtral", "mixtral/Q8_0"}};
    static const char *const mtp[] = {"mtp, qwen35-mtp", "mtp, qwen35-mtp/Q8_0", "mtp, glm4moe", "mtp, glm4moe/Q8_0",
                                      "mtp, glm4moe-normed/Q4_0"};
    char *file = getenv("HOB_TEST_MODEL");
    int r = find_devices();
    if (r) {
        printf("1..0 # SKIP %s\n", error_text(r));
        return 77;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    for (size_t i = 0; !file && i < sizeof(models) / sizeof(*models); i++) add(test_model, models[i], models[i]);
    for (size_t i = 0; !file && i < sizeof(encoders) / sizeof(*encoders); i++)
        add(devices.n > 1 ? test_whole_texts : test_texts, encoders[i], encoders[i]);
    if (file) {
        add(test_file, "file", file);
        return _cmocka_run_group_tests("cuda", tests, n_tests, NULL, NULL);
    }
    for (size_t i = 0; i < sizeof(adapted) / sizeof(*adapted); i++)
        add(test_adapters, adapted[i], strchr(adapted[i], ' ') + 1);
    for (size_t i = 0; i < sizeof(mtp) / sizeof(*mtp); i++) add(test_mtp, mtp[i], strchr(mtp[i], ' ') + 1);
    add(test_long, "long, llama", "llama/Q4_0");
    add(test_long, "long, gemma2", "gemma2/Q8_0");
    add(test_long, "long, cohere2", "cohere2/Q8_0");
    add(test_long, "long, gemma3n", "gemma3n/Q8_0");
    for (size_t i = 0; devices.n > 1 && i < sizeof(pieces) / sizeof(*pieces); i++)
        add(test_pieces, pieces[i][0], pieces[i][1]);
    add(test_deep, "deep, 4 of 64", "llama/Q8_0/64/4");
    add(test_deep, "deep, 8 of 64", "qwen3/Q8_0/64/8");
    add(test_deep, "deep, 6 of 64", "llama/Q8_0/64/6");
    add(test_deep, "deep, 8 of 128", "llama/Q8_0/128/8");
    add(test_deep, "deep, 1 of 128", "llama/Q8_0/128/1");
    add(test_window_group, "a group of windows", "gemma3/Q8_0");
    add(test_window_group, "a group of windows, gemma4", "gemma4/Q8_0");
    add(test_window_group, "a group of windows, gemma3n", "gemma3n/Q8_0");
    add(test_long, "long, minicpm3", "minicpm3/Q8_0");
    add(test_short, "short, deepseek2-lite", "deepseek2-lite");
    add(test_short, "short, deepseek2-lite/Q8_0", "deepseek2-lite/Q8_0");
    add(test_rotate, "sinks and windows", "llama/Q8_0");
    add(test_rotate, "sinks and windows, deepseek2", "deepseek2/Q8_0");
    add(test_copy, "copies", "llama/Q4_0");
    add(test_copy, "copies, deepseek2", "deepseek2/Q8_0");
    add(test_identity, "the identity", NULL);
    return _cmocka_run_group_tests("cuda", tests, n_tests, NULL, NULL);
}
