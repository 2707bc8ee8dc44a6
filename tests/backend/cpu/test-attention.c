/* SPDX-License-Identifier: MIT */
/* Long contexts: segments of 512 positions, waves, groups of heads; and RoPE on them. Compared with
 * each other bit by bit, and with the independent f32 pass. */
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

static void one_layer(struct tiny *t, uint32_t heads, uint32_t kv_heads)
{
    tiny_init(t);
    t->type = 0;
    t->layers = 1;
    t->ctx = 1600;
    t->heads = heads;
    t->kv_heads = kv_heads;
}

/* Every token's logits in one batch, in chunks that straddle segments, and alone at the end. */
static void check_chunks(const struct tiny *t, uint32_t n)
{
    struct gguf *g = model_file_tiny(t);
    struct backend *one = tiny_backend(g, &(struct tiny_backend_config){.batch_tokens = n, .kv_type = KERN_KV_F16});
    struct backend *two =
        tiny_backend(g, &(struct tiny_backend_config){.batch_tokens = 130, .threads = 2, .kv_type = KERN_KV_F16});
    struct backend_seq a, b;
    backend_seq_init(&a, one, n, 9, 0);
    backend_seq_init(&b, two, n, 9, 60);
    backend_seq_run(one, &a, n);
    uint32_t chunk = 129;
    while (b.done < b.n) {
        uint32_t left = b.n - b.done, m = left > 20 + chunk ? chunk : left > 20 ? left - 20 : 1;
        backend_seq_step(two, &b, &m, 1);
    }
    backend_seq_same_logits(&a, &b);
    backend_seq_fini(&a);
    backend_seq_fini(&b);
    backend_free(two);
    backend_free(one);
    gguf_close(g);
}

static void test_segments(void **state)
{
    struct tiny t;
    one_layer(&t, 4, 2);
    check_chunks(&t, 1100);
}

static void test_segment_edges(void **state)
{
    struct tiny t;
    one_layer(&t, 4, 4);
    for (uint32_t n = 511; n <= 514; n++) check_chunks(&t, n);
}

/* 16 heads x 3 segments x 1300 tokens are more rows than one wave holds. */
static void test_waves(void **state)
{
    struct tiny t;
    one_layer(&t, 16, 2);
    check_chunks(&t, 1300);
}

#define SHARERS 12

/* The tokens and blocks of sequence @i: the first @shared tokens are those of @all, in the same blocks. Its last tokens
 * are still to be computed. */
static void fork_of(struct backend_seq *s, struct backend *b, const struct backend_seq *all, uint32_t i,
                    uint32_t shared)
{
    const uint32_t more = i % 5 == 4 ? 600 : 20 + 13 * i;
    uint32_t left;
    backend_seq_init(s, b, shared + more, 100 + i, 50 + i * 45);
    if (shared) memcpy(s->tokens, all->tokens, shared * sizeof(*s->tokens));
    if (shared) memcpy(s->blocks, all->blocks, shared / KV_BLOCK * sizeof(*s->blocks));
    while ((left = s->n - s->done) > 12) {
        const uint32_t n = left - 12 > 200 ? 200 : left - 12;
        backend_seq_step(b, s, &n, 1);
    }
}

/* Sequences with common blocks, which attention computes together, have the bits that they have alone. */
static void check_common_blocks(const struct tiny *t, enum kern_kv kv)
{
    static const uint32_t shared[SHARERS] = {704, 704, 704, 640, 512, 512, 128, 160, 96, 0, 704, 672};
    struct gguf *g = model_file_tiny(t);
    struct tiny_backend_config config = {.threads = 1, .blocks = 700, .kv_type = kv};
    struct backend *alone = tiny_backend(g, &config);
    struct backend *b = tiny_backend(g, &config);
    struct backend_seq all, s[SHARERS], one;
    uint32_t n[SHARERS];
    backend_seq_init(&all, b, 720, 9, 0);
    backend_seq_run(b, &all, 256);
    for (uint32_t i = 0; i < SHARERS; i++) fork_of(&s[i], b, &all, i, shared[i]);
    for (uint32_t step = 0; step < 4; step++) {
        for (uint32_t i = 0; i < SHARERS; i++) n[i] = i % 4 == step ? 3 : 1;
        backend_seq_step(b, s, n, SHARERS);
    }
    for (uint32_t i = 0; i < SHARERS; i++) {
        backend_seq_init(&one, alone, s[i].n, 100 + i, 0);
        memcpy(one.tokens, s[i].tokens, s[i].n * sizeof(*s[i].tokens));
        backend_seq_run(alone, &one, 100);
        const size_t from = (s[i].n - 12) * (size_t)one.vocab, values = (s[i].done - (s[i].n - 12)) * (size_t)one.vocab;
        if (memcmp(one.logits + from, s[i].logits + from, values * sizeof(float)))
            fail_msg("the logits of sequence %u, which shares %u tokens, differ", i, shared[i]);
        backend_seq_fini(&one);
        backend_seq_fini(&s[i]);
    }
    backend_seq_fini(&all);
    backend_free(alone);
    backend_free(b);
    gguf_close(g);
}

