/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include "libcommon/utf8.h"
#include <assert.h>
#include <math.h>
#include <msgpack.h>
#include <string.h>

/* Used for requests and events: a packer into @out that remembers a failure, and maps that count their keys. */
struct writer {
    msgpack_packer pk;
    struct buf *out;
    size_t start; /* of the frame in @out */
    size_t keys;  /* of the map that is open */
    int error;    /* the first one: nothing is written after it */
};

enum {
    HEADER = 4,
    ELEMS_FIXED = 128, /* more than the elements that every message has, without the lists below */
    ELEMS_MESSAGE = 5, /* a map, two keys, two values */
    ELEMS_BIAS = 3     /* a list, a token, a number */
};

struct open_map {
    size_t at, outer_keys;
};

static int write_bytes(void *ctx, const char *p, size_t n)
{
    struct writer *w = ctx;
    if (w->error == 0 && n > HEADER + FRAME_MAX - (w->out->len - w->start))
        w->error = error_say(-EMSGSIZE, "the message is over the limit of %u bytes", FRAME_MAX);
    if (w->error == 0) w->error = buf_append(w->out, p, n);
    return w->error;
}

/* @elems: at least as many as the message will have. */
static void writer_init(struct writer *w, struct buf *out, size_t elems)
{
    *w = (struct writer){.out = out, .start = out->len};
    msgpack_packer_init(&w->pk, w, write_bytes);
    if (elems > PROTO_ELEMS_MAX)
        w->error = error_say(-EMSGSIZE, "the message has more elements than the limit of %u", PROTO_ELEMS_MAX);
    write_bytes(w, "\0\0\0\0", HEADER);
}

/* The length in front, or @out as it was. */
static int writer_finish(struct writer *w)
{
    struct buf *out = w->out;
    if (w->error == 0) {
        frame_header((unsigned char *)out->data + w->start, (uint32_t)(out->len - w->start - HEADER));
        return 0;
    }
    out->len = w->start;
    if (out->data) out->data[out->len] = 0;
    return w->error;
}

/* The count is known only at the end. One byte is reserved for it; if it needs two more, they are inserted then. */
static struct open_map map_begin(struct writer *w)
{
    const struct open_map m = {w->out->len, w->keys};
    write_bytes(w, "\x80", 1);
    w->keys = 0;
    return m;
}

static void map_end(struct writer *w, struct open_map m)
{
    size_t n = w->keys;
    assert(n < 1u << 16);
    if (n > 15) write_bytes(w, "\0\0", 2);
    if (w->error < 0) return;
    if (n > 15) {
        char *p = w->out->data + m.at;

        memmove(p + 3, p + 1, w->out->len - m.at - 3);
        p[0] = (char)0xde;
        p[1] = (char)(n >> 8);
        p[2] = (char)n;
    } else {
        w->out->data[m.at] = (char)(0x80 | n);
    }
    w->keys = m.outer_keys;
}

static void put_string(struct writer *w, const char *s, size_t n)
{
    msgpack_pack_str(&w->pk, n); /* more than its 32 bits is more than a frame holds */
    if (n) msgpack_pack_str_body(&w->pk, s, n);
}

static void key(struct writer *w, const char *name)
{
    put_string(w, name, strlen(name));
    w->keys++;
}

static void put_text(struct writer *w, const char *name, const struct proto_text *t)
{
    key(w, name);
    put_string(w, t->data, t->len);
}

/* A promise of events: their strings are UTF-8, also when they quote a file's name. */
static void put_clean(struct writer *w, const char *name, const struct proto_text *t)
{
    struct buf clean = BUF_INIT;
    size_t at = utf8_check(t->data, t->len), from = 0;
    if (at == t->len) {
        put_text(w, name, t);
        return;
    }
    for (; at < t->len && w->error == 0; at = from + utf8_check(t->data + from, t->len - from)) {
        w->error = buf_append(&clean, t->data + from, at - from);
        if (w->error == 0) w->error = buf_puts(&clean, "\xef\xbf\xbd");
        from = at + 1;
    }
    if (w->error == 0) w->error = buf_append(&clean, t->data + from, t->len - from);
    key(w, name);
    put_string(w, clean.data, clean.len);
    buf_fini(&clean);
}

static void put_cstring(struct writer *w, const char *name, const char *s)
{
    key(w, name);
    put_string(w, s, strlen(s));
}

static void put_u64(struct writer *w, const char *name, uint64_t v)
{
    key(w, name);
    msgpack_pack_uint64(&w->pk, v);
}

