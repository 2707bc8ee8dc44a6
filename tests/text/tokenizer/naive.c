/* SPDX-License-Identifier: MIT */
#include "tests/text/tokenizer/naive.h"
#include <string.h>

size_t naive_merge(const char *s, size_t n, naive_fn fn, const void *ctx, size_t *cuts)
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
