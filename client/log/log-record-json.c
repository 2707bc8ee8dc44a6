/* SPDX-License-Identifier: MIT */
/* An exchange as a JSON object. */
#include "client/json.h"
#include "client/log/log-record.h"
#include "client/options.h"
#include "libcommon/clock.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The members of the open object; after an error nothing is appended. */
struct writer {
    struct buf *out;
    int r;
    bool more; /* a comma comes before the next member */
};

static void put(struct writer *w, const char *text)
{
    if (w->r == 0) w->r = buf_puts(w->out, text);
}

static void put_key(struct writer *w, const char *key)
{
    put(w, w->more ? ",\"" : "\"");
    put(w, key);
    put(w, "\":");
    w->more = true;
}

static void begin(struct writer *w, const char *key, const char *open)
{
    put_key(w, key);
    put(w, open);
    w->more = false;
}

static void end(struct writer *w, const char *close)
{
    put(w, close);
    w->more = true;
}

/* An element of an array. */
static void begin_element(struct writer *w)
{
    put(w, w->more ? ",{" : "{");
    w->more = false;
}

static void put_text(struct writer *w, const char *key, const char *s, size_t len)
{
    if (!len) return;
    put_key(w, key);
    if (w->r == 0) w->r = json_put_string(w->out, s, len);
}

static void put_int(struct writer *w, const char *key, int64_t v)
{
    put_key(w, key);
    if (w->r == 0) w->r = buf_printf(w->out, "%" PRId64, v);
}

static void put_given(struct writer *w, const char *key, int64_t v)
{
    if (v >= 0) put_int(w, key, v);
}

static void put_float(struct writer *w, const char *key, float v)
{
    if (isnan(v)) return;
    put_key(w, key);
    if (w->r == 0) w->r = json_put_float(w->out, v);
}

static void put_ms(struct writer *w, const char *key, double v)
{
    put_key(w, key);
    if (w->r == 0) w->r = json_put_ms(w->out, v);
}

static void put_calls(struct writer *w, const struct proto_call *calls, size_t n)
{
    if (!n) return;
    begin(w, "tool_calls", "[");
    for (size_t i = 0; i < n; i++) {
        begin_element(w);
        put_text(w, "id", calls[i].id.data, calls[i].id.len);
        put_text(w, "name", calls[i].name.data, calls[i].name.len);
        put_text(w, "arguments", calls[i].arguments.data, calls[i].arguments.len);
        end(w, "}");
    }
    end(w, "]");
}

/* The calls of an answer that no program of hob's ran. */
static void put_own_calls(struct writer *w, const struct tool_calls *c)
{
    if (!c->n) return;
    begin(w, "tool_calls", "[");
    for (size_t i = 0; i < c->n; i++) {
        const struct tool_call *call = &c->calls[i];
        begin_element(w);
        put_text(w, "id", call->id.data, call->id.len);
        put_text(w, "name", call->name.data, call->name.len);
        put_text(w, "arguments", call->arguments.data, call->arguments.len);
        end(w, "}");
    }
    end(w, "]");
}

static void put_media(struct writer *w, const struct proto_message *m)
{
    if (!m->n_media) return;
    begin(w, "media", "[");
    for (size_t i = 0; i < m->n_media; i++) {
        const char *kind = proto_media_name(m->media[i].kind);
        begin_element(w);
        put_text(w, "kind", kind, strlen(kind));
        put_int(w, "bytes", (int64_t)blob_size(m->media[i].file));
        end(w, "}");
    }
    end(w, "]");
}

static void put_message(struct writer *w, const struct proto_message *m)
{
    begin_element(w);
    put_text(w, "role", m->role.data, m->role.len);
    put_text(w, "content", m->content.data, m->content.len);
    put_text(w, "thinking", m->thinking.data, m->thinking.len);
    put_calls(w, m->calls, m->n_calls);
    put_media(w, m);
    put_text(w, "tool_call_id", m->call_id.data, m->call_id.len);
    put_text(w, "name", m->name.data, m->name.len);
    end(w, "}");
}

static void put_array(struct writer *w, const char *key, const struct proto_message *messages, size_t n)
{
    if (!n) return;
    begin(w, key, "[");
    for (size_t i = 0; i < n; i++) put_message(w, &messages[i]);
    end(w, "]");
}

static bool has_role(const struct proto_message *m, const char *role)
{
    return m->role.len && strcmp(m->role.data, role) == 0;
}

/* The system message, the new prompt, and the messages between it and the last answer. */
static void put_messages(struct writer *w, const struct record *r, const struct proto_generate *g)
{
    size_t from = 0, to = g->n_messages;
    if (to && has_role(&g->messages[0], "system")) {
        put_text(w, "system", g->messages[0].content.data, g->messages[0].content.len);
        from = 1;
    }
    if (r->whole) put_array(w, "earlier", g->messages + from, r->old);
    from += r->old;
    if (from < to && has_role(&g->messages[to - 1], "assistant")) to--; /* the answer */
    if (from < to && has_role(&g->messages[from], "user")) {
        put_text(w, "prompt", g->messages[from].content.data, g->messages[from].content.len);
        put_media(w, &g->messages[from]);
        from++;
    }
    if (from < to) put_array(w, "steps", g->messages + from, to - from);
}

