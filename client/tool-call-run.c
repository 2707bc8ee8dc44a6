/* SPDX-License-Identifier: MIT */
#include "client/tool-call-run.h"
#include "client/tool-ask.h"
#include "client/tool-result.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include <stdio.h>

#define TOOL_OUTPUT_MAX (256u << 10) /* bytes of a result */

/* Standard error of a tool is for the user. */
static void print_errors(const struct options *o, const struct buf *text)
{
    struct buf safe = BUF_INIT;
    if (o->quiet || !text->len || plain_text(&safe, text->data, text->len) < 0) return;
    fwrite(safe.data, 1, safe.len, stderr);
    if (safe.data[safe.len - 1] != '\n') fputc('\n', stderr);
    buf_fini(&safe);
}

/* Run the executable, and append its result to @out. */
static int run_tool(const struct options *o, const struct tool *t, const struct buf *arguments, struct buf *out)
{
    const struct child_limits limits = {.ms = o->tools.timeout_ms, .bytes = TOOL_OUTPUT_MAX};
    char *argv[] = {t->path, NULL}, reason[64];
    struct child_result c = {0};
    int r = child_run(&c, argv, arguments->data, arguments->len, &limits);
    if (r == 0) {
        print_errors(o, &c.err);
        if (*tool_result_failure(reason, &c, &limits)) log_warning("%s: %s", t->about.name, reason);
        r = tool_result(out, &c, &limits);
    } else if (r != -EINTR && r != -ENOMEM) {
        log_warning("%s", error_text(r));
        r = buf_printf(out, "error: %s", error_text(r));
    }
    child_result_fini(&c);
    return r;
}

/* As tool_ask. */
static int may_run(struct tool_loop *l, struct tool *t, struct buf *arguments, struct buf *out)
{
    bool edited = false;
    if (l->opt->tools.yes || t->always) {
        log_info("%s %s", t->about.name, arguments->data);
        return 0;
    }
    int r = tool_ask(l->tty, t, arguments, &edited);
    if (r == 0 && edited) r = buf_printf(out, "[the user changed the arguments to %s]\n", arguments->data);
    if (r == TOOL_REFUSED && buf_puts(out, "error: the user refused this call") < 0) return -ENOMEM;
    return r;
}

static int no_tool(const struct tool_loop *l, const char *name, struct buf *out)
{
    log_warning("the model called %s, which is no tool", name);
    int r = buf_printf(out, "error: there is no tool %s; the tools are:", name);
    for (size_t i = 0; r == 0 && i < l->tools.n; i++) r = buf_printf(out, " %s", l->tools.tools[i].about.name);
    return r;
}

int tool_call_run(struct tool_loop *l, const struct tool_call *call, struct buf *out)
{
    struct buf arguments = BUF_INIT;
    const char *name = call->name.data ? call->name.data : "";
    struct tool *t = tool_set_find(&l->tools, name);
    int r = t ? tool_call_arguments(&arguments, call->arguments.data, call->arguments.len) : no_tool(l, name, out);
    if (r == -EBADMSG) {
        log_warning("%s: invalid arguments: %s", name, error_text(r));
        r = buf_printf(out, "error: invalid arguments: %s", error_text(r));
    } else if (r == 0 && t) {
        r = may_run(l, t, &arguments, out);
        if (r == 0) r = run_tool(l->opt, t, &arguments, out);
        if (r == TOOL_REFUSED) r = 0;
    }
    buf_fini(&arguments);
    return r == -ENOMEM ? error_say(r, "no memory for the call of a tool") : r;
}
