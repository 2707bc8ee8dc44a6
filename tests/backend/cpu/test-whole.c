/* SPDX-License-Identifier: MIT */
/* Runs whose items see each other: the visible positions, against the independent pass; and rule 1: an item's logits
 * are a function of the items up to the end of its run, whatever was computed before, beside and with how many threads,
 * also where the KV of a run's first items is in the cache. */
#include "daemon/model/items.h"
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 700 /* items */

/* Items, some of them in runs. */
struct prompt_of_runs {
    uint32_t n;
    int32_t ids[MOST];   /* as seeded_tokens; ITEM_EMBD in runs */
    uint32_t ends[MOST]; /* behind the run of an item, or behind the item */
    float *embd;         /* [n][dim], also for tokens, which do not use theirs */
    uint32_t dim;
};

struct stretch {
    uint32_t at, n;
};

static uint64_t drawn = 1;

static uint32_t draw(uint32_t below)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(drawn >> 33) % below;
}

static struct gguf *open_arch(const char *arch)
{
    struct tiny t;
    tiny_init(&t);
    t.type = 0;
    t.arch = arch;
    t.ctx = 1024;
    return model_file_tiny(&t);
}

static void prompt_init(struct prompt_of_runs *p, const struct backend *b, uint32_t n, const struct stretch *runs,
                        size_t n_runs)
{
    assert_true(n <= MOST);
    *p = (struct prompt_of_runs){.n = n, .dim = b->hparams.dim};
    seeded_tokens(p->ids, n, b->hparams.vocab, 5);
    p->embd = malloc((size_t)n * p->dim * sizeof(float));
    assert_non_null(p->embd);
    for (size_t i = 0; i < (size_t)n * p->dim; i++) p->embd[i] = (float)draw(20000) / 10000 - 1;
    for (uint32_t i = 0; i < n; i++) p->ends[i] = i + 1;
    for (size_t r = 0; r < n_runs; r++)
        for (uint32_t i = runs[r].at; i < runs[r].at + runs[r].n; i++) {
            assert_true(i < n);
            p->ids[i] = ITEM_EMBD;
            p->ends[i] = runs[r].at + runs[r].n;
        }
}

/* The next entry of @s: the rest of a run, or up to @most tokens. */
static struct batch_entry next(const struct prompt_of_runs *p, struct backend_seq *s, uint32_t most)
{
    uint32_t n = 0, at = s->done;
    const bool run = p->ids[at] == ITEM_EMBD;
    while (!run && n < most && at + n < p->n && p->ids[at + n] != ITEM_EMBD) n++;
    struct batch_entry e = backend_seq_entry(s, run ? p->ends[at] - at : n);
    e.tokens = run ? NULL : p->ids + at;
    e.embd = run ? p->embd + (size_t)at * p->dim : NULL;
    e.whole = run;
    return e;
}

/* Compute @s to its end, in entries of up to @most tokens; @beside: in a batch with tokens of this sequence. */
static void compute(struct backend *b, const struct prompt_of_runs *p, struct backend_seq *s, uint32_t most,
                    struct backend_seq *beside)
{
    float *rows = malloc((size_t)2 * MOST * s->vocab * sizeof(float));
    assert_non_null(rows);
    while (s->done < p->n) {
        struct batch_entry e[2] = {next(p, s, 1 + draw(most))};
        uint32_t n = 1;
        if (beside && beside->done + 9 <= beside->n) {
            e[1] = backend_seq_entry(beside, 1 + draw(9));
            n = 2;
        }
        if (n == 2 && draw(2)) {
            struct batch_entry x = e[0];
            e[0] = e[1], e[1] = x;
        }
        int r = b->ops->forward(b, e, n, rows, NULL);
        if (r < 0) fail_msg("%s", error_text(r));
        const float *row = rows;
        for (uint32_t i = 0; i < n; i++, row += (size_t)e[i - 1].n * s->vocab) {
            struct backend_seq *of = e[i].want == s->want + s->done ? s : beside;
            memcpy(of->logits + (size_t)of->done * s->vocab, row, (size_t)e[i].n * s->vocab * sizeof(float));
            of->done += e[i].n;
        }
    }
    free(rows);
}

static void same_from(const struct backend_seq *a, const struct backend_seq *b, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (memcmp(a->logits + (size_t)i * a->vocab, b->logits + (size_t)i * a->vocab, a->vocab * sizeof(float)))
            fail_msg("the logits of item %u differ", i);
}

/* --- visible positions --- */

