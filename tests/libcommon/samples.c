/* SPDX-License-Identifier: MIT */
#include "tests/libcommon/samples.h"
#include "tests/libcommon/check.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set(struct proto_text *t, const char *s)
{
    assert_int_equal(proto_text_set(t, s, strlen(s)), 0);
}

static void raw_generate(struct proto_generate *g)
{
    strcpy(g->uuid, "7d9f2c1e-2f0b-4b7e-9c3a-0123456789ab");
    g->raw = g->special = g->ignore_eos = g->logprobs = true;
    set(&g->prompt, "Once upon a time \xc3\xa4\xe2\x82\xac");
    set(&g->session, "review");
    set(&g->fork, "other");
    g->wait = true;
    g->context = PROTO_CONTEXT_ROTATE;
    g->priority = PROTO_PRIORITY_BATCH;
    set(&g->salt, "tenant \xc3\xa4");
    g->max_tokens = 64;
    g->top_logprobs = 20;
    g->sampling = (struct proto_sampling){.temperature = 0.7f,
                                          .top_p = 0.95f,
                                          .min_p = 0.05f,
                                          .repeat_penalty = 1.1f,
                                          .top_k = 40,
                                          .seed = INT64_MAX,
                                          .typical_p = 0.5f,
                                          .frequency_penalty = -2,
                                          .presence_penalty = 1.5f,
                                          .mirostat = 5,
                                          .mirostat_eta = 0.1f,
                                          .repeat_last_n = 0};
    g->n_biases = 2;
    g->biases = calloc(g->n_biases, sizeof *g->biases);
    assert_non_null(g->biases);
    g->biases[0] = (struct proto_bias){.id = INT32_MAX, .bias = -100};
    g->biases[1].bias = 0.5f;
    set(&g->biases[1].text, " \xe2\x82\xac");
    g->n_stop = 2;
    set(&g->stop[0], "\n\n");
    set(&g->stop[1], "END");
    g->timeout_ms = 30000;
    g->detach = true;
}

static void constrain(struct proto_constraint *c, bool choice)
{
    c->type = choice ? PROTO_CONSTRAINT_CHOICE : PROTO_CONSTRAINT_REGEX;
    if (!choice) {
        set(&c->text, "[\xc3\xa4-z]+");
        return;
    }
    c->choices = calloc(2, sizeof *c->choices);
    assert_non_null(c->choices);
    c->n_choices = 2;
    set(&c->choices[0], "yes");
    assert_int_equal(proto_text_set(&c->choices[1], "n\0o", 3), 0);
}

static void add_media(struct proto_message *m, enum proto_media_kind kind, size_t at, const char *file)
{
    m->media = realloc(m->media, (m->n_media + 1) * sizeof *m->media);
    assert_non_null(m->media);
    m->media[m->n_media] = (struct proto_media){.kind = kind, .at = at};
    assert_int_equal(blob_new(&m->media[m->n_media++].file, file, strlen(file)), 0);
}

static void chat_generate(struct proto_generate *g)
{
    g->continue_last = true;
    g->n_messages = 2;
    g->messages = calloc(g->n_messages, sizeof *g->messages);
    assert_non_null(g->messages);
    set(&g->messages[0].role, "system");
    set(&g->messages[0].content, "");
    set(&g->messages[1].role, "user");
    assert_int_equal(proto_text_set(&g->messages[1].content, "a\0b", 3), 0); /* a NUL is a character like others */
    add_media(&g->messages[1], PROTO_MEDIA_IMAGE, 0, "\x89PNG");
    add_media(&g->messages[1], PROTO_MEDIA_SOUND, 2, "RIFF");
    add_media(&g->messages[1], PROTO_MEDIA_IMAGE, 2, "\xff");
}

static void set_call(struct proto_call *call, const char *id, const char *name, const char *arguments)
{
    if (*id) set(&call->id, id);
    set(&call->name, name);
    set(&call->arguments, arguments);
}

static void tools_generate(struct proto_request *r)
{
    struct proto_generate *g = &r->gen;

    g->n_messages = 3;
    g->messages = calloc(g->n_messages, sizeof *g->messages);
    assert_non_null(g->messages);
    set(&g->messages[0].role, "user");
    set(&g->messages[0].content, "Rain?");
    set(&g->messages[1].role, "assistant");
    set(&g->messages[1].content, "");
    set(&g->messages[1].thinking, "I ask.\n");
    g->messages[1].n_calls = 2;
    g->messages[1].calls = calloc(2, sizeof *g->messages[1].calls);
    assert_non_null(g->messages[1].calls);
    set_call(&g->messages[1].calls[0], "call_1", "weather", "{\"city\":\"K\xc3\xb6ln\"}");
    set_call(&g->messages[1].calls[1], "", "time", "{}");
    set(&g->messages[2].role, "tool");
    set(&g->messages[2].content, "");
    set(&g->messages[2].call_id, "call_1");
    set(&g->messages[2].name, "weather");
    set(&r->tools.list, "[]");
    r->tools.choice = PROTO_TOOL_NAMED;
    set(&r->tools.name, "weather");
    r->thinking = (struct proto_thinking){PROTO_THINKING_ON, true, 0};
    r->speculate = PROTO_SPECULATE_LOOKUP;
}

