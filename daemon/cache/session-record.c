/* SPDX-License-Identifier: MIT */
#include "daemon/cache/session-record.h"
#include "daemon/cache/session-store.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>
#include <xxhash.h>

#define RECORD_MAX ((size_t)1 << 30) /* bytes of a payload */

enum { FLAG_RAW = 1, FLAG_FAILED = 2 };

/* --- writing --- */

static int put_u64(struct buf *b, uint64_t v)
{
    uint8_t p[8];
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i));
    return buf_append(b, p, 8);
}

static int put(struct buf *b, uint64_t v)
{
    uint8_t p[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return buf_append(b, p, n);
}

static int put_bytes(struct buf *b, const char *p, size_t n)
{
    int r = put(b, n);
    return r < 0 ? r : buf_append(b, p, n);
}

static int put_ids(struct buf *b, const struct session *x, size_t from, size_t text)
{
    size_t n = x->n_ids - from;
    int r = put(b, n);
    for (size_t i = from; r == 0 && i < x->n_ids; i++) r = put(b, (uint32_t)x->ids[i]);
    for (size_t i = from, last = text; r == 0 && i < x->n_ids; last = x->ends[i++]) r = put(b, x->ends[i] - last);
    return r;
}

/* Length of the run of flags equal to @flag at @at. */
static size_t run(const struct buf *m, size_t at, bool flag)
{
    size_t i = at;
    while (i < m->len && (m->data[i] != 0) == flag) i++;
    return i - at;
}

static int put_markup(struct buf *b, const struct buf *m)
{
    uint64_t n = 0;
    bool flag = false;
    for (size_t at = 0; at < m->len; n++, flag = !flag) at += run(m, at, flag);
    int r = put(b, n);
    flag = false;
    for (size_t at = 0; r == 0 && at < m->len; flag = !flag) {
        size_t len = run(m, at, flag);
        r = put(b, len);
        at += len;
    }
    return r;
}

static int put_messages(struct buf *b, const struct session *x, size_t from)
{
    int r = put(b, x->n_messages - from);
    for (size_t i = from; r == 0 && i < x->n_messages; i++) {
        const struct proto_message *m = &x->messages[i];
        r = put_bytes(b, m->role.data, m->role.len);
        if (r == 0) r = put_bytes(b, m->content.data, m->content.len);
    }
    return r;
}

static int put_outcome(struct buf *b, const struct session_outcome *o)
{
    uint8_t reason = (uint8_t)o->reason;
    int r = put_bytes(b, o->uuid, strlen(o->uuid));
    if (r == 0) r = buf_append(b, &reason, 1);
    if (r == 0) r = put(b, o->usage_prompt);
    if (r == 0) r = put(b, o->usage_cached);
    if (r == 0) r = put(b, o->usage_completion);
    if (r == 0) r = put(b, o->shifted);
    if (r == 0) r = put_u64(b, (uint64_t)o->miss_at);
    if (r == 0) r = put_u64(b, (uint64_t)o->seed);
    return r < 0 ? r : put_bytes(b, o->answer.data, o->answer.len);
}

static int put_outcomes(struct buf *b, const struct session *x, size_t n)
{
    int r = put(b, n);
    for (size_t i = x->n_outcomes - n; r == 0 && i < x->n_outcomes; i++) r = put_outcome(b, &x->outcomes[i]);
    return r;
}

int session_summary_write(struct buf *b, const struct session_summary *s)
{
    int r = put_u64(b, s->used);
    if (r == 0) r = put_u64(b, s->bytes);
    if (r == 0) r = put_u64(b, (uint64_t)s->messages << 32 | s->ids);
    return r < 0 ? r : put_u64(b, XXH3_64bits(b->data + b->len - 24, 24));
}

static int put_summary(struct buf *b, const struct session *x)
{
    const struct session_summary s = {
        .used = x->used, .bytes = x->bytes, .ids = (uint32_t)x->n_ids, .messages = (uint32_t)x->n_messages};
    return session_summary_write(b, &s);
}

int session_record_write(struct buf *out, const struct session *x, bool all)
{
    size_t ids = all ? 0 : x->log.ids, text = all ? 0 : x->log.text, messages = all ? 0 : x->log.messages;
    size_t before = out->len;
    uint8_t flags = (x->raw ? FLAG_RAW : 0) | (x->failed.len ? FLAG_FAILED : 0),
            first[2] = {flags, (uint8_t)x->context};
    int r = buf_append(out, first, sizeof(first));
    if (r == 0) r = buf_append(out, x->model, sizeof(x->model));
    if (r == 0) r = put(out, ids);
    if (r == 0) r = put(out, text);
    if (r == 0) r = put(out, messages);
    if (r == 0) r = put_ids(out, x, ids, text);
    if (r == 0) r = put_bytes(out, x->text.data ? x->text.data + text : "", x->text.len - text);
    if (r == 0) r = put_markup(out, &x->markup);
    if (r == 0) r = put_messages(out, x, messages);
    if (r == 0) r = put_outcomes(out, x, all ? x->n_outcomes : x->log.new_outcomes);
    if (r == 0 && x->failed.len) r = put_bytes(out, x->failed.data, x->failed.len);
    if (r == 0) r = put_summary(out, x);
    if (r == 0 && out->len - before > RECORD_MAX)
        r = error_say(-E2BIG, "a turn of %zu bytes is more than a log's record holds", out->len - before);
    return r;
}

/* --- reading --- */

/* What is left; after a fault nothing, and bad. */
struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

static const uint8_t *get_fixed(struct cursor *c, size_t n)
{
    if ((size_t)(c->end - c->p) < n) {
        c->bad = true;
        c->p = c->end;
        return NULL;
    }
    c->p += n;
    return c->p - n;
}

static uint64_t get_u64(struct cursor *c)
{
    const uint8_t *p = get_fixed(c, 8);
    uint64_t v = 0;
    for (int i = 0; p && i < 8; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static uint64_t get(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = get_fixed(c, 1);
        if (!p) return 0;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80)) return v;
    }
    c->bad = true;
    return 0;
}

