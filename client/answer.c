/* SPDX-License-Identifier: MIT */
#include "client/answer.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "client/jsonl.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void answer_init(struct answer *a, const struct options *opt, struct output *out)
{
    *a = (struct answer){.opt = opt, .out = out, .last = '\n'};
    /* JSON lines on the same terminal replace the rendering. */
    a->rendering = opt->render && !opt->jsonl && !opt->extract && render_wanted(out->fd);
    thought_init(&a->thought_view, opt, out);
    a->progress.on = !opt->quiet && !(opt->jsonl && out->tty) && isatty(STDERR_FILENO);
}

void answer_fini(struct answer *a)
{
    progress_clear(&a->progress);
    answer_parts_fini(&a->parts);
    thought_fini(&a->thought_view);
    buf_fini(&a->line);
    buf_fini(&a->safe);
    extract_fini(&a->extract);
}

/* Reset the style of the terminal. */
static int answer_settle(struct answer *a)
{
    if (!a->rendering) return 0;
    buf_clear(&a->line);
    int r = render_end(&a->render, &a->line);
    if (r < 0) return error_say(r, "no memory for the answer");
    return a->line.len ? output_write(a->out, a->line.data, a->line.len) : 0;
}

/* A pipe gets the bytes unchanged; on a terminal control characters are replaced. */
static int answer_put(struct answer *a, const char *text, size_t len)
{
    int r;
    if (a->out->tty) {
        buf_clear(&a->safe);
        r = plain_text(&a->safe, text, len);
        if (r < 0) return error_say(r, "no memory for the answer");
        text = a->safe.data;
        len = a->safe.len;
    }
    if (!a->rendering) return output_write(a->out, text, len);
    buf_clear(&a->line);
    r = render_text(&a->render, &a->line, text, len);
    if (r < 0) return error_say(r, "no memory for the answer");
    return a->line.len ? output_write(a->out, a->line.data, a->line.len) : 0;
}

/* Extraction works line by line. @text is NULL at the end of the text. */
static int answer_extract(struct answer *a, const char *text, size_t len)
{
    struct buf code = BUF_INIT;
    int r = text ? extract_text(&a->extract, &code, text, len) : extract_end(&a->extract, &code);
    if (r < 0) r = error_say(r, "no memory for the answer");
    if (r == 0 && code.len > 0) {
        a->last = code.data[code.len - 1];
        r = answer_put(a, code.data, code.len);
    }
    buf_fini(&code);
    return r;
}

/* On a terminal, end the line of an incomplete text, so that the next message starts on a new line. */
static int answer_break_line(struct answer *a)
{
    int r = thought_end(&a->thought_view, false);
    if (r == 0) r = answer_settle(a);
    if (r < 0) return r;
    if (!a->out->tty || a->out->hold || a->opt->jsonl || !a->spoke || a->last == '\n') return 0;
    a->last = '\n';
    return output_write(a->out, "\n", 1);
}

int answer_interrupt(struct answer *a)
{
    progress_clear(&a->progress);
    a->cancelled = true;
    a->status = EXIT_INTERRUPTED;
    return answer_break_line(a);
}

static int answer_text(struct answer *a, const struct proto_event *e)
{
    if (e->text.len == 0 || a->opt->warm) return 0;
    bool thought = !proto_is_answer(e);
    if (a->keep && buf_append(thought ? &a->parts.thinking : &a->parts.text, e->text.data, e->text.len) < 0)
        return error_say(-ENOMEM, "no memory for the answer");
    if (thought) {
        a->thought = true;
        return thought_text(&a->thought_view, e->text.data, e->text.len);
    }
    a->spoke = true;
    int r = thought_end(&a->thought_view, true);
    if (r < 0) return r;
    if (a->opt->extract) return answer_extract(a, e->text.data, e->text.len);
    a->last = e->text.data[e->text.len - 1];
    return answer_put(a, e->text.data, e->text.len);
}

static int answer_line(struct answer *a, const struct proto_event *e)
{
    int r = 0;
    if (e->type == PROTO_EV_TEXT && e->text.len > 0) {
        bool said = proto_is_answer(e);
        a->spoke |= said;
        if (said || a->keep) r = buf_append(said ? &a->parts.text : &a->parts.thinking, e->text.data, e->text.len);
    }
    buf_clear(&a->line);
    if (r == 0) r = jsonl_event(&a->line, e, &a->parts, a->opt->logprobs, a->opt->n > 1);
    if (r < 0) return error_say(r, "no memory for a line of output");
    return a->line.len > 0 ? output_write(a->out, a->line.data, a->line.len) : 0;
}

/* Finish an answer that failed: print held JSON lines, but discard held text, because it is not a complete answer. */
static int answer_end(struct answer *a, const char *message, int status)
{
    int r = answer_break_line(a);
    progress_clear(&a->progress);
    if (r == 0 && a->opt->jsonl) r = output_release(a->out);
    log_error("%s", message);
    a->status = status;
    return r < 0 ? r : 1;
}