static void put_double(struct writer *w, const char *name, double v)
{
    key(w, name);
    msgpack_pack_double(&w->pk, v);
}

static void put_true(struct writer *w, const char *name, bool v)
{
    if (!v) return;
    key(w, name);
    msgpack_pack_true(&w->pk);
}

/* Values that may not be given: a NAN, a negative number. */
static void put_float_given(struct writer *w, const char *name, float v)
{
    if (isnan(v)) return;
    key(w, name);
    msgpack_pack_float(&w->pk, v);
}

static void put_i64_given(struct writer *w, const char *name, int64_t v)
{
    if (v >= 0) put_u64(w, name, (uint64_t)v);
}

static void put_messages(struct writer *w, const struct proto_message *messages, size_t n)
{
    key(w, "messages");
    msgpack_pack_array(&w->pk, n);
    for (size_t i = 0; i < n; i++) {
        const struct open_map m = map_begin(w);

        put_text(w, "role", &messages[i].role);
        put_text(w, "content", &messages[i].content);
        map_end(w, m);
    }
}

static void put_biases(struct writer *w, const struct proto_bias *biases, size_t n)
{
    key(w, "logit_bias");
    msgpack_pack_array(&w->pk, n);
    for (size_t i = 0; i < n; i++) {
        msgpack_pack_array(&w->pk, 2);
        if (biases[i].text.len)
            put_string(w, biases[i].text.data, biases[i].text.len);
        else
            msgpack_pack_int64(&w->pk, biases[i].id);
        msgpack_pack_float(&w->pk, biases[i].bias);
    }
}

static void put_constraint(struct writer *w, const struct proto_constraint *c)
{
    key(w, "constraint");
    const struct open_map m = map_begin(w);
    put_cstring(w, "type", proto_constraint_name(c->type));
    if (c->type != PROTO_CONSTRAINT_CHOICE) {
        put_text(w, "text", &c->text);
    } else {
        key(w, "choices");
        msgpack_pack_array(&w->pk, c->n_choices);
        for (size_t i = 0; i < c->n_choices; i++) put_string(w, c->choices[i].data, c->choices[i].len);
    }
    map_end(w, m);
    if (c->on_limit) put_cstring(w, "on_limit", proto_on_limit_name(c->on_limit));
}

static void put_sampling(struct writer *w, const struct proto_sampling *s)
{
    put_float_given(w, "temperature", s->temperature);
    put_float_given(w, "top_p", s->top_p);
    put_float_given(w, "min_p", s->min_p);
    put_i64_given(w, "top_k", s->top_k);
    put_float_given(w, "repeat_penalty", s->repeat_penalty);
    put_i64_given(w, "seed", s->seed);
    put_float_given(w, "typical_p", s->typical_p);
    put_float_given(w, "frequency_penalty", s->frequency_penalty);
    put_float_given(w, "presence_penalty", s->presence_penalty);
    put_i64_given(w, "repeat_last_n", s->repeat_last_n);
    put_float_given(w, "mirostat", s->mirostat);
    put_float_given(w, "mirostat_eta", s->mirostat_eta);
}

static void put_generate(struct writer *w, const struct proto_generate *g, bool infill)
{
    if (*g->uuid) put_cstring(w, "uuid", g->uuid);
    if (infill) {
        put_text(w, "prefix", &g->infill.prefix);
        put_text(w, "suffix", &g->infill.suffix);
        put_i64_given(w, "max_lines", g->infill.max_lines);
    } else if (g->raw)
        put_text(w, "prompt", &g->prompt);
    else
        put_messages(w, g->messages, g->n_messages);
    put_true(w, "raw", g->raw);
    put_true(w, "special", g->special);
    if (g->session.len) put_text(w, "session", &g->session);
    put_true(w, "continue", g->continue_last);
    if (g->fork.len) put_text(w, "fork", &g->fork);
    put_true(w, "wait", g->wait);
    if (g->context != PROTO_CONTEXT_UNSET) put_cstring(w, "context", proto_context_name(g->context));
    if (g->priority != PROTO_PRIORITY_UNSET) put_cstring(w, "priority", proto_priority_name(g->priority));
    if (g->salt.len) put_text(w, "salt", &g->salt);
    put_i64_given(w, "max_tokens", g->max_tokens);
    if (g->n > 1) put_u64(w, "n", g->n);
    put_true(w, "detach", g->detach);
    put_true(w, "ignore_eos", g->ignore_eos);
    put_true(w, "logprobs", g->logprobs);
    put_sampling(w, &g->sampling);
    if (g->n_biases) put_biases(w, g->biases, g->n_biases);
    if (g->n_stop) {
        key(w, "stop");
        msgpack_pack_array(&w->pk, g->n_stop);
        for (size_t i = 0; i < g->n_stop; i++) put_string(w, g->stop[i].data, g->stop[i].len);
    }
    put_i64_given(w, "timeout_ms", g->timeout_ms);
}