/* With windows of 70: shorter and longer runs, one behind the other, across a segment, and at the end. */
static const struct stretch many[] = {{0, 9},    {20, 40},  {60, 100}, {200, 1},
                                      {260, 69}, {480, 71}, {551, 30}, {600, 40}};
#define N_MANY (sizeof(many) / sizeof(*many))

static void test_reference(void **state)
{
    struct gguf *g = open_arch(*state);
    struct reference *r = NULL;
    int e = reference_new(&r, g);
    if (e == -ENOENT) {
        print_message("skipped: %s\n", error_text(e));
        gguf_close(g);
        skip();
    }
    assert_int_equal(e, 0);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .kv_type = KERN_KV_F32});
    struct prompt_of_runs p;
    struct backend_seq s;
    prompt_init(&p, b, 640, many, N_MANY);
    backend_seq_init(&s, b, p.n, 5, 0);
    compute(b, &p, &s, 50, NULL);
    float *want = malloc((size_t)p.n * s.vocab * sizeof(float)), worst = 0, causal = 0;
    assert_non_null(want);
    assert_int_equal(reference_items(r, p.ids, p.embd, p.ends, p.n, want), 0);
    for (size_t i = 0; i < (size_t)p.n * s.vocab; i++) worst = fmaxf(worst, fabsf(want[i] - s.logits[i]));
    if (!(worst < 2e-4f)) fail_msg("a logit differs by %g", (double)worst);
    assert_int_equal(reference_items(r, p.ids, p.embd, NULL, p.n, want), 0);
    for (size_t i = 0; i < (size_t)p.n * s.vocab; i++) causal = fmaxf(causal, fabsf(want[i] - s.logits[i]));
    assert_true(causal > 0.1f);
    free(want);
    free(p.embd);
    reference_free(r);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

/* One layer. A key in a run is visible from the run's first item on, until the window has passed it. */
static void test_reach(void **state)
{
    struct gguf *g = open_arch("gemma3");
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.kv_type = KERN_KV_F32});
    const struct stretch run = {10, 100};
    const uint32_t key = 60, window = b->hparams.window;
    struct prompt_of_runs p;
    struct backend_seq one, two;
    b->hparams.n_layers = 1;
    assert_true(hparams_window(&b->hparams, 0) == window && window == 70);
    prompt_init(&p, b, 200, &run, 1);
    backend_seq_init(&one, b, p.n, 5, 0);
    backend_seq_init(&two, b, p.n, 5, 10);
    compute(b, &p, &one, 30, NULL);
    for (uint32_t d = 0; d < p.dim; d++) p.embd[key * p.dim + d] = -p.embd[key * p.dim + d];
    compute(b, &p, &two, 30, NULL);
    for (uint32_t i = 0; i < p.n; i++) {
        const size_t at = (size_t)i * one.vocab;
        bool same = !memcmp(one.logits + at, two.logits + at, one.vocab * sizeof(float));
        if (same != (i < run.at || i >= key + window)) fail_msg("item %u", i);
    }
    free(p.embd);
    backend_seq_fini(&one);
    backend_seq_fini(&two);
    backend_free(b);
    gguf_close(g);
}

/* --- rule 1 --- */