/* A count of things that take at least @each bytes. */
static size_t get_count(struct cursor *c, size_t each)
{
    uint64_t n = get(c);
    if (n <= (size_t)(c->end - c->p) / each) return (size_t)n;
    c->bad = true;
    return 0;
}

static const char *get_bytes(struct cursor *c, size_t *len)
{
    *len = get_count(c, 1);
    const uint8_t *p = get_fixed(c, *len);
    return p ? (const char *)p : "";
}

struct turn_ids {
    int32_t *ids;   /* [n] */
    uint32_t *ends; /* [n] */
    size_t n;
};

static void turn_ids_fini(struct turn_ids *t)
{
    free(t->ids);
    free(t->ends);
}

static int get_ids(struct cursor *c, struct turn_ids *t, uint64_t text)
{
    t->n = get_count(c, 2);
    t->ids = calloc(t->n ? t->n : 1, sizeof(*t->ids));
    t->ends = calloc(t->n ? t->n : 1, sizeof(*t->ends));
    if (!t->ids || !t->ends) return -ENOMEM;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t v = get(c);
        if (v > UINT32_MAX) return -EBADMSG;
        t->ids[i] = (int32_t)(uint32_t)v;
    }
    for (size_t i = 0; i < t->n; i++) {
        uint64_t v = get(c);
        if (v > UINT32_MAX - text) return -EBADMSG;
        text += v;
        t->ends[i] = (uint32_t)text;
    }
    return c->bad ? -EBADMSG : 0;
}

/* Flags of all of the text, as it is by now. */
static int get_markup(struct cursor *c, struct session *x)
{
    size_t n = get_count(c, 1), at = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t len = get(c);
        if (len > x->markup.len - at) return -EBADMSG;
        memset(x->markup.data + at, i & 1, (size_t)len);
        at += (size_t)len;
    }
    return c->bad || at != x->markup.len ? -EBADMSG : 0;
}