static void put_hello(struct writer *w, uint32_t version, const char *software, const char *const *features)
{
    size_t n = 0;
    while (features[n]) n++;
    put_u64(w, "version", version ? version : PROTO_VERSION);
    key(w, "features");
    msgpack_pack_array(&w->pk, n);
    for (size_t i = 0; i < n; i++) put_string(w, features[i], strlen(features[i]));
    put_cstring(w, "software", software);
}

static void put_request(struct writer *w, const struct proto_request *r)
{
    static const char *const names[] = {
        [PROTO_HELLO] = "hello",
        [PROTO_GENERATE] = "generate",
        [PROTO_CANCEL] = "cancel",
        [PROTO_TOKENIZE] = "tokenize",
        [PROTO_STATUS] = "status",
        [PROTO_STOP] = "stop",
        [PROTO_WARM] = "warm",
        [PROTO_INFILL] = "infill",
        [PROTO_SESSION_LIST] = "session.list",
        [PROTO_SESSION_SHOW] = "session.show",
        [PROTO_SESSION_FORK] = "session.fork",
        [PROTO_SESSION_RENAME] = "session.rename",
        [PROTO_SESSION_REMOVE] = "session.remove",
    };
    static const char *const features[] = {NULL};
    const struct open_map m = map_begin(w);

    assert(r->type >= PROTO_HELLO && r->type <= PROTO_SESSION_REMOVE);
    put_cstring(w, "type", names[r->type]);
    if (r->type != PROTO_HELLO) put_u64(w, "id", r->id);
    if (r->type == PROTO_HELLO) put_hello(w, r->version, "hob " HOB_VERSION, features);
    if (r->type == PROTO_GENERATE || r->type == PROTO_WARM || r->type == PROTO_INFILL)
        put_generate(w, &r->gen, r->type == PROTO_INFILL);
    if (r->constraint.type) put_constraint(w, &r->constraint);
    if (r->type == PROTO_TOKENIZE) {
        put_text(w, "text", &r->text);
        put_true(w, "special", r->special);
    }
    if (r->type > PROTO_SESSION_LIST) put_text(w, "name", &r->name);
    if (r->type == PROTO_SESSION_LIST && r->after.len) put_text(w, "after", &r->after);
    if (r->type == PROTO_SESSION_LIST && r->limit) put_u64(w, "limit", r->limit);
    if (r->type == PROTO_SESSION_FORK || r->type == PROTO_SESSION_RENAME) put_text(w, "to", &r->to);
    map_end(w, m);
}

static void put_ids(struct writer *w, const struct proto_event *e)
{
    key(w, "ids");
    msgpack_pack_array(&w->pk, e->n_ids);
    for (size_t i = 0; i < e->n_ids; i++) msgpack_pack_int32(&w->pk, e->ids[i]);
}

static void put_text_event(struct writer *w, const struct proto_event *e)
{
    put_u64(w, "index", e->index);
    put_cstring(w, "channel", e->channel ? e->channel : "answer");
    put_clean(w, "text", &e->text);
    if (e->ids) put_ids(w, e);
    if (!e->logprobs) return;
    key(w, "logprobs");
    msgpack_pack_array(&w->pk, e->n_ids);
    for (size_t i = 0; i < e->n_ids; i++) msgpack_pack_float(&w->pk, e->logprobs[i]);
}

static void put_energy(struct writer *w, const struct proto_energy *e)
{
    key(w, "energy");
    struct open_map m = map_begin(w);
    put_double(w, "prompt_j", e->prompt_j);
    put_double(w, "token_j", e->token_j);
    put_double(w, "saved_j", e->saved_j);
    map_end(w, m);
}

