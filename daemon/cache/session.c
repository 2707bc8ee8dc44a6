/* SPDX-License-Identifier: MIT */
#include "daemon/cache/session.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct session_store {
    struct kv_pool *pool;
    struct session *head;
    uint64_t clock; /* of uses */
    uint64_t bytes_max;
};

int session_store_new(struct session_store **out, struct kv_pool *pool, uint64_t bytes_max_per_uid)
{
    struct session_store *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->pool = pool;
    s->bytes_max = bytes_max_per_uid;
    *out = s;
    return 0;
}

static void session_unlink(struct session_store *s, struct session *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else
        s->head = x->next;
    if (x->next) x->next->prev = x->prev;
}

static void session_delete(struct session_store *s, struct session *x)
{
    session_unlink(s, x);
    kv_table_fini(&x->kv, s->pool);
    for (size_t i = 0; i < x->n_messages; i++) {
        proto_text_fini(&x->messages[i].role);
        proto_text_fini(&x->messages[i].content);
    }
    free(x->messages);
    free(x->ids);
    free(x->ends);
    buf_fini(&x->text);
    buf_fini(&x->markup);
    proto_text_fini(&x->name);
    free(x);
}

struct session_store *session_store_free(struct session_store *s)
{
    if (!s) return NULL;
    while (s->head) session_delete(s, s->head);
    free(s);
    return NULL;
}

static uint64_t session_bytes(const struct session *x)
{
    return sizeof(*x) + x->name.len + x->n_ids * (sizeof(*x->ids) + sizeof(*x->ends)) + x->text.len + x->markup.len +
           x->message_bytes;
}

static int name_check(const char *name, size_t len)
{
    if (len == 0) return error_say(-EINVAL, "a session's name may not be empty");
    if (len > PROTO_NAME_MAX)
        return error_say(-EINVAL, "a session's name has at most %d bytes, this one %zu", PROTO_NAME_MAX, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f) return error_say(-EINVAL, "a session's name may not hold control characters");
        if (c == '/') return error_say(-EINVAL, "a session's name may not hold '/'");
    }
    return 0;
}

static int session_use(struct session_store *s, struct session *x)
{
    if (x->busy)
        return error_say(-EBUSY, "session '%.*s' is answering another request", (int)x->name.len, x->name.data);
    size_t n;
    uint64_t bytes;
    session_count(s, x->uid, &n, &bytes);
    if (bytes > s->bytes_max) {
        char have[32], max[32];
        return error_say(-EDQUOT, "your %zu sessions hold %s, the limit is %s", n, format_size(have, bytes),
                         format_size(max, s->bytes_max));
    }
    x->busy = true;
    x->used = ++s->clock;
    return 0;
}

static struct session *session_find(struct session_store *s, uid_t uid, const char *name, size_t len)
{
    for (struct session *x = s->head; x; x = x->next)
        if (x->uid == uid && x->name.len == len && memcmp(x->name.data, name, len) == 0) return x;
    return NULL;
}

int session_acquire(struct session_store *s, uid_t uid, const char *name, size_t len, bool create, struct session **out)
{
    int r = name_check(name, len);
    if (r < 0) return r;
    struct session *x = session_find(s, uid, name, len), *made = NULL;
    if (!x) {
        if (!create) return error_say(-ENOENT, "there is no session '%.*s'", (int)len, name);
        x = made = calloc(1, sizeof(*x));
        if (!x) return -ENOMEM;
        x->uid = uid;
        r = proto_text_set(&x->name, name, len);
        if (r < 0) {
            free(x);
            return r;
        }
        x->next = s->head;
        if (s->head) s->head->prev = x;
        s->head = x;
    }
    r = session_use(s, x);
    if (r < 0) {
        if (made) session_delete(s, made);
        return r;
    }
    *out = x;
    return 0;
}

int session_acquire_last(struct session_store *s, uid_t uid, struct session **out)
{
    struct session *last = NULL;
    for (struct session *x = s->head; x; x = x->next)
        if (x->uid == uid && (!last || x->used > last->used)) last = x;
    if (!last) return error_say(-ENOENT, "there is no session to continue");
    int r = session_use(s, last);
    if (r < 0) return r;
    *out = last;
    return 0;
}

