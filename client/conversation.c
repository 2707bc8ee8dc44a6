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

static int add_calls(struct proto_message *m, struct tool_calls *calls)
{
    if (!calls->n) return 0;
    m->calls = calloc(calls->n, sizeof(*m->calls));
    if (!m->calls) return -ENOMEM;
    for (; m->n_calls < calls->n; m->n_calls++) {
        struct tool_call *from = &calls->calls[m->n_calls];
        struct proto_call *to = &m->calls[m->n_calls];
        to->id = from->id;
        to->name = from->name;
        from->id = from->name = (struct proto_text){0};
        take(&to->arguments, &from->arguments);
    }
    return 0;
}

int conversation_answer(struct proto_generate *g, struct answer_parts *said)
{
    struct proto_message *m;
    int r = conversation_add(g, "assistant", NULL, 0, &m);
    if (r < 0) return r;
    take(&m->content, &said->text);
    take(&m->thinking, &said->thinking);
    return add_calls(m, &said->calls);
}

int conversation_result(struct proto_generate *g, const struct proto_call *call, struct buf *result)
{
    struct proto_message *m;
    int r = conversation_add(g, "tool", NULL, 0, &m);
    if (r < 0) return r;
    if (call->id.len) r = proto_text_set(&m->call_id, call->id.data, call->id.len);
    if (r == 0) r = proto_text_set(&m->name, call->name.data, call->name.len);
    take(&m->content, result);
    return r;
}
