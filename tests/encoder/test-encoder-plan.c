/* SPDX-License-Identifier: MIT */
/* Sizes and grids; what is resized is compared in e2e/test_encode.py. */
#include "daemon/encoder/encoder-plan.h"
#include "daemon/encoder/encoder-state.h"
#include "libcommon/error.h"

#include "tests/libcommon/check.h"

enum { AREA = 32 * 32 };

static const struct encoder lfm2 = {
    .p = {.patch = 16, .pool = 2, .prepare = {.cut = CUT_LFM2, .tile = 512, .least = 64 * AREA, .most = 256 * AREA}}};

static const struct encoder qwen = {.p = {.patch = 14,
                                          .pool = 2,
                                          .rope = ROPE_HALVES,
                                          .prepare = {.cut = CUT_WHOLE, .least = 8 * 784, .most = 4096 * 784}}};

static struct encoder_plan plan(const struct encoder *e, uint32_t width, uint32_t height)
{
    struct encoder_plan p;
    assert_int_equal(encoder_plan(e, width, height, &p), 0);
    return p;
}

/* The sizes between which llama.cpp begins to cut. */
static void test_when_tiles_begin(void **state)
{
    static const uint32_t whole[][2] = {{704, 704}, {720, 720}, {1056, 384}}, cut[][2] = {{736, 736}, {1024, 977}};
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++)
        assert_int_equal(plan(&lfm2, whole[i][0], whole[i][1]).columns, 0);
    for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++)
        assert_int_equal(plan(&lfm2, cut[i][0], cut[i][1]).columns, 2);
}

static void test_tiles_and_the_whole_image(void **state)
{
    struct encoder_plan p = plan(&lfm2, 2000, 700); /* 2.86: 3 x 1 */
    assert_int_equal(p.columns, 3);
    assert_int_equal(p.rows, 1);
    assert_int_equal(p.tile_items, 256);
    assert_int_equal(p.width, 1463);
    assert_int_equal(p.height, 512);
    assert_int_equal(p.items, 3 * 256 + 27 * 9); /* 864 x 288 */
    assert_int_equal(p.grid_columns, 0);
}

static void test_own_size(void **state)
{
    struct encoder_plan p = plan(&qwen, 640, 480);
    assert_int_equal(p.grid_columns, 23);
    assert_int_equal(p.grid_rows, 17);
    assert_int_equal(p.items, 23 * 17);
    assert_int_equal(p.tile_items, p.items);
    p = plan(&qwen, 1, 1); /* at least 8 embeddings */
    assert_int_equal(p.items, 9);
    p = plan(&qwen, 10000, 10000); /* at most 4096 */
    assert_int_equal(p.items, 64 * 64);
}

static void test_too_narrow(void **state)
{
    struct encoder_plan p;
    assert_int_equal(encoder_plan(&qwen, 1, ENCODER_EDGE_MAX, &p), -EINVAL);
    assert_string_equal(error_text(-EINVAL), "an image of 1x65536 is too narrow for this image encoder");
    assert_int_equal(encoder_plan(&lfm2, ENCODER_EDGE_MAX, 1, &p), -EINVAL);
}

static void test_grids(void **state)
{
    struct encoder e = {
        .p = {.image = 10,
              .patch = 5,
              .pool = 1,
              .prepare = {.cut = CUT_GRIDS, .tile = 10, .n_grids = 3, .grids = {{1, 2}, {2, 1}, {3, 1}}}}};
    assert_int_equal(plan(&e, 10, 10).columns, 0);
    assert_int_equal(plan(&e, 10, 11).columns, 1);
    assert_int_equal(plan(&e, 21, 9).columns, 3);
    assert_int_equal(plan(&e, 12, 6).columns, 2); /* 3 x 1 keeps no more of its pixels */
    assert_int_equal(plan(&e, 12, 6).items, 3 * 4);
    assert_int_equal(plan(&e, 1, 20000).rows, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when_tiles_begin),
        cmocka_unit_test(test_tiles_and_the_whole_image),
        cmocka_unit_test(test_own_size),
        cmocka_unit_test(test_too_narrow),
        cmocka_unit_test(test_grids),
    };
    return cmocka_run_group_tests_name("encoder-plan", tests, NULL, NULL);
}
