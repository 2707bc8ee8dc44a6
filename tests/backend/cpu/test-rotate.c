/* SPDX-License-Identifier: MIT */
/* Sinks and a window: the positions that a token sees, against the independent pass; and rule 1: its logits are a
 * function of tokens, position, sinks and window, of nothing else, and blocks that no token sees may be released. */
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

struct policy {
    uint32_t sinks, window;
};

static struct gguf *open_tiny(uint32_t layers, uint32_t ctx)
{
    struct tiny t;
    tiny_init(&t);
    t.type = 0;
    t.layers = layers;
    t.ctx = ctx;
    return model_file_tiny(&t);
}

static void seq_init(struct backend_seq *s, const struct backend *b, uint32_t n, uint64_t seed, uint32_t first_block,
                     struct policy p)
{
    backend_seq_init(s, b, n, seed, first_block);
    s->sinks = p.sinks;
    s->window = p.window;
}

static size_t block_bytes(const struct backend *b)
{
    return b->hparams.groups[0].bytes_per_token * KV_BLOCK;
}

/* --- visible positions --- */

/* @n tokens with policy @p, in chunks that straddle everything, beside the reference. */
static void check_reference(const struct gguf *g, struct policy p, uint32_t n)
{
    struct reference *r = NULL;
    int e = reference_new(&r, g);
    if (e == -ENOENT) {
        print_message("skipped: %s\n", error_text(e));
        skip();
    }
    assert_int_equal(e, 0);
    struct backend *b = tiny_backend(
        g, &(struct tiny_backend_config){.threads = 2, .kv_type = KERN_KV_F32, .blocks = n / KV_BLOCK + 1});
    struct backend_seq s;
    seq_init(&s, b, n, 3, 0, p);
    backend_seq_run(b, &s, 150);
    float *want = malloc((size_t)n * s.vocab * sizeof(float)), worst = 0;
    assert_non_null(want);
    assert_int_equal(reference_rotate(r, s.tokens, n, p.sinks, p.window, want), 0);
    for (size_t i = 0; i < (size_t)n * s.vocab; i++) worst = fmaxf(worst, fabsf(want[i] - s.logits[i]));
    if (!(worst < 1e-3f)) fail_msg("sinks %u, window %u: a logit differs by %g", p.sinks, p.window, worst);
    free(want);
    reference_free(r);
    backend_seq_fini(&s);
    backend_free(b);
}

static void test_reference(void **state)
{
    static const struct policy policies[] = {{4, 100}, {0, 1}, {0, 64}, {1, 1}, {31, 33}, {32, 32}, {33, 200}};
    struct gguf *g = open_tiny(2, 256);
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) check_reference(g, policies[i], 800);
    gguf_close(g);
}

/* Sinks and window of more than a segment, sharing one. */
static void test_reference_long(void **state)
{
    static const struct policy policies[] = {{600, 300}, {512, 512}, {100, 600}};
    struct gguf *g = open_tiny(1, 1024);
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) check_reference(g, policies[i], 1700);
    gguf_close(g);
}

/* Up to sinks + window - 1 the bits are those without a window; after that they are not, and sinks matter. */
static void test_where_it_begins(void **state)
{
    struct gguf *g = open_tiny(2, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq all, with, without;
    seq_init(&all, b, 200, 5, 0, (struct policy){0, 0});
    seq_init(&with, b, 200, 5, 10, (struct policy){7, 90});
    seq_init(&without, b, 200, 5, 20, (struct policy){0, 97});
    backend_seq_run(b, &all, 64);
    backend_seq_run(b, &with, 64);
    backend_seq_run(b, &without, 64);
    for (uint32_t i = 0; i < 200; i++) {
        size_t at = (size_t)i * all.vocab, bytes = all.vocab * sizeof(float);
        bool same = !memcmp(all.logits + at, with.logits + at, bytes);
        if (same != (i < 97)) fail_msg("token %u", i);
        if (i >= 97) assert_memory_not_equal(with.logits + at, without.logits + at, bytes);
    }
    backend_seq_fini(&all);
    backend_seq_fini(&with);
    backend_seq_fini(&without);
    backend_free(b);
    gguf_close(g);
}

/* One layer without sinks: a token depends on the last tokens and their distances, wherever they stand. */
static void test_the_last_positions(void **state)
{
    const uint32_t n = 80, window = 20, first = (uint32_t)INT32_MAX - n + 1;
    struct gguf *g = open_tiny(1, 512);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.kv_type = KERN_KV_F32});
    struct backend_seq near, far;
    seq_init(&near, b, n, 5, 1, (struct policy){0, window});
    seq_init(&far, b, n, 5, 1, (struct policy){0, window});
    backend_seq_run(b, &near, n);
    uint32_t *table = calloc(first / KV_BLOCK + 4, sizeof(*table)); /* block 0, which is all zeros, before @first */
    assert_non_null(table);
    for (uint32_t i = 0; i < 4; i++) table[first / KV_BLOCK + i] = 10 + i;
    struct batch_entry e = backend_seq_entry(&far, n);
    e.blocks = (const uint32_t *const[]){table};
    e.pos = first;
    assert_int_equal(b->ops->forward(b, &e, 1, far.logits, NULL), 0);
    float worst = 0;
    for (size_t i = window * far.vocab; i < n * far.vocab; i++)
        worst = fmaxf(worst, fabsf(near.logits[i] - far.logits[i]));
    if (!(worst < 1e-4f)) fail_msg("a logit differs by %g", worst);
    e.pos++;
    assert_int_equal(b->ops->forward(b, &e, 1, far.logits, NULL), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "position 2147483648 is outside the context of 2147483647"));
    free(table);
    backend_seq_fini(&near);
    backend_seq_fini(&far);
    backend_free(b);
    gguf_close(g);
}