static void put_prompt(struct writer *w, const struct record *r, const struct proto_request *q)
{
    const struct proto_generate *g = &q->gen;
    if (q->type == PROTO_INFILL) {
        put_text(w, "prompt", g->infill.prefix.data, g->infill.prefix.len);
        put_text(w, "suffix", g->infill.suffix.data, g->infill.suffix.len);
    } else if (g->raw) {
        put_text(w, "prompt", g->prompt.data + r->old, g->prompt.len - r->old);
    } else {
        put_messages(w, r, g);
    }
}

static void put_answer(struct writer *w, const struct record_answer *a)
{
    put_text(w, "answer", a->text.data, a->text.len);
    put_text(w, "thinking", a->thinking.data, a->thinking.len);
    put_own_calls(w, &a->calls);
    if (a->ended) put_text(w, "reason", proto_reason_name(a->reason), strlen(proto_reason_name(a->reason)));
    put_text(w, "error", a->error.data, a->error.len);
}

static void put_others(struct writer *w, const struct record *r)
{
    if (r->n < 2) return;
    begin(w, "others", "[");
    for (size_t i = 1; i < r->n; i++) {
        begin_element(w);
        put_answer(w, &r->answers[i]);
        end(w, "}");
    }
    end(w, "]");
}

static void put_constraint(struct writer *w, const struct proto_constraint *c)
{
    const char *name = proto_constraint_name(c->type);
    if (!c->type) return;
    if (c->type != PROTO_CONSTRAINT_CHOICE) {
        put_text(w, name, c->text.data, c->text.len);
        return;
    }
    begin(w, name, "[");
    for (size_t i = 0; i < c->n_choices; i++) {
        if (i) put(w, ",");
        if (w->r == 0) w->r = json_put_string(w->out, c->choices[i].data, c->choices[i].len);
    }
    end(w, "]");
}

/* What the user gave; the model's and the daemon's defaults are left out. */
static void put_options(struct writer *w, const struct proto_request *q)
{
    const struct proto_generate *g = &q->gen;
    const struct proto_sampling *s = &g->sampling;
    const char *thinking = proto_thinking_name(q->thinking.mode);
    begin(w, "options", "{");
    put_given(w, "max_tokens", g->max_tokens);
    put_float(w, "temperature", s->temperature);
    put_float(w, "top_p", s->top_p);
    put_given(w, "top_k", s->top_k);
    put_float(w, "min_p", s->min_p);
    put_float(w, "typical_p", s->typical_p);
    put_float(w, "repeat_penalty", s->repeat_penalty);
    put_float(w, "frequency_penalty", s->frequency_penalty);
    put_float(w, "presence_penalty", s->presence_penalty);
    put_float(w, "mirostat", s->mirostat);
    put_given(w, "seed", s->seed);
    put_text(w, "thinking", thinking, strlen(thinking));
    if (q->thinking.limited) put_int(w, "think_budget", q->thinking.budget);
    put_constraint(w, &q->constraint);
    if (g->n_stop) {
        begin(w, "stop", "[");
        for (size_t i = 0; i < g->n_stop; i++) {
            if (i) put(w, ",");
            if (w->r == 0) w->r = json_put_string(w->out, g->stop[i].data, g->stop[i].len);
        }
        end(w, "]");
    }
    end(w, "}");
}

static void put_numbers(struct writer *w, const struct record *r)
{
    uint64_t completion = 0;
    if (!r->end.known) return;
    for (size_t i = 0; i < r->n; i++) completion += r->answers[i].completion;
    begin(w, "usage", "{");
    put_int(w, "prompt", (int64_t)r->end.prompt);
    put_int(w, "cached", (int64_t)r->end.cached);
    put_int(w, "completion", (int64_t)completion);
    if (r->end.thinking) put_int(w, "thinking", (int64_t)r->end.thinking);
    end(w, "}");
    begin(w, "timings", "{");
    put_ms(w, "queue_ms", r->end.queue_ms);
    put_ms(w, "prefill_ms", r->end.prefill_ms);
    put_ms(w, "decode_ms", r->end.decode_ms);
    put_ms(w, "ttft_ms", r->end.ttft_ms);
    end(w, "}");
    put_int(w, "seed", r->end.seed);
}

int record_json(struct buf *out, const struct record *r, const struct options *o, const struct proto_request *q,
                int status)
{
    struct writer w = {.out = out};
    static const struct record_answer none;
    const char *model = o->model ? o->model : "default";
    const struct proto_text *session = &q->gen.session;
    const char *kind = q->type == PROTO_INFILL ? "infill" : q->gen.raw ? "raw" : "chat";
    put(&w, "{");
    put_text(&w, "uuid", r->uuid, strlen(r->uuid));
    put_text(&w, "follows", r->after, strlen(r->after));
    put_text(&w, "conversation", r->conversation, strlen(r->conversation));
    put_int(&w, "began_ms", r->began_ms);
    put_int(&w, "took_ms", (int64_t)((clock_now_usec() - r->began_usec) / 1000));
    put_text(&w, "kind", kind, strlen(kind));
    put_text(&w, "model", model, strlen(model));
    if (r->session.len)
        put_text(&w, "session", r->session.data, r->session.len);
    else
        put_text(&w, "session", session->data, session->len);
    put_int(&w, "status", status);
    if (r->rounds > 1) put_int(&w, "rounds", r->rounds);
    put_prompt(&w, r, q);
    put_answer(&w, r->n ? &r->answers[0] : &none);
    put_others(&w, r);
    put_options(&w, q);
    put_numbers(&w, r);
    put(&w, "}\n");
    return w.r;
}