static void test_common_blocks(void **state)
{
    struct tiny t;
    one_layer(&t, 6, 2);
    t.layers = 2;
    t.head_dim = 24;
    for (enum kern_kv kv = 0; kv < KERN_KV_TYPES; kv++) check_common_blocks(&t, kv);
    one_layer(&t, 4, 4);
    check_common_blocks(&t, KERN_KV_F16);
    one_layer(&t, 32, 1);
    check_common_blocks(&t, KERN_KV_F16);
}

static void test_one_kv_head_for_all(void **state)
{
    struct tiny t;
    one_layer(&t, 32, 1); /* dimensions: 2 */
    check_chunks(&t, 600);
}

static void test_more_heads_than_a_tile_has_rows(void **state)
{
    struct tiny t;
    one_layer(&t, 96, 1);
    t.head_dim = 6;
    check_chunks(&t, 540);
}

/* --- against the independent pass --- */

static void check_reference_kv(const struct tiny *t, uint32_t n, enum kern_kv kv, float bound)
{
    struct gguf *g = model_file_tiny(t);
    struct reference *r = NULL;
    int e = reference_new(&r, g);
    if (e == -ENOENT) {
        print_message("skipped: %s\n", error_text(e));
        gguf_close(g);
        skip();
    }
    assert_int_equal(e, 0);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.batch_tokens = n, .threads = 2, .kv_type = kv});
    struct backend_seq s;
    backend_seq_init(&s, b, n, 3, 0);
    backend_seq_run(b, &s, 200);
    float *want = malloc((size_t)n * s.vocab * sizeof(float)), worst = 0;
    assert_non_null(want);
    assert_int_equal(reference_forward(r, s.tokens, n, want), 0);
    for (size_t i = 0; i < (size_t)n * s.vocab; i++) worst = fmaxf(worst, fabsf(want[i] - s.logits[i]));
    if (!(worst < bound)) fail_msg("a logit differs by %g", worst);
    free(want);
    reference_free(r);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

static void check_reference(const struct tiny *t, uint32_t n, float bound)
{
    check_reference_kv(t, n, KERN_KV_F32, bound);
}

static void test_reference_long(void **state)
{
    struct tiny t;
    one_layer(&t, 8, 2);
    t.layers = 3;
    check_reference(&t, 1200, 1e-3f);
}

static void test_reference_rope(void **state)
{
    struct tiny t;
    one_layer(&t, 4, 2);
    t.rope_base = 500000;
    t.rope_freqs = true;
    check_reference(&t, 700, 1e-3f);
    one_layer(&t, 4, 2);
    t.rope_linear = 4;
    check_reference(&t, 700, 1e-3f);
}

static void test_reference_head_width(void **state)
{
    struct tiny t;
    one_layer(&t, 3, 1);
    t.head_dim = 40;
    check_reference(&t, 300, 1e-3f);
}

static void test_reference_float_types(void **state)
{
    struct tiny t;
    for (int i = 0; i < 2; i++) {
        one_layer(&t, 4, 2);
        t.type = i ? 1 : 30;
        t.tied = i;
        check_reference(&t, 100, 1e-3f);
    }
}

/* Activations are rounded to 8 bits: near, not equal. */
static void test_reference_quantized_types(void **state)
{
    static const uint32_t types[] = {8, 2, 3};
    struct tiny t;
    for (size_t i = 0; i < 3; i++) {
        one_layer(&t, 4, 2);
        t.type = types[i];
        t.tied = i % 2;
        check_reference(&t, 100, 0.6f);
    }
}

/* K and V rounded to 11 bits, and to 8 for each 32 dims: near, not equal (0.011 and 0.23 here, logits deviate by
 * several). */
static void test_reference_rounded_kv(void **state)
{
    static const uint32_t dims[] = {0, 40, 64};
    struct tiny t;
    for (size_t i = 0; i < 3; i++) {
        one_layer(&t, 4, 2);
        t.layers = 2;
        t.head_dim = dims[i];
        check_reference_kv(&t, 700, KERN_KV_F16, 0.05f);
        check_reference_kv(&t, 700, KERN_KV_Q8, 0.6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_segment_edges),
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_common_blocks),
        cmocka_unit_test(test_one_kv_head_for_all),
        cmocka_unit_test(test_more_heads_than_a_tile_has_rows),
        cmocka_unit_test(test_reference_long),
        cmocka_unit_test(test_reference_rope),
        cmocka_unit_test(test_reference_head_width),
        cmocka_unit_test(test_reference_float_types),
        cmocka_unit_test(test_reference_quantized_types),
        cmocka_unit_test(test_reference_rounded_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
