/* SPDX-License-Identifier: MIT */
#include "libcommon/proto-writer.h"
#include <assert.h>

/* Elements of the lists of a request. */
enum {
    ELEMS_MESSAGE = 5,      /* a map, two keys, two values */
    ELEMS_MESSAGE_MORE = 8, /* the keys that few messages have, and their values */
    ELEMS_CALL = 7,         /* a map, three keys, three values */
    ELEMS_MEDIA = 10,       /* two maps, each with two keys and two values: a text and a medium behind it */
    ELEMS_PARTS = 6,        /* a list, and the text behind the last medium */
    ELEMS_BIAS = 3          /* a list, a token, a number */
};

static void put_calls(struct writer *w, const struct proto_message *message)
{
    writer_key(w, "tool_calls");
    msgpack_pack_array(&w->pk, message->n_calls);
    for (size_t i = 0; i < message->n_calls; i++) {
        const struct proto_call *call = &message->calls[i];
        const struct open_map m = writer_map_begin(w);

        if (call->id.len) writer_text(w, "id", &call->id);
        writer_text(w, "name", &call->name);
        writer_text(w, "arguments", &call->arguments);
        writer_map_end(w, m);
    }
}

static void put_text_part(struct writer *w, const char *s, size_t n)
{
    const struct open_map m = writer_map_begin(w);
    writer_cstring(w, "type", "text");
    writer_key(w, "text");
    writer_string(w, s, n);
    writer_map_end(w, m);
}

static void put_media_part(struct writer *w, const struct proto_media *media)
{
    const size_t n = blob_size(media->file);
    const struct open_map m = writer_map_begin(w);
    writer_cstring(w, "type", proto_media_name(media->kind));
    if (w->fds && proto_file_is_large(n) && w->n_fds < w->fds->n) {
        writer_u64(w, "fd", w->n_fds++);
    } else {
        writer_key(w, "data");
        msgpack_pack_bin(&w->pk, n);
        if (n) msgpack_pack_bin_body(&w->pk, blob_data(media->file), n);
    }
    writer_map_end(w, m);
}

/* A text, or a list of texts and media. */
static void put_content(struct writer *w, const struct proto_message *message)
{
    const struct proto_text *text = &message->content;
    size_t parts = message->n_media, at = 0;
    if (!parts) {
        writer_text(w, "content", text);
        return;
    }
    for (size_t i = 0; i < message->n_media; i++) {
        parts += message->media[i].at > at;
        at = message->media[i].at;
    }
    parts += text->len > at;
    writer_key(w, "content");
    msgpack_pack_array(&w->pk, parts);
    at = 0;
    for (size_t i = 0; i < message->n_media; i++) {
        const struct proto_media *m = &message->media[i];

        if (m->at > at) put_text_part(w, text->data + at, m->at - at);
        put_media_part(w, m);
        at = m->at;
    }
    if (text->len > at) put_text_part(w, text->data + at, text->len - at);
}

static void put_messages(struct writer *w, const struct proto_message *messages, size_t n)
{
    writer_key(w, "messages");
    msgpack_pack_array(&w->pk, n);
    for (size_t i = 0; i < n; i++) {
        const struct open_map m = writer_map_begin(w);

        writer_text(w, "role", &messages[i].role);
        put_content(w, &messages[i]);
        if (messages[i].thinking.len) writer_text(w, "thinking", &messages[i].thinking);
        if (messages[i].n_calls) put_calls(w, &messages[i]);
        if (messages[i].call_id.len) writer_text(w, "tool_call_id", &messages[i].call_id);
        if (messages[i].name.len) writer_text(w, "name", &messages[i].name);
        writer_map_end(w, m);
    }
}

static void put_biases(struct writer *w, const struct proto_bias *biases, size_t n)
{
    writer_key(w, "logit_bias");
    msgpack_pack_array(&w->pk, n);
    for (size_t i = 0; i < n; i++) {
        msgpack_pack_array(&w->pk, 2);
        if (biases[i].text.len)
            writer_string(w, biases[i].text.data, biases[i].text.len);
        else
            msgpack_pack_int64(&w->pk, biases[i].id);
        msgpack_pack_float(&w->pk, biases[i].bias);
    }
}

