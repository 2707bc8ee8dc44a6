/* SPDX-License-Identifier: MIT */
/* The keys of a request about tools and thinking. */
#include "libcommon/proto-read.h"
#include <errno.h>

int proto_read_tool_choice(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                           const struct field *f)
{
    for (int c = PROTO_TOOL_AUTO; c <= PROTO_TOOL_NAMED; c++)
        if (proto_is(o, proto_tool_choice_name((enum proto_tool_choice)c))) {
            *(enum proto_tool_choice *)at = (enum proto_tool_choice)c;
            return 0;
        }
    return proto_bad(where, "must be auto, none, required or named");
}

int proto_read_thinking(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    for (int m = PROTO_THINKING_ON; m <= PROTO_THINKING_OFF; m++)
        if (proto_is(o, proto_thinking_name((enum proto_thinking_mode)m))) {
            *(enum proto_thinking_mode *)at = (enum proto_thinking_mode)m;
            return 0;
        }
    return proto_bad(where, "must be on or off");
}

int proto_read_budget(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    static const struct field tokens = {.hi = INT32_MAX, .wanted = "a whole number from 0 to 2147483647"};
    struct proto_thinking *t = at;
    t->limited = true;
    return proto_read_i64(in, where, o, &t->budget, &tokens);
}

int proto_check_tools(const struct place *where, const struct proto_request *r)
{
    const struct proto_tools *t = &r->tools;
    const bool forced = t->choice == PROTO_TOOL_REQUIRED || t->choice == PROTO_TOOL_NAMED;
    const bool none = t->choice == PROTO_TOOL_NONE;
    if (r->gen.raw && (t->list.data || r->thinking.mode || r->thinking.limited))
        return proto_bad(where, "%s cannot be used with raw",
                         t->list.data       ? "tools"
                         : r->thinking.mode ? "thinking"
                                            : "think_budget");
    if ((t->choice || t->name.data) && !t->list.data)
        return proto_bad(where, "%s needs tools", t->choice ? "tool_choice" : "tool_name");
    if ((t->choice == PROTO_TOOL_NAMED) != (t->name.data != NULL))
        return proto_bad(where,
                         t->name.data ? "tool_name needs tool_choice: named" : "tool_choice: named needs tool_name");
    if (t->list.data && !none && r->constraint.type)
        return proto_bad(where, "constraint cannot be used with tools, except with tool_choice: none");
    if (forced && (r->gen.ignore_eos || r->gen.n_stop))
        return proto_bad(where, "%s cannot be used with tool_choice: %s, which determines the end of the answer",
                         r->gen.n_stop ? "stop" : "ignore_eos", proto_tool_choice_name(t->choice));
    if (r->thinking.limited && r->thinking.mode == PROTO_THINKING_OFF)
        return proto_bad(where, "think_budget cannot be used with thinking: off");
    return 0;
}
