/* SPDX-License-Identifier: MIT */
#include "client/http/completion-calls.h"
#include "libcommon/error.h"

/* Write the new arguments of the last call. */
static int put_piece(struct completion *c, uint32_t index)
{
    struct choice *a = &c->choices[index];
    bool begins = a->calls_begun < a->calls.n;
    int r = c->format->call(c, &c->exchange->out, index, begins);
    a->calls_begun = a->calls.n;
    buf_fini(&a->calls.calls[a->calls.n - 1].arguments);
    return r;
}

int completion_end_call(struct completion *c, uint32_t index)
{
    const struct choice *a = &c->choices[index];
    bool held = c->stream && c->format->call && a->calls_begun < a->calls.n;
    return held ? put_piece(c, index) : 0;
}

int completion_call(struct completion *c, struct proto_event *e)
{
    struct choice *a = &c->choices[e->index];
    int r = e->part.number == a->calls.next ? completion_end_call(c, e->index) : 0;
    if (r == 0) r = tool_calls_add(&a->calls, e);
    if (r == -ENOMEM) return error_origin(r);
    if (r < 0 || !c->stream || !c->format->call) return r;
    if (a->calls_begun > a->calls.n)
        return error_say(-EBADMSG, "the model wrote a malformed tool call, and a part of it was sent");
    bool piece = a->calls.n > 0 && a->calls.calls[a->calls.n - 1].arguments.len > 0;
    return piece ? put_piece(c, e->index) : 0;
}
