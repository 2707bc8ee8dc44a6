/* SPDX-License-Identifier: MIT */
#include "daemon/output/stop.h"
#include <string.h>

void stop_fini(struct stop *s)
{
    buf_fini(&s->held);
}

/* Length of the longest stop string that ends at held[end), or 0. */
static size_t ends_here(const struct stop *s, size_t end)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = s->strings[i].len;
        if (n > longest && n <= end && memcmp(s->held.data + end - n, s->strings[i].data, n) == 0) longest = n;
    }
    return longest;
}

/* Length of the longest tail of the held text that begins a stop string. */
static size_t could_become(const struct stop *s)
{
    size_t longest = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = s->strings[i].len - 1;
        if (n > s->held.len) n = s->held.len;
        for (; n > longest; n--)
            if (memcmp(s->held.data + s->held.len - n, s->strings[i].data, n) == 0) longest = n;
    }
    return longest;
}

int stop_feed(struct stop *s, const char *text, size_t len, struct buf *out)
{
    if (s->n == 0) return buf_append(out, text, len);
    if (len == 0) return 0;
    size_t seen = s->held.len;
    int r = buf_append(&s->held, text, len);
    if (r < 0) return r;
    for (size_t end = seen + 1; end <= s->held.len; end++) {
        size_t n = ends_here(s, end);
        if (n == 0) continue;
        r = buf_append(out, s->held.data, end - n);
        if (r < 0) return r;
        buf_clear(&s->held);
        return 1;
    }
    size_t show = s->held.len - could_become(s);
    r = buf_append(out, s->held.data, show);
    if (r < 0) return r;
    buf_consume(&s->held, show);
    return 0;
}

int stop_flush(struct stop *s, struct buf *out)
{
    int r = s->held.len ? buf_append(out, s->held.data, s->held.len) : 0;
    buf_clear(&s->held);
    return r;
}
