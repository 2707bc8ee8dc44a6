/* SPDX-License-Identifier: MIT */
/* Also encoding, encoder-hparams, encoder-tensors and encoder-weights: the interface, and files damaged anywhere. What
 * is computed is compared in e2e/test_encode.py. */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/encoder/encoder.h"
#include "libcommon/error.h"
#include "tests/model/encoder-file.h"
#include "tests/model/model-file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/libcommon/check.h"

enum { EDGE = ENCODER_FILE_EDGE, ITEMS = ENCODER_FILE_ITEMS, OUT = 6, DAMAGED = 3000 };

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
    encoder_file_bytes(&b, &encoder_file_gemma3, OUT, 1);
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
static void damage(const struct encoder_file *f)
{
    struct buf whole = BUF_INIT;
    uint64_t random = 7;
    int opened = 0, refused = 0;
    encoder_file_bytes(&whole, f, OUT, 1);
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
    damage(&encoder_file_gemma3);
    damage(&encoder_file_qwen);
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
