/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/weights.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

struct load {
    struct gguf *g;
    struct hparams s;
    struct compute_pool *pool;
    struct weights w;
};

static int load(struct load *l, const struct buf *b)
{
    *l = (struct load){0};
    assert_int_equal(model_file_open(&l->g, b->data, b->len), 0);
    assert_int_equal(hparams_read(&l->s, l->g), 0);
    assert_int_equal(compute_pool_new(&l->pool, 2), 0);
    size_t bytes = 0;
    int check = weights_check(l->g, &l->s, &bytes);
    int r = weights_load(&l->w, l->g, &l->s, NULL, l->pool, &(struct backend_config){0});
    if (r != -ENOMEM && check) assert_int_equal(check, r);
    if (!r) assert_int_equal(bytes, l->w.table.size);
    return r;
}

static void unload(struct load *l)
{
    weights_fini(&l->w);
    compute_pool_free(l->pool);
    gguf_close(l->g);
}

static void tiny_bytes(struct buf *b, uint32_t type, bool tied)
{
    struct tiny t;
    tiny_init(&t);
    t.type = type;
    t.tied = tied;
    if ((type >= 10 && type <= 14) || type == 23) t.dim = 256, t.ffn = 512; /* blocks of 256 */
    model_file_tiny_bytes(b, &t);
}

static void refused(struct buf *b, int error, const char *why)
{
    struct load l;
    int r = load(&l, b);
    if (r != error || !strstr(error_text(r), why)) fail_msg("%d \"%s\", not \"%s\"", r, error_text(r), why);
    assert_non_null(strstr(error_text(r), gguf_path(l.g)));
    unload(&l);
    buf_fini(b);
}

/* Each matrix row of every type, taken out of its panel, is the file's row. */
static void test_panels_hold_the_file(void **state)
{
    static const uint32_t types[] = {0, 1, 30, 8, 2, 3, 14, 6, 7, 10, 11, 12, 13, 20, 23, 39};
    for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++) {
        struct buf b = BUF_INIT;
        struct load l;
        tiny_bytes(&b, types[k], true);
        assert_int_equal(load(&l, &b), 0);
        const struct gguf_tensor *t = gguf_find_tensor(l.g, "blk.1.ffn_down.weight");
        const struct matrix *m = &l.w.layers[1].down;
        assert_true(m->k == l.s.ffn && m->rows == l.s.dim && m->n_panels == l.s.dim / 16);
        float want[512], have[512];
        for (uint32_t i = 0; i < m->rows; i++) {
            kern_dequant(m->type, want, (const char *)t->data + t->size / m->rows * i, m->k);
            kern_panel_row(m->type, have, m->panels + i / KERN_ROWS * m->panel_bytes, i % KERN_ROWS, m->k);
            assert_memory_equal(want, have, m->k * sizeof(*want));
        }
        unload(&l);
        buf_fini(&b);
    }
}

/* Those of stacked matrices too, whose last panels are not full. */
static void test_stacked_panels(void **state)
{
    struct buf b = BUF_INIT;
    struct load l;
    struct tiny t;
    tiny_init(&t);
    t.arch = "mixtral", t.type = 1, t.ffn = 40;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(load(&l, &b), 0);
    const struct gguf_tensor *g = gguf_find_tensor(l.g, "blk.1.ffn_up_exps.weight");
    const struct matrix *m = &l.w.layers[1].up;
    assert_true(m->stacked == 8 && m->k == 64 && m->rows == 40 && m->n_panels == 3);
    float want[64], have[64];
    for (uint32_t e = 0; e < 8; e++)
        for (uint32_t i = 0; i < 40; i++) {
            kern_dequant(m->type, want, (const char *)g->data + (e * 40 + i) * 64 * 2, 64);
            kern_panel_row(m->type, have, m->panels + (e * 3 + i / KERN_ROWS) * m->panel_bytes, i % KERN_ROWS, 64);
            assert_memory_equal(want, have, sizeof(want));
        }
    unload(&l);
    buf_fini(&b);
}

static void test_embeddings(void **state)
{
    for (int tied = 0; tied < 2; tied++) {
        struct buf b = BUF_INIT;
        struct load l;
        tiny_bytes(&b, 3, tied);
        assert_int_equal(load(&l, &b), 0);
        assert_int_equal(l.w.embd == NULL, tied);
        const struct gguf_tensor *t = gguf_find_tensor(l.g, "token_embd.weight");
        for (uint32_t i = 0; i < l.s.vocab; i++) {
            float want[64], have[64];
            kern_dequant(KERN_Q4_1, want, (const char *)t->data + t->size / l.s.vocab * i, 64);
            weights_embed(&l.w, i, have);
            assert_memory_equal(want, have, sizeof(want));
        }
        unload(&l);
        buf_fini(&b);
    }
}

struct seen {
    uint64_t done, total, calls;
};

static void note(void *ctx, uint64_t done, uint64_t total)
{
    struct seen *s = ctx;
    assert_true(done >= s->done && done <= total);
    *s = (struct seen){done, total, s->calls + 1};
}

static void arch_bytes(struct buf *b, const char *arch)
{
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    model_file_tiny_bytes(b, &t);
}

static void test_progress_reaches_the_end(void **state)
{
    static const char *const archs[] = {"llama", "phi3"}; /* a tensor a matrix, and one for several */
    for (size_t i = 0; i < 2; i++) {
        struct buf b = BUF_INIT;
        struct load l;
        struct weights w;
        struct seen s = {0};
        arch_bytes(&b, archs[i]);
        assert_int_equal(load(&l, &b), 0);
        assert_int_equal(
            weights_load(&w, l.g, &l.s, NULL, l.pool, &(struct backend_config){.progress = note, .progress_ctx = &s}),
            0);
        assert_int_equal(s.done, s.total);
        assert_true(s.calls >= 20 && s.total > 10000);
        weights_fini(&w);
        unload(&l);
        buf_fini(&b);
    }
}

