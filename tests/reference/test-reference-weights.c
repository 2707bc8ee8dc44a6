/* SPDX-License-Identifier: MIT */
/* Two decoders of the same formats, written apart, agree bit by bit; and OpenBLAS multiplies as the comment says. */
#include "daemon/reference/reference-weights.h"
#include "kernels/kernels.h"
#include "libcommon/error.h"
#include "tests/model/model-file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_rows(void **state)
{
    for (enum kern_type k = 0; k < KERN_TYPES; k++) {
        struct tiny t;
        tiny_init(&t);
        t.type = (uint32_t)tiny_type(kern_type_name(k));
        if (kern_type_block(k) == 256) t.dim = 256, t.ffn = 512;
        struct gguf *g = model_file_tiny(&t);
        const struct gguf_tensor *w = gguf_find_tensor(g, "blk.0.ffn_down.weight");
        float want[512], have[1024];
        size_t stride = w->size / t.dim;
        for (uint32_t r = 0; r < t.dim; r += 2) {
            assert_int_equal(reference_rows(w, r, 2, have), 0);
            for (uint32_t i = 0; i < 2; i++) {
                kern_dequant(k, want, (const char *)w->data + (r + i) * stride, t.ffn);
                for (uint32_t d = 0; d < t.ffn; d++) assert_true(have[i * t.ffn + d] == want[d]);
            }
        }
        gguf_close(g);
    }
}

static void test_unknown_type(void **state)
{
    static const uint8_t data[292];
    const struct gguf_tensor t = {
        .name = {"odd", 3}, .n_dims = 1, .dims = {256, 1, 1, 1}, .type = 15, .size = 292, .data = data};
    float out[256];
    assert_int_equal(reference_rows(&t, 0, 1, out), -EOPNOTSUPP);
    assert_non_null(strstr(error_text(-EOPNOTSUPP), "tensor 'odd': the reference pass does not read type Q8_K"));
}

static void test_product(void **state)
{
    struct blas b = {0};
    int r = blas_open(&b);
    if (r == -ENOENT) {
        print_message("skipped: %s\n", error_text(r));
        skip();
    }
    const float a[] = {1, 2, 3, 4, 5, 6}, m[] = {1, 0, 2, 0, 1, 1}; /* [2][3] each */
    float c[4];
    blas_multiply(&b, &(struct blas_product){c, a, m, 2, 3, 3, 2, 2, 3, true});
    assert_true(c[0] == 7 && c[1] == 5 && c[2] == 16 && c[3] == 11);
    blas_multiply(&b, &(struct blas_product){c, a, m, 2, 3, 2, 2, 2, 3, false}); /* the same six as [3][2] */
    assert_true(c[0] == 8 && c[1] == 3 && c[2] == 20 && c[3] == 6);
    blas_close(&b);
    blas_close(&(struct blas){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
