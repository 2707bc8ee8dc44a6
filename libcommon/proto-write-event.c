/* SPDX-License-Identifier: MIT */
#include "libcommon/proto-writer.h"
#include <assert.h>

static void put_ids(struct writer *w, const struct proto_event *e)
{
    writer_key(w, "ids");
    msgpack_pack_array(&w->pk, e->tokens.n);
    for (size_t i = 0; i < e->tokens.n; i++) msgpack_pack_int32(&w->pk, e->tokens.ids[i]);
}

/* Each token is a list: id, logprob, bytes. */
static void put_top(struct writer *w, const struct proto_event *e)
{
    writer_key(w, "top");
    msgpack_pack_array(&w->pk, e->tokens.n_top);
    for (size_t i = 0; i < e->tokens.n_top; i++) {
        const struct proto_token *t = &e->tokens.top[i];
        msgpack_pack_array(&w->pk, 3);
        msgpack_pack_int32(&w->pk, t->id);
        msgpack_pack_float(&w->pk, t->logprob);
        msgpack_pack_bin(&w->pk, t->text.len);
        msgpack_pack_bin_body(&w->pk, t->text.data ? t->text.data : "", t->text.len);
    }
}

static void put_text_event(struct writer *w, const struct proto_event *e)
{
    writer_u64(w, "index", e->index);
    writer_cstring(w, "channel", e->channel ? e->channel : "answer");
    writer_clean(w, "text", &e->text);
    if (e->tokens.ids) put_ids(w, e);
    if (e->tokens.n_top) put_top(w, e);
    if (!e->tokens.logprobs) return;
    writer_key(w, "logprobs");
    msgpack_pack_array(&w->pk, e->tokens.n);
    for (size_t i = 0; i < e->tokens.n; i++) msgpack_pack_float(&w->pk, e->tokens.logprobs[i]);
}

static void put_call(struct writer *w, const struct proto_event *e)
{
    const struct proto_call *call = &e->part.call;
    writer_u64(w, "index", e->index);
    writer_u64(w, "call", e->part.number);
    if (call->id.len) writer_clean(w, "call_id", &call->id);
    if (call->name.len) writer_clean(w, "name", &call->name);
    writer_clean(w, "arguments", &call->arguments);
    writer_true(w, "withdrawn", e->part.withdrawn);
}

static void put_energy(struct writer *w, const struct proto_energy *e)
{
    writer_key(w, "energy");
    struct open_map m = writer_map_begin(w);
    writer_double(w, "prompt_j", e->prompt_j);
    writer_double(w, "token_j", e->token_j);
    writer_double(w, "saved_j", e->saved_j);
    writer_map_end(w, m);
}

static void put_media(struct writer *w, const struct proto_event *e)
{
    writer_key(w, "media");
    msgpack_pack_array(&w->pk, e->n_media);
    for (size_t i = 0; i < e->n_media; i++) {
        const struct proto_media_usage *u = &e->media[i];
        const struct open_map m = writer_map_begin(w);
        writer_cstring(w, "kind", proto_media_name(u->kind));
        writer_u64(w, "tokens", u->tokens);
        writer_true(w, "cached", u->cached);
        if (!u->cached) writer_double(w, "encode_ms", u->encode_ms);
        writer_map_end(w, m);
    }
}

static void put_usage(struct writer *w, const struct proto_event *e)
{
    const size_t encoded = proto_media_encoded(e);
    writer_key(w, "usage");
    const struct open_map m = writer_map_begin(w);
    writer_u64(w, "prompt", e->usage_prompt);
    writer_u64(w, "cached", e->usage_cached);
    writer_u64(w, "completion", e->usage_completion);
    if (e->usage_thinking) writer_u64(w, "thinking", e->usage_thinking);
    if (e->usage_drafted) writer_u64(w, "drafted", e->usage_drafted);
    if (e->usage_drafted) writer_u64(w, "accepted", e->usage_accepted);
    if (e->usage_drafted_model) writer_u64(w, "drafted_model", e->usage_drafted_model);
    if (e->n_media) writer_u64(w, "media_encoded", encoded);
    if (e->n_media) writer_u64(w, "media_cached", e->n_media - encoded);
    writer_map_end(w, m);
}

