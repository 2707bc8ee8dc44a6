/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/cpu.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Mark @bytes at @p, which must be aligned, inside the mapping, and not marked yet. */
static void mark(const struct scratch *s, uint8_t *seen, const void *p, size_t bytes)
{
    size_t at = (size_t)((const uint8_t *)p - (const uint8_t *)s->mem);
    assert_int_equal(at % KERN_ALIGN, 0);
    assert_true(at + bytes <= s->size);
    for (size_t i = at; i < at + bytes; i++) assert_int_equal(seen[i]++, 0);
}

/* @values: of all rows; a row that is no multiple of 32 is never quantized. */
static void mark_acts(const struct scratch *s, uint8_t *seen, const struct acts *a, size_t values)
{
    mark(s, seen, a->f, 4 * values), mark(s, seen, a->q, values);
    if (a->k % 32 == 0) mark(s, seen, a->d, values / 32 * 8), mark(s, seen, a->s, values / 32 * 4);
}

/* The buffers of gated queries, parallel blocks and recurrent layers. */
static void mark_kinds(const struct scratch *s, uint8_t *seen, const struct hparams *y, uint32_t n)
{
    mark(s, seen, s->beside, y->parallel || y->desc->experts.beside ? 4ul * n * y->dim : 0);
    mark(s, seen, s->q_gate, y->desc->attention.q_gate ? 4ul * n * hparams_queries(y) : 0);
    for (uint32_t i = 0; i < RECURRENT_INPUTS; i++) mark(s, seen, s->recurrent.in[i], 4ul * n * y->recurrent.in[i]);
    mark_acts(s, seen, &s->recurrent.out, (size_t)n * y->recurrent.out);
    mark(s, seen, s->recurrent.runs, n * sizeof(*s->recurrent.runs));
}

