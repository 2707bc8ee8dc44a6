/* SPDX-License-Identifier: MIT */
/* Also encoding, encoder-hparams, encoder-tensors and encoder-weights: the interface, and files damaged anywhere. What
 * is computed is compared in e2e/test_encode.py. */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/encoder/encoder.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/libcommon/check.h"

enum { DIM = 8, FFN = 16, EDGE = 8, PATCH = 2, ROWS = 16, POOL = 2, ITEMS = 4, OUT = 6, DAMAGED = 3000 };

struct tensor {
    const char *name;
    uint64_t dims[4];
};

static const struct tensor tensors[] = {
    {"v.patch_embd.weight", {PATCH, PATCH, 3, DIM}},  {"v.patch_embd.bias", {DIM, 1, 1, 1}},
    {"v.position_embd.weight", {DIM, ROWS, 1, 1}},    {"v.blk.0.ln1.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln2.weight", {DIM, 1, 1, 1}},           {"v.blk.0.attn_q.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_k.weight", {DIM, DIM, 1, 1}},      {"v.blk.0.attn_v.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_out.weight", {DIM, DIM, 1, 1}},    {"v.blk.0.ffn_up.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_down.weight", {FFN, DIM, 1, 1}},    {"mm.soft_emb_norm.weight", {DIM, 1, 1, 1}},
    {"mm.input_projection.weight", {OUT, DIM, 1, 1}},
};

/* Qwen2.5-VL: turned heads, windows, RMS norms, a gated FFN, two kernels of the patches. */
static const struct tensor turned[] = {
    {"v.patch_embd.weight", {PATCH, PATCH, 3, DIM}},
    {"v.patch_embd.weight.1", {PATCH, PATCH, 3, DIM}},
    {"v.post_ln.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln1.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.ln2.weight", {DIM, 1, 1, 1}},
    {"v.blk.0.attn_q.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_k.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_v.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.attn_out.weight", {DIM, DIM, 1, 1}},
    {"v.blk.0.ffn_up.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_gate.weight", {DIM, FFN, 1, 1}},
    {"v.blk.0.ffn_down.weight", {FFN, DIM, 1, 1}},
    {"mm.0.weight", {4 * DIM, FFN, 1, 1}},
    {"mm.2.weight", {FFN, OUT, 1, 1}},
};

static const struct file {
    const char *projector;
    const struct tensor *tensors;
    int n;
    const char *key; /* the last one */
    uint32_t value;
    const char *last; /* tensor */
} gemma3 = {"gemma3",
            tensors,
            sizeof(tensors) / sizeof(*tensors),
            "clip.vision.projector.scale_factor",
            POOL,
            "mm.input_projection"},
  qwen = {"qwen2.5vl_merger", turned, sizeof(turned) / sizeof(*turned), "clip.vision.n_wa_pattern", 2, "mm.2.weight"};