/* Threads, instruction sets, KV types, chunks of what is before a run, other sequences. */
static void test_same_bits(void **state)
{
    struct gguf *g = open_arch(*state);
    const struct kernels *k;
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        struct backend_seq want = {0};
        for (uint32_t i = 0; (k = kernels_nth(i)); i++)
            for (uint32_t threads = 1; threads <= 4; threads++) {
                struct backend *b = tiny_backend(
                    g, &(struct tiny_backend_config){
                           .cpu = k->name, .threads = threads, .kv_type = kv, .window_group = threads == 3});
                struct prompt_of_runs p;
                struct backend_seq s, beside;
                drawn = 7;
                prompt_init(&p, b, 640, many, N_MANY);
                drawn = 100 * i + threads;
                backend_seq_init(&s, b, p.n, 5, 0);
                backend_seq_init(&beside, b, 640, 9, 20);
                compute(b, &p, &s, threads == 1 ? 640 : 30, threads % 2 ? NULL : &beside);
                free(p.embd);
                backend_free(b);
                backend_seq_fini(&beside);
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

static uint32_t random_runs(struct stretch *out, uint32_t most, uint32_t n)
{
    uint32_t n_runs = 0, at = draw(3) ? draw(60) : 0;
    while (n_runs < most && at < n) {
        uint32_t len = 1 + draw(draw(3) ? 120 : 4);
        if (len > n - at) len = n - at;
        out[n_runs++] = (struct stretch){at, len};
        at += len + (draw(4) ? draw(90) : 0);
    }
    return n_runs;
}

/* Random runs and splits. The KV of the first items, up to any of them, comes from the sequence that was computed first
 * in one way or another, and the rest of a run is computed in one step. */
static void test_restored(void **state)
{
    struct gguf *g = open_arch(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2, .window_group = true});
    uint32_t inside = 0;
    drawn = 11;
    for (uint32_t round = 0; round < 60; round++) {
        struct stretch runs[12];
        struct prompt_of_runs p;
        struct backend_seq cold, warm, beside;
        const uint32_t n = 150 + draw(200), from = draw(n);
        prompt_init(&p, b, n, runs, random_runs(runs, 12, n));
        backend_seq_init(&cold, b, n, 5, 0);
        backend_seq_init(&warm, b, n, 5, 12);
        backend_seq_init(&beside, b, 600, round, 24);
        compute(b, &p, &cold, 1 + draw(60), NULL);
        for (uint32_t block = 0; block * KV_BLOCK < from; block++)
            for (uint32_t group = 0; group < b->hparams.n_groups; group++) {
                uint32_t left = from - block * KV_BLOCK;
                b->ops->kv_copy(b, group, 12 + block, block, left < KV_BLOCK ? left : KV_BLOCK);
            }
        warm.done = from;
        inside += p.ids[from] == ITEM_EMBD && from > 0 && p.ends[from - 1] == p.ends[from];
        compute(b, &p, &warm, 1 + draw(60), &beside);
        same_from(&cold, &warm, from, n);
        free(p.embd);
        backend_seq_fini(&cold);
        backend_seq_fini(&warm);
        backend_seq_fini(&beside);
    }
    assert_true(inside > 15);
    backend_free(b);
    gguf_close(g);
}

/* Logits of some items only: the others are not computed in the last layer, but seen there. */
static void test_some_wanted(void **state)
{
    struct gguf *g = open_arch(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    const struct stretch run = {0, 130};
    struct prompt_of_runs p;
    struct backend_seq all, some;
    prompt_init(&p, b, run.n, &run, 1);
    backend_seq_init(&all, b, p.n, 5, 0);
    backend_seq_init(&some, b, p.n, 5, 8);
    compute(b, &p, &all, 1, NULL);
    for (uint32_t i = 0; i < p.n; i++) some.want[i] = i / 5 % 3 == 1 || i + 1 == p.n ? WANT_LOGITS : WANT_NOTHING;
    struct batch_entry e = next(&p, &some, 1);
    assert_true(e.n == run.n && e.whole);
    assert_int_equal(b->ops->forward(b, &e, 1, some.logits, NULL), 0);
    const float *row = some.logits;
    for (uint32_t i = 0; i < p.n; i++) {
        if (!some.want[i]) continue;
        assert_memory_equal(row, all.logits + (size_t)i * all.vocab, all.vocab * sizeof(float));
        row += all.vocab;
    }
    free(p.embd);
    backend_seq_fini(&all);
    backend_seq_fini(&some);
    backend_free(b);
    gguf_close(g);
}

static void test_does_not_rotate(void **state)
{
    struct gguf *g = open_arch("llama");
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq s;
    backend_seq_init(&s, b, 5, 5, 0);
    s.window = 64;
    struct batch_entry e = backend_seq_entry(&s, 5);
    e.whole = true;
    assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "in a context that rotates"));
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

/* Only images, and only in the models that were trained so. */
static void test_models(void **state)
{
    const struct arch *a;
    for (uint32_t i = 0; (a = arch_nth(i)); i++) {
        const struct hparams h = {.desc = a};
        assert_int_equal(hparams_whole(&h, ITEM_IMAGE), !strcmp(a->name, "gemma3"));
        assert_false(hparams_whole(&h, ITEM_SOUND));
    }
}

#define EACH(name)                                                                                                     \
    {"reference " name, test_reference, NULL, NULL, (void *)(name)},                                                   \
        {"same bits " name, test_same_bits, NULL, NULL, (void *)(name)},                                               \
        {"restored " name, test_restored, NULL, NULL, (void *)(name)},                                                 \
    {                                                                                                                  \
        "some wanted " name, test_some_wanted, NULL, NULL, (void *)(name)                                              \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH("gemma3"),
        EACH("llama"),
        EACH("gpt-oss"),
        EACH("olmo2"),
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_does_not_rotate),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