/* The buffers of AltUp, and of embeddings for the layers. */
static void mark_layers(const struct scratch *s, uint8_t *seen, const struct hparams *y, uint32_t n, uint32_t threads)
{
    const size_t streams = y->altup.streams, all = (size_t)y->n_layers * y->per_layer;
    mark(s, seen, s->embedding.all, 4 * n * all), mark(s, seen, s->embedding.row, 4 * threads * all);
    mark_acts(s, seen, &s->embedding.gate, (size_t)n * y->per_layer);
    mark(s, seen, s->up, streams ? 4ul * n * y->ffn : 0);
    mark(s, seen, s->altup.streams, 4 * n * streams * y->dim);
    mark(s, seen, s->altup.rows, streams ? 4ul * threads * 2 * y->dim : 0);
    mark(s, seen, s->altup.mixed, 4 * threads * streams * y->dim);
    mark_acts(s, seen, &s->altup.low, (size_t)n * y->altup.rank);
    mark(s, seen, s->altup.side, streams ? 4ul * n * y->dim : 0);
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void check(const struct hparams *y, uint32_t n, uint32_t ctx, uint32_t threads)
{
    struct scratch s;
    assert_int_equal(scratch_init(&s, y, n, ctx, threads), 0);
    uint8_t *seen = calloc(s.size, 1);
    assert_non_null(seen);
    const struct hparams_heads other = hparams_heads_of(y, true);
    const size_t widest = hparams_widest(y), q = y->heads * widest, heads = most(y->kv_heads, other.kv_heads);
    const size_t kv = most((size_t)y->kv_heads * y->head_dim, (size_t)other.kv_heads * other.head_dim);
    size_t ffn = y->experts.n ? y->experts.shared_ffn : y->ffn, rows = (size_t)n * y->experts.used, hidden;
    hidden = n * ffn < rows * y->experts.ffn ? rows * y->experts.ffn : n * ffn;
    mark(&s, seen, s.tokens, n * sizeof(*s.tokens));
    mark(&s, seen, s.x, 4 * n * y->dim), mark_acts(&s, seen, &s.h, n * y->dim);
    mark(&s, seen, s.q, 4 * n * q), mark(&s, seen, s.k, 4 * n * kv), mark(&s, seen, s.v, 4 * n * kv);
    mark_kinds(&s, seen, y, n), mark_layers(&s, seen, y, n, threads);
    mark_acts(&s, seen, &s.att, n * q), mark_acts(&s, seen, &s.gated, hidden);
    mark(&s, seen, s.columns, 4ul * threads * 2 * GATED_VALUES);
    mark(&s, seen, s.moe.route, 4ul * n * y->experts.n),
        mark(&s, seen, s.moe.shared, y->experts.shared_ffn ? 4 * n : 0);
    mark(&s, seen, s.moe.chosen, 4 * rows), mark(&s, seen, s.moe.share, 4 * rows);
    mark(&s, seen, s.moe.row, 4 * rows), mark(&s, seen, s.moe.source, 4 * rows);
    mark(&s, seen, s.moe.groups, y->experts.n * sizeof(*s.moe.groups)), mark_acts(&s, seen, &s.moe.mix, rows * y->dim);
    for (uint32_t i = 0; i < hparams_ropes(y); i++) mark(&s, seen, s.cs[i], 4 * n * hparams_rotated(y, i));
    mark(&s, seen, s.sink_cs, 4 * n * y->rope_dim);
    mark(&s, seen, s.attn.m, 4 * s.attn.rows), mark(&s, seen, s.attn.l, 4 * s.attn.rows),
        mark(&s, seen, s.attn.o, 4ul * s.attn.rows * widest);
    mark(&s, seen, s.attn.tiles, n * sizeof(*s.attn.tiles)),
        mark(&s, seen, s.attn.items, s.attn.rows * sizeof(*s.attn.items));
    mark(&s, seen, s.attn.left, 4ul * n * heads);
    rows = (size_t)threads * s.attn.tile_rows;
    mark(&s, seen, s.attn.query, rows * sizeof(*s.attn.query)), mark(&s, seen, s.attn.begin, 4 * rows),
        mark(&s, seen, s.attn.end, 4 * rows), mark(&s, seen, s.attn.turned, 4 * rows * widest);
    assert_true(s.attn.tile_rows >= y->heads / y->kv_heads);
    /* One tile of the longest context, and of any sinks and window: of each a segment may be seen from its middle to
     * its middle, and the tile's first and last token see others. One more for sink scores. */
    assert_true(s.attn.rows >= y->heads * ((ctx + KV_SEGMENT - 1) / KV_SEGMENT + 4));
    free(seen);
    scratch_fini(&s);
    scratch_fini(&s);
}

static void test_buffers_do_not_overlap(void **state)
{
    check(&(struct hparams){.desc = arch_find("llama", 5),
                            .n_layers = 1,
                            .dim = 64,
                            .ffn = 96,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 16,
                            .rope_dim = 16},
          7, 512, 2);
    check(&(struct hparams){.desc = arch_find("llama", 5),
                            .n_layers = 1,
                            .dim = 64,
                            .ffn = 96,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 16,
                            .rope_dim = 16,
                            .window = 40,
                            .window_rope = {.base = 5}},
          7, 512, 2);
    struct hparams y = {.desc = arch_find("llama", 5),
                        .n_layers = 1,
                        .dim = 64,
                        .ffn = 4096,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .rope_dim = 16};
    y.experts.n = 12, y.experts.used = 5, y.experts.ffn = 32, y.experts.step = 1;
    check(&y, 7, 512, 2);
    y.experts.shared_ffn = 224;
    check(&y, 7, 512, 2);
    y.experts.ffn = 96;
    check(&y, 7, 512, 2);
    y.desc = arch_find("qwen35", 6), y.parallel = true;
    y.recurrent = (struct hparams_recurrent){.taps = 4, .channels = 96, .in = {96, 32, 2, 2}, .out = 32};
    check(&y, 7, 512, 2);
    y.altup.streams = 4, y.altup.rank = 32, y.per_layer = 96;
    check(&y, 7, 512, 2);
    y = (struct hparams){.desc = arch_find("gemma4", 6),
                         .n_layers = 1,
                         .dim = 64,
                         .ffn = 96,
                         .heads = 8,
                         .kv_heads = 4,
                         .head_dim = 16,
                         .rope_dim = 16,
                         .window = 40};
    y.by_layer.window_heads = (struct hparams_heads){1, 48, 32};
    check(&y, 7, 512, 2);
    y.by_layer.window_heads = (struct hparams_heads){8, 6, 6};
    check(&y, 7, 512, 2);
    check(&(struct hparams){.desc = arch_find("llama", 5),
                            .n_layers = 1,
                            .dim = 5,
                            .ffn = 3,
                            .heads = 3,
                            .kv_heads = 1,
                            .head_dim = 2,
                            .rope_dim = 2},
          1, 1, 1);
    check(&(struct hparams){.desc = arch_find("llama", 5),
                            .n_layers = 1,
                            .dim = 64,
                            .ffn = 32,
                            .heads = 200,
                            .kv_heads = 1,
                            .head_dim = 6,
                            .rope_dim = 4},
          33, 100000, 5);
}

static void test_too_large(void **state)
{
    struct scratch s;
    const struct hparams y = {.desc = arch_find("llama", 5),
                              .n_layers = 1,
                              .dim = 4096,
                              .ffn = 14336,
                              .heads = 32,
                              .kv_heads = 8,
                              .head_dim = 128,
                              .rope_dim = 128};
    assert_int_equal(scratch_init(&s, &y, UINT32_MAX, 512, 1), -ENOMEM);
    assert_non_null(strstr(error_text(-ENOMEM), "for batches of 4294967295 tokens"));
}

/* Rows of partial results are counted in 32 bits: too few of them would make a wave of no token, again and again. */
static void test_rows_that_cannot_be_counted(void **state)
{
    struct scratch s;
    const struct hparams y = {.desc = arch_find("llama", 5),
                              .n_layers = 1,
                              .dim = 4096,
                              .ffn = 32,
                              .heads = 4096,
                              .kv_heads = 4096,
                              .head_dim = 1,
                              .rope_dim = 0};
    assert_int_equal(scratch_init(&s, &y, 1, 1 << 30, 1), -ENOMEM);
    assert_string_equal(error_text(-ENOMEM), "a context of 1073741824 is too long for 4096 attention heads");
    scratch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_do_not_overlap),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_rows_that_cannot_be_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
