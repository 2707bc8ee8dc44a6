/* SPDX-License-Identifier: MIT */
/* Changing the content of a session in memory. */
#include "daemon/session/store.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

const struct session_content *session_content(const struct session *x)
{
    return x ? &x->content : NULL;
}

struct session_tail session_tail(const struct session *x)
{
    return x->tail;
}

void session_set_tail(struct session *x, struct session_tail tail)
{
    x->tail = tail;
}

/* --- the whole --- */

void session_charge(struct session *x)
{
    const struct session_content *c = &x->content;
    uint64_t bytes = sizeof(*x) + x->key.name.len + c->n_ids * (sizeof(*c->ids) + sizeof(*c->ends)) +
                     c->n_runs * sizeof(*c->runs) + c->text.len + c->markup.len + c->message_bytes + c->outcome_bytes +
                     c->note.len + c->failed.len + c->adapter.len;
    if (!x->loaded && bytes < x->charged.expected) bytes = x->charged.expected;
    atomic_fetch_add(&x->owner->bytes, bytes - x->charged.memory);
    x->charged.memory = bytes;
}

void session_changed(struct session *x)
{
    x->log.saved = false;
    session_charge(x);
}

static void outcome_drop_first(struct session *x)
{
    struct session_content *c = &x->content;
    struct session_outcome *o = &c->outcomes[0];
    c->outcome_bytes -= sizeof(*o) + o->answer.len;
    proto_text_fini(&o->answer);
    memmove(o, o + 1, --c->n_outcomes * sizeof(*o));
    if (x->log.new_outcomes > c->n_outcomes) x->log.new_outcomes = c->n_outcomes;
}

void session_drop_outcomes(struct session *x)
{
    while (x->content.n_outcomes) outcome_drop_first(x);
    proto_text_fini(&x->content.note);
    proto_text_fini(&x->content.adapter);
    proto_text_fini(&x->content.failed);
    session_changed(x);
}

void session_clear(struct session *x)
{
    struct session_content *c = &x->content;
    session_drop_messages(x, 0);
    session_drop_outcomes(x);
    free(c->messages);
    free(c->outcomes);
    free(c->ids);
    free(c->ends);
    free(c->runs);
    buf_fini(&c->text);
    buf_fini(&c->markup);
    c->messages = NULL;
    c->outcomes = NULL;
    c->ids = NULL;
    c->ends = NULL;
    c->runs = NULL;
    c->n_ids = c->cap_ids = c->n_runs = c->cap_runs = 0;
    x->log.ids = x->log.text = x->log.new_outcomes = 0;
    if (!x->log.size) x->log.n_bases = 0; /* they were for a first log, which is not written */
    session_changed(x);
}

void session_take(struct session *dst, struct session *src)
{
    struct session_content *from = &src->content;
    assert(!dst->content.n_ids && !dst->content.n_messages && !dst->content.text.len);
    session_clear(dst);
    dst->content = *from;
    *from = (struct session_content){.raw = from->raw, .context = from->context, .text = BUF_INIT, .markup = BUF_INIT};
    memcpy(from->model, dst->content.model, sizeof(from->model));
    session_clear(src);
    session_changed(dst);
}

/* --- settings --- */

void session_set_raw(struct session *x, bool raw)
{
    x->content.raw = raw;
    session_changed(x);
}

void session_set_context(struct session *x, enum proto_context context)
{
    x->content.context = context;
    session_changed(x);
}

void session_set_model(struct session *x, const uint8_t model[16])
{
    memcpy(x->content.model, model, sizeof(x->content.model));
    session_changed(x);
}

void session_set_markup(struct session *x, const char *markup, size_t n)
{
    assert(n <= x->content.markup.len);
    memcpy(x->content.markup.data, markup, n);
    session_changed(x);
}

/* --- ids and text --- */

static void cut_text(struct session *x, size_t end)
{
    struct buf *text = &x->content.text, *markup = &x->content.markup;
    assert(end <= text->len && text->len == markup->len);
    if (text->data) text->data[end] = '\0';
    if (markup->data) markup->data[end] = '\0';
    text->len = markup->len = end;
    if (x->log.text > end) x->log.text = end;
}

/* Make room for @more ids. The capacity grows by halves, so that appending one by one is linear. */
static int ids_reserve(struct session_content *c, size_t more)
{
    size_t need = c->n_ids + more;
    if (need <= c->cap_ids) return 0;
    size_t cap = c->cap_ids + c->cap_ids / 2;
    if (cap < need) cap = need;
    int32_t *ids = reallocarray(c->ids, cap, sizeof(*ids));
    if (!ids) return -ENOMEM;
    c->ids = ids;
    uint32_t *ends = reallocarray(c->ends, cap, sizeof(*ends));
    if (!ends) return -ENOMEM;
    c->ends = ends;
    c->cap_ids = cap;
    return 0;
}

static int runs_reserve(struct session_content *c, size_t more)
{
    size_t need = c->n_runs + more;
    if (need <= c->cap_runs) return 0;
    struct item_run *runs = reallocarray(c->runs, need, sizeof(*runs));
    if (!runs) return -ENOMEM;
    c->runs = runs;
    c->cap_runs = need;
    return 0;
}

/* Append the runs of @items, which follow the ids. */
static void append_runs(struct session_content *c, const struct items *items)
{
    if (items->n_runs == 0) return;
    struct item_run *new = c->runs + c->n_runs;
    uint32_t n = items_cut(items, new);
    for (uint32_t i = 0; i < n; i++) {
        assert(new[i].offset == 0);
        new[i].at += (uint32_t)c->n_ids;
    }
    c->n_runs += n;
}

