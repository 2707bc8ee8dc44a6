/* SPDX-License-Identifier: MIT */
/* A page of a list of sessions: a copy, so that the text of it can be made while the store is used on. */
#include "daemon/cache/session-store.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR_LEN (16 + 32) /* hex of when the page's last session was used, and of its name's hash */

_Static_assert(CURSOR_LEN <= PROTO_CURSOR_MAX, "a cursor is a key's value");

struct cursor {
    uint64_t used;
    uint8_t hash[16];
};

static void cursor_write(char out[PROTO_CURSOR_MAX + 1], const struct session *x)
{
    snprintf(out, PROTO_CURSOR_MAX + 1, "%016" PRIx64, x->used);
    for (int i = 0; i < 16; i++) snprintf(out + 16 + 2 * i, 3, "%02x", x->hash[i]);
}

/* @digits hex digits at @s as a number. False: they are none. */
static bool hex(const char *s, int digits, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++) {
        char c = s[i];
        int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0) return false;
        *out = *out << 4 | (uint64_t)v;
    }
    return true;
}

static int cursor_read(struct cursor *c, const struct proto_text *t)
{
    uint64_t v;
    bool good = t->len == CURSOR_LEN && hex(t->data, 16, &c->used);
    for (int i = 0; good && i < 16; i++) {
        good = hex(t->data + 16 + 2 * i, 2, &v);
        c->hash[i] = (uint8_t)v;
    }
    return good ? 0 : error_say(-EINVAL, "session.list: after: this is not what a list gave as 'next'");
}

/* The first session behind the cursor: that of its name, where it has not moved, else by time. */
static const struct session *behind(const struct session_store *s, const struct session_owner *o,
                                    const struct cursor *c)
{
    const struct session *x = session_find(s, o->uid, c->hash);
    if (x && x->used == c->used) return x->older;
    for (x = o->newest; x && x->used >= c->used; x = x->older) continue;
    return x;
}

/* Room for @n sessions from @x on, with the names copied. */
static int copy(struct session_page *out, const struct session *x, size_t n)
{
    size_t bytes = 0, at = 0;
    const struct session *y = x;
    for (size_t i = 0; i < n; i++, y = y->older) bytes += y->name.len + 1;
    out->all = calloc(n, sizeof(*out->all));
    out->names = calloc(n, sizeof(*out->names));
    out->text = malloc(bytes);
    if (!out->all || !out->names || !out->text) return -ENOMEM;
    for (; out->n < n; x = x->older) {
        struct proto_text *name = &out->names[out->n];
        *name = (struct proto_text){out->text + at, x->name.len};
        memcpy(name->data, x->name.data, x->name.len + 1);
        at += x->name.len + 1;
        session_info_of(x, &out->all[out->n]);
        out->all[out->n++].name = name;
        if (out->n == n && x->older) cursor_write(out->next, x);
    }
    return 0;
}

int session_page_take(const struct session_store *s, uid_t uid, const struct proto_text *next, size_t limit,
                      struct session_page *out)
{
    const struct session_owner *o = session_find_owner(s, uid);
    struct cursor c;
    size_t n = 0;
    *out = (struct session_page){0};
    int r = next->len ? cursor_read(&c, next) : 0;
    if (r < 0 || !o) return r;
    const struct session *first = next->len ? behind(s, o, &c) : o->newest;
    for (const struct session *x = first; x && n < limit; x = x->older) n++;
    return n ? copy(out, first, n) : 0;
}

void session_page_fini(struct session_page *p)
{
    free(p->all);
    free(p->names);
    free(p->text);
    *p = (struct session_page){0};
}
