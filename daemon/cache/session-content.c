/* SPDX-License-Identifier: MIT */
/* What is said in a session: ids, text, messages, outcomes. Nothing here touches a file. */
#include "daemon/cache/session-share.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <assert.h>
#include <string.h>

void session_charge(struct session *x)
{
    uint64_t bytes = sizeof(*x) + x->name.len + x->n_ids * (sizeof(*x->ids) + sizeof(*x->ends)) + x->text.len +
                     x->markup.len + x->message_bytes + x->outcome_bytes + x->failed.len;
    if (x->owner) atomic_fetch_add(&x->owner->bytes, bytes - x->bytes);
    x->bytes = bytes;
}

static void changed(struct session *x)
{
    x->log.saved = false;
    session_charge(x);
}

static void outcome_drop_first(struct session *x)
{
    struct session_outcome *o = &x->outcomes[0];
    x->outcome_bytes -= sizeof(*o) + o->answer.len;
    proto_text_fini(&o->answer);
    memmove(o, o + 1, --x->n_outcomes * sizeof(*o));
    if (x->log.new_outcomes > x->n_outcomes) x->log.new_outcomes = x->n_outcomes;
}

void session_drop_outcomes(struct session *x)
{
    while (x->n_outcomes) outcome_drop_first(x);
    proto_text_fini(&x->failed);
    changed(x);
}

void session_clear(struct session *x)
{
    session_drop_messages(x, 0);
    session_drop_outcomes(x);
    free(x->messages);
    free(x->outcomes);
    free(x->ids);
    free(x->ends);
    buf_fini(&x->text);
    buf_fini(&x->markup);
    x->messages = NULL;
    x->outcomes = NULL;
    x->ids = NULL;
    x->ends = NULL;
    x->n_ids = x->cap_ids = 0;
    x->log.ids = x->log.text = x->log.new_outcomes = 0;
    if (!x->log.size) x->log.n_bases = 0; /* a first log that would have had them is not written */
    changed(x);
}

void session_take(struct session *dst, struct session *src)
{
    assert(!dst->n_ids && !dst->n_messages && !dst->text.len);
    session_clear(dst);
    dst->raw = src->raw;
    dst->context = src->context;
    memcpy(dst->model, src->model, sizeof(dst->model));
    dst->ids = steal(src->ids);
    dst->ends = steal(src->ends);
    dst->n_ids = src->n_ids;
    dst->cap_ids = src->cap_ids;
    dst->text = src->text;
    dst->markup = src->markup;
    src->text = src->markup = (struct buf)BUF_INIT;
    dst->failed = src->failed;
    src->failed = (struct proto_text){0};
    dst->messages = steal(src->messages);
    dst->n_messages = src->n_messages;
    dst->message_bytes = src->message_bytes;
    dst->outcomes = steal(src->outcomes);
    dst->n_outcomes = src->n_outcomes;
    dst->outcome_bytes = src->outcome_bytes;
    src->n_ids = src->cap_ids = src->n_messages = src->message_bytes = src->n_outcomes = src->outcome_bytes = 0;
    session_clear(src);
    changed(dst);
}

/* --- ids and text --- */

static void cut_text(struct session *x, size_t end)
{
    assert(end <= x->text.len && x->text.len == x->markup.len);
    if (x->text.data) x->text.data[end] = '\0';
    if (x->markup.data) x->markup.data[end] = '\0';
    x->text.len = x->markup.len = end;
    if (x->log.text > end) x->log.text = end;
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
    changed(x);
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

void session_truncate(struct session *x, size_t keep)
{
    if (keep > x->n_ids) keep = x->n_ids;
    size_t end = keep ? x->ends[keep - 1] : 0;
    if (keep == x->n_ids && end == x->text.len) return;
    x->n_ids = keep;
    if (x->log.ids > keep) x->log.ids = keep;
    cut_text(x, end);
    changed(x);
}

void session_forget_tokens(struct session *x)
{
    x->n_ids = x->log.ids = 0;
    if (!x->raw) cut_text(x, 0);
    x->tail = (struct prefix_id){0};
    changed(x);
}

/* --- messages --- */

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
    changed(x);
    return 0;
}

void session_drop_messages(struct session *x, size_t keep)
{
    if (x->n_messages <= keep) return;
    while (x->n_messages > keep) {
        struct proto_message *m = &x->messages[--x->n_messages];
        x->message_bytes -= sizeof(*m) + m->role.len + m->content.len;
        proto_text_fini(&m->role);
        proto_text_fini(&m->content);
    }
    if (x->log.messages > keep) x->log.messages = keep;
    changed(x);
}

/* --- outcomes --- */

int session_add_outcome(struct session *x, const struct session_outcome *o)
{
    if (!o->uuid[0]) return 0;
    struct session_outcome *list = reallocarray(x->outcomes, x->n_outcomes + 1, sizeof(*list)), one = *o;
    if (!list) return -ENOMEM;
    x->outcomes = list;
    one.answer = (struct proto_text){0};
    if (proto_text_set(&one.answer, o->answer.data ? o->answer.data : "", o->answer.len) < 0) return -ENOMEM;
    list[x->n_outcomes++] = one;
    x->log.new_outcomes++;
    x->outcome_bytes += sizeof(one) + one.answer.len;
    while (x->n_outcomes > SESSION_OUTCOMES) outcome_drop_first(x);
    changed(x);
    return 0;
}

const struct session_outcome *session_find_outcome(const struct session *x, const char *uuid)
{
    for (size_t i = x->n_outcomes; i-- > 0;)
        if (strcmp(x->outcomes[i].uuid, uuid) == 0) return &x->outcomes[i];
    return NULL;
}

int session_set_failed(struct session *x, const char *why, size_t len)
{
    if (len == 0)
        proto_text_fini(&x->failed);
    else if (proto_text_set(&x->failed, why, len) < 0)
        return -ENOMEM;
    changed(x);
    return 0;
}

int session_copy(struct session *dst, const struct session *src)
{
    assert(src->loaded && !dst->n_ids && !dst->n_messages && !dst->text.len);
    int r = ids_reserve(dst, src->n_ids);
    if (r == 0) r = buf_append(&dst->text, src->text.data, src->text.len);
    if (r == 0) r = buf_append(&dst->markup, src->markup.data, src->markup.len);
    for (size_t i = 0; r == 0 && i < src->n_messages; i++) {
        const struct proto_message *m = &src->messages[i];
        r = session_add_message(dst, m->role.data, m->role.len, m->content.data, m->content.len);
    }
    if (r < 0) {
        session_clear(dst);
        return r;
    }
    if (src->n_ids) {
        memcpy(dst->ids, src->ids, src->n_ids * sizeof(*src->ids));
        memcpy(dst->ends, src->ends, src->n_ids * sizeof(*src->ends));
        dst->n_ids = src->n_ids;
    }
    dst->raw = src->raw;
    dst->context = src->context;
    memcpy(dst->model, src->model, sizeof(dst->model));
    changed(dst);
    session_share_begin(dst, src);
    return 0;
}