int session_reserve(struct session *x, struct items items, size_t len)
{
    struct session_content *c = &x->content;
    return ids_reserve(c, items.n) < 0 || runs_reserve(c, items.n_runs) < 0 || buf_reserve(&c->text, len) < 0 ||
                   buf_reserve(&c->markup, len) < 0
               ? -ENOMEM
               : 0;
}

int session_extend(struct session *x, struct items items, const uint32_t *ends, const char *text, const char *markup,
                   size_t len)
{
    struct session_content *c = &x->content;
    if (session_reserve(x, items, len) < 0) return -ENOMEM;
    for (size_t i = 0; i < items.n; i++) {
        assert(ends[i] >= (i ? ends[i - 1] : c->text.len) && ends[i] <= c->text.len + len);
        c->ids[c->n_ids + i] = items.ids[i];
        c->ends[c->n_ids + i] = ends[i];
    }
    append_runs(c, &items);
    c->n_ids += items.n;
    /* cannot fail: the room was reserved */
    (void)!buf_append(&c->text, text, len);
    (void)!buf_append(&c->markup, markup, len);
    session_changed(x);
    return 0;
}

int session_append(struct session *x, int32_t id, const char *text, size_t len, bool markup)
{
    if (x->content.text.len + len > UINT32_MAX) return -ENOMEM;
    uint32_t end = (uint32_t)(x->content.text.len + len);
    char *flags = malloc(len ? len : 1);
    if (!flags) return -ENOMEM;
    memset(flags, markup, len);
    int r = session_extend(x, items_tokens(&id, 1), &end, text, flags, len);
    free(flags);
    return r;
}

void session_cut_runs(struct session_content *c, size_t keep)
{
    while (c->n_runs && c->runs[c->n_runs - 1].at >= keep) c->n_runs--;
}

bool session_cuts_run(const struct session_content *c, size_t keep)
{
    const struct items t = session_items(c);
    const struct item_run *r = keep < c->n_ids ? items_run_at(&t, (uint32_t)keep) : NULL;
    return r && r->at < keep;
}

void session_truncate(struct session *x, size_t keep)
{
    struct session_content *c = &x->content;
    if (keep > c->n_ids) keep = c->n_ids;
    assert(!session_cuts_run(c, keep));
    size_t end = keep ? c->ends[keep - 1] : 0;
    if (keep == c->n_ids && end == c->text.len) return;
    c->n_ids = keep;
    session_cut_runs(c, keep);
    if (x->log.ids > keep) x->log.ids = keep;
    cut_text(x, end);
    session_changed(x);
}

void session_forget_tokens(struct session *x)
{
    x->content.n_ids = x->content.n_runs = x->log.ids = 0;
    if (!x->content.raw) cut_text(x, 0);
    x->tail = (struct session_tail){0};
    session_changed(x);
}

/* --- outcomes --- */

int session_add_outcome(struct session *x, const struct session_outcome *o)
{
    struct session_content *c = &x->content;
    if (!o->uuid[0]) return 0;
    struct session_outcome *list = reallocarray(c->outcomes, c->n_outcomes + 1, sizeof(*list)), one = *o;
    if (!list) return -ENOMEM;
    c->outcomes = list;
    one.answer = (struct proto_text){0};
    if (proto_text_set(&one.answer, o->answer.data ? o->answer.data : "", o->answer.len) < 0) return -ENOMEM;
    list[c->n_outcomes++] = one;
    x->log.new_outcomes++;
    c->outcome_bytes += sizeof(one) + one.answer.len;
    while (c->n_outcomes > SESSION_OUTCOMES) outcome_drop_first(x);
    session_changed(x);
    return 0;
}

void session_drop_outcome(struct session *x, const char *uuid)
{
    struct session_content *c = &x->content;
    struct session_outcome *o = c->n_outcomes ? &c->outcomes[c->n_outcomes - 1] : NULL;
    if (!o || strcmp(o->uuid, uuid) != 0) return;
    c->outcome_bytes -= sizeof(*o) + o->answer.len;
    proto_text_fini(&o->answer);
    c->n_outcomes--;
    if (x->log.new_outcomes) x->log.new_outcomes--;
    session_changed(x);
}

const struct session_outcome *session_find_outcome(const struct session *x, const char *uuid)
{
    const struct session_content *c = &x->content;
    for (size_t i = c->n_outcomes; i-- > 0;)
        if (strcmp(c->outcomes[i].uuid, uuid) == 0) return &c->outcomes[i];
    return NULL;
}

static bool may_be_answer(const struct proto_message *m, const struct session_outcome *o)
{
    return m->n_calls && m->content.len == o->answer.len &&
           (o->answer.len == 0 || memcmp(m->content.data, o->answer.data, o->answer.len) == 0);
}

const struct proto_message *session_outcome_message(const struct session *x, const struct session_outcome *o)
{
    const struct session_content *c = &x->content;
    const struct proto_message *only = NULL;
    if (o->message) return o->message <= c->n_messages ? &c->messages[o->message - 1] : NULL;
    for (size_t i = 0; i < c->n_messages; i++) {
        if (!may_be_answer(&c->messages[i], o)) continue;
        if (only) return NULL;
        only = &c->messages[i];
    }
    return only;
}

static int set_text(struct session *x, struct proto_text *t, const char *s, size_t len)
{
    if (len == 0)
        proto_text_fini(t);
    else if (proto_text_set(t, s, len) < 0)
        return -ENOMEM;
    session_changed(x);
    return 0;
}

int session_set_failed(struct session *x, const char *message, size_t len)
{
    return set_text(x, &x->content.failed, message, len);
}

int session_set_adapter(struct session *x, const char *adapter, size_t len)
{
    return set_text(x, &x->content.adapter, adapter, len);
}

int session_set_note(struct session *x, const char *note, size_t len)
{
    return set_text(x, &x->content.note, note, len);
}
