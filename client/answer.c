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
    a->progress.on = !opt->quiet && !(opt->jsonl && out->tty) && isatty(STDERR_FILENO);
}

void answer_fini(struct answer *a)
{
    progress_clear(&a->progress);
    buf_fini(&a->whole);
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
    int r = answer_settle(a);
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
    if (!proto_is_answer(e)) {
        a->thought = true;
        return 0;
    }
    a->spoke = true;
    if (a->opt->extract) return answer_extract(a, e->text.data, e->text.len);
    a->last = e->text.data[e->text.len - 1];
    if (a->keep && buf_append(&a->whole, e->text.data, e->text.len) < 0)
        return error_say(-ENOMEM, "no memory for the answer");
    return answer_put(a, e->text.data, e->text.len);
}

static int answer_line(struct answer *a, const struct proto_event *e)
{
    int r = 0;
    if (e->type == PROTO_EV_TEXT && e->text.len > 0 && proto_is_answer(e)) {
        a->spoke = true;
        r = buf_append(&a->whole, e->text.data, e->text.len);
    }
    buf_clear(&a->line);
    if (r == 0) r = jsonl_event(&a->line, e, &a->whole, a->opt->logprobs, a->opt->n > 1);
    if (r < 0) return error_say(r, "no memory for a line of output");
    return a->line.len > 0 ? output_write(a->out, a->line.data, a->line.len) : 0;
}

void answer_add(struct answer *a, const struct proto_event *e)
{
    a->others.tokens += e->usage_completion;
    a->others.prompt_j += e->energy.prompt_j;
    a->others.answer_j += e->energy.token_j * (double)e->usage_completion;
    a->others.saved_j += e->energy.saved_j;
}

/* The energy of all answers, of which @e is the last. */
static void answer_energy(const struct answer *a, const struct proto_event *e, char out[static 128])
{
    const struct proto_energy *x = &e->energy;
    double tokens = (double)(e->usage_completion + a->others.tokens), saved = x->saved_j + a->others.saved_j;
    double answer = x->token_j * (double)e->usage_completion + a->others.answer_j;
    int n = snprintf(out, 128, ", energy unknown");
    if (!x->known) return;
    n = snprintf(out, 128, ", energy %.3g J prompt", x->prompt_j + a->others.prompt_j);
    if (tokens > 0) n += snprintf(out + n, 128 - (size_t)n, ", %.3g J/token", answer / tokens);
    if (saved > 0) snprintf(out + n, 128 - (size_t)n, ", %.3g J saved", saved);
}

static void answer_usage(const struct answer *a, const struct proto_event *e, bool warm)
{
    uint64_t completion = e->usage_completion + a->others.tokens;
    double total = e->queue_ms + e->prefill_ms + e->decode_ms;
    double speed = e->decode_ms > 0 ? (double)completion * 1000 / e->decode_ms : 0;
    char prompt[256], shifted[128] = "", energy[128];
    answer_energy(a, e, energy);
    if (e->cut.shifted) snprintf(shifted, sizeof(shifted), ", %" PRIu64 " dropped", e->cut.shifted);
    if (e->cut.prefix || e->cut.suffix)
        snprintf(shifted, sizeof(shifted),
                 ", without the first %" PRIu64 " bytes of the prefix and the last %" PRIu64 " of the suffix",
                 e->cut.prefix, e->cut.suffix);
    snprintf(prompt, sizeof(prompt), "prompt %" PRIu64 " tokens (%" PRIu64 " cached%s)", e->usage_prompt,
             e->usage_cached, shifted);
    if (warm)
        log_info("%s, prefill %.0f ms%s%s%s", prompt, total, e->session.len ? ", session " : "",
                 e->session.len ? e->session.data : "", energy);
    else
        log_info("%s, answer %" PRIu64 " tokens, first token %.0f ms, total %.0f ms, %.1f tok/s, seed %" PRId64
                 "%s%s%s",
                 prompt, completion, e->ttft_ms, total, speed, e->seed, e->session.len ? ", session " : "",
                 e->session.len ? e->session.data : "", energy);
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

static int answer_done(struct answer *a, const struct proto_event *e)
{
    const struct options *o = a->opt;
    bool cut = e->reason == PROTO_STOP_LENGTH || e->reason == PROTO_STOP_CONTEXT;
    if (e->reason == PROTO_STOP_CANCEL && !a->cancelled)
        return answer_end(a, "the daemon ended the answer before it was complete", EXIT_NO_DAEMON);
    int r = o->extract ? answer_extract(a, NULL, 0) : answer_settle(a);
    if (r < 0) return r;
    if (o->extract && a->extract.where == EXTRACT_BEFORE && !a->cancelled)
        return answer_end(a, "the answer has no fenced code block; run without --extract to print all of it",
                          EXIT_FAILED);
    /* A raw answer continues the text of the prompt, so no newline is added to it. */
    if (!o->jsonl && a->spoke && a->last != '\n' && (!o->raw || a->out->tty)) r = output_write(a->out, "\n", 1);
    if (r == 0) r = output_release(a->out);
    if (r < 0) return r;
    /* The result of infill is a fragment in any case. */
    if (cut && !o->jsonl && !o->quiet && !o->warm && o->command != COMMAND_INFILL)
        log_info("answer cut after %" PRIu64 " tokens%s: %s", e->usage_completion,
                 a->thought && !a->spoke ? ", all of them thinking" : "",
                 e->reason == PROTO_STOP_LENGTH ? "limit of --max-tokens" : "the context is full");
    if (o->verbose && !a->more) answer_usage(a, e, o->warm);
    a->status = a->cancelled ? EXIT_INTERRUPTED : EXIT_ANSWERED;
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

int answer_event(struct answer *a, const struct proto_event *e)
{
    int r = 0;
    a->begun = true;
    if (e->type == PROTO_EV_PREFILL)
        progress_event(&a->progress, e, interrupt_now());
    else
        progress_clear(&a->progress);
    if (a->opt->jsonl) r = answer_line(a, e);
    if (r < 0) return r;
    if (a->opt->detach && e->type != PROTO_EV_ERROR) { /* the request is accepted */
        a->status = EXIT_ANSWERED;
        r = output_release(a->out);
        return r < 0 ? r : 1;
    }
    switch (e->type) {
    case PROTO_EV_QUEUED:
        if (!a->opt->jsonl && !a->opt->quiet && isatty(STDERR_FILENO))
            log_info("queued, position %" PRIu32, e->position);
        return 0;
    case PROTO_EV_TEXT:
        return a->opt->jsonl ? 0 : answer_text(a, e);
    case PROTO_EV_DONE:
        return answer_done(a, e);
    case PROTO_EV_ERROR:
        return answer_error(a, e);
    default:
        return 0;
    }
}