static void embed_request(struct proto_request *r)
{
    struct proto_embed *e = &r->embed;
    e->texts = calloc(3, sizeof *e->texts);
    assert_non_null(e->texts);
    e->n_texts = 3;
    set(&e->texts[0], "");
    assert_int_equal(proto_text_set(&e->texts[1], "a\0b", 3), 0);
    set(&e->texts[2], "\xc3\xa4");
    set(&r->gen.salt, "tenant");
    r->gen.priority = PROTO_PRIORITY_BATCH;
    r->gen.timeout_ms = 0;
    if (r->type == PROTO_RANK) {
        e->question = calloc(1, sizeof *e->question);
        assert_non_null(e->question);
        set(e->question, "why?");
        return;
    }
    e->pooling = PROTO_POOLING_CLS;
    e->dims = PROTO_DIMS_MAX;
    e->unscaled = true;
}

void sample_request(unsigned i, struct proto_request *r)
{
    static const enum proto_type types[SAMPLE_REQUESTS] = {
        PROTO_HELLO,          PROTO_GENERATE,     PROTO_GENERATE,     PROTO_CANCEL,
        PROTO_TOKENIZE,       PROTO_STATUS,       PROTO_STOP,         PROTO_WARM,
        PROTO_SESSION_LIST,   PROTO_SESSION_SHOW, PROTO_SESSION_FORK, PROTO_SESSION_RENAME,
        PROTO_SESSION_REMOVE, PROTO_INFILL,       PROTO_GENERATE,     PROTO_DETOKENIZE,
        PROTO_EMBED,          PROTO_RANK};

    *r = (struct proto_request){.type = types[i]};
    proto_generate_init(&r->gen);
    if (i == 0) set(&r->user, "ada");
    if (i == 0)
        r->version = PROTO_VERSION;
    else
        r->id = i == 1 ? UINT64_MAX : i;
    if (i == 1) {
        raw_generate(&r->gen);
        set(&r->note, "{\"of\": \"a client\"}");
        set(&r->adapter, "summary=0.5");
    }
    if (i == 2) {
        chat_generate(&r->gen);
        constrain(&r->constraint, false);
        r->constraint.on_limit = PROTO_LIMIT_CUT;
    }
    if (i == 14) tools_generate(r);
    if (r->type == PROTO_WARM) {
        chat_generate(&r->gen);
        r->gen.context = PROTO_CONTEXT_SHIFT;
        r->gen.priority = PROTO_PRIORITY_INFILL;
        r->gen.continue_last = false;
        constrain(&r->constraint, true);
        r->constraint.on_limit = PROTO_LIMIT_CLOSE;
        r->gen.n = PROTO_ANSWERS_MAX;
    }
    if (r->type == PROTO_INFILL) {
        assert_int_equal(proto_text_set(&r->gen.infill.prefix, "a\0b\xc3\xa4", 5), 0);
        set(&r->gen.infill.suffix, "");
        r->gen.infill.max_lines = 3;
        r->gen.sampling.top_k = 1;
    }
    if (r->type == PROTO_SESSION_LIST) {
        set(&r->after, "0123");
        r->limit = PROTO_PAGE_MAX;
    }
    if (r->type > PROTO_SESSION_LIST && r->type <= PROTO_SESSION_REMOVE) set(&r->name, "re view");
    if (r->type == PROTO_SESSION_FORK || r->type == PROTO_SESSION_RENAME) set(&r->to, "\xe2\x82\xac");
    if (r->type == PROTO_DETOKENIZE) {
        r->n_ids = 3;
        r->ids = malloc(3 * sizeof *r->ids);
        assert_non_null(r->ids);
        memcpy(r->ids, (const int32_t[]){0, 49151, INT32_MAX}, 3 * sizeof *r->ids);
        r->special = true;
    }
    if (r->type == PROTO_EMBED || r->type == PROTO_RANK) embed_request(r);
    if (r->type == PROTO_TOKENIZE) {
        set(&r->text, "<|im_end|>");
        r->special = true;
    }
}

static void likely_tokens(struct proto_event *e)
{
    static const char *const texts[] = {" word", "", "\xe2\x82"};
    e->tokens.n_top = 3;
    e->tokens.top = calloc(3, sizeof *e->tokens.top);
    assert_non_null(e->tokens.top);
    for (int i = 0; i < 3; i++) {
        e->tokens.top[i].id = i ? INT32_MAX - i : 0;
        e->tokens.top[i].logprob = -0.1f * (float)i;
        set(&e->tokens.top[i].text, texts[i]);
    }
}

