/* SPDX-License-Identifier: MIT */
#include "tests/text/tokenizer/naive.h"
#include "tests/text/tiny-tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Cuts @s into parts; cuts[i] is the end of part i. Returns the number of parts (at most @n). */
static size_t merge(const char *s, size_t n, naive_fn fn, const void *ctx, size_t *cuts)
{
    size_t parts = n;
    for (size_t i = 0; i < n; i++) cuts[i] = i + 1;
    for (;;) {
        long best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < parts; i++) {
            size_t begin = i ? cuts[i - 1] : 0;
            long order = fn(ctx, s + begin, cuts[i] - begin, s + cuts[i], cuts[i + 1] - cuts[i]);
            if (order >= 0 && (best < 0 || order < best)) {
                best = order;
                at = i;
            }
        }
        if (best < 0) return parts;
        memmove(cuts + at, cuts + at + 1, (parts - at - 1) * sizeof(*cuts));
        parts--;
    }
}

void naive_compare(const struct tokenizer *t, uint64_t *seed, naive_fn fn, const void *ctx)
{
    for (int k = 0; k < 10; k++) {
        char s[64];
        size_t cuts[64], len = tiny_random(seed) % 64;
        for (size_t i = 0; i < len; i++) s[i] = (char)('a' + tiny_random(seed) % 3);
        struct text text = {0};
        struct tokens out = {0};
        text_append(&text, s, len, false);
        assert_int_equal(tokenizer_encode(t, &text, 0, true, &out), 0);
        assert_int_equal(out.n, merge(s, len, fn, ctx, cuts));
        for (size_t i = 0; i < out.n; i++) assert_int_equal(out.ends[i], cuts[i]);
        text_fini(&text);
        tokens_fini(&out);
    }
}