static void put_constraint(struct writer *w, const struct proto_constraint *c)
{
    writer_key(w, "constraint");
    const struct open_map m = writer_map_begin(w);
    writer_cstring(w, "type", proto_constraint_name(c->type));
    if (c->type != PROTO_CONSTRAINT_CHOICE) {
        writer_text(w, "text", &c->text);
    } else {
        writer_key(w, "choices");
        msgpack_pack_array(&w->pk, c->n_choices);
        for (size_t i = 0; i < c->n_choices; i++) writer_string(w, c->choices[i].data, c->choices[i].len);
    }
    writer_map_end(w, m);
    if (c->on_limit) writer_cstring(w, "on_limit", proto_on_limit_name(c->on_limit));
    writer_true(w, "schema_lenient", c->schema_lenient);
    writer_true(w, "any_order", c->any_order);
    writer_true(w, "compact", c->compact);
}

static void put_tools(struct writer *w, const struct proto_tools *t)
{
    if (t->list.len) writer_text(w, "tools", &t->list);
    if (t->choice) writer_cstring(w, "tool_choice", proto_tool_choice_name(t->choice));
    if (t->name.len) writer_text(w, "tool_name", &t->name);
}

static void put_thinking(struct writer *w, const struct proto_thinking *t)
{
    if (t->mode) writer_cstring(w, "thinking", proto_thinking_name(t->mode));
    if (t->limited) writer_i64_given(w, "think_budget", t->budget);
}

static void put_sampling(struct writer *w, const struct proto_sampling *s)
{
    writer_float_given(w, "temperature", s->temperature);
    writer_float_given(w, "top_p", s->top_p);
    writer_float_given(w, "min_p", s->min_p);
    writer_i64_given(w, "top_k", s->top_k);
    writer_float_given(w, "repeat_penalty", s->repeat_penalty);
    writer_i64_given(w, "seed", s->seed);
    writer_float_given(w, "typical_p", s->typical_p);
    writer_float_given(w, "frequency_penalty", s->frequency_penalty);
    writer_float_given(w, "presence_penalty", s->presence_penalty);
    writer_i64_given(w, "repeat_last_n", s->repeat_last_n);
    writer_float_given(w, "mirostat", s->mirostat);
    writer_float_given(w, "mirostat_eta", s->mirostat_eta);
}

static void put_generate(struct writer *w, const struct proto_generate *g, bool infill)
{
    if (*g->uuid) writer_cstring(w, "uuid", g->uuid);
    if (infill) {
        writer_text(w, "prefix", &g->infill.prefix);
        writer_text(w, "suffix", &g->infill.suffix);
        writer_i64_given(w, "max_lines", g->infill.max_lines);
    } else if (g->raw)
        writer_text(w, "prompt", &g->prompt);
    else
        put_messages(w, g->messages, g->n_messages);
    writer_true(w, "raw", g->raw);
    writer_true(w, "special", g->special);
    if (g->session.len) writer_text(w, "session", &g->session);
    writer_true(w, "continue", g->continue_last);
    if (g->fork.len) writer_text(w, "fork", &g->fork);
    writer_true(w, "wait", g->wait);
    if (g->context != PROTO_CONTEXT_UNSET) writer_cstring(w, "context", proto_context_name(g->context));
    if (g->priority != PROTO_PRIORITY_UNSET) writer_cstring(w, "priority", proto_priority_name(g->priority));
    if (g->salt.len) writer_text(w, "salt", &g->salt);
    writer_i64_given(w, "max_tokens", g->max_tokens);
    if (g->n > 1) writer_u64(w, "n", g->n);
    writer_true(w, "detach", g->detach);
    writer_true(w, "ignore_eos", g->ignore_eos);
    writer_true(w, "logprobs", g->logprobs);
    writer_i64_given(w, "top_logprobs", g->top_logprobs);
    put_sampling(w, &g->sampling);
    if (g->n_biases) put_biases(w, g->biases, g->n_biases);
    if (g->n_stop) {
        writer_key(w, "stop");
        msgpack_pack_array(&w->pk, g->n_stop);
        for (size_t i = 0; i < g->n_stop; i++) writer_string(w, g->stop[i].data, g->stop[i].len);
    }
    writer_i64_given(w, "timeout_ms", g->timeout_ms);
}

static void put_ids(struct writer *w, const struct proto_request *r)
{
    writer_key(w, "ids");
    msgpack_pack_array(&w->pk, r->n_ids);
    for (size_t i = 0; i < r->n_ids; i++) msgpack_pack_int32(&w->pk, r->ids[i]);
    writer_true(w, "special", r->special);
}