/* --- rule 1 --- */

/* Blocks that the next @n tokens and all after them do not see: remove them from the table and overwrite their memory.
 */
static void release(struct backend *b, struct backend_seq *s)
{
    uint32_t edge = s->sinks + s->window, start = s->done >= edge ? s->done + 1 - s->window : 0;
    void *nan = malloc(block_bytes(b));
    assert_non_null(nan);
    memset(nan, 0xff, block_bytes(b));
    for (uint32_t j = (s->sinks + KV_BLOCK - 1) / KV_BLOCK; (j + 1) * KV_BLOCK <= start; j++) {
        if (s->blocks[j] == KV_NO_BLOCK) continue;
        b->ops->kv_write(b, 0, s->blocks[j], nan);
        s->blocks[j] = KV_NO_BLOCK;
    }
    free(nan);
}

static void run_released(struct backend *b, struct backend_seq *s, uint32_t chunk)
{
    while (s->done < s->n) {
        uint32_t n = s->n - s->done < chunk ? s->n - s->done : chunk;
        release(b, s);
        backend_seq_step(b, s, &n, 1);
    }
}

#define LENGTH 610

/* Chunks, threads, instruction sets, and released blocks, for every KV type; *state is the policy. */
static void test_every_path(void **state)
{
    static const uint32_t chunks[] = {512, 1, 7, 32};
    const struct policy *p = *state;
    struct gguf *g = open_tiny(2, 256);
    const struct kernels *k;
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) {
        struct backend_seq want = {0};
        for (size_t i = 0; (k = kernels_nth(i)); i++)
            for (uint32_t threads = 1; threads <= 2; threads++) {
                struct backend *b =
                    tiny_backend(g, &(struct tiny_backend_config){
                                        .cpu = k->name, .threads = threads, .kv_type = kv, .batch_tokens = 512});
                for (uint32_t c = 0; c < 4; c++) {
                    struct backend_seq s;
                    seq_init(&s, b, LENGTH, 5, 20, *p);
                    ((c + threads) % 2 ? backend_seq_run : run_released)(b, &s, chunks[c]);
                    if (want.done) {
                        backend_seq_same_logits(&want, &s);
                        backend_seq_fini(&s);
                    } else {
                        want = s;
                    }
                }
                backend_free(b);
            }
        for (size_t i = 0; i < (size_t)LENGTH * want.vocab; i++) assert_true(isfinite(want.logits[i]));
        backend_seq_fini(&want);
    }
    gguf_close(g);
}

/* Parts of several segments, more than one wave of them. */
static void test_long_chunks(void **state)
{
    static const struct policy policies[] = {{600, 300}, {512, 512}, {3, 1021}, {1023, 1}};
    struct tiny t;
    tiny_init(&t);
    t.type = 0;
    t.layers = 1;
    t.ctx = 1024;
    t.heads = 16;
    struct gguf *g = model_file_tiny(&t);
    struct backend *one = tiny_backend(g, &(struct tiny_backend_config){.batch_tokens = 1200, .kv_type = KERN_KV_F16});
    struct backend *two =
        tiny_backend(g, &(struct tiny_backend_config){.batch_tokens = 1200, .threads = 2, .kv_type = KERN_KV_F16});
    for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
        struct backend_seq a, b;
        seq_init(&a, one, 1800, 9, 0, policies[i]);
        seq_init(&b, two, 1800, 9, 70, policies[i]);
        backend_seq_run(one, &a, 1200);
        run_released(two, &b, 129);
        backend_seq_same_logits(&a, &b);
        backend_seq_fini(&a);
        backend_seq_fini(&b);
    }
    backend_free(two);
    backend_free(one);
    gguf_close(g);
}