static void done_event(struct proto_event *e)
{
    e->index = 3;
    e->more = true;
    e->reason = PROTO_STOP_LENGTH;
    e->usage_prompt = 1000;
    e->usage_cached = 900;
    e->usage_completion = 64;
    e->usage_thinking = 60;
    e->usage_drafted = 30;
    e->usage_accepted = 20;
    e->usage_drafted_model = 10;
    e->queue_ms = 0.125;
    e->prefill_ms = 12.1;
    e->decode_ms = 3000.25;
    e->ttft_ms = 13.7;
    e->energy = (struct proto_energy){true, 31.25, 0.0625, 1e4};
    e->n_media = 2;
    e->media = calloc(2, sizeof *e->media);
    assert_non_null(e->media);
    e->media[0] = (struct proto_media_usage){PROTO_MEDIA_IMAGE, 576, true, 0};
    e->media[1] = (struct proto_media_usage){PROTO_MEDIA_SOUND, UINT32_MAX, false, 200.5};
    set(&e->session, "review");
    e->miss_at = 900;
    e->cut.shifted = UINT64_MAX;
    e->cut.prefix = 70000;
    e->cut.suffix = 1;
    e->seed = INT64_MAX;
}

static void token_lists(struct proto_event *e, bool logprobs)
{
    e->tokens.n = 4;
    e->tokens.ids = malloc(4 * sizeof *e->tokens.ids);
    assert_non_null(e->tokens.ids);
    memcpy(e->tokens.ids, (const int32_t[]){0, 127, 49151, INT32_MAX}, 4 * sizeof *e->tokens.ids);
    if (!logprobs) return;
    e->tokens.logprobs = malloc(4 * sizeof *e->tokens.logprobs);
    assert_non_null(e->tokens.logprobs);
    memcpy(e->tokens.logprobs, (const float[]){-0.0f, -0.1f, -INFINITY, -1e-45f}, 4 * sizeof *e->tokens.logprobs);
}

static void vectors_event(struct proto_event *e)
{
    static const float values[] = {1, -0.0f, 1e-45f, INFINITY};
    struct proto_vectors *v = &e->vectors;
    v->first = 7;
    v->n = 2;
    v->dim = e->type == PROTO_EV_SCORES ? 1 : 2;
    v->values = malloc(sizeof values);
    v->tokens = malloc(2 * sizeof *v->tokens);
    assert_non_null(v->values);
    assert_non_null(v->tokens);
    memcpy(v->values, values, sizeof values);
    memcpy(v->tokens, (const uint32_t[]){2, UINT32_MAX}, 2 * sizeof *v->tokens);
    v->cached = 1;
    if (e->type == PROTO_EV_SCORES) v->method = "cosine";
}

void sample_event(unsigned i, struct proto_event *e)
{
    static const enum proto_event_type types[SAMPLE_EVENTS] = {
        PROTO_EV_HELLO,       PROTO_EV_QUEUED,     PROTO_EV_PREFILL,   PROTO_EV_TEXT,      PROTO_EV_TEXT,
        PROTO_EV_DONE,        PROTO_EV_ERROR,      PROTO_EV_TOKENS,    PROTO_EV_STATUS,    PROTO_EV_STOPPING,
        PROTO_EV_SESSIONS,    PROTO_EV_OK,         PROTO_EV_TOOL_CALL, PROTO_EV_TOOL_CALL, PROTO_EV_WARNING,
        PROTO_EV_DETOKENIZED, PROTO_EV_EMBEDDINGS, PROTO_EV_SCORES};

    *e = (struct proto_event){.type = types[i], .channel = "answer", .miss_at = -1, .seed = -1};
    if (i == 0)
        e->version = PROTO_VERSION;
    else
        e->id = 1000 + i;
    switch (e->type) {
    case PROTO_EV_QUEUED:
        e->position = 3;
        break;
    case PROTO_EV_PREFILL:
        e->done = 512;
        e->total = 1000;
        e->cached = 256;
        break;
    case PROTO_EV_TEXT:
        set(&e->text, i == 3 ? "\xf0\x9f\x98\x80 words" : "");
        if (i == 4) {
            e->index = 1;
            e->channel = "thinking";
            token_lists(e, true);
            likely_tokens(e);
        }
        break;
    case PROTO_EV_DONE:
        done_event(e);
        break;
    case PROTO_EV_ERROR:
        e->code = EBUSY;
        set(&e->message, "the queue is full (16 wait)");
        break;
    case PROTO_EV_DETOKENIZED:
        set(&e->text, "a text");
        break;
    case PROTO_EV_EMBEDDINGS:
    case PROTO_EV_SCORES:
        vectors_event(e);
        break;
    case PROTO_EV_TOKENS:
        token_lists(e, false);
        break;
    case PROTO_EV_STATUS:
        set(&e->status, "{\"model\":\"tiny\"}");
        break;
    case PROTO_EV_SESSIONS:
        set(&e->sessions, "[{\"name\":\"review\"}]");
        set(&e->next, "4567");
        break;
    case PROTO_EV_TOOL_CALL:
        e->index = 1;
        e->part.number = 7;
        e->part.withdrawn = i == 13;
        if (i == 12) set(&e->part.call.id, "call_8");
        if (i == 12) set(&e->part.call.name, "weather");
        set(&e->part.call.arguments, i == 12 ? "" : "{\"a\":");
        break;
    case PROTO_EV_WARNING:
        e->index = 1;
        set(&e->message, "a call is malformed");
        break;
    default:
        break;
    }
}
