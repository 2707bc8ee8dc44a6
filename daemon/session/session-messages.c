/* SPDX-License-Identifier: MIT */
/* The messages of a session in memory. */
#include "daemon/session/store.h"
#include "libcommon/blob.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static size_t message_memory(const struct proto_message *m)
{
    return sizeof(*m) + m->n_calls * sizeof(*m->calls) + m->n_media * sizeof(*m->media) + proto_message_bytes(m);
}

static int copy_text(struct proto_text *to, const struct proto_text *from)
{
    return from->data ? proto_text_set(to, from->data, from->len) : 0;
}

static int copy_calls(struct proto_message *to, const struct proto_message *from)
{
    if (from->n_calls == 0) return 0;
    to->calls = calloc(from->n_calls, sizeof(*to->calls));
    if (!to->calls) return -ENOMEM;
    to->n_calls = from->n_calls;
    int r = 0;
    for (size_t i = 0; r == 0 && i < from->n_calls; i++) {
        r = copy_text(&to->calls[i].id, &from->calls[i].id);
        if (r == 0) r = copy_text(&to->calls[i].name, &from->calls[i].name);
        if (r == 0) r = copy_text(&to->calls[i].arguments, &from->calls[i].arguments);
    }
    return r;
}

static int copy_media(struct proto_message *to, const struct proto_message *from)
{
    if (from->n_media == 0) return 0;
    to->media = calloc(from->n_media, sizeof(*to->media));
    if (!to->media) return -ENOMEM;
    to->n_media = from->n_media;
    for (size_t i = 0; i < from->n_media; i++) {
        to->media[i] = from->media[i];
        blob_ref(to->media[i].file);
    }
    return 0;
}

int session_add_parts(struct session *x, const struct proto_message *m)
{
    struct session_content *c = &x->content;
    struct proto_message *list = reallocarray(c->messages, c->n_messages + 1, sizeof(*list)), one = {0};
    if (!list) return -ENOMEM;
    c->messages = list;
    int r = proto_text_set(&one.role, m->role.data, m->role.len);
    if (r == 0) r = proto_text_set(&one.content, m->content.data, m->content.len);
    if (r == 0) r = copy_text(&one.thinking, &m->thinking);
    if (r == 0) r = copy_text(&one.call_id, &m->call_id);
    if (r == 0) r = copy_text(&one.name, &m->name);
    if (r == 0) r = copy_calls(&one, m);
    if (r == 0) r = copy_media(&one, m);
    if (r < 0) {
        proto_message_fini(&one);
        return r;
    }
    c->messages[c->n_messages++] = one;
    c->message_bytes += message_memory(&one);
    session_changed(x);
    return 0;
}

int session_add_message(struct session *x, const char *role, size_t role_len, const char *content, size_t len)
{
    const struct proto_message m = {.role = {(char *)(uintptr_t)role, role_len},
                                    .content = {(char *)(uintptr_t)content, len}};
    return session_add_parts(x, &m);
}

int session_add_media(struct session *x, size_t i, const struct proto_media *media)
{
    struct session_content *c = &x->content;
    assert(i < c->n_messages);
    struct proto_message *m = &c->messages[i];
    const size_t before = message_memory(m);
    struct proto_media *list = reallocarray(m->media, m->n_media + 1, sizeof(*list));
    if (!list) return -ENOMEM;
    m->media = list;
    list[m->n_media] = *media;
    blob_ref(list[m->n_media++].file);
    c->message_bytes += message_memory(m) - before;
    session_changed(x);
    return 0;
}

void session_drop_messages(struct session *x, size_t keep)
{
    struct session_content *c = &x->content;
    if (c->n_messages <= keep) return;
    while (c->n_messages > keep) {
        struct proto_message *m = &c->messages[--c->n_messages];
        c->message_bytes -= message_memory(m);
        proto_message_fini(m);
    }
    for (size_t i = 0; i < c->n_outcomes; i++)
        if (c->outcomes[i].message == 0 || c->outcomes[i].message > keep) c->outcomes[i].message = SIZE_MAX;
    if (x->log.messages > keep) x->log.messages = keep;
    session_changed(x);
}
