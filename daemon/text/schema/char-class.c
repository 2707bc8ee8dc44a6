/* SPDX-License-Identifier: MIT */
#include "daemon/text/schema/spelling.h"
#include <string.h>

static bool add_range(struct char_class *c, uint32_t first, uint32_t last)
{
    size_t from = 0, to;
    while (from < c->n && c->range[from].last + 1 < first) from++;
    for (to = from; to < c->n && c->range[to].first <= last + 1; to++) {
        if (c->range[to].first < first) first = c->range[to].first;
        if (c->range[to].last > last) last = c->range[to].last;
    }
    if (to == from && c->n == CLASS_RANGES_MAX) return false;
    memmove(c->range + from + 1, c->range + to, (c->n - to) * sizeof(c->range[0]));
    c->range[from] = (struct expr_range){first, last};
    c->n = c->n + 1 - (to - from);
    return true;
}

bool class_add(struct char_class *c, uint32_t first, uint32_t last)
{
    if (last > 0x10FFFF) last = 0x10FFFF;
    bool ok = true;
    if (first < 0xD800) ok = add_range(c, first, last < 0xD7FF ? last : 0xD7FF);
    if (last > 0xDFFF) ok = ok && add_range(c, first > 0xE000 ? first : 0xE000, last);
    return ok;
}

bool class_add_class(struct char_class *c, const struct char_class *more)
{
    for (size_t i = 0; i < more->n; i++)
        if (!class_add(c, more->range[i].first, more->range[i].last)) return false;
    return true;
}

bool class_invert(struct char_class *c)
{
    struct char_class out = {.n = 0};
    uint32_t next = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->range[i].first > next && !class_add(&out, next, c->range[i].first - 1)) return false;
        next = c->range[i].last + 1;
    }
    if (next <= 0x10FFFF && !class_add(&out, next, 0x10FFFF)) return false;
    *c = out;
    return true;
}
