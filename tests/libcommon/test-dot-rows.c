/* SPDX-License-Identifier: MIT */
/* Dot products of int8 codes against sums in 64 bits. */
#include "libcommon/dot-rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const limits[] = {"scalar", "avx2", "avx512", "amx", NULL};
enum { LIMITS = sizeof(limits) / sizeof(*limits) };

static uint64_t seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % below;
}

/* Codes of -127 … 127; @how 0: all 127, which is the largest sum; 1: of one sign each; else random. */
static int8_t code(unsigned how, size_t i)
{
    if (how == 0) return 127;
    if (how == 1) return i % 2 ? -127 : 127;
    return (int8_t)((int)draw(255) - 127);
}

/* @bytes that end where a page begins that cannot be read. */
struct guarded {
    uint8_t *map, *bytes;
    size_t len;
};

static void guarded_make(struct guarded *g, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    g->len = room + page;
    g->map = mmap(NULL, g->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g->map, MAP_FAILED);
    assert_int_equal(mprotect(g->map + room, page, PROT_NONE), 0);
    g->bytes = g->map + room - bytes;
}

static void check_shape(size_t n, size_t k, size_t ld, unsigned how)
{
    struct guarded rows, vector, sums;
    guarded_make(&rows, (n - 1) * ld + k);
    guarded_make(&vector, k);
    guarded_make(&sums, n * sizeof(int32_t));
    int8_t *v = (int8_t *)rows.bytes, *q = (int8_t *)vector.bytes;
    int32_t *got = (int32_t *)(void *)sums.bytes;
    for (size_t i = 0; i < (n - 1) * ld + k; i++) v[i] = code(how, i % ld);
    for (size_t j = 0; j < k; j++) q[j] = code(how == 1 ? 2 : how, j);
    for (int l = 0; l < LIMITS; l++) {
        memset(got, 0x55, n * sizeof(*got));
        dot_rows_get(limits[l])(got, v, ld, n, q, k);
        for (size_t i = 0; i < n; i++) {
            int64_t want = 0;
            for (size_t j = 0; j < k; j++) want += (int64_t)v[i * ld + j] * q[j];
            assert_int_equal(got[i], want);
        }
    }
    munmap(rows.map, rows.len);
    munmap(vector.map, vector.len);
    munmap(sums.map, sums.len);
}

static void test_sums(void **state)
{
    for (size_t n = 1; n <= 11; n++)
        for (size_t k = DOT_BLOCK; k <= 12 * DOT_BLOCK; k += DOT_BLOCK)
            for (unsigned how = 0; how < 4; how++) check_shape(n, k, k + n % 3 * 5, how);
}

static void test_largest(void **state)
{
    check_shape(3, DOT_MAX, DOT_MAX, 0);
    check_shape(5, DOT_MAX, DOT_MAX + 1, 1);
}

static void test_limits(void **state)
{
    static const char *const wrong[] = {"", "avx", "avx22", "AVX2", "scalar "};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) assert_null(dot_rows_get(wrong[i]));
    for (int l = 1; l < LIMITS; l++) assert_ptr_equal(dot_rows_get(limits[l]), dot_rows_get(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