static int apply_text(struct cursor *c, struct session *x)
{
    uint64_t ids = get(c), text = get(c), messages = get(c);
    _cleanup_(turn_ids_fini) struct turn_ids t = {0};
    if (c->bad || ids > x->n_ids || text > x->text.len || messages > x->n_messages) return -EBADMSG;
    if (ids && x->ends[ids - 1] > text) return -EBADMSG;
    int r = get_ids(c, &t, text);
    if (r < 0) return r;
    size_t len;
    const char *s = get_bytes(c, &len);
    if (c->bad || len > UINT32_MAX - text || (t.n && t.ends[t.n - 1] > text + len)) return -EBADMSG;
    x->n_ids = (size_t)ids;
    x->text.len = x->markup.len = (size_t)text;
    /* The flags come in a moment, for all of it: until then any bytes will do. */
    r = session_extend(x, t.ids, t.ends, t.n, s, s, len);
    if (r == 0) r = get_markup(c, x);
    if (r == 0) session_drop_messages(x, (size_t)messages);
    return r;
}

static int apply_messages(struct cursor *c, struct session *x)
{
    size_t n = get_count(c, 2);
    for (size_t i = 0; i < n; i++) {
        size_t role_len, len;
        const char *role = get_bytes(c, &role_len), *content = get_bytes(c, &len);
        if (c->bad) return -EBADMSG;
        int r = session_add_message(x, role, role_len, content, len);
        if (r < 0) return r;
    }
    return c->bad ? -EBADMSG : 0;
}

static int apply_outcome(struct cursor *c, struct session *x)
{
    struct session_outcome o = {0};
    size_t len;
    const char *uuid = get_bytes(c, &len);
    const uint8_t *reason = get_fixed(c, 1);
    if (!reason || *reason > PROTO_STOP_CONTEXT || len == 0 || len >= sizeof(o.uuid)) return -EBADMSG;
    memcpy(o.uuid, uuid, len);
    o.reason = (enum proto_reason) * reason;
    o.usage_prompt = get(c);
    o.usage_cached = get(c);
    o.usage_completion = get(c);
    o.shifted = get(c);
    o.miss_at = (int64_t)get_u64(c);
    o.seed = (int64_t)get_u64(c);
    const char *answer = get_bytes(c, &len);
    if (c->bad || memchr(o.uuid, 0, sizeof(o.uuid)) == o.uuid) return -EBADMSG;
    o.answer = (struct proto_text){(char *)(uintptr_t)answer, len}; /* is copied */
    return session_add_outcome(x, &o);
}

static int apply_failed(struct cursor *c, struct session *x, bool failed)
{
    size_t len = 0;
    const char *why = failed ? get_bytes(c, &len) : "";
    return c->bad || (failed && len == 0) ? -EBADMSG : session_set_failed(x, why, len);
}

bool session_record_summary(const uint8_t p[SESSION_SUMMARY_BYTES], struct session_summary *out)
{
    struct cursor c = {p, p + SESSION_SUMMARY_BYTES, false};
    struct session_summary s = {.used = get_u64(&c), .bytes = get_u64(&c)};
    uint64_t counts = get_u64(&c);
    s.ids = (uint32_t)counts;
    s.messages = (uint32_t)(counts >> 32);
    if (get_u64(&c) != XXH3_64bits(p, 24)) return false;
    *out = s;
    return true;
}

int session_record_apply(struct session *x, const uint8_t *p, size_t n)
{
    struct cursor c = {p, p + n, false};
    struct session_summary s;
    const uint8_t *flags = get_fixed(&c, 1), *context = get_fixed(&c, 1), *model = get_fixed(&c, sizeof(x->model));
    if (!model || *flags > (FLAG_RAW | FLAG_FAILED) || *context > PROTO_CONTEXT_ROTATE) return -EBADMSG;
    x->raw = *flags & FLAG_RAW;
    x->context = (enum proto_context) * context;
    memcpy(x->model, model, sizeof(x->model));
    int r = apply_text(&c, x);
    if (r == 0) r = apply_messages(&c, x);
    if (r < 0) return r;
    size_t outcomes = get_count(&c, 1);
    for (size_t i = 0; r == 0 && i < outcomes; i++) r = apply_outcome(&c, x);
    if (r == 0) r = apply_failed(&c, x, *flags & FLAG_FAILED);
    if (r < 0) return r;
    const uint8_t *summary = get_fixed(&c, SESSION_SUMMARY_BYTES);
    if (!summary || c.p != c.end || !session_record_summary(summary, &s)) return -EBADMSG;
    return 0;
}