void session_release(struct session_store *s, struct session *x)
{
    assert(x->busy);
    x->busy = false;
    if (x->n_ids == 0 && x->n_messages == 0) session_delete(s, x);
}

void session_truncate(struct session_store *s, struct session *x, size_t keep)
{
    if (keep >= x->n_ids) return;
    x->n_ids = keep;
    size_t end = keep ? x->ends[keep - 1] : 0;
    assert(end <= x->text.len && x->text.len == x->markup.len);
    if (x->text.data) x->text.data[end] = '\0';
    if (x->markup.data) x->markup.data[end] = '\0';
    x->text.len = x->markup.len = end;
    if (x->kv.n_tokens > keep) kv_table_truncate(&x->kv, s->pool, (uint32_t)keep);
}

/* Room for @more ids; grows by halves so that appending one by one stays linear. */
static int ids_reserve(struct session *x, size_t more)
{
    size_t need = x->n_ids + more;
    if (need <= x->cap_ids) return 0;
    size_t cap = x->cap_ids + x->cap_ids / 2;
    if (cap < need) cap = need;
    int32_t *ids = reallocarray(x->ids, cap, sizeof(*ids));
    if (!ids) return -ENOMEM;
    x->ids = ids;
    uint32_t *ends = reallocarray(x->ends, cap, sizeof(*ends));
    if (!ends) return -ENOMEM;
    x->ends = ends;
    x->cap_ids = cap;
    return 0;
}

int session_extend(struct session *x, const int32_t *ids, const uint32_t *ends, size_t n, const char *text,
                   const char *markup, size_t len)
{
    if (ids_reserve(x, n) < 0 || buf_reserve(&x->text, len) < 0 || buf_reserve(&x->markup, len) < 0) return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        assert(ends[i] >= (i ? ends[i - 1] : x->text.len) && ends[i] <= x->text.len + len);
        x->ids[x->n_ids + i] = ids[i];
        x->ends[x->n_ids + i] = ends[i];
    }
    x->n_ids += n;
    /* cannot fail: the room was reserved */
    (void)!buf_append(&x->text, text, len);
    (void)!buf_append(&x->markup, markup, len);
    return 0;
}

int session_append(struct session *x, int32_t id, const char *text, size_t len, bool markup)
{
    if (x->text.len + len > UINT32_MAX || buf_reserve(&x->markup, len) < 0) return -ENOMEM;
    uint32_t end = (uint32_t)(x->text.len + len);
    char *flags = malloc(len ? len : 1);
    if (!flags) return -ENOMEM;
    memset(flags, markup, len);
    int r = session_extend(x, &id, &end, 1, text, flags, len);
    free(flags);
    return r;
}

int session_add_message(struct session *x, const char *role, size_t role_len, const char *content, size_t len)
{
    struct proto_message *m = reallocarray(x->messages, x->n_messages + 1, sizeof(*m));
    if (!m) return -ENOMEM;
    x->messages = m;
    struct proto_message one = {0};
    if (proto_text_set(&one.role, role, role_len) < 0 || proto_text_set(&one.content, content, len) < 0) {
        proto_text_fini(&one.role);
        return -ENOMEM;
    }
    x->messages[x->n_messages++] = one;
    x->message_bytes += sizeof(one) + role_len + len;
    return 0;
}

void session_drop_messages(struct session *x, size_t keep)
{
    while (x->n_messages > keep) {
        struct proto_message *m = &x->messages[--x->n_messages];
        x->message_bytes -= sizeof(*m) + m->role.len + m->content.len;
        proto_text_fini(&m->role);
        proto_text_fini(&m->content);
    }
}

bool session_shed(struct session_store *s)
{
    struct session *oldest = NULL;
    for (struct session *x = s->head; x; x = x->next)
        if (!x->busy && x->kv.n_blocks && (!oldest || x->used < oldest->used)) oldest = x;
    if (!oldest) return false;
    kv_table_fini(&oldest->kv, s->pool);
    return true;
}

void session_count(const struct session_store *s, uid_t uid, size_t *sessions, uint64_t *bytes)
{
    *sessions = 0;
    *bytes = 0;
    for (const struct session *x = s->head; x; x = x->next) {
        if (uid != (uid_t)-1 && x->uid != uid) continue;
        ++*sessions;
        *bytes += session_bytes(x);
    }
}
