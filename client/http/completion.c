/* SPDX-License-Identifier: MIT */
#include "client/http/completion.h"
#include "client/http/body-budget.h"
#include "client/http/completion-calls.h"
#include "client/http/http-reply.h"
#include "client/http/model-list.h"
#include "client/http/openai-logprobs.h"
#include "client/http/responses.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/hex.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { TRIES = 3 };

struct completion *completion_new(struct exchange *x, const struct completion_format *format)
{
    struct completion *c = calloc(1, sizeof(*c));
    uint8_t random[12] = {0};
    char digits[2 * sizeof(random) + 1];
    if (!c) {
        fault_of_error(&x->fault, error_origin(-ENOMEM));
        return NULL;
    }
    *c = (struct completion){.exchange = x, .format = format, .created = time(NULL), .n = 1};
    c->request = (struct proto_request){.type = PROTO_GENERATE, .id = 1};
    proto_generate_init(&c->request.gen);
    if (getrandom(random, sizeof(random), GRND_NONBLOCK) < 0) memcpy(random, &c, sizeof(c));
    hex_write(digits, random, sizeof(random));
    snprintf(c->id, sizeof(c->id), "%s%s", format->id_prefix, digits);
    x->completion = c;
    return c;
}

/* Charge the key for what was computed; of an answer that has not ended, each text counts as a token. */
static void charge_key(const struct completion *c)
{
    struct key *key = c->exchange->key;
    uint64_t written = c->completed > c->texts ? c->completed : c->texts;
    if (key) key_limits_tokens(&key->limits, &key->use, c->prompt - c->cached + written, clock_now_usec());
}

void completion_free(struct completion *c)
{
    if (!c) return;
    charge_key(c);
    for (uint32_t i = 0; c->choices && i < c->n; i++) {
        buf_fini(&c->choices[i].text);
        buf_fini(&c->choices[i].thinking);
        tool_calls_fini(&c->choices[i].calls);
        json_decref(c->choices[i].logprobs);
    }
    free(c->choices);
    proto_request_fini(&c->request);
    proto_text_fini(&c->echo);
    response_free(c->response);
    free(c->model);
    free(c->socket);
    free(c);
}

const char *completion_model(const struct completion *c)
{
    return c->model ? c->model : "default";
}

int completion_put_fault(struct completion *c, struct buf *out, const struct fault *f)
{
    if (c->format->fault) return c->format->fault(c, out, f);
    return reply_put_event(out, c->format->api == API_ANTHROPIC ? "error" : NULL, reply_fault(c->format->api, f));
}

static void fail(struct completion *c, int r)
{
    fault_of_error(&c->exchange->fault, r);
    exchange_fail(c->exchange);
}

/* Begin the stream: from now on an error is an event of it. */
static int open_stream(struct completion *c)
{
    struct exchange *x = c->exchange;
    if (c->opened) return 0;
    int r = c->format->open ? c->format->open(c, &x->out) : 0;
    if (r < 0) return r;
    c->opened = true;
    exchange_stream(x);
    return 0;
}

void completion_ping(struct completion *c)
{
    struct exchange *x = c->exchange;
    if (!c->stream) return;
    int r = open_stream(c);
    if (r == 0) r = buf_puts(&x->out, c->format->ping);
    if (r < 0)
        fail(c, r);
    else
        exchange_more(x, false);
}

static int on_prefill(struct completion *c, const struct proto_event *e)
{
    c->prompt = e->total;
    c->cached = e->cached;
    return c->stream ? open_stream(c) : 0;
}

static void measure(struct completion *c)
{
    struct http_metrics *m = &c->exchange->gateway->metrics;
    uint64_t now = clock_now_usec();
    if (c->text_usec)
        metrics_seconds(&m->next_token, (double)(now - c->text_usec) * 1e-6);
    else
        metrics_seconds(&m->first_token, (double)(now - c->exchange->begun_usec) * 1e-6);
    c->text_usec = now;
}

static int on_text(struct completion *c, const struct proto_event *e)
{
    struct exchange *x = c->exchange;
    if (e->index >= c->n) return error_say(-EPROTO, "the daemon sent an answer that nobody asked for");
    c->texts++;
    if (e->text.len == 0 && e->tokens.n_top == 0) return 0;
    if (c->n == 1 && e->text.len) measure(c);
    if (c->stream) {
        int r = open_stream(c);
        if (r == 0) r = c->format->text(c, &x->out, e);
        if (r == 0) exchange_more(x, false);
        return r;
    }
    struct choice *choice = &c->choices[e->index];
    if (c->logprobs && proto_is_answer(e)) {
        if (!choice->logprobs) choice->logprobs = json_array();
        json_t *more = logprobs_of_event(e);
        int r = json_array_extend(choice->logprobs, more);
        json_decref(more);
        if (r < 0) return error_origin(-ENOMEM);
    }
    if (e->text.len == 0) return 0;
    return buf_append(proto_is_answer(e) ? &choice->text : &choice->thinking, e->text.data, e->text.len);
}

static int on_call(struct completion *c, struct proto_event *e)
{
    if (e->index >= c->n) return error_say(-EPROTO, "the daemon sent an answer that nobody asked for");
    if (c->n == 1) measure(c);
    int r = c->stream ? open_stream(c) : 0;
    if (r == 0) r = completion_call(c, e);
    if (r == 0 && c->stream) exchange_more(c->exchange, false);
    return r;
}

