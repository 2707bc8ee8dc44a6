/* SPDX-License-Identifier: MIT */
#include "client/tool-calls.h"
#include "client/json.h"
#include "libcommon/error.h"
#include <stdlib.h>

static struct tool_call *new_call(struct tool_calls *c)
{
    struct tool_call *more = reallocarray(c->calls, c->n + 1, sizeof(*more));
    if (!more) return NULL;
    c->calls = more;
    more[c->n] = (struct tool_call){0};
    return &more[c->n++];
}

static void call_fini(struct tool_call *c)
{
    proto_text_fini(&c->id);
    proto_text_fini(&c->name);
    buf_fini(&c->arguments);
}

/* A malformed call, which may have begun. */
static int withdraw(struct tool_calls *c, bool begun)
{
    if (begun) call_fini(&c->calls[--c->n]);
    c->open = false;
    return 0;
}

int tool_calls_add(struct tool_calls *c, struct proto_event *e)
{
    struct proto_call *part = &e->part.call;
    size_t number = e->part.number;
    bool begun = c->open && number + 1 == c->next;
    if ((number != c->next && !begun) || number >= PROTO_CALLS_MAX)
        return error_say(-EPROTO, "the daemon sent a part of call %zu after %zu calls", number, c->next);
    c->next = number + 1;
    if (e->part.withdrawn) return withdraw(c, begun);
    struct tool_call *call = begun ? &c->calls[c->n - 1] : new_call(c);
    if (!call) return -ENOMEM;
    c->open = true;
    if (part->id.len && !call->id.len) {
        call->id = part->id;
        part->id = (struct proto_text){0};
    }
    if (part->name.len && !call->name.len) {
        call->name = part->name;
        part->name = (struct proto_text){0};
    }
    return part->arguments.len ? buf_append(&call->arguments, part->arguments.data, part->arguments.len) : 0;
}

int tool_call_arguments(struct buf *out, const char *s, size_t len)
{
    size_t from = out->len;
    if (!len) return buf_puts(out, "{}");
    int r = json_one_line(out, s, len);
    return r == 0 && out->data[from] != '{' ? error_say(-EBADMSG, "not a JSON object") : r;
}

int tool_call_line(struct buf *out, const struct tool_call *c)
{
    size_t from = out->len;
    int r = buf_puts(out, "{\"id\": ");
    if (r == 0) r = json_put_string(out, c->id.data, c->id.len);
    if (r == 0) r = buf_puts(out, ", \"name\": ");
    if (r == 0) r = json_put_string(out, c->name.data, c->name.len);
    if (r == 0) r = buf_puts(out, ", \"arguments\": ");
    if (r == 0) r = tool_call_arguments(out, c->arguments.data, c->arguments.len);
    if (r == 0) r = buf_puts(out, "}\n");
    if (r < 0 && out->data) {
        out->len = from;
        out->data[from] = 0;
    }
    return r;
}

void tool_calls_fini(struct tool_calls *c)
{
    for (size_t i = 0; i < c->n; i++) call_fini(&c->calls[i]);
    free(c->calls);
    *c = (struct tool_calls){0};
}
