/* SPDX-License-Identifier: MIT */
#include "daemon/text/text.h"
#include "libcommon/error.h"
#include <stdlib.h>

void text_fini(struct text *t)
{
    buf_fini(&t->s);
    free(t->spans);
    *t = (struct text){0};
}

int text_append(struct text *t, const char *s, size_t len, bool markup)
{
    if (!len) return 0;

    bool merge = t->n_spans && t->spans[t->n_spans - 1].markup == markup;
    /* Allocate the span first: a later failure would leave bytes without provenance. The array grows at powers of two.
     */
    if (!merge && (t->n_spans & (t->n_spans - 1)) == 0) {
        size_t cap = t->n_spans ? t->n_spans * 2 : 1;
        struct text_span *spans = reallocarray(t->spans, cap, sizeof(*spans));
        if (!spans) return error_origin(-ENOMEM);
        t->spans = spans;
    }
    int r = buf_append(&t->s, s, len);
    if (r < 0) return r;
    if (!merge) t->n_spans++;
    t->spans[t->n_spans - 1] = (struct text_span){.end = t->s.len, .markup = markup};
    return 0;
}

int text_append_range(struct text *t, const struct text *s, size_t from, size_t to)
{
    size_t begin = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->n_spans && begin < to; begin = s->spans[i++].end) {
        size_t a = begin > from ? begin : from, b = s->spans[i].end < to ? s->spans[i].end : to;
        if (a < b) r = text_append(t, s->s.data + a, b - a, s->spans[i].markup);
    }
    return r;
}