/* Print the calls of the answer, one a line: nothing else can run them. */
static int answer_calls(struct answer *a)
{
    int r = 0;
    if (!a->opt->tools.file || a->opt->jsonl || !a->parts.calls.n) return 0;
    for (size_t i = 0; r == 0 && i < a->parts.calls.n; i++) {
        const struct tool_call *call = &a->parts.calls.calls[i];
        buf_clear(&a->line);
        r = tool_call_line(&a->line, call);
        if (r == -EBADMSG) {
            log_warning("the call of %s is incomplete", call->name.len ? call->name.data : "a tool");
            r = 0;
            continue;
        }
        r = r < 0 ? error_say(r, "no memory for the answer") : output_write(a->out, a->line.data, a->line.len);
    }
    return r;
}

static int answer_done(struct answer *a, struct proto_event *e)
{
    const struct options *o = a->opt;
    bool cut = e->reason == PROTO_STOP_LENGTH || e->reason == PROTO_STOP_CONTEXT;
    if (e->reason == PROTO_STOP_CANCEL && !a->cancelled)
        return answer_end(a, "the daemon ended the answer before it was complete", EXIT_NO_DAEMON);
    int r = thought_end(&a->thought_view, false);
    if (r == 0) r = o->extract ? answer_extract(a, NULL, 0) : answer_settle(a);
    if (r < 0) return r;
    if (o->extract && a->extract.where == EXTRACT_BEFORE && !a->cancelled && !a->parts.calls.n)
        return answer_end(a, "the answer has no fenced code block; run without --extract to print all of it",
                          EXIT_FAILED);
    /* A raw answer continues the text of the prompt, so no newline is added to it. */
    if (!o->jsonl && a->spoke && a->last != '\n' && (!o->raw || a->out->tty)) r = output_write(a->out, "\n", 1);
    if (r == 0) r = answer_calls(a);
    if (r == 0) r = output_release(a->out);
    if (r < 0) return r;
    /* The result of infill is a fragment in any case. */
    if (cut && !o->jsonl && !o->quiet && !o->warm && o->command != COMMAND_INFILL)
        log_info("answer cut after %" PRIu64 " tokens%s: %s", e->usage_completion,
                 a->thought && !a->spoke ? ", all of them thinking" : "",
                 e->reason == PROTO_STOP_LENGTH ? "limit of --max-tokens" : "the context is full");
    if (o->verbose && !a->more) answer_usage(a, e);
    a->status = a->cancelled ? EXIT_INTERRUPTED : EXIT_ANSWERED;
    a->parts.reason = e->reason;
    proto_text_fini(&a->parts.session);
    a->parts.session = e->session;
    e->session = (struct proto_text){0};
    return 1;
}

int answer_fail(struct answer *a, int r, int status)
{
    char message[1024];
    int code = -r;
    /* Copy the message: writing the line may set another one. */
    snprintf(message, sizeof(message), "%s", error_text(r));
    if (a->opt->jsonl) {
        buf_clear(&a->line);
        r = jsonl_error(&a->line, code, message, strlen(message));
        if (r == 0) r = output_write(a->out, a->line.data, a->line.len);
        if (r < 0 && r != -ENOMEM) return r;
    }
    return answer_end(a, message, status);
}

static int answer_error(struct answer *a, const struct proto_event *e)
{
    const struct options *o = a->opt;
    const char *message = e->message.len ? e->message.data : strerror(e->code);
    char hint[1024];
    /* A full queue is also EBUSY, but --wait does not help. */
    if (e->code == EBUSY && (o->session || o->continue_last) && !o->wait && strncmp(message, "session ", 8) == 0) {
        snprintf(hint, sizeof(hint), "%s; use --wait to wait for it", message);
        message = hint;
    }
    return answer_end(a, message, exit_status_of_event(e->code, a->spoke));
}

static int answer_call(struct answer *a, struct proto_event *e)
{
    int r = tool_calls_add(&a->parts.calls, e);
    if (r == -EPROTO) return answer_fail(a, r, EXIT_FAILED);
    return r < 0 ? error_say(r, "no memory for the calls") : 0;
}

int answer_event(struct answer *a, struct proto_event *e)
{
    int r = 0;
    a->begun = true;
    if (e->type == PROTO_EV_PREFILL)
        progress_event(&a->progress, e, interrupt_now());
    else
        progress_clear(&a->progress);
    if (a->opt->detach && e->type != PROTO_EV_ERROR) { /* the request is accepted */
        a->status = EXIT_ANSWERED;
        r = output_release(a->out);
        return r < 0 ? r : 1;
    }
    if (e->type == PROTO_EV_TOOL_CALL) r = answer_call(a, e);
    if (r == 0 && a->opt->jsonl) r = answer_line(a, e);
    if (r != 0) return r;
    switch (e->type) {
    case PROTO_EV_QUEUED:
        if (!a->opt->jsonl && !a->opt->quiet && isatty(STDERR_FILENO))
            log_info("queued, position %" PRIu32, e->position);
        return 0;
    case PROTO_EV_TEXT:
        return a->opt->jsonl ? 0 : answer_text(a, e);
    case PROTO_EV_WARNING:
        if (e->message.len) log_warning("%s", e->message.data);
        return 0;
    case PROTO_EV_DONE:
        return answer_done(a, e);
    case PROTO_EV_ERROR:
        return answer_error(a, e);
    default:
        return 0;
    }
}