/* --- refused --- */

static void test_unsupported_type(void **state)
{
    struct buf b = BUF_INIT;
    tiny_bytes(&b, 1, true);
    size_t at = model_file_find(&b, "blk.0.attn_q.weight") + strlen("blk.0.attn_q.weight") + 4 + 16;
    assert_int_equal(b.data[at], 1);
    b.data[at] = 9; /* Q8_1, of activations: fewer bytes, so that nothing overlaps */
    refused(&b, -EOPNOTSUPP,
            "tensor 'blk.0.attn_q.weight' is of type Q8_1, which is not supported; supported: F32, F16, BF16,");
    b = (struct buf)BUF_INIT;
    tiny_bytes(&b, 2, true);
    b.data[at] = 100;
    refused(&b, -EOPNOTSUPP, "tensor 'blk.0.attn_q.weight' is of type number 100, which is not supported");
}

static void test_missing_tensor(void **state)
{
    struct buf b = BUF_INIT;
    tiny_bytes(&b, 2, true);
    b.data[model_file_find(&b, "blk.1.ffn_up.weight")] = 'B';
    refused(&b, -EINVAL, "tensor 'blk.1.ffn_up.weight' is missing");
}

/* A tensor that the computation would leave out makes the answers wrong. */
static void test_extra_tensor(void **state)
{
    struct buf b = BUF_INIT;
    tiny_bytes(&b, 2, false);
    char *last = b.data + model_file_find(&b, "output_norm.weight"); /* after it comes output.weight */
    last = memmem(last, 100, "output.weight", 13);
    assert_non_null(last);
    memcpy(last, "attn\033q.bias", 11); /* escape sequences must not reach a terminal */
    refused(&b, -EOPNOTSUPP, "tensor 'attn?q.biasht' is not supported in a 'llama' model");
}

/* Without its factors LongRoPE would be no scaling at all. */
static void test_long_rope_without_factors(void **state)
{
    static const char *const why[] = {"tensor '" ROPE_SHORT_TENSOR "' is missing",
                                      "RoPE scaling 'longrope' is not supported in a 'qwen2' model"};
    for (int i = 0; i < 2; i++) {
        struct load l = {0};
        struct tiny t;
        size_t bytes;
        tiny_init(&t);
        t.arch = i ? "qwen2" : "llama";
        l.g = model_file_tiny(&t);
        assert_int_equal(hparams_read(&l.s, l.g), 0);
        l.s.rope.kind = ROPE_LONG; /* as rope.scaling.type says it */
        int r = weights_check(l.g, &l.s, &bytes);
        assert_int_equal(r, i ? -EOPNOTSUPP : -EINVAL);
        assert_non_null(strstr(error_text(r), why[i]));
        gguf_close(l.g);
    }
}

static void test_wrong_dimensions(void **state)
{
    struct buf b = BUF_INIT;
    tiny_bytes(&b, 1, true);
    size_t at = model_file_find(&b, "blk.0.attn_k.weight") + strlen("blk.0.attn_k.weight") + 4 + 8;
    assert_int_equal(b.data[at], 32);
    b.data[at] = 16;
    refused(&b, -EINVAL, "tensor 'blk.0.attn_k.weight' is 64 x 16, but the model's keys say 64 x 32");
}

static void test_norm_that_is_not_finite(void **state)
{
    struct buf b = BUF_INIT;
    struct load l;
    tiny_bytes(&b, 2, true);
    assert_int_equal(load(&l, &b), 0);
    /* its offset in the file is where these values stand */
    char *p = memmem(b.data, b.len, gguf_find_tensor(l.g, "blk.1.attn_norm.weight")->data, 256);
    assert_non_null(p);
    memcpy(p + 12, "\0\0\200\177", 4);
    unload(&l);
    refused(&b, -EINVAL, "tensor 'blk.1.attn_norm.weight' has the value inf at index 3");
}

static void test_out_of_memory(void **state)
{
#if defined(__SANITIZE_ADDRESS__)
    print_message("skipped: the address sanitizer needs the address space\n");
    skip();
#endif
    struct buf b = BUF_INIT;
    struct tiny t;
    struct load l;
    tiny_init(&t);
    t.dim = 512, t.ffn = 4096, t.layers = 4;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(load(&l, &b), 0);
    struct rlimit old, tight;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = 64 << 20; /* less than is in use: no mapping more */
    struct weights w;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    int r = weights_load(&w, l.g, &l.s, NULL, l.pool, &(struct backend_config){0});
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    if (!r) {
        weights_fini(&w);
        print_message("skipped: limits on the address space do not count here\n");
        unload(&l);
        buf_fini(&b);
        skip();
    }
    assert_int_equal(r, -ENOMEM);
    assert_non_null(strstr(error_text(r), "out of memory: "));
    assert_non_null(strstr(error_text(r), " bytes) for the weights: Cannot allocate memory"));
    unload(&l);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panels_hold_the_file), cmocka_unit_test(test_stacked_panels),
        cmocka_unit_test(test_embeddings),           cmocka_unit_test(test_progress_reaches_the_end),
        cmocka_unit_test(test_unsupported_type),     cmocka_unit_test(test_missing_tensor),
        cmocka_unit_test(test_extra_tensor),         cmocka_unit_test(test_long_rope_without_factors),
        cmocka_unit_test(test_wrong_dimensions),     cmocka_unit_test(test_norm_that_is_not_finite),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
