/* SPDX-License-Identifier: MIT */
#include "daemon/output/stop.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int stop_init(struct stop *s, const struct proto_text *strings, size_t n)
{
    int r = 0;
    *s = (struct stop){0};
    if (n == 0) return 0;
    s->strings = calloc(n, sizeof(*s->strings));
    if (!s->strings) return -ENOMEM;
    for (; r == 0 && s->n < n; s->n++) r = proto_text_set(&s->strings[s->n], strings[s->n].data, strings[s->n].len);
    if (r < 0) stop_fini(s);
    return r;
}

void stop_fini(struct stop *s)
{
    for (size_t i = 0; i < s->n; i++) proto_text_fini(&s->strings[i]);
    free(s->strings);
    buf_fini(&s->held);
    *s = (struct stop){0};
}

int stop_clone(struct stop *to, const struct stop *from)
{
    int r = stop_init(to, from->strings, from->n);
    if (r == 0 && from->held.len) r = buf_append(&to->held, from->held.data, from->held.len);
    if (r < 0) stop_fini(to);
    return r;
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

/* Length of the longest tail of the held text that is the beginning of a stop string. */
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
