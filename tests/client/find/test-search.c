/* SPDX-License-Identifier: MIT */
/* The vector file and the search, against plain sums in double. */
#include "client/find/search.h"
#include "libcommon/error.h"
#include "tests/support/folder.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 50 };

struct files {
    char path[FOLDER_PATH];
    int dir;
};

static uint64_t seed;

static float noise(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(seed >> 32) / 2147483648.0f;
}

static int setup(void **state)
{
    struct files *f = malloc(sizeof(*f));
    if (!f || folder_make(f->path, "vectors") < 0) return -1;
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY);
    seed = 1;
    *state = f;
    return f->dir < 0;
}

static int teardown(void **state)
{
    struct files *f = *state;
    close(f->dir);
    int r = folder_remove(f->path);
    free(f);
    return r;
}

/* The codes [n][stride] and scales [n] of random vectors. A third of them has a scale of 0; some are equal. */
static void vectors(int8_t *codes, float *scales, size_t n, uint32_t dim)
{
    float *x = calloc(dim, sizeof(*x));
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < dim && i % 7 != 6; k++) x[k] = i % 3 == 2 ? 0 : noise();
        assert_true(vector_quantize(codes + i * vector_stride(dim), &scales[i], x, dim));
    }
    free(x);
}

/* Write in two parts, map, and compare the search with one that sorts all rows. */
static void check_search(int dir, size_t n, uint32_t dim, unsigned threads)
{
    const size_t stride = vector_stride(dim), part = n / 3;
    int8_t *codes = calloc(n + 1, stride), *q = codes + n * stride;
    float *scales = calloc(n + 1, sizeof(*scales)), *x = calloc(dim, sizeof(*x));
    vectors(codes, scales, n, dim);
    for (uint32_t k = 0; k < dim; k++) x[k] = noise();
    assert_true(vector_quantize(q, &scales[n], x, dim));
    struct vector_file f;
    assert_int_equal(vector_file_make(&f, dir, "v", dim, 3), 0);
    assert_int_equal(vector_file_write(&f, 0, codes, scales, part), 0);
    assert_int_equal(vector_file_write(&f, part, codes + part * stride, scales + part, n - part), 0);
    assert_int_equal(vector_file_sync(&f), 0);
    vector_file_close(&f);
    assert_int_equal(vector_file_open(&f, dir, "v", dim, 3, false), 0);
    assert_int_equal(vector_file_map(&f, n), 0);
    struct hit got[MOST];
    const struct search s = {&f, n, q, scales[n], dot_rows_get(NULL), threads};
    int found = search_run(&s, got, MOST);
    bool *taken = calloc(n + 1, sizeof(*taken));
    for (int h = 0; h <= found; h++) {
        double best = -INFINITY;
        size_t at = n;
        for (size_t i = 0; i < n; i++) {
            int64_t sum = 0;
            for (size_t k = 0; k < dim; k++) sum += (int64_t)codes[i * stride + k] * q[k];
            double score = (double)sum * ((double)scales[i] * (double)scales[n]);
            if (!taken[i] && scales[i] > 0 && score > best) best = score, at = i;
        }
        if (h == found) {
            assert_true(found == MOST || at == n);
            break;
        }
        assert_int_equal(got[h].row, at);
        assert_true(got[h].score == best);
        assert_true(vector_row_is_whole(&f, at));
        taken[at] = true;
    }
    vector_file_close(&f);
    free(taken), free(codes), free(scales), free(x);
}

static void the_search_finds_what_sorting_all_rows_finds(void **state)
{
    struct files *f = *state;
    static const size_t counts[] = {0, 1, 2, 31, 32, 33, 64, 100, 500};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) check_search(f->dir, counts[i], 40 + (uint32_t)i, 1);
}

static void two_threads_find_the_same(void **state)
{
    struct files *f = *state;
    check_search(f->dir, 9001, 32, 2);
}

static void a_code_is_near_its_value(void **state)
{
    float x[100], scale, largest = 0;
    int8_t codes[128];
    for (int i = 0; i < 100; i++) x[i] = noise() * 0.3f;
    assert_true(vector_quantize(codes, &scale, x, 100));
    for (int i = 0; i < 100; i++) {
        assert_true(fabsf((float)codes[i] * scale - x[i]) <= scale * 0.5001f);
        if (abs(codes[i]) > (int)largest) largest = (float)abs(codes[i]);
    }
    assert_true(largest == 127);
    for (int i = 100; i < 128; i++) assert_int_equal(codes[i], 0);
    x[5] = NAN;
    assert_false(vector_quantize(codes, &scale, x, 100));
}

static struct vector_file made(int dir, size_t n)
{
    int8_t codes[40 * 32];
    float scales[40];
    struct vector_file f;
    vectors(codes, scales, n, 30);
    assert_int_equal(vector_file_make(&f, dir, "v", 30, 1), 0);
    assert_int_equal(vector_file_write(&f, 0, codes, scales, n), 0);
    return f;
}

static void a_foreign_or_short_file_is_refused(void **state)
{
    struct files *d = *state;
    struct vector_file f = made(d->dir, 40), g;
    struct stat st;
    assert_int_equal(fstat(f.fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(vector_file_map(&f, 65), -EBADMSG);
    assert_int_equal(vector_file_map(&f, UINT64_MAX), -EBADMSG);
    assert_int_equal(vector_file_open(&g, d->dir, "v", 31, 1, false), -EBADMSG);
    vector_file_close(&g);
    assert_int_equal(vector_file_open(&g, d->dir, "v", 30, 2, false), -EBADMSG);
    vector_file_close(&g);
    assert_int_equal(vector_file_open(&g, d->dir, "none", 30, 1, false), -ENOENT);
    vector_file_close(&g);
    assert_int_equal(ftruncate(f.fd, st.st_size - 1), 0);
    assert_int_equal(vector_file_map(&f, 40), -EBADMSG);
    assert_int_equal(pwrite(f.fd, "\1", 1, 12), 1);
    assert_int_equal(vector_file_open(&g, d->dir, "v", 30, 1, false), -EBADMSG);
    vector_file_close(&g);
    assert_int_equal(ftruncate(f.fd, 63), 0);
    assert_int_equal(vector_file_open(&g, d->dir, "v", 30, 1, false), -EBADMSG);
    vector_file_close(&g);
    vector_file_close(&f);
}

static void a_changed_row_is_noticed(void **state)
{
    struct files *d = *state;
    struct vector_file f = made(d->dir, 40);
    assert_int_equal(vector_file_map(&f, 40), 0);
    for (uint64_t i = 0; i < 40; i++) assert_true(vector_row_is_whole(&f, i));
    uint8_t byte = (uint8_t)(vector_codes(&f, 1)[3 * 32 + 7] ^ 1);
    assert_int_equal(pwrite(f.fd, &byte, 1, (off_t)((const uint8_t *)vector_codes(&f, 1) - f.map) + 3 * 32 + 7), 1);
    for (uint64_t i = 0; i < 40; i++) assert_int_equal(vector_row_is_whole(&f, i), i != 35);
    vector_file_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_search_finds_what_sorting_all_rows_finds, setup, teardown),
        cmocka_unit_test_setup_teardown(two_threads_find_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(a_code_is_near_its_value, setup, teardown),
        cmocka_unit_test_setup_teardown(a_foreign_or_short_file_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_row_is_noticed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
