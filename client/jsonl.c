/* SPDX-License-Identifier: MIT */
#include "client/jsonl.h"
#include "client/json.h"
#include <inttypes.h>
#include <math.h>

/* Append the index of the answer if there are several. */
static int jsonl_index(struct buf *out, const struct proto_event *e, bool indexed)
{
    return indexed ? buf_printf(out, "\"index\":%" PRIu32 ",", e->index) : 0;
}

static int jsonl_text(struct buf *out, const struct proto_event *e, bool logprobs, bool indexed)
{
    size_t i;
    int r = buf_puts(out, "{\"event\":\"text\",");
    if (r == 0) r = jsonl_index(out, e, indexed);
    if (r == 0 && !proto_is_answer(e)) r = buf_printf(out, "\"channel\":\"%s\",", e->channel);
    if (r == 0) r = buf_puts(out, "\"text\":");

    if (r == 0) r = json_put_string(out, e->text.data, e->text.len);
    if (r == 0 && logprobs) {
        r = buf_puts(out, ",\"ids\":[");
        for (i = 0; r == 0 && i < e->tokens.n; i++) r = buf_printf(out, "%s%" PRId32, i ? "," : "", e->tokens.ids[i]);
        if (r == 0) r = buf_puts(out, "],\"logprobs\":[");
        for (i = 0; r == 0 && e->tokens.logprobs && i < e->tokens.n; i++) {
            if (i > 0) r = buf_puts(out, ",");
            if (r == 0) r = json_put_float(out, e->tokens.logprobs[i]);
        }
        if (r == 0) r = buf_puts(out, "]");
    }
    return r == 0 ? buf_puts(out, "}\n") : r;
}

static int jsonl_timings(struct buf *out, const struct proto_event *e)
{
    const struct {
        const char *key;
        double ms;
    } all[] = {
        {"\"queue_ms\":", e->queue_ms},
        {",\"prefill_ms\":", e->prefill_ms},
        {",\"decode_ms\":", e->decode_ms},
        {",\"ttft_ms\":", e->ttft_ms},
    };
    unsigned i;
    int r = buf_puts(out, ",\"timings\":{");

    for (i = 0; r == 0 && i < 4; i++) {
        r = buf_puts(out, all[i].key);
        if (r == 0) r = json_put_ms(out, all[i].ms);
    }
    return r == 0 ? buf_puts(out, "}") : r;
}

static int jsonl_energy(struct buf *out, const struct proto_energy *e)
{
    if (!isfinite(e->prompt_j + e->token_j + e->saved_j)) return 0;
    return buf_printf(out, ",\"energy\":{\"prompt_j\":%.6f,\"token_j\":%.6f,\"saved_j\":%.6f}", e->prompt_j, e->token_j,
                      e->saved_j);
}

static int jsonl_usage(struct buf *out, const struct proto_event *e)
{
    const size_t encoded = proto_media_encoded(e);
    int r = buf_printf(out, ",\"usage\":{\"prompt\":%" PRIu64 ",\"cached\":%" PRIu64 ",\"completion\":%" PRIu64,
                       e->usage_prompt, e->usage_cached, e->usage_completion);
    if (r == 0 && e->usage_drafted)
        r = buf_printf(out, ",\"drafted\":%" PRIu64 ",\"accepted\":%" PRIu64, e->usage_drafted, e->usage_accepted);
    if (r == 0 && e->usage_drafted_model) r = buf_printf(out, ",\"drafted_model\":%" PRIu64, e->usage_drafted_model);
    if (r == 0 && e->n_media)
        r = buf_printf(out, ",\"media_encoded\":%zu,\"media_cached\":%zu", encoded, e->n_media - encoded);
    return r == 0 ? buf_puts(out, "}") : r;
}

static int jsonl_media(struct buf *out, const struct proto_event *e)
{
    int r = buf_puts(out, ",\"media\":[");
    for (size_t i = 0; r == 0 && i < e->n_media; i++) {
        const struct proto_media_usage *u = &e->media[i];
        r = buf_printf(out, "%s{\"kind\":\"%s\",\"tokens\":%" PRIu32 ",\"cached\":%s,\"encode_ms\":", i ? "," : "",
                       proto_media_name(u->kind), u->tokens, u->cached ? "true" : "false");
        if (r == 0) r = json_put_ms(out, u->encode_ms);
        if (r == 0) r = buf_puts(out, "}");
    }
    return r == 0 ? buf_puts(out, "]") : r;
}

