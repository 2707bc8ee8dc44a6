/* SPDX-License-Identifier: MIT */
/* Dot products of int8 codes against sums in 64 bits. */
#include "tests/kernels/check.h"

/* Codes of -127 … 127; @how 0: all 127, which is the largest sum; 1: of one sign each; else random. */
static int8_t code(unsigned how, size_t i)
{
    if (how == 0) return 127;
    if (how == 1) return i % 2 ? -127 : 127;
    return (int8_t)((int)(rng() % 255) - 127);
}

static void check_shape(const struct check *c, size_t n, size_t k, size_t ld, unsigned how)
{
    int8_t *rows = mem((n - 1) * ld + k), *q = mem(k);
    int32_t *got = mem(n * sizeof(*got));
    for (size_t i = 0; i < (n - 1) * ld + k; i++) rows[i] = code(how, i % ld);
    for (size_t j = 0; j < k; j++) q[j] = code(how == 1 ? 2 : how, j);
    c->table->dot_rows(got, rows, ld, n, q, k);
    mem_check();
    for (size_t i = 0; i < n; i++) {
        int64_t want = 0;
        for (size_t j = 0; j < k; j++) want += (int64_t)rows[i * ld + j] * q[j];
        assert_int_equal(got[i], want);
    }
    mem_reset();
}

void check_dot_rows(void **state)
{
    CHECK_BEGIN(state);
    for (size_t n = 1; n <= 11; n++)
        for (size_t k = KERN_BLOCK; k <= 12 * KERN_BLOCK; k += KERN_BLOCK)
            for (unsigned how = 0; how < 4; how++) check_shape(c, n, k, k + n % 3 * 5, how);
    check_shape(c, 3, KERN_DOT_MAX, KERN_DOT_MAX, 0);
    check_shape(c, 5, KERN_DOT_MAX, KERN_DOT_MAX + 1, 1);
}
