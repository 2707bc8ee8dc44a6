/* SPDX-License-Identifier: MIT */
#include "client/tools-read.h"
#include "client/tool-set.h"
#include "libcommon/error.h"
#include <string.h>

int tools_choice(struct proto_tools *t, const char *choice)
{
    if (!choice) return 0;
    t->choice = proto_tool_choice_value(choice);
    if (t->choice != PROTO_TOOL_UNSET && t->choice != PROTO_TOOL_NAMED) return 0;
    t->choice = PROTO_TOOL_NAMED;
    return proto_text_set(&t->name, choice, strlen(choice));
}

int tools_read(struct proto_request *r, const struct options *o)
{
    struct buf list = BUF_INIT;
    if (o->raw) return 0;
    if (o->thinking.how == THINK_ON) r->thinking.mode = PROTO_THINKING_ON;
    if (o->thinking.how == THINK_OFF) r->thinking.mode = PROTO_THINKING_OFF;
    r->thinking.limited = o->thinking.how != THINK_OFF && o->thinking.budget >= 0;
    r->thinking.budget = o->thinking.budget;
    if (!o->tools.file) return 0;
    int e = tools_choice(&r->tools, o->tools.choice);
    if (e == 0) e = tool_set_file(&list, o->tools.file, r->tools.name.data);
    if (e == 0 && list.len > PROTO_TOOLS_MAX)
        e = error_say(-EMSGSIZE, "%s has %zu bytes, the limit is %u", o->tools.file, list.len, PROTO_TOOLS_MAX);
    if (e == 0)
        r->tools.list.data = buf_steal(&list, &r->tools.list.len);
    else
        e = error_in(e, "--tools");
    buf_fini(&list);
    return e;
}