static void put_request(struct writer *w, const struct proto_request *r)
{
    static const char *const names[] = {
        [PROTO_HELLO] = "hello",
        [PROTO_GENERATE] = "generate",
        [PROTO_CANCEL] = "cancel",
        [PROTO_TOKENIZE] = "tokenize",
        [PROTO_DETOKENIZE] = "detokenize",
        [PROTO_STATUS] = "status",
        [PROTO_STOP] = "stop",
        [PROTO_WARM] = "warm",
        [PROTO_INFILL] = "infill",
        [PROTO_SESSION_LIST] = "session.list",
        [PROTO_SESSION_SHOW] = "session.show",
        [PROTO_SESSION_FORK] = "session.fork",
        [PROTO_SESSION_RENAME] = "session.rename",
        [PROTO_SESSION_REMOVE] = "session.remove",
        [PROTO_EMBED] = "embed",
        [PROTO_RANK] = "rank",
    };
    static const char *const features[] = {NULL};
    const struct open_map m = writer_map_begin(w);

    assert(r->type >= PROTO_HELLO && r->type <= PROTO_RANK);
    writer_cstring(w, "type", names[r->type]);
    if (r->type != PROTO_HELLO) writer_u64(w, "id", r->id);
    if (r->type == PROTO_HELLO) writer_hello(w, r->version, "hob " HOB_VERSION, features);
    if (r->user.len) writer_text(w, "user", &r->user);
    if (w->fds && w->fds->n) writer_u64(w, "fds", w->fds->n);
    if (r->type == PROTO_GENERATE || r->type == PROTO_WARM || r->type == PROTO_INFILL)
        put_generate(w, &r->gen, r->type == PROTO_INFILL);
    if (r->constraint.type) put_constraint(w, &r->constraint);
    put_tools(w, &r->tools);
    put_thinking(w, &r->thinking);
    if (r->speculate) writer_cstring(w, "speculate", proto_speculate_name(r->speculate));
    if (r->adapter.len) writer_text(w, "adapter", &r->adapter);
    if (r->note.len) writer_text(w, "note", &r->note);
    if (r->type == PROTO_TOKENIZE) {
        writer_text(w, "text", &r->text);
        writer_true(w, "special", r->special);
    }
    if (r->type == PROTO_DETOKENIZE) put_ids(w, r);
    if (r->type > PROTO_SESSION_LIST && r->type <= PROTO_SESSION_REMOVE) writer_text(w, "name", &r->name);
    if (r->type == PROTO_SESSION_LIST && r->after.len) writer_text(w, "after", &r->after);
    if (r->type == PROTO_SESSION_LIST && r->limit) writer_u64(w, "limit", r->limit);
    if (r->type == PROTO_SESSION_FORK || r->type == PROTO_SESSION_RENAME) writer_text(w, "to", &r->to);
    if (r->type == PROTO_EMBED || r->type == PROTO_RANK) writer_embed(w, r);
    writer_map_end(w, m);
}

/* At least as many elements as the @n messages have. */
static size_t count_messages(const struct proto_message *messages, size_t n)
{
    size_t elems = 0;
    for (size_t i = 0; i < n; i++) {
        const struct proto_message *m = &messages[i];
        bool more = m->thinking.len || m->n_calls || m->call_id.len || m->name.len;

        elems += ELEMS_MESSAGE + (more ? ELEMS_MESSAGE_MORE : 0);
        elems += m->n_calls * ELEMS_CALL + m->n_media * ELEMS_MEDIA;
        if (m->n_media) elems += ELEMS_PARTS;
    }
    return elems;
}

static int write_request(struct buf *out, const struct proto_fds *fds, const struct proto_request *r)
{
    const struct proto_generate *g = &r->gen;
    struct writer w;
    writer_init(&w, out,
                WRITER_ELEMS_FIXED + count_messages(g->messages, g->n_messages) + g->n_biases * ELEMS_BIAS +
                    r->constraint.n_choices + r->n_ids + r->embed.n_texts);
    w.fds = fds;
    put_request(&w, r);
    return writer_finish(&w);
}

int proto_write_request(struct buf *out, const struct proto_request *r)
{
    return write_request(out, NULL, r);
}

int proto_write_request_fds(struct buf *out, struct proto_fds *f, const struct proto_request *r)
{
    proto_fds_of(f, r);
    int e = write_request(out, f, r);
    if (e < 0) proto_fds_fini(f);
    return e;
}