static void put_done(struct writer *w, const struct proto_event *e)
{
    writer_u64(w, "index", e->index);
    writer_true(w, "more", e->more);
    writer_cstring(w, "reason", proto_reason_name(e->reason));
    put_usage(w, e);
    writer_key(w, "timings");
    const struct open_map m = writer_map_begin(w);
    writer_double(w, "queue_ms", e->queue_ms);
    writer_double(w, "prefill_ms", e->prefill_ms);
    writer_double(w, "decode_ms", e->decode_ms);
    writer_double(w, "ttft_ms", e->ttft_ms);
    writer_map_end(w, m);
    if (e->energy.known) put_energy(w, &e->energy);
    if (e->n_media) put_media(w, e);
    if (e->session.len) writer_clean(w, "session", &e->session);
    writer_i64_given(w, "miss_at", e->miss_at);
    if (e->cut.shifted) writer_u64(w, "shifted", e->cut.shifted);
    if (e->cut.prefix) writer_u64(w, "cut_prefix", e->cut.prefix);
    if (e->cut.suffix) writer_u64(w, "cut_suffix", e->cut.suffix);
    writer_i64_given(w, "seed", e->seed);
}

static const char *const event_names[] = {
    [PROTO_EV_HELLO] = "hello",
    [PROTO_EV_QUEUED] = "queued",
    [PROTO_EV_PREFILL] = "prefill",
    [PROTO_EV_TEXT] = "text",
    [PROTO_EV_DONE] = "done",
    [PROTO_EV_ERROR] = "error",
    [PROTO_EV_TOKENS] = "tokens",
    [PROTO_EV_STATUS] = "status",
    [PROTO_EV_STOPPING] = "stopping",
    [PROTO_EV_SESSIONS] = "sessions",
    [PROTO_EV_OK] = "ok",
    [PROTO_EV_TOOL_CALL] = "tool_call",
    [PROTO_EV_WARNING] = "warning",
    [PROTO_EV_DETOKENIZED] = "detokenized",
    [PROTO_EV_EMBEDDINGS] = "embeddings",
    [PROTO_EV_SCORES] = "scores",
};

static void put_hello(struct writer *w, const struct proto_event *e)
{
    static const char *const features[] = {
        "generate", "cancel", "tokenize",   "status",   "stop",  "sessions", "logprobs",   "warm",  "context", "infill",
        "answers",  "detach", "constraint", "thinking", "tools", "users",    "detokenize", "media", "embed",   NULL};
    writer_hello(w, e->version, "hobd " HOB_VERSION, features);
}

static void put_event(struct writer *w, const struct proto_event *e)
{
    const struct open_map m = writer_map_begin(w);
    assert(e->type >= PROTO_EV_HELLO && e->type <= PROTO_EV_SCORES);
    writer_cstring(w, "event", event_names[e->type]);
    if (e->type != PROTO_EV_HELLO) writer_u64(w, "id", e->id);
    switch (e->type) {
    case PROTO_EV_HELLO:
        put_hello(w, e);
        break;
    case PROTO_EV_QUEUED:
        writer_u64(w, "position", e->position);
        break;
    case PROTO_EV_PREFILL:
        writer_u64(w, "done", e->done);
        writer_u64(w, "total", e->total);
        writer_u64(w, "cached", e->cached);
        break;
    case PROTO_EV_TEXT:
        put_text_event(w, e);
        break;
    case PROTO_EV_TOOL_CALL:
        put_call(w, e);
        break;
    case PROTO_EV_WARNING:
        if (e->index) writer_u64(w, "index", e->index);
        writer_clean(w, "message", &e->message);
        break;
    case PROTO_EV_DONE:
        put_done(w, e);
        break;
    case PROTO_EV_ERROR:
        if (e->index) writer_u64(w, "index", e->index);
        writer_true(w, "more", e->more);
        writer_cstring(w, "code", proto_errno_name(e->code));
        writer_clean(w, "message", &e->message);
        break;
    case PROTO_EV_TOKENS:
        put_ids(w, e);
        break;
    case PROTO_EV_DETOKENIZED:
        writer_clean(w, "text", &e->text);
        break;
    case PROTO_EV_STATUS:
        writer_clean(w, "status", &e->status);
        break;
    case PROTO_EV_SESSIONS:
        writer_clean(w, "sessions", &e->sessions);
        if (e->next.len) writer_clean(w, "next", &e->next);
        break;
    case PROTO_EV_EMBEDDINGS:
    case PROTO_EV_SCORES:
        writer_vectors(w, e);
        break;
    case PROTO_EV_STOPPING:
    case PROTO_EV_OK:
    case PROTO_EV_UNKNOWN:
        break;
    }
    writer_map_end(w, m);
}

int proto_write_event(struct buf *out, const struct proto_event *e)
{
    struct writer w;
    writer_init(&w, out, WRITER_ELEMS_FIXED + 2 * e->tokens.n + 4 * e->tokens.n_top + 9 * e->n_media + e->vectors.n);
    put_event(&w, e);
    return writer_finish(&w);
}
