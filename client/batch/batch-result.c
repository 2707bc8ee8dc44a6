/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-result.h"
#include "client/extract.h"
#include "client/json.h"
#include <inttypes.h>
#include <string.h>

int batch_result_text(struct buf *out, const struct batch_job *j)
{
    const struct buf *text = &j->answer.parts.text;
    struct extract x = {0};
    if (!text->len) return 0;
    if (!j->line.extract) return buf_append(out, text->data, text->len);
    int r = extract_text(&x, out, text->data, text->len);
    if (r == 0) r = extract_end(&x, out);
    extract_fini(&x);
    return r;
}

/* Append @before and the buffer as a JSON string. */
static int put_text(struct buf *out, const char *before, const struct buf *text)
{
    int r = buf_puts(out, before);
    return r == 0 ? json_put_string(out, text->data ? text->data : "", text->len) : r;
}

static int put_answer(struct buf *out, const char *before, const struct batch_job *j)
{
    struct buf text = BUF_INIT;
    int r = batch_result_text(&text, j);
    if (r == 0) r = put_text(out, before, &text);
    buf_fini(&text);
    return r;
}

static int put_named(struct buf *out, const char *before, const struct proto_text *t)
{
    int r = buf_puts(out, before);
    return r == 0 ? json_put_string(out, t->data ? t->data : "", t->len) : r;
}

/* The calls of tools, each as hob prints it, or as OpenAI has it. */
static int put_calls(struct buf *out, const struct batch_job *j, bool openai)
{
    const struct tool_calls *c = &j->answer.parts.calls;
    int r = buf_puts(out, ",\"tool_calls\":[");
    for (size_t i = 0; r == 0 && i < c->n; i++) {
        const struct tool_call *call = &c->calls[i];
        r = put_named(out, i ? ",{\"id\":" : "{\"id\":", &call->id);
        if (r == 0 && openai) r = buf_puts(out, ",\"type\":\"function\",\"function\":{");
        if (r == 0) r = put_named(out, openai ? "\"name\":" : ",\"name\":", &call->name);
        if (r == 0) r = put_text(out, ",\"arguments\":", &call->arguments);
        if (r == 0) r = buf_puts(out, openai ? "}}" : "}");
    }
    return r == 0 ? buf_puts(out, "]") : r;
}

static int put_error(struct buf *out, const struct batch_job *j)
{
    int r = buf_printf(out, ",\"error\":{\"code\":\"%s\"", proto_errno_name(j->code));
    if (r == 0) r = put_text(out, ",\"message\":", &j->message);
    return r == 0 ? buf_puts(out, "}") : r;
}

/* Append ,"KEY":[VALUES] unless there are none. */
static int put_list(struct buf *out, const char *key, const struct buf *values)
{
    return values->len ? buf_printf(out, ",\"%s\":[%s]", key, values->data) : 0;
}

static int put_hob(struct buf *out, const struct batch_job *j)
{
    const struct proto_event *e = &j->done;
    int r = put_answer(out, ",\"text\":", j);
    if (r == 0 && j->line.thinking && j->answer.parts.thinking.len)
        r = put_text(out, ",\"thinking\":", &j->answer.parts.thinking);
    if (r == 0 && j->answer.parts.calls.n) r = put_calls(out, j, false);
    if (r == 0) r = put_list(out, "ids", &j->answer.ids);
    if (r == 0) r = put_list(out, "logprobs", &j->answer.logprobs);
    if (r == 0) r = put_list(out, "warnings", &j->answer.warnings);
    if (r == 0) r = buf_printf(out, ",\"reason\":\"%s\"", proto_reason_name(e->reason));
    if (r == 0)
        r = buf_printf(out, ",\"usage\":{\"prompt\":%" PRIu64 ",\"cached\":%" PRIu64 ",\"completion\":%" PRIu64 "}",
                       e->usage_prompt, e->usage_cached, e->usage_completion);
    return r == 0 ? buf_printf(out, ",\"seed\":%" PRId64, e->seed) : r;
}

static const char *finish_reason(enum proto_reason reason)
{
    return reason == PROTO_STOP_TOOL_CALLS                               ? "tool_calls"
           : reason == PROTO_STOP_LENGTH || reason == PROTO_STOP_CONTEXT ? "length"
                                                                         : "stop";
}

static int put_choice(struct buf *out, const struct batch_job *j)
{
    bool chat = j->line.form == BATCH_CHAT;
    int r = buf_puts(out, ",\"choices\":[{\"index\":0");
    if (r == 0) r = put_answer(out, chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":", j);
    if (r == 0 && chat && j->line.thinking && j->answer.parts.thinking.len)
        r = put_text(out, ",\"reasoning_content\":", &j->answer.parts.thinking);
    if (r == 0 && chat && j->answer.parts.calls.n) r = put_calls(out, j, true);
    if (r == 0) r = buf_puts(out, chat ? "}" : "");
    return r == 0 ? buf_printf(out, ",\"logprobs\":null,\"finish_reason\":\"%s\"}]", finish_reason(j->done.reason)) : r;
}

static int put_response(struct buf *out, const struct batch_job *j, const char *model, int64_t created)
{
    const struct proto_event *e = &j->done;
    bool chat = j->line.form == BATCH_CHAT;
    int r = buf_printf(out,
                       ",\"response\":{\"status_code\":200,\"request_id\":\"req_%" PRIu64
                       "\",\"body\":{\"id\":\"%s-%" PRIu64 "\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":",
                       j->number, chat ? "chatcmpl" : "cmpl", j->number, chat ? "chat.completion" : "text_completion",
                       created);
    if (r == 0) r = json_put_string(out, model, strlen(model));
    if (r == 0) r = put_choice(out, j);
    if (r < 0) return r;
    return buf_printf(out,
                      ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64
                      ",\"total_tokens\":%" PRIu64 ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu64 "}}}}",
                      e->usage_prompt, e->usage_completion, e->usage_prompt + e->usage_completion, e->usage_cached);
}

int batch_result_line(struct buf *out, const struct batch_job *j, const char *model, int64_t created)
{
    bool failed = j->state == BATCH_FAILED;
    int r;
    if (j->line.form) {
        r = buf_printf(out, "{\"id\":\"batch_req_%" PRIu64 "\",\"custom_id\":%s", j->number, j->line.id.data);
        if (r == 0 && failed) r = buf_puts(out, ",\"response\":null");
        if (r == 0) r = failed ? put_error(out, j) : put_response(out, j, model, created);
        if (r == 0 && !failed) r = buf_puts(out, ",\"error\":null");
    } else {
        r = buf_printf(out, "{\"id\":%s,\"line\":%" PRIu64, j->line.id.data, j->number);
        if (r == 0) r = failed ? put_error(out, j) : put_hob(out, j);
    }
    return r == 0 ? buf_puts(out, "}\n") : r;
}