static void put_done(struct writer *w, const struct proto_event *e)
{
    put_u64(w, "index", e->index);
    put_true(w, "more", e->more);
    put_cstring(w, "reason", proto_reason_name(e->reason));
    key(w, "usage");
    struct open_map m = map_begin(w);
    put_u64(w, "prompt", e->usage_prompt);
    put_u64(w, "cached", e->usage_cached);
    put_u64(w, "completion", e->usage_completion);
    map_end(w, m);
    key(w, "timings");
    m = map_begin(w);
    put_double(w, "queue_ms", e->queue_ms);
    put_double(w, "prefill_ms", e->prefill_ms);
    put_double(w, "decode_ms", e->decode_ms);
    put_double(w, "ttft_ms", e->ttft_ms);
    map_end(w, m);
    if (e->energy.known) put_energy(w, &e->energy);
    if (e->session.len) put_clean(w, "session", &e->session);
    put_i64_given(w, "miss_at", e->miss_at);
    if (e->cut.shifted) put_u64(w, "shifted", e->cut.shifted);
    if (e->cut.prefix) put_u64(w, "cut_prefix", e->cut.prefix);
    if (e->cut.suffix) put_u64(w, "cut_suffix", e->cut.suffix);
    put_i64_given(w, "seed", e->seed);
}

static const char *const event_names[] = {
    [PROTO_EV_HELLO] = "hello",       [PROTO_EV_QUEUED] = "queued", [PROTO_EV_PREFILL] = "prefill",
    [PROTO_EV_TEXT] = "text",         [PROTO_EV_DONE] = "done",     [PROTO_EV_ERROR] = "error",
    [PROTO_EV_TOKENS] = "tokens",     [PROTO_EV_STATUS] = "status", [PROTO_EV_STOPPING] = "stopping",
    [PROTO_EV_SESSIONS] = "sessions", [PROTO_EV_OK] = "ok",
};

static void put_event(struct writer *w, const struct proto_event *e)
{
    static const char *const features[] = {"generate", "cancel",   "tokenize",   "status",  "stop",
                                           "sessions", "logprobs", "warm",       "context", "infill",
                                           "answers",  "detach",   "constraint", NULL};
    const struct open_map m = map_begin(w);

    assert(e->type >= PROTO_EV_HELLO && e->type <= PROTO_EV_OK);
    put_cstring(w, "event", event_names[e->type]);
    if (e->type != PROTO_EV_HELLO) put_u64(w, "id", e->id);
    switch (e->type) {
    case PROTO_EV_HELLO:
        put_hello(w, e->version, "hobd " HOB_VERSION, features);
        break;
    case PROTO_EV_QUEUED:
        put_u64(w, "position", e->position);
        break;
    case PROTO_EV_PREFILL:
        put_u64(w, "done", e->done);
        put_u64(w, "total", e->total);
        put_u64(w, "cached", e->cached);
        break;
    case PROTO_EV_TEXT:
        put_text_event(w, e);
        break;
    case PROTO_EV_DONE:
        put_done(w, e);
        break;
    case PROTO_EV_ERROR:
        if (e->index) put_u64(w, "index", e->index);
        put_true(w, "more", e->more);
        put_cstring(w, "code", proto_errno_name(e->code));
        put_clean(w, "message", &e->message);
        break;
    case PROTO_EV_TOKENS:
        put_ids(w, e);
        break;
    case PROTO_EV_STATUS:
        put_clean(w, "status", &e->status);
        break;
    case PROTO_EV_SESSIONS:
        put_clean(w, "sessions", &e->sessions);
        if (e->next.len) put_clean(w, "next", &e->next);
        break;
    case PROTO_EV_STOPPING:
    case PROTO_EV_OK:
    case PROTO_EV_UNKNOWN:
        break;
    }
    map_end(w, m);
}

int proto_write_request(struct buf *out, const struct proto_request *r)
{
    const bool prompt = r->type == PROTO_GENERATE || r->type == PROTO_WARM || r->type == PROTO_INFILL;
    const struct proto_generate *g = &r->gen;
    const size_t n = prompt ? g->n_messages : 0, biases = prompt ? g->n_biases : 0;
    const size_t choices = prompt ? r->constraint.n_choices : 0;
    const bool many = n >= PROTO_ELEMS_MAX || biases >= PROTO_ELEMS_MAX || choices >= PROTO_ELEMS_MAX;
    struct writer w;
    writer_init(&w, out, many ? SIZE_MAX : ELEMS_FIXED + n * ELEMS_MESSAGE + biases * ELEMS_BIAS + choices);
    put_request(&w, r);
    return writer_finish(&w);
}

int proto_write_event(struct buf *out, const struct proto_event *e)
{
    const size_t n = e->n_ids;
    struct writer w;
    writer_init(&w, out, n < PROTO_ELEMS_MAX ? ELEMS_FIXED + 2 * n : SIZE_MAX);
    put_event(&w, e);
    return writer_finish(&w);
}