static size_t count(const struct tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static void put_colors(struct buf *b, const char *key)
{
    const float half[3] = {0.5f, 0.5f, 0.5f};
    put_str(b, key);
    put_u32(b, GGUF_ARRAY);
    put_u32(b, GGUF_F32);
    put_u64(b, 3);
    assert_int_equal(buf_append(b, half, sizeof(half)), 0);
}

/* A file of random weights. */
static void make(struct buf *b, const struct file *f)
{
    uint64_t seed = 1;
    put_header(b, 3, (uint64_t)f->n, 12);
    put_key_str(b, "general.architecture", "clip");
    put_key_str(b, "clip.projector_type", f->projector);
    put_key_u32(b, "clip.vision.image_size", EDGE);
    put_key_u32(b, "clip.vision.patch_size", PATCH);
    put_key_u32(b, "clip.vision.embedding_length", DIM);
    put_key_u32(b, "clip.vision.feed_forward_length", FFN);
    put_key_u32(b, "clip.vision.block_count", 1);
    put_key_u32(b, "clip.vision.attention.head_count", 2);
    put_key_u32(b, f->key, f->value);
    put_key_f32(b, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    put_colors(b, "clip.vision.image_mean");
    put_colors(b, "clip.vision.image_std");
    uint64_t at = 0;
    for (int i = 0; i < f->n; i++) {
        put_tensor(b, f->tensors[i].name, 0, at, 4, f->tensors[i].dims);
        at += (count(&f->tensors[i]) * sizeof(float) + 31) / 32 * 32;
    }
    for (int i = 0; i < f->n; i++) {
        put_padding(b, 32);
        for (size_t j = count(&f->tensors[i]); j; j--) {
            float v = (float)(next_random(&seed) % 1000) / 1000 - 0.4f;
            assert_int_equal(buf_append(b, &v, sizeof(v)), 0);
        }
    }
}

static int open_bytes(struct encoder **e, const void *bytes, size_t n)
{
    char *path = model_file_write(bytes, n);
    int r = encoder_open(e, path, NULL);
    if (r < 0) assert_ptr_equal(strstr(error_text(r), path), error_text(r));
    unlink(path);
    free(path);
    return r;
}

static struct encoder *open_whole(void)
{
    struct buf b = BUF_INIT;
    struct encoder *e = NULL;
    make(&b, &gemma3);
    int r = open_bytes(&e, b.data, b.len);
    if (r < 0) fail_msg("%s", error_text(r));
    buf_fini(&b);
    return e;
}

/* Encode a striped image of this size. Returns the number of steps, or what the last one returned. */
static int encode(const struct encoder *e, uint32_t width, uint32_t height, struct compute_pool *pool,
                  float out[ITEMS * OUT])
{
    uint8_t *rgb = malloc((size_t)width * height * 3);
    struct encoding *x = NULL;
    int r, steps = 0;
    assert_non_null(rgb);
    for (size_t i = 0; i < (size_t)width * height * 3; i++) rgb[i] = (uint8_t)(i * 37);
    assert_int_equal(encoding_new(&x, e, rgb, width, height), 0);
    do {
        assert_null(encoding_result(x));
        assert_true(++steps < 1000);
    } while ((r = encoding_step(x, pool)) > 0);
    assert_non_null(encoding_result(x));
    assert_int_equal(encoding_step(x, pool), r); /* done stays done */
    if (r == 0 && out) memcpy(out, encoding_result(x), sizeof(float) * ITEMS * OUT);
    encoding_free(x);
    free(rgb);
    return r < 0 ? r : steps;
}

static void test_plan(void **state)
{
    struct encoder *e = open_whole();
    struct encoder_plan p;
    assert_string_equal(encoder_projector(e), "gemma3");
    assert_int_equal(encoder_dim(e), OUT);
    assert_int_equal(encoder_plan(e, 20, 10, &p), 0);
    assert_int_equal(p.items, ITEMS);
    assert_int_equal(p.width, 8);
    assert_int_equal(p.height, 4);
    assert_int_equal(p.tile_items, ITEMS);
    assert_int_equal(encoder_plan(e, 1, ENCODER_EDGE_MAX, &p), 0);
    assert_int_equal(p.width, 1);
    assert_int_equal(p.height, 8);
    assert_int_equal(encoder_plan(e, 0, 5, &p), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "0x5 has no pixels"));
    assert_int_equal(encoder_plan(e, 5, ENCODER_EDGE_MAX + 1, &p), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "over 65536 pixels"));
    struct encoding *x = NULL;
    assert_int_equal(encoding_new(&x, e, NULL, 0, 0), -EINVAL);
    assert_null(x);
    encoder_close(e);
}

