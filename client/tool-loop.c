/* SPDX-License-Identifier: MIT */
#include "client/tool-loop.h"
#include "client/conversation.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/jsonl.h"
#include "client/log/log-record.h"
#include "client/output.h"
#include "client/tool-ask.h"
#include "client/tool-call-run.h"
#include "client/tools-read.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#define CALLS_MAX 64 /* calls of one answer that run */

int tool_loop_add(struct tool_loop *l, const char *path)
{
    if (!l->opt->tools.yes && l->tty < 0) {
        l->tty = tool_ask_open();
        if (l->tty < 0)
            return error_say(-EINVAL,
                             "each call of a tool needs a yes at a terminal, and there is none; with --yes all "
                             "calls run");
    }
    return tool_set_add(&l->tools, path);
}

void tool_loop_fini(struct tool_loop *l)
{
    if (l->tty >= 0) close(l->tty);
    tool_set_fini(&l->tools);
}

/* Put the list and the choice into @r. */
static int offer(const struct tool_loop *l, struct proto_request *r)
{
    struct buf list = BUF_INIT;
    if (!l->tools.n) return 0;
    int e = tools_choice(&r->tools, l->opt->tools.choice);
    if (e == 0 && r->tools.name.len && !tool_set_find(&l->tools, r->tools.name.data))
        e = error_say(-EINVAL, "--tool-choice: no tool has the name %s", r->tools.name.data);
    if (e == 0) e = tool_set_json(&l->tools, &list);
    if (e == 0 && list.len > PROTO_TOOLS_MAX)
        e = error_say(-EMSGSIZE, "the descriptions of the tools are longer than %u bytes", PROTO_TOOLS_MAX);
    if (e == 0) generate_take(&r->tools.list, &list);
    buf_fini(&list);
    return e;
}

/* Send the messages from @from on. */
static int send_from(const struct tool_loop *l, struct proto_request *r, size_t from, struct answer_parts *said)
{
    struct proto_generate *g = &r->gen;
    g->messages += from;
    g->n_messages -= from;
    int status = generate_turn(l->opt, r, said);
    g->messages -= from;
    g->n_messages += from;
    return status;
}

/* The session that has the last answer is that of the next request. */
static int follow_session(struct proto_request *r, struct answer_parts *said)
{
    struct proto_generate *g = &r->gen;
    if (said->session.len) {
        proto_text_fini(&g->session);
        g->session = said->session;
        said->session = (struct proto_text){0};
    }
    proto_text_fini(&g->fork);
    g->continue_last = false;
    return generate_uuid(g);
}

static int print_result(const struct options *o, const struct tool_call *call, const struct buf *result)
{
    struct buf line = BUF_INIT;
    int r = o->jsonl ? jsonl_result(&line, call, result) : 0;
    if (r == 0 && line.len) r = output_print(line.data, line.len);
    buf_fini(&line);
    return r;
}

/* Run the calls, and append their results to @g. */
static int run_calls(struct tool_loop *l, const struct tool_calls *calls, struct proto_generate *g)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < calls->n; i++) {
        const struct tool_call *call = &calls->calls[i];
        struct buf result = BUF_INIT;
        if (i < CALLS_MAX)
            r = tool_call_run(l, call, &result);
        else
            r = buf_printf(&result, "error: more than %d calls in one answer", CALLS_MAX);
        if (r == 0) r = print_result(l->opt, call, &result);
        if (r == 0) r = conversation_result(g, call, &result);
        buf_fini(&result);
    }
    return r;
}

/* After the first calls the model may answer; after the last ones it must. */
static void choose_next(struct proto_tools *t, bool last)
{
    if (last)
        t->choice = PROTO_TOOL_NONE;
    else if (t->choice == PROTO_TOOL_REQUIRED || t->choice == PROTO_TOOL_NAMED)
        t->choice = PROTO_TOOL_AUTO;
    if (t->choice != PROTO_TOOL_NAMED) proto_text_fini(&t->name);
}

int tool_loop_run(struct tool_loop *l, struct proto_request *r)
{
    const struct options *o = l->opt;
    size_t from = 0;
    int e = offer(l, r), status = 0;
    record_open(o->log.record, r);
    for (int64_t round = 1; e == 0; round++) {
        struct answer_parts said = {0};
        status = send_from(l, r, from, &said);
        bool calls = status == 0 && said.reason == PROTO_STOP_TOOL_CALLS && said.calls.n;
        e = conversation_answer(&r->gen, &said);
        if (e == 0 && calls && round > o->tools.rounds)
            e = error_say(-ELOOP, "the model calls tools after %" PRId64 " rounds of calls (--tool-rounds)",
                          o->tools.rounds);
        if (e == 0 && calls) e = follow_session(r, &said);
        if (r->gen.session.len) from = r->gen.n_messages;
        if (e == 0 && calls) e = run_calls(l, &said.calls, &r->gen);
        choose_next(&r->tools, round >= o->tools.rounds);
        answer_parts_fini(&said);
        if (!calls) break;
    }
    if (e == -ENOMEM) error_say(e, "no memory for the conversation");
    if (e < 0) status = exit_status_before(e);
    record_close(o->log.record, o, r, status);
    return status;
}

int tool_loop_add_all(struct tool_loop *l)
{
    for (size_t i = 0; i < l->opt->tools.n_paths; i++) {
        int r = tool_loop_add(l, l->opt->tools.paths[i]);
        if (r == 0) continue;
        if (r != -EINTR) error_in(r, "--tool");
        return exit_status_before(r);
    }
    return 0;
}

int tool_loop_once(const struct options *o, struct proto_request *r)
{
    struct tool_loop l = TOOL_LOOP_INIT;
    l.opt = o;
    interrupt_also(SIGTERM);
    interrupt_also(SIGHUP);
    int status = tool_loop_add_all(&l);
    if (status == 0) status = tool_loop_run(&l, r);
    tool_loop_fini(&l);
    return status;
}
