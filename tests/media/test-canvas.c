/* SPDX-License-Identifier: MIT */
#include "daemon/media/decode/canvas.h"
#include "libcommon/error.h"
#include "tests/libcommon/check.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { W = 3, H = 2 };

/* The pixels of "abc", "def", as they are to be seen. */
static void test_orientations(void **state)
{
    static const char *const seen[] = {NULL,     "abcdef", "cbafed", "fedcba", "defabc",
                                       "adbecf", "daebfc", "fcebda", "cfbead"};
    for (unsigned o = 1; o <= 8; o++) {
        struct canvas c;
        struct media m = {0};
        assert_int_equal(canvas_new(&c, W, H, o, &m), 0);
        assert_int_equal(m.width, o >= 5 ? H : W);
        assert_int_equal(m.height, o >= 5 ? W : H);
        for (int way = 0; way < 2; way++) {
            memset(m.data, 0, W * H * 3);
            for (uint32_t y = 0; y < H; y++) {
                uint8_t row[W * 4];
                for (uint32_t x = 0; x < W; x++) memset(row + x * (way ? 4 : 3), (int)('a' + y * W + x), way ? 4 : 3);
                for (uint32_t x = 0; way && x < W; x++) row[x * 4 + 3] = 255;
                if (way)
                    canvas_rgba(&c, 0, y, row, W);
                else
                    canvas_rgb(&c, y, row);
            }
            const uint8_t *rgb = m.data;
            for (int i = 0; i < W * H; i++)
                for (int k = 0; k < 3; k++) assert_int_equal(rgb[i * 3 + k], seen[o][i]);
        }
        media_fini(&m);
    }
}

/* Every color and alpha, against the exact quotient. */
static void test_alpha(void **state)
{
    struct canvas c;
    struct media m = {0};
    assert_int_equal(canvas_new(&c, 256, 256, 1, &m), 0);
    for (int a = 0; a < 256; a++) {
        uint8_t row[256 * 4];
        for (int v = 0; v < 256; v++)
            memcpy(row + v * 4, (uint8_t[]){(uint8_t)v, (uint8_t)(255 - v), 0, (uint8_t)a}, 4);
        canvas_rgba(&c, 0, (uint32_t)a, row, 256);
        const uint8_t *rgb = (uint8_t *)m.data + a * 256 * 3;
        for (int v = 0; v < 256; v++) {
            assert_int_equal(rgb[v * 3], (2 * (v * a + 255 * (255 - a)) + 255) / 510);
            assert_int_equal(rgb[v * 3 + 1], (2 * ((255 - v) * a + 255 * (255 - a)) + 255) / 510);
            assert_int_equal(rgb[v * 3 + 2], 255 - a);
        }
    }
    media_fini(&m);
}

static void test_cmyk(void **state)
{
    static const uint8_t row[] = {255, 255, 255, 255, 0, 255, 255, 255, 255, 255, 255, 0, 128, 64, 0, 200};
    static const uint8_t rgb[] = {255, 255, 255, 0, 255, 255, 0, 0, 0, 100, 50, 0};
    struct canvas c;
    struct media m = {0};
    assert_int_equal(canvas_new(&c, 4, 1, 1, &m), 0);
    canvas_cmyk(&c, 0, row);
    assert_memory_equal(m.data, rgb, sizeof(rgb));
    media_fini(&m);
}

static void test_limits(void **state)
{
    struct canvas c;
    struct media m = {0};
    assert_int_equal(canvas_new(&c, 0, 5, 1, &m), -EBADMSG);
    assert_int_equal(canvas_new(&c, 8001, 8000, 1, &m), -EFBIG);
    assert_string_equal(error_text(-EFBIG), "8001x8000 pixels are over the limit of 64 MP");
    assert_int_equal(canvas_new(&c, 0xffffffff, 0xffffffff, 1, &m), -EFBIG);
    assert_int_equal(canvas_new(&c, 64000000, 1, 6, &m), 0);
    canvas_white(&c);
    assert_int_equal(((uint8_t *)m.data)[64000000 * 3 - 1], 255);
    assert_int_equal(m.height, 64000000);
    media_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orientations),
        cmocka_unit_test(test_alpha),
        cmocka_unit_test(test_cmyk),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
