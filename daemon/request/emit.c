/* SPDX-License-Identifier: MIT */
#include "daemon/request/emit.h"
#include <string.h>

void emit_warning(struct request *r, const struct seq *s, const char *text, size_t len)
{
    struct proto_event ev = {.type = PROTO_EV_WARNING};
    if (proto_text_set(&ev.message, text, len) == 0) request_emit(r, s, &ev);
}

/* Takes the texts of @e. */
static void emit_call(struct request *r, const struct seq *s, struct output_event *e)
{
    struct proto_event ev = {.type = PROTO_EV_TOOL_CALL, .part.number = e->call.index};
    struct proto_call *call = &ev.part.call;
    ev.part.withdrawn = e->call.step == CALL_WITHDRAWN;
    call->id.data = buf_steal(&e->call.id, &call->id.len);
    call->name.data = buf_steal(&e->call.name, &call->name.len);
    call->arguments.data = buf_steal(&e->text, &call->arguments.len);
    if (e->call.step == CALL_ENDS || (e->call.step == CALL_ARGUMENTS && !call->arguments.len))
        proto_event_fini(&ev); /* says nothing */
    else
        request_emit(r, s, &ev);
}

void emit_output(struct request *r, const struct seq *s, struct output_step *out, struct proto_event *first)
{
    if (out->warning) emit_warning(r, s, out->warning, strlen(out->warning));
    if (first && first->tokens.ids && (out->n == 0 || strcmp(out->events[0].channel, CHANNEL_TOOL_CALL) == 0)) {
        request_emit(r, s, first);
        first = NULL;
    }
    for (size_t i = 0; i < out->n; i++) {
        struct output_event *e = &out->events[i];
        struct proto_event ev = {.type = PROTO_EV_TEXT};
        if (strcmp(e->channel, CHANNEL_TOOL_CALL) == 0) {
            emit_call(r, s, e);
            continue;
        }
        if (first) ev = *first;
        first = NULL;
        ev.channel = e->channel;
        ev.text.data = buf_steal(&e->text, &ev.text.len);
        request_emit(r, s, &ev);
    }
}