/* All answers have ended. */
static int complete(struct completion *c)
{
    struct exchange *x = c->exchange;
    struct http_metrics *m = &x->gateway->metrics;
    m->tokens_prompt += c->prompt;
    m->tokens_cached += c->cached;
    m->tokens_completion += c->completed;
    int r = c->stream ? c->format->close(c, &x->out) : c->format->whole(c, &x->out);
    if (r < 0) return r;
    if (c->stream) {
        exchange_more(x, true);
        return 0;
    }
    x->upstream = upstream_close(x->upstream);
    exchange_reply(x, 200, "application/json");
    return 0;
}

static int on_done(struct completion *c, const struct proto_event *e)
{
    struct exchange *x = c->exchange;
    struct http_metrics *m = &x->gateway->metrics;
    int r = 0;
    if (e->index >= c->n) return error_say(-EPROTO, "the daemon sent an answer that nobody asked for");
    m->tokens_drafted += e->usage_drafted;
    m->tokens_accepted += e->usage_accepted;
    c->prompt = e->usage_prompt;
    c->cached = e->usage_cached;
    c->heard = 0;
    for (size_t i = 0; i < e->n_media; i++)
        if (e->media[i].kind == PROTO_MEDIA_SOUND) c->heard += e->media[i].tokens;
    c->completed += e->usage_completion;
    c->thought += e->usage_thinking;
    c->choices[e->index].reason = e->reason;
    if (c->stream) {
        r = open_stream(c);
        if (r == 0) r = completion_end_call(c, e->index);
        if (r == 0) r = c->format->end(c, &x->out, e->index);
        if (r == 0) exchange_more(x, false);
    }
    return r == 0 && !e->more ? complete(c) : r;
}

/* The number of prompt tokens is known before the first of them is computed. */
static int on_count(struct completion *c, const struct proto_event *e)
{
    struct exchange *x = c->exchange;
    if (e->type != PROTO_EV_PREFILL && e->type != PROTO_EV_DONE) return 0;
    x->upstream = upstream_close(x->upstream);
    return reply_json(
        x, json_pack("{s:I}", "input_tokens", (json_int_t)(e->type == PROTO_EV_PREFILL ? e->total : e->usage_prompt)));
}

static int connect_daemon(struct completion *c);

/* A daemon that stops has done nothing with the request: the next one, which its socket may start, takes it. */
static bool again(struct completion *c)
{
    struct exchange *x = c->exchange;
    if (c->seen || c->tries >= TRIES) return false;
    x->upstream = upstream_close(x->upstream);
    return connect_daemon(c) == 0;
}

static int on_event(struct completion *c, struct proto_event *e)
{
    struct exchange *x = c->exchange;
    if (e->type == PROTO_EV_ERROR) {
        if (e->code == ESHUTDOWN && again(c)) return 0;
        fault_of_event(&x->fault, e->code, e->message.data);
        if (c->format->explain) c->format->explain(c, e->code);
        exchange_fail(x);
        return 0;
    }
    if (!c->seen) {
        c->seen = true;
        proto_request_fini(&c->request);
        body_budget_release(x);
    }
    if (c->count) return on_count(c, e);
    c->queued = e->type == PROTO_EV_QUEUED;
    switch (e->type) {
    case PROTO_EV_PREFILL:
        return on_prefill(c, e);
    case PROTO_EV_TEXT:
        return on_text(c, e);
    case PROTO_EV_TOOL_CALL:
        return on_call(c, e);
    case PROTO_EV_DONE:
        return on_done(c, e);
    default:
        return 0;
    }
}

static void on_upstream(void *ctx, struct proto_event *e, int r)
{
    struct completion *c = ctx;
    struct exchange *x = c->exchange;
    if (x->ended) return;
    if (e) {
        r = on_event(c, e);
        if (r < 0) fail(c, r);
        return;
    }
    fault_set(&x->fault, 503, NULL, "%s", error_text(r));
    if (r == -ECONNRESET && again(c))
        x->fault = (struct fault){0};
    else
        exchange_fail(x);
}

static int connect_daemon(struct completion *c)
{
    struct exchange *x = c->exchange;
    c->tries++;
    int r = upstream_open(&x->upstream, x->gateway->event, c->socket, exchange_user(x), &c->request, on_upstream, c);
    if (r == -EMSGSIZE) return fault_of_error(&x->fault, r);
    return r < 0 ? fault_set(&x->fault, 503, NULL, "%s", error_text(r)) : 0;
}

int completion_start(struct completion *c)
{
    struct exchange *x = c->exchange;
    struct proto_generate *g = &c->request.gen;
    if (x->key && g->priority < x->key->priority) g->priority = x->key->priority;
    c->choices = calloc(c->n, sizeof(*c->choices));
    if (!c->choices) return fault_of_error(&x->fault, error_origin(-ENOMEM));
    g->n = c->n;
    int r = c->socket ? 0 : model_find(x->gateway->options, c->model, &c->socket, &x->fault);
    return r < 0 ? r : connect_daemon(c);
}
