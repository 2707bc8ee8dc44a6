/* SPDX-License-Identifier: MIT */
/* Lookup of keys and tensors by name. */
#include "daemon/model/gguf-file.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static const struct gguf_str *name_at(const struct gguf_names *n, uint32_t i)
{
    return (const struct gguf_str *)((const char *)n->base + i * n->stride);
}

static int compare(const struct gguf_str *a, const struct gguf_str *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->data, b->data, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static int compare_at(const void *a, const void *b, void *names)
{
    return compare(name_at(names, *(const uint32_t *)a), name_at(names, *(const uint32_t *)b));
}

/* The part of @g whose mapping has @p. */
static const struct gguf *holder(const struct gguf *g, const void *p)
{
    const struct gguf *part;
    for (uint32_t i = 1; (part = gguf_part(g, i)); i++)
        if ((uintptr_t)p - (uintptr_t)part->map < part->size) return part;
    return g;
}

int gguf_names_sort(const struct gguf *g, uint32_t **out, struct gguf_names names, const char *what)
{
    const size_t n = names.n;
    uint32_t *order = malloc((n + 1) * sizeof(*order));
    if (!order) return error_say(-ENOMEM, "%s: out of memory: an index of %zu names", g->path, n);
    *out = order;
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof(*order), compare_at, &names);
    for (size_t i = 1; i < n; i++)
        if (!compare_at(&order[i - 1], &order[i], &names)) {
            const struct gguf_str *s = name_at(&names, order[i]);
            const struct gguf *at = holder(g, s->data);
            return gguf_bad(at, (size_t)((const uint8_t *)s->data - at->map), "%s '%s' appears twice", what,
                            gguf_show(*s).s);
        }
    return 0;
}

const void *gguf_names_find(struct gguf_names names, const uint32_t *order, const char *name)
{
    struct gguf_str key = {name, strlen(name)};
    size_t lo = 0, hi = names.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = compare(&key, name_at(&names, order[mid]));
        if (!c) return name_at(&names, order[mid]);
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}
