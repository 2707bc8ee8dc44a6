/* SPDX-License-Identifier: MIT */
#include "client/conversation.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int conversation_add(struct proto_generate *g, const char *role, const char *text, size_t len,
                     struct proto_message **out)
{
    struct proto_message *m = reallocarray(g->messages, g->n_messages + 1, sizeof(*m));
    if (!m) return -ENOMEM;
    g->messages = m;
    m += g->n_messages++;
    *m = (struct proto_message){0};
    if (out) *out = m;
    int r = proto_text_set(&m->role, role, strlen(role));
    return r == 0 && text ? proto_text_set(&m->content, text, len) : r;
}

static void take(struct proto_text *to, struct buf *from)
{
    if (from->len) to->data = buf_steal(from, &to->len);
}

/* The daemon accepts only objects as arguments. */
static int copy_arguments(struct proto_text *to, const struct tool_call *call)
{
    const struct buf *a = &call->arguments;
    struct buf line = BUF_INIT;
    int r = tool_call_arguments(&line, a->data, a->len);
    buf_fini(&line);
    if (r == -ENOMEM) return r;
    return r == 0 && a->len ? proto_text_set(to, a->data, a->len) : proto_text_set(to, "{}", 2);
}

static int copy_calls(struct proto_message *m, const struct tool_calls *calls)
{
    int r = 0;
    if (!calls->n) return 0;
    m->calls = calloc(calls->n, sizeof(*m->calls));
    if (!m->calls) return -ENOMEM;
    for (; r == 0 && m->n_calls < calls->n; m->n_calls++) {
        const struct tool_call *from = &calls->calls[m->n_calls];
        struct proto_call *to = &m->calls[m->n_calls];
        if (from->id.len) r = proto_text_set(&to->id, from->id.data, from->id.len);
        if (r == 0) r = proto_text_set(&to->name, from->name.data, from->name.len);
        if (r == 0) r = copy_arguments(&to->arguments, from);
    }
    return r;
}

int conversation_answer(struct proto_generate *g, struct answer_parts *said)
{
    struct proto_message *m;
    int r = conversation_add(g, "assistant", NULL, 0, &m);
    if (r < 0) return r;
    take(&m->content, &said->text);
    take(&m->thinking, &said->thinking);
    return copy_calls(m, &said->calls);
}

int conversation_result(struct proto_generate *g, const struct tool_call *call, struct buf *result)
{
    struct proto_message *m;
    int r = conversation_add(g, "tool", NULL, 0, &m);
    if (r < 0) return r;
    if (call->id.len) r = proto_text_set(&m->call_id, call->id.data, call->id.len);
    if (r == 0) r = proto_text_set(&m->name, call->name.data, call->name.len);
    take(&m->content, result);
    return r;
}