/* Sequences of all policies step together, each at its own pace, and are what they are alone. */
static void test_in_a_batch(void **state)
{
    static const struct policy policies[] = {{0, 0}, {4, 60}, {37, 100}, {0, 40}, {64, 64}};
    struct gguf *g = open_tiny(2, 256);
    struct backend *b = tiny_backend(
        g, &(struct tiny_backend_config){.threads = 2, .kv_type = KERN_KV_F16, .blocks = 120, .batch_tokens = 400});
    struct backend_seq s[5];
    for (uint32_t i = 0; i < 5; i++) seq_init(&s[i], b, i ? 400 : 250, 20 + i, 14 * i, policies[i]);
    for (uint32_t step = 0;; step++) {
        uint32_t n[5], any = 0;
        for (uint32_t i = 0; i < 5; i++) {
            uint32_t left = s[i].n - s[i].done, want = (step * 7 + i * 5) % 43;
            any += left;
            n[i] = want < left ? want : left;
            if (s[i].window) release(b, &s[i]);
        }
        if (!any) break;
        if (n[0] + n[1] + n[2] + n[3] + n[4]) backend_seq_step(b, s, n, 5);
    }
    for (uint32_t i = 0; i < 5; i++) {
        struct backend_seq alone;
        seq_init(&alone, b, s[i].n, 20 + i, 80, policies[i]);
        backend_seq_run(b, &alone, 50);
        backend_seq_same_logits(&alone, &s[i]);
        backend_seq_some_wanted(b, &alone, 94);
        backend_seq_fini(&alone);
        backend_seq_fini(&s[i]);
    }
    backend_free(b);
    gguf_close(g);
}

/* --- refused batches --- */

static void refused(struct backend *b, const struct batch_entry *e, float *logits, const char *why)
{
    assert_int_equal(b->ops->forward(b, e, 1, logits, NULL), -EINVAL);
    if (!strstr(error_text(-EINVAL), why)) fail_msg("\"%s\", not \"%s\"", error_text(-EINVAL), why);
}

static void test_refuses(void **state)
{
    struct gguf *g = open_tiny(1, 256);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq s;
    seq_init(&s, b, 320, 5, 0, (struct policy){40, 64});
    s.done = 200;
    struct batch_entry e = backend_seq_entry(&s, 5);
    /* Seen: 0 … 39 and 137 … 204. Blocks 2 (64 … 95) and 3 (96 … 127) are not. */
    for (uint32_t j = 0; j < 7; j++) {
        uint32_t id = s.blocks[j];
        s.blocks[j] = KV_NO_BLOCK;
        if (j == 2 || j == 3)
            assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), 0);
        else
            refused(b, &e, s.logits, "no KV block for position");
        s.blocks[j] = b->kv_blocks[0];
        refused(b, &e, s.logits, "KV block 64 of 64");
        s.blocks[j] = id;
    }
    s.blocks[2] = s.blocks[3] = KV_NO_BLOCK;
    e.pos = 191; /* sees from 128 on */
    assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), 0);
    e.pos = 190;
    refused(b, &e, s.logits, "no KV block for position 96");
    e.pos = 100, e.n = 1; /* everything is seen */
    refused(b, &e, s.logits, "no KV block for position 64");
    s.blocks[2] = 2, s.blocks[3] = 3;
    e.window = 216;
    assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), 0);
    e.window = 217;
    refused(b, &e, s.logits, "40 sinks and a window of 217 are more than the context of 256");
    e.sinks = e.window = UINT32_MAX;
    refused(b, &e, s.logits, "4294967295 sinks and a window of 4294967295 are more than the context of 256");
    e.sinks = 4, e.window = 0;
    refused(b, &e, s.logits, "4 sinks without a window");
    e.pos = UINT32_MAX, e.window = 10;
    refused(b, &e, s.logits, "position 4294967295 is outside");
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

int main(void)
{
    static const struct policy some = {4, 100}, none = {0, 64}, many = {50, 131}, few = {33, 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_reference_long),
        cmocka_unit_test(test_where_it_begins),
        cmocka_unit_test(test_the_last_positions),
        {"same bits on every path: 4 sinks, window 100", test_every_path, NULL, NULL, (void *)&some},
        {"same bits on every path: no sinks, window 64", test_every_path, NULL, NULL, (void *)&none},
        {"same bits on every path: 50 sinks, window 131", test_every_path, NULL, NULL, (void *)&many},
        {"same bits on every path: 33 sinks, window 1", test_every_path, NULL, NULL, (void *)&few},
        cmocka_unit_test(test_long_chunks),
        cmocka_unit_test(test_in_a_batch),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
