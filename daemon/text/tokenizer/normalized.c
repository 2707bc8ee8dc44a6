/* SPDX-License-Identifier: MIT */
#include "daemon/text/tokenizer/normalized.h"
#include "libcommon/error.h"
#include <stdlib.h>

void normalized_fini(struct normalized *n)
{
    buf_fini(&n->text);
    free(n->ends);
    *n = (struct normalized){0};
}

int normalized_push(struct normalized *n, const char *s, size_t len, uint32_t end)
{
    size_t total = n->text.len + len;
    if (total > NORMALIZED_MAX)
        return error_say(-E2BIG, "the text is longer than %u MiB when its characters are normalized",
                         NORMALIZED_MAX >> 20);
    if (total > n->cap) {
        size_t cap = total + total / 2 + 64;
        uint32_t *ends = reallocarray(n->ends, cap, sizeof(*ends));
        if (!ends) return error_origin(-ENOMEM);
        n->ends = ends;
        n->cap = cap;
    }
    for (size_t i = n->text.len; i < total; i++) n->ends[i] = end;
    return buf_append(&n->text, s, len);
}