static void test_model_of_another_width(void **state)
{
    struct encoder *e = open_whole();
    assert_int_equal(encoder_fits(e, OUT, false), 0);
    assert_int_equal(encoder_fits(e, 2048, false), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "the image encoder makes embeddings of 6 values, the model takes 2048: it "
                                             "is for another model");
    assert_int_equal(encoder_fits(e, OUT, true), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "the image encoder is for a model without M-RoPE, and the model has it");
    encoder_close(e);
}

/* Without a pool, and with another one at each image. */
static void test_pools_and_sizes(void **state)
{
    struct encoder *e = open_whole();
    static const uint32_t sizes[][2] = {{8, 8}, {1, 1}, {1, 20000}, {20000, 1}, {33, 500}, {3000, 2000}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        float alone[ITEMS * OUT], shared[ITEMS * OUT];
        struct compute_pool *pool = NULL;
        int steps = encode(e, sizes[i][0], sizes[i][1], NULL, alone);
        assert_true(steps >= 6); /* one for each stage */
        assert_int_equal(compute_pool_new(&pool, 1 + (uint32_t)i % 3), 0);
        assert_int_equal(encode(e, sizes[i][0], sizes[i][1], pool, shared), steps);
        assert_memory_equal(alone, shared, sizeof(alone));
        compute_pool_free(pool);
    }
    encoder_close(e);
}

/* A large image is resized in several steps. */
static void test_resizing_is_cut(void **state)
{
    struct encoder *e = open_whole();
    int small = encode(e, 100, 100, NULL, NULL), large = encode(e, 3000, 3000, NULL, NULL);
    assert_true(large >= small + 2);
    encoder_close(e);
}

static void test_identity(void **state)
{
    struct encoder *a = open_whole(), *b = open_whole();
    uint8_t x[ENCODER_IDENTITY], y[ENCODER_IDENTITY];
    encoder_identity(a, x);
    encoder_identity(b, y);
    assert_memory_equal(x, y, sizeof(x));
    encoder_close(a);
    encoder_close(b);
}

static void test_unknown_instruction_set(void **state)
{
    struct encoder *e = NULL;
    assert_int_equal(encoder_open(&e, "none.gguf", &(struct encoder_config){.cpu = "sse9"}), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "HOB_CPU=sse9: not one of scalar, avx2, avx512, amx");
    assert_null(e);
    assert_null(encoder_close(NULL));
    assert_null(encoding_free(NULL));
}

/* Files cut anywhere and with bytes changed anywhere are refused, or encode. */
static void damage(const struct file *f)
{
    struct buf whole = BUF_INIT;
    uint64_t random = 7;
    int opened = 0, refused = 0;
    make(&whole, f);
    const size_t head = model_file_find(&whole, f->last) + 60;
    uint8_t *copy = malloc(whole.len);
    assert_non_null(copy);
    for (int i = 0; i < DAMAGED; i++) {
        struct encoder *e = NULL;
        size_t n = whole.len;
        memcpy(copy, whole.data, n);
        if (i % 8 == 0) n = next_random(&random) % n;
        for (uint32_t k = next_random(&random) % 3 + (i % 8 ? 1 : 0); k; k--) {
            size_t at = next_random(&random) % (k % 4 ? head : whole.len);
            copy[at] = (uint8_t)(next_random(&random) % 2 ? next_random(&random) : copy[next_random(&random) % head]);
        }
        if (open_bytes(&e, copy, n) == 0) {
            opened++;
            int r = encode(e, 9, 5, NULL, NULL);
            assert_true(r > 0 || r == -EINVAL);
        } else {
            refused++;
        }
        encoder_close(e);
    }
    assert_true(opened > DAMAGED / 50 && refused > DAMAGED / 4);
    free(copy);
    buf_fini(&whole);
}

static void test_damaged_files(void **state)
{
    damage(&gemma3);
    damage(&qwen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_model_of_another_width),
        cmocka_unit_test(test_pools_and_sizes),
        cmocka_unit_test(test_resizing_is_cut),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_unknown_instruction_set),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests_name("encoder", tests, NULL, NULL);
}
