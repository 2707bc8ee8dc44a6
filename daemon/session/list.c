/* SPDX-License-Identifier: MIT */
#include "daemon/session/list.h"
#include "daemon/session/quota.h"
#include "daemon/session/store.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

void session_count(const struct session_store *s, uid_t uid, size_t *sessions, uint64_t *bytes)
{
    *sessions = 0;
    *bytes = 0;
    for (const struct session_owner *o = s->owners; o; o = o->next) {
        if (uid != (uid_t)-1 && o->uid != uid) continue;
        *sessions += o->n;
        *bytes += atomic_load(&o->bytes);
    }
}

/* The bytes on disk that only @x uses, and those that others use as well. */
static void split_disk(const struct session *x, uint64_t *own, uint64_t *shared)
{
    *own = *shared = 0;
    session_quota_split(x->owner, x->log.inode, own, shared);
    for (uint32_t i = 0; i < x->log.n_bases; i++) session_quota_split(x->owner, x->log.bases[i].inode, own, shared);
}

void session_measure(struct session *x)
{
    split_disk(x, &x->listed.disk, &x->listed.shared);
}

void session_info_of(const struct session *x, struct session_info *out)
{
    *out = (struct session_info){
        .name = &x->key.name,
        .used = x->last_use.realtime,
        .ids = x->listed.ids,
        .messages = x->listed.messages,
        .bytes = x->listed.bytes,
        .disk = x->listed.disk,
        .shared = x->listed.shared,
        .busy = x->busy,
        .loaded = !x->busy && x->loaded, /* of a busy one only its request may know */
    };
    if (!x->busy) split_disk(x, &out->disk, &out->shared);
}

int session_list(const struct session_store *s, uid_t uid, struct session_info **out, size_t *n)
{
    const struct session_owner *o = session_find_owner(s, uid);
    *out = NULL;
    *n = 0;
    if (!o || !o->n) return 0;
    struct session_info *list = calloc(o->n, sizeof(*list));
    if (!list) return -ENOMEM;
    for (const struct session *x = o->newest; x; x = x->links.older) session_info_of(x, &list[(*n)++]);
    *out = list;
    return 0;
}

/* --- pages --- */

/* The last session of a page: its last use (big-endian) and the hash of its name. */
struct cursor {
    uint64_t used;
    uint8_t hash[16];
};

#define CURSOR_BYTES 24

_Static_assert(sizeof(struct cursor) == CURSOR_BYTES, "no padding");
_Static_assert(2 * CURSOR_BYTES <= PROTO_CURSOR_MAX, "a cursor is a key's value");

static void cursor_write(char out[PROTO_CURSOR_MAX + 1], const struct session *x)
{
    struct cursor c = {.used = htobe64(x->last_use.realtime)};
    memcpy(c.hash, x->key.hash, sizeof(c.hash));
    hex_write(out, (const uint8_t *)&c, CURSOR_BYTES);
}

static int cursor_read(struct cursor *c, const struct proto_text *t)
{
    if (t->len != 2 * CURSOR_BYTES || !hex_read((uint8_t *)c, t->data, CURSOR_BYTES))
        return error_say(-EINVAL, "session.list: after: not the 'next' of an earlier answer");
    c->used = be64toh(c->used);
    return 0;
}

/* The first session after the cursor: found by the cursor's name if that session was not used since, else by time. */
static const struct session *after(const struct session_store *s, const struct session_owner *o, const struct cursor *c)
{
    const struct session *x = session_find(s, o->uid, c->hash);
    if (x && x->last_use.realtime == c->used) return x->links.older;
    for (x = o->newest; x && x->last_use.realtime >= c->used; x = x->links.older) continue;
    return x;
}

/* Fill *out with the @n sessions from @x on. Names are copied. */
static int fill(struct session_page *out, const struct session *x, size_t n)
{
    size_t bytes = 0, at = 0;
    const struct session *y = x;
    for (size_t i = 0; i < n; i++, y = y->links.older) bytes += y->key.name.len + 1;
    out->all = calloc(n, sizeof(*out->all));
    out->names = calloc(n, sizeof(*out->names));
    out->text = malloc(bytes);
    if (!out->all || !out->names || !out->text) return -ENOMEM;
    for (; out->n < n; x = x->links.older) {
        struct proto_text *name = &out->names[out->n];
        *name = (struct proto_text){out->text + at, x->key.name.len};
        memcpy(name->data, x->key.name.data, x->key.name.len + 1);
        at += x->key.name.len + 1;
        session_info_of(x, &out->all[out->n]);
        out->all[out->n++].name = name;
        if (out->n == n && x->links.older) cursor_write(out->next, x);
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
    const struct session *first = next->len ? after(s, o, &c) : o->newest;
    for (const struct session *x = first; x && n < limit; x = x->links.older) n++;
    return n ? fill(out, first, n) : 0;
}

void session_page_fini(struct session_page *p)
{
    free(p->all);
    free(p->names);
    free(p->text);
    *p = (struct session_page){0};
}