static int jsonl_done(struct buf *out, const struct proto_event *e, const struct answer_parts *said, bool indexed)
{
    int r = buf_puts(out, "{\"event\":\"done\",");
    if (r == 0) r = jsonl_index(out, e, indexed);
    if (r == 0) r = buf_printf(out, "\"reason\":\"%s\",\"text\":", proto_reason_name(e->reason));

    if (r == 0) r = json_put_string(out, said->text.data, said->text.len);
    if (r == 0) r = jsonl_usage(out, e);
    if (r == 0) r = jsonl_timings(out, e);
    if (r == 0 && e->n_media) r = jsonl_media(out, e);
    if (r == 0 && e->energy.known) r = jsonl_energy(out, &e->energy);
    if (r == 0) r = buf_puts(out, ",\"session\":");
    if (r == 0) r = e->session.len ? json_put_string(out, e->session.data, e->session.len) : buf_puts(out, "null");
    if (r == 0)
        r = e->miss_at >= 0 ? buf_printf(out, ",\"miss_at\":%" PRId64, e->miss_at) : buf_puts(out, ",\"miss_at\":null");
    if (r == 0) r = buf_printf(out, ",\"seed\":%" PRId64, e->seed);
    if (r == 0 && e->cut.shifted) r = buf_printf(out, ",\"shifted\":%" PRIu64, e->cut.shifted);
    if (r == 0 && e->cut.prefix) r = buf_printf(out, ",\"cut_prefix\":%" PRIu64, e->cut.prefix);
    if (r == 0 && e->cut.suffix) r = buf_printf(out, ",\"cut_suffix\":%" PRIu64, e->cut.suffix);
    return r == 0 ? buf_puts(out, "}\n") : r;
}

static int jsonl_error_rest(struct buf *out, int code, const char *message, size_t len)
{
    int r = buf_printf(out, "\"code\":\"%s\",\"message\":", proto_errno_name(code));
    if (r == 0) r = json_put_string(out, message, len);
    return r == 0 ? buf_puts(out, "}\n") : r;
}

int jsonl_error(struct buf *out, int code, const char *message, size_t len)
{
    int r = buf_puts(out, "{\"event\":\"error\",");
    return r == 0 ? jsonl_error_rest(out, code, message, len) : r;
}

static int jsonl_error_event(struct buf *out, const struct proto_event *e, bool indexed)
{
    int r = buf_puts(out, "{\"event\":\"error\",");
    if (r == 0) r = jsonl_index(out, e, indexed);
    return r == 0 ? jsonl_error_rest(out, e->code, e->message.data, e->message.len) : r;
}

static int jsonl_names(struct buf *out, const struct proto_text *id, const struct proto_text *name)
{
    int r = buf_puts(out, "\"id\":");
    if (r == 0) r = json_put_string(out, id->data, id->len);
    if (r == 0) r = buf_puts(out, ",\"name\":");
    return r == 0 ? json_put_string(out, name->data, name->len) : r;
}

/* "index" is the number of the call, so that of several answers is "answer". */
static int jsonl_call(struct buf *out, const struct proto_event *e, const struct tool_calls *calls, bool indexed)
{
    const struct proto_text *piece = &e->part.call.arguments;
    int r = buf_puts(out, "{\"event\":\"tool_call\",");
    if (r == 0 && indexed) r = buf_printf(out, "\"answer\":%" PRIu32 ",", e->index);
    if (r == 0) r = buf_printf(out, "\"index\":%" PRIu32 ",", e->part.number);
    if (e->part.withdrawn) return r == 0 ? buf_puts(out, "\"withdrawn\":true}\n") : r;
    if (r == 0) r = jsonl_names(out, &calls->calls[calls->n - 1].id, &calls->calls[calls->n - 1].name);
    if (r == 0) r = buf_puts(out, ",\"arguments\":");
    if (r == 0) r = json_put_string(out, piece->data, piece->len);
    return r == 0 ? buf_puts(out, "}\n") : r;
}

int jsonl_result(struct buf *out, const struct tool_call *call, const struct buf *result)
{
    int r = buf_puts(out, "{\"event\":\"tool_result\",");
    if (r == 0) r = jsonl_names(out, &call->id, &call->name);
    if (r == 0) r = buf_puts(out, ",\"content\":");
    if (r == 0) r = json_put_string(out, result->data, result->len);
    return r == 0 ? buf_puts(out, "}\n") : r;
}

static int jsonl_warning(struct buf *out, const struct proto_event *e, bool indexed)
{
    int r = buf_puts(out, "{\"event\":\"warning\",");
    if (r == 0) r = jsonl_index(out, e, indexed);
    if (r == 0) r = buf_puts(out, "\"message\":");
    if (r == 0) r = json_put_string(out, e->message.data, e->message.len);
    return r == 0 ? buf_puts(out, "}\n") : r;
}

int jsonl_event(struct buf *out, const struct proto_event *e, const struct answer_parts *said, bool logprobs,
                bool indexed)
{
    switch (e->type) {
    case PROTO_EV_QUEUED:
        return buf_printf(out, "{\"event\":\"queued\",\"position\":%" PRIu32 "}\n", e->position);
    case PROTO_EV_PREFILL:
        return buf_printf(out,
                          "{\"event\":\"prefill\",\"done\":%" PRIu64 ",\"total\":%" PRIu64 ",\"cached\":%" PRIu64 "}\n",
                          e->done, e->total, e->cached);
    case PROTO_EV_TEXT:
        return jsonl_text(out, e, logprobs || e->tokens.n > 0, indexed);
    case PROTO_EV_TOOL_CALL:
        return jsonl_call(out, e, &said->calls, indexed);
    case PROTO_EV_WARNING:
        return jsonl_warning(out, e, indexed);
    case PROTO_EV_DONE:
        return jsonl_done(out, e, said, indexed);
    case PROTO_EV_ERROR:
        return jsonl_error_event(out, e, indexed);
    default:
        return 0;
    }
}
