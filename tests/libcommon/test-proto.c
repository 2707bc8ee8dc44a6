/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/frame.h"
#include "libcommon/proto.h"
#include "tests/libcommon/check.h"
#include "tests/libcommon/samples.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void same_text(const struct proto_text *a, const struct proto_text *b)
{
    assert_int_equal(a->len, b->len);
    if (a->len) assert_memory_equal(a->data, b->data, a->len);
    if (b->data) assert_int_equal(b->data[b->len], 0);
}

static void same_call(const struct proto_call *a, const struct proto_call *b)
{
    same_text(&a->id, &b->id);
    same_text(&a->name, &b->name);
    same_text(&a->arguments, &b->arguments);
}

static void same_media(const struct proto_message *a, const struct proto_message *b)
{
    assert_int_equal(a->n_media, b->n_media);
    for (size_t i = 0; i < a->n_media; i++) {
        const struct blob *x = a->media[i].file, *y = b->media[i].file;
        assert_int_equal(a->media[i].kind, b->media[i].kind);
        assert_int_equal(a->media[i].at, b->media[i].at);
        assert_int_equal(blob_size(x), blob_size(y));
        assert_memory_equal(blob_data(x), blob_data(y), blob_size(x));
    }
}

static void same_generate(const struct proto_generate *a, const struct proto_generate *b)
{
    assert_string_equal(a->uuid, b->uuid);
    assert_int_equal(a->raw, b->raw);
    assert_int_equal(a->special, b->special);
    same_text(&a->prompt, &b->prompt);
    same_text(&a->infill.prefix, &b->infill.prefix);
    same_text(&a->infill.suffix, &b->infill.suffix);
    assert_int_equal(a->infill.max_lines, b->infill.max_lines);
    assert_int_equal(a->n_messages, b->n_messages);
    for (size_t i = 0; i < a->n_messages; i++) {
        same_text(&a->messages[i].role, &b->messages[i].role);
        same_text(&a->messages[i].content, &b->messages[i].content);
        same_text(&a->messages[i].thinking, &b->messages[i].thinking);
        same_text(&a->messages[i].call_id, &b->messages[i].call_id);
        same_text(&a->messages[i].name, &b->messages[i].name);
        same_media(&a->messages[i], &b->messages[i]);
        assert_int_equal(a->messages[i].n_calls, b->messages[i].n_calls);
        for (size_t k = 0; k < a->messages[i].n_calls; k++)
            same_call(&a->messages[i].calls[k], &b->messages[i].calls[k]);
    }
    same_text(&a->session, &b->session);
    assert_int_equal(a->continue_last, b->continue_last);
    same_text(&a->fork, &b->fork);
    assert_int_equal(a->wait, b->wait);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->priority, b->priority);
    same_text(&a->salt, &b->salt);
    assert_int_equal(a->max_tokens, b->max_tokens);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->detach, b->detach);
    assert_int_equal(a->ignore_eos, b->ignore_eos);
    assert_int_equal(a->logprobs, b->logprobs);
    assert_int_equal(a->top_logprobs, b->top_logprobs);
    assert_int_equal(a->n_stop, b->n_stop);
    for (size_t i = 0; i < a->n_stop; i++) same_text(&a->stop[i], &b->stop[i]);
    assert_int_equal(a->n_biases, b->n_biases);
    for (size_t i = 0; i < a->n_biases; i++) {
        same_text(&a->biases[i].text, &b->biases[i].text);
        assert_int_equal(a->biases[i].id, b->biases[i].id);
        assert_true(a->biases[i].bias == b->biases[i].bias);
    }
    assert_int_equal(a->timeout_ms, b->timeout_ms);
    assert_int_equal(a->sampling.top_k, b->sampling.top_k);
    assert_int_equal(a->sampling.seed, b->sampling.seed);
    /* bit for bit: also the NANs of what is not given */
    assert_memory_equal(&a->sampling.temperature, &b->sampling.temperature, sizeof(float));
    assert_memory_equal(&a->sampling.top_p, &b->sampling.top_p, sizeof(float));
    assert_memory_equal(&a->sampling.min_p, &b->sampling.min_p, sizeof(float));
    assert_memory_equal(&a->sampling.repeat_penalty, &b->sampling.repeat_penalty, sizeof(float));
    assert_memory_equal(&a->sampling.typical_p, &b->sampling.typical_p, sizeof(float));
    assert_memory_equal(&a->sampling.frequency_penalty, &b->sampling.frequency_penalty, sizeof(float));
    assert_memory_equal(&a->sampling.presence_penalty, &b->sampling.presence_penalty, sizeof(float));
    assert_memory_equal(&a->sampling.mirostat, &b->sampling.mirostat, sizeof(float));
    assert_memory_equal(&a->sampling.mirostat_eta, &b->sampling.mirostat_eta, sizeof(float));
    assert_int_equal(a->sampling.repeat_last_n, b->sampling.repeat_last_n);
}

static void same_constraint(const struct proto_constraint *a, const struct proto_constraint *b)
{
    assert_int_equal(a->type, b->type);
    same_text(&a->text, &b->text);
    assert_int_equal(a->n_choices, b->n_choices);
    for (size_t i = 0; i < a->n_choices; i++) same_text(&a->choices[i], &b->choices[i]);
    assert_int_equal(a->on_limit, b->on_limit);
    assert_int_equal(a->schema_lenient, b->schema_lenient);
    assert_int_equal(a->any_order, b->any_order);
    assert_int_equal(a->compact, b->compact);
}

static void same_tools(const struct proto_request *a, const struct proto_request *b)
{
    same_text(&a->note, &b->note);
    same_text(&a->adapter, &b->adapter);
    same_text(&a->tools.list, &b->tools.list);
    same_text(&a->tools.name, &b->tools.name);
    assert_int_equal(a->tools.choice, b->tools.choice);
    assert_int_equal(a->thinking.mode, b->thinking.mode);
    assert_int_equal(a->speculate, b->speculate);
    assert_int_equal(a->thinking.limited, b->thinking.limited);
    assert_int_equal(a->thinking.budget, b->thinking.budget);
}

static void same_embed(const struct proto_embed *a, const struct proto_embed *b)
{
    assert_int_equal(a->n_texts, b->n_texts);
    for (size_t i = 0; i < a->n_texts; i++) same_text(&a->texts[i], &b->texts[i]);
    assert_int_equal(!a->question, !b->question);
    if (a->question) same_text(a->question, b->question);
    assert_int_equal(a->pooling, b->pooling);
    assert_int_equal(a->dims, b->dims);
    assert_int_equal(a->unscaled, b->unscaled);
}

/* The body of the one frame in @b. */
static const char *body_of(const struct buf *b, size_t *len)
{
    unsigned char head[4];

    assert_true(b->len >= 4);
    *len = b->len - 4;
    frame_header(head, (uint32_t)*len);
    assert_memory_equal(b->data, head, 4);
    return b->data + 4;
}

static void every_request_goes_round(void **state)
{
    for (unsigned i = 0; i < SAMPLE_REQUESTS; i++) {
        struct proto_request a, b;
        struct buf out = BUF_INIT;
        const char *body;
        size_t len;
        int r;

        sample_request(i, &a);
        assert_int_equal(proto_write_request(&out, &a), 0);
        body = body_of(&out, &len);
        r = proto_read_request(&b, body, len);
        if (r < 0) fail_msg("request %u: %s", i, error_text(r));
        assert_int_equal(a.type, b.type);
        assert_true(a.id == b.id);
        assert_int_equal(a.version, b.version);
        same_text(&a.user, &b.user);
        same_generate(&a.gen, &b.gen);
        same_constraint(&a.constraint, &b.constraint);
        same_tools(&a, &b);
        same_embed(&a.embed, &b.embed);
        same_text(&a.text, &b.text);
        assert_int_equal(a.n_ids, b.n_ids);
        if (a.ids) assert_memory_equal(a.ids, b.ids, a.n_ids * sizeof *a.ids);
        assert_int_equal(a.special, b.special);
        same_text(&a.name, &b.name);
        same_text(&a.to, &b.to);
        same_text(&a.after, &b.after);
        assert_int_equal(a.limit, b.limit);
        proto_request_fini(&a);
        proto_request_fini(&b);
        buf_fini(&out);
    }
}

static void same_vectors(const struct proto_vectors *a, const struct proto_vectors *b)
{
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->cached, b->cached);
    if (a->n) assert_memory_equal(a->values, b->values, (size_t)a->n * a->dim * sizeof *a->values);
    if (a->n) assert_memory_equal(a->tokens, b->tokens, a->n * sizeof *a->tokens);
    assert_int_equal(!a->method, !b->method);
    if (a->method) assert_string_equal(a->method, b->method);
}

static void same_event(const struct proto_event *a, const struct proto_event *b)
{
    assert_int_equal(a->type, b->type);
    assert_true(a->id == b->id);
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->more, b->more);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->position, b->position);
    assert_true(a->done == b->done && a->total == b->total && a->cached == b->cached);
    same_text(&a->text, &b->text);
    assert_string_equal(a->channel, b->channel);
    assert_int_equal(a->tokens.n, b->tokens.n);
    assert_int_equal(!a->tokens.ids, !b->tokens.ids);
    assert_int_equal(!a->tokens.logprobs, !b->tokens.logprobs);
    if (a->tokens.ids) assert_memory_equal(a->tokens.ids, b->tokens.ids, a->tokens.n * sizeof *a->tokens.ids);
    if (a->tokens.logprobs)
        assert_memory_equal(a->tokens.logprobs, b->tokens.logprobs, a->tokens.n * sizeof *a->tokens.logprobs);
    assert_int_equal(a->tokens.n_top, b->tokens.n_top);
    for (size_t i = 0; i < a->tokens.n_top; i++) {
        assert_int_equal(a->tokens.top[i].id, b->tokens.top[i].id);
        assert_memory_equal(&a->tokens.top[i].logprob, &b->tokens.top[i].logprob, sizeof(float));
        same_text(&a->tokens.top[i].text, &b->tokens.top[i].text);
    }
    assert_int_equal(a->part.number, b->part.number);
    assert_int_equal(a->part.withdrawn, b->part.withdrawn);
    same_call(&a->part.call, &b->part.call);
    assert_int_equal(a->reason, b->reason);
    assert_true(a->usage_prompt == b->usage_prompt && a->usage_cached == b->usage_cached);
    assert_true(a->usage_completion == b->usage_completion && a->usage_thinking == b->usage_thinking);
    assert_true(a->usage_drafted == b->usage_drafted && a->usage_accepted == b->usage_accepted);
    assert_int_equal(a->usage_drafted_model, b->usage_drafted_model);
    assert_true(a->queue_ms == b->queue_ms && a->prefill_ms == b->prefill_ms);
    assert_true(a->decode_ms == b->decode_ms && a->ttft_ms == b->ttft_ms);
    assert_int_equal(a->energy.known, b->energy.known);
    assert_true(a->energy.prompt_j == b->energy.prompt_j && a->energy.token_j == b->energy.token_j);
    assert_true(a->energy.saved_j == b->energy.saved_j);
    assert_int_equal(a->n_media, b->n_media);
    for (size_t i = 0; i < a->n_media; i++) {
        const struct proto_media_usage *x = &a->media[i], *y = &b->media[i];
        assert_true(x->kind == y->kind && x->tokens == y->tokens && x->cached == y->cached);
        assert_true(x->encode_ms == y->encode_ms);
    }
    same_text(&a->session, &b->session);
    assert_true(a->miss_at == b->miss_at && a->seed == b->seed && a->cut.shifted == b->cut.shifted);
    assert_true(a->cut.prefix == b->cut.prefix && a->cut.suffix == b->cut.suffix);
    assert_int_equal(a->code, b->code);
    same_text(&a->message, &b->message);
    same_text(&a->status, &b->status);
    same_text(&a->sessions, &b->sessions);
    same_text(&a->next, &b->next);
    same_vectors(&a->vectors, &b->vectors);
}

static void every_event_goes_round(void **state)
{
    for (unsigned i = 0; i < SAMPLE_EVENTS; i++) {
        struct proto_event a, b;
        struct buf out = BUF_INIT;
        const char *body;
        size_t len;
        int r;

        sample_event(i, &a);
        assert_int_equal(proto_write_event(&out, &a), 0);
        body = body_of(&out, &len);
        r = proto_read_event(&b, body, len);
        if (r < 0) fail_msg("event %u: %s", i, error_text(r));
        same_event(&a, &b);
        proto_event_fini(&a);
        proto_event_fini(&b);
        buf_fini(&out);
    }
}

static void messages_follow_each_other_in_a_buffer(void **state)
{
    struct frame_decoder d = {0};
    struct buf out = BUF_INIT;
    const char *body;
    size_t len;

    for (unsigned i = 0; i < SAMPLE_EVENTS; i++) {
        struct proto_event e;

        sample_event(i, &e);
        assert_int_equal(proto_write_event(&out, &e), 0);
        proto_event_fini(&e);
    }
    assert_int_equal(frame_feed(&d, out.data, out.len), 0);
    for (unsigned i = 0; i < SAMPLE_EVENTS; i++) {
        struct proto_event a, b;

        sample_event(i, &a);
        assert_int_equal(frame_peek(&d, &body, &len), 1);
        assert_int_equal(proto_read_event(&b, body, len), 0);
        frame_pop(&d);
        same_event(&a, &b);
        proto_event_fini(&a);
        proto_event_fini(&b);
    }
    assert_int_equal(frame_peek(&d, &body, &len), 0);
    frame_decoder_fini(&d);
    buf_fini(&out);
}

/* A framed request with a prompt of @n bytes, as proto_take_request wants it. */
static char *large(size_t n, const char *salt, const char **body, size_t *len)
{
    struct proto_request r = {.type = PROTO_GENERATE, .id = 7};
    struct buf out = BUF_INIT;

    proto_generate_init(&r.gen);
    r.gen.raw = true;
    r.gen.prompt = (struct proto_text){malloc(n + 1), n};
    memset(r.gen.prompt.data, 'p', n);
    if (salt) assert_int_equal(proto_text_set(&r.gen.salt, salt, strlen(salt)), 0);
    assert_int_equal(proto_write_request(&out, &r), 0);
    proto_request_fini(&r);
    *body = body_of(&out, len);
    return out.data;
}

static void assert_large(const struct proto_request *r, size_t n, const char *salt)
{
    assert_true(r->id == 7 && r->gen.raw);
    assert_int_equal(r->gen.prompt.len, n);
    for (size_t i = 0; i < n; i++) assert_true(r->gen.prompt.data[i] == 'p');
    assert_int_equal(r->gen.prompt.data[n], 0);
    assert_string_equal(r->gen.salt.data ? r->gen.salt.data : "", salt);
    assert_true(r->bytes > n);
}

/* The text of a large message is not copied: it has the message's memory. What follows it is read before it moves. */
static void large_text_takes_the_memory(void **state)
{
    static const size_t small = PROTO_TAKE_MIN - 200, n = 3 * PROTO_TAKE_MIN;
    struct proto_request r;
    const char *body;
    size_t len;
    char *memory = large(n, "salt", &body, &len), *was = memory;

    assert_int_equal(proto_take_request(&r, &memory, body, len), 0);
    assert_null(memory);
    assert_ptr_equal(r.gen.prompt.data, was);
    assert_large(&r, n, "salt");
    proto_request_fini(&r);

    memory = large(small, NULL, &body, &len);
    assert_int_equal(proto_take_request(&r, &memory, body, len), 0);
    assert_non_null(memory);
    free(memory);
    assert_large(&r, small, "");
    proto_request_fini(&r);
}

/* Of the two limits, the bytes of the message and the part of the text in it, the exact number is enough. */
static void large_text_at_the_limits(void **state)
{
    struct proto_request r;
    const char *body;
    size_t len;
    char *memory = large(PROTO_TAKE_MIN, NULL, &body, &len);
    const size_t rest = len - PROTO_TAKE_MIN;
    free(memory);
    for (size_t less = 0; less < 2; less++) {
        memory = large(PROTO_TAKE_MIN - rest - less, NULL, &body, &len);
        assert_int_equal(len, PROTO_TAKE_MIN - less);
        assert_int_equal(proto_take_request(&r, &memory, body, len), 0);
        assert_int_equal(memory != NULL, less);
        free(memory);
        proto_request_fini(&r);
    }
    for (size_t less = 0, other = 1 << 18, n = 7 * other, more = 0; less < 3; less++) {
        struct buf out = BUF_INIT;
        struct proto_message messages[2] = {0};
        struct proto_request w = {.type = PROTO_GENERATE, .id = 7};
        proto_generate_init(&w.gen);
        messages[0].content = (struct proto_text){calloc(1, n), n - (less == 2)};
        messages[1].content = (struct proto_text){calloc(1, other), other - more + (less == 2)};
        for (int i = 0; i < 2; i++) assert_int_equal(proto_text_set(&messages[i].role, "user", 4), 0);
        w.gen.messages = messages;
        w.gen.n_messages = 2;
        assert_int_equal(proto_write_request(&out, &w), 0);
        body = body_of(&out, &len);
        if (less == 0) more = len - n - other; /* the rest of the message, to be a part of its eighth */
        assert_int_equal(proto_take_request(&r, &out.data, body, len), 0);
        if (less) assert_int_equal(len, 8 * other);
        if (less) assert_int_equal(out.data != NULL, less == 2);
        free(out.data);
        proto_request_fini(&r);
        for (int i = 0; i < 2; i++) proto_text_fini(&messages[i].content), proto_text_fini(&messages[i].role);
    }
}

/* What is wrong in the rest of the message leaves the memory with its owner. */
static void large_text_of_a_wrong_message(void **state)
{
    char salt[PROTO_SALT_MAX + 2];
    struct proto_request r;
    const char *body;
    size_t len;
    char *memory;

    memset(salt, 's', sizeof salt - 1);
    salt[sizeof salt - 1] = 0;
    memory = large(2 * PROTO_TAKE_MIN, salt, &body, &len);
    assert_int_equal(proto_take_request(&r, &memory, body, len), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "salt"));
    assert_non_null(memory);
    assert_true(r.id == 7 && !r.gen.prompt.data);
    free(memory);
}

static void all_reasons_and_codes(void **state)
{
    static const int codes[] = {EBUSY,     EINVAL,    EBADMSG, EPROTO, EMSGSIZE,   ENOENT, E2BIG, ETIMEDOUT, EEXIST,
                                ECANCELED, ESHUTDOWN, ENOMEM,  EDQUOT, EOPNOTSUPP, EIO,    EPERM, EACCES,    ENOSPC};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_int_equal(proto_errno_value(proto_errno_name(codes[i])), codes[i]);
    assert_string_equal(proto_errno_name(EBUSY), "EBUSY");
    assert_string_equal(proto_errno_name(ENOTTY), "EIO");
    assert_int_equal(proto_errno_value("ENOTTY"), EIO);
    assert_int_equal(proto_errno_value(""), EIO);
    assert_string_equal(proto_reason_name(PROTO_STOP_EOS), "stop");
    assert_string_equal(proto_reason_name(PROTO_STOP_LENGTH), "length");
    assert_string_equal(proto_reason_name(PROTO_STOP_CANCEL), "cancel");
    assert_string_equal(proto_reason_name(PROTO_STOP_CONTEXT), "context");
    assert_string_equal(proto_reason_name(PROTO_STOP_TOOL_CALLS), "tool_calls");
    for (int c = PROTO_TOOL_AUTO; c <= PROTO_TOOL_NAMED; c++)
        assert_int_equal(proto_tool_choice_value(proto_tool_choice_name((enum proto_tool_choice)c)), c);
    assert_int_equal(proto_tool_choice_value("always"), PROTO_TOOL_UNSET);
    for (int m = PROTO_THINKING_ON; m <= PROTO_THINKING_OFF; m++)
        assert_int_equal(proto_thinking_value(proto_thinking_name((enum proto_thinking_mode)m)), m);
    assert_int_equal(proto_thinking_value(""), PROTO_THINKING_UNSET);
    for (int c = PROTO_CONTEXT_REFUSE; c <= PROTO_CONTEXT_ROTATE; c++)
        assert_int_equal(proto_context_value(proto_context_name((enum proto_context)c)), c);
    assert_string_equal(proto_context_name(PROTO_CONTEXT_SHIFT), "shift");
    assert_int_equal(proto_context_value("stretch"), PROTO_CONTEXT_UNSET);
    assert_int_equal(proto_context_value(""), PROTO_CONTEXT_UNSET);
}

static void events_are_made_utf8(void **state)
{
    struct proto_event a = {.type = PROTO_EV_ERROR, .id = 1, .code = ENOENT}, b;
    struct buf out = BUF_INIT;
    const char *body;
    size_t len;

    assert_int_equal(proto_text_set(&a.message, "\xff/tmp/\xc3(\xe2\x82", 10), 0);
    assert_int_equal(proto_write_event(&out, &a), 0);
    body = body_of(&out, &len);
    assert_int_equal(proto_read_event(&b, body, len), 0);
    assert_string_equal(b.message.data, "\xef\xbf\xbd/tmp/\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd");
    proto_event_fini(&a);
    proto_event_fini(&b);
    buf_fini(&out);
}

static void what_is_too_large_leaves_the_buffer(void **state)
{
    struct proto_request r = {.type = PROTO_TOKENIZE, .id = 1};
    struct proto_event e = {.type = PROTO_EV_TOKENS, .id = 1};
    struct buf out = BUF_INIT;

    assert_int_equal(buf_puts(&out, "before"), 0);
    r.text.len = FRAME_MAX;
    r.text.data = calloc(1, r.text.len + 1);
    assert_non_null(r.text.data);
    assert_int_equal(proto_write_request(&out, &r), -EMSGSIZE);
    assert_non_null(strstr(error_text(-EMSGSIZE), "67108864"));
    assert_string_equal(out.data, "before");
    assert_int_equal(out.len, 6);
    proto_request_fini(&r);

    e.tokens.n = PROTO_ELEMS_MAX;
    e.tokens.ids = calloc(e.tokens.n, sizeof *e.tokens.ids);
    assert_non_null(e.tokens.ids);
    assert_int_equal(proto_write_event(&out, &e), -EMSGSIZE);
    assert_string_equal(out.data, "before");
    proto_event_fini(&e);

    for (int type = PROTO_GENERATE; type <= PROTO_INFILL; type += PROTO_INFILL - PROTO_GENERATE) {
        r = (struct proto_request){.type = (enum proto_type)type, .id = 1};
        proto_generate_init(&r.gen);
        r.gen.n_biases = PROTO_ELEMS_MAX / 3;
        r.gen.biases = calloc(r.gen.n_biases, sizeof *r.gen.biases);
        assert_non_null(r.gen.biases);
        assert_int_equal(proto_write_request(&out, &r), -EMSGSIZE);
        assert_string_equal(out.data, "before");
        proto_request_fini(&r);
    }
    buf_fini(&out);
}

static void a_long_list_of_ids_goes_round(void **state)
{
    struct proto_event a = {.type = PROTO_EV_TOKENS, .id = 1, .tokens.n = 49000}, b;
    struct buf out = BUF_INIT;
    const char *body;
    size_t len;

    a.tokens.ids = calloc(a.tokens.n, sizeof *a.tokens.ids);
    assert_non_null(a.tokens.ids);
    for (size_t i = 0; i < a.tokens.n; i++) a.tokens.ids[i] = (int32_t)(i * 3);
    assert_int_equal(proto_write_event(&out, &a), 0);
    body = body_of(&out, &len);
    assert_int_equal(proto_read_event(&b, body, len), 0);
    assert_int_equal(b.tokens.n, a.tokens.n);
    assert_memory_equal(a.tokens.ids, b.tokens.ids, a.tokens.n * sizeof *a.tokens.ids);
    proto_event_fini(&a);
    proto_event_fini(&b);
    buf_fini(&out);
}

static void bytes_are_what_is_held(void **state)
{
    struct proto_request a, b;
    struct buf out = BUF_INIT;
    const char *body;
    size_t len;

    sample_request(2, &a);
    assert_int_equal(proto_write_request(&out, &a), 0);
    body = body_of(&out, &len);
    assert_int_equal(proto_read_request(&b, body, len), 0);
    /* each text with its NUL, the lists, and the files */
    assert_int_equal(b.bytes,
                     7 + 1 + 5 + 4 + 8 + 2 * sizeof(struct proto_message) + 3 * sizeof(struct proto_media) + 9);
    proto_request_fini(&a);
    proto_request_fini(&b);
    assert_int_equal(b.bytes, 0);
    buf_fini(&out);
}

/* What a daemon of before says, and what is nothing to say: the key is left out. */
static void nothing_shifted_is_no_key(void **state)
{
    struct proto_event a = {.type = PROTO_EV_DONE, .id = 1, .miss_at = -1, .seed = 3}, b;
    struct buf out = BUF_INIT;
    const char *body;
    size_t len;

    assert_int_equal(proto_write_event(&out, &a), 0);
    body = body_of(&out, &len);
    assert_null(memmem(body, len, "shifted", 7));
    assert_int_equal(proto_read_event(&b, body, len), 0);
    assert_true(b.cut.shifted == 0);
    proto_event_fini(&b);
    buf_clear(&out);
    a.cut.shifted = 1;
    assert_int_equal(proto_write_event(&out, &a), 0);
    body = body_of(&out, &len);
    assert_non_null(memmem(body, len, "shifted", 7));
    buf_fini(&out);
}

/* The example of hob-protocol(7), byte for byte. */
static void the_manuals_example(void **state)
{
    static const char hello[] = "\x2b\x00\x00\x00\x84\xa4type\xa5hello\xa7version\x01\xa8"
                                "features\x90\xa8software\xa2me";
    static const char generate[] = "\x3f\x00\x00\x00\x84\xa4type\xa8generate\xa2id\x01\xa8messages\x91\x82\xa4role\xa4"
                                   "user\xa7"
                                   "content\xa2Hi\xaamax_tokens\x08";
    struct proto_request r;
    struct frame_decoder d = {0};
    const char *body;
    size_t len;

    assert_int_equal(frame_feed(&d, hello, sizeof hello - 1), 0);
    assert_int_equal(frame_feed(&d, generate, sizeof generate - 1), 0);
    assert_int_equal(frame_peek(&d, &body, &len), 1);
    assert_int_equal(proto_read_request(&r, body, len), 0);
    assert_int_equal(r.type, PROTO_HELLO);
    proto_request_fini(&r);
    frame_pop(&d);
    assert_int_equal(frame_peek(&d, &body, &len), 1);
    assert_int_equal(proto_read_request(&r, body, len), 0);
    assert_int_equal(r.type, PROTO_GENERATE);
    assert_string_equal(r.gen.messages[0].content.data, "Hi");
    assert_int_equal(r.gen.max_tokens, 8);
    proto_request_fini(&r);
    frame_pop(&d);
    assert_int_equal(d.in.len, 0);
    frame_decoder_fini(&d);
}

/* The daemon's greeting in it; its version is the project's. */
static void the_manuals_greeting(void **state)
{
    static const char hello[] = "\xc7\x00\x00\x00\x84\xa5"
                                "event\xa5hello\xa7version\x01\xa8"
                                "features\xdc\x00\x13\xa8"
                                "generate\xa6"
                                "cancel\xa8tokenize\xa6status\xa4stop\xa8sessions\xa8logprobs\xa4warm\xa7"
                                "context\xa6infill\xa7"
                                "answers\xa6"
                                "detach\xaa"
                                "constraint\xa8thinking\xa5tools\xa5users\xaa"
                                "detokenize\xa5media\xa5"
                                "embed\xa8software\xaahobd " HOB_VERSION;
    struct proto_event e = {.type = PROTO_EV_HELLO};
    struct buf out = BUF_INIT;

    assert_int_equal(proto_write_event(&out, &e), 0);
    assert_int_equal(out.len, sizeof hello - 1);
    assert_memory_equal(out.data, hello, out.len);
    buf_fini(&out);
}

/* What the daemon says in it. */
static void the_manuals_answer(void **state)
{
    static const char text[] = "\x31\x00\x00\x00\x85\xa5"
                               "event\xa4text\xa2id\x01\xa5index\x00\xa7"
                               "channel\xa6"
                               "answer\xa4text\xa5Hello";
    struct proto_event e = {.type = PROTO_EV_TEXT, .id = 1};
    struct buf out = BUF_INIT;

    assert_int_equal(proto_text_set(&e.text, "Hello", 5), 0);
    assert_int_equal(proto_write_event(&out, &e), 0);
    assert_int_equal(out.len, sizeof text - 1);
    assert_memory_equal(out.data, text, out.len);
    proto_event_fini(&e);
    buf_fini(&out);
}

static void as_many_biases_as_the_limit(void **state)
{
    for (size_t n = PROTO_BIASES_MAX; n <= PROTO_BIASES_MAX + 1; n++) {
        struct proto_request a = {.type = PROTO_GENERATE, .id = 1}, b;
        struct buf out = BUF_INIT;
        const char *body;
        size_t len;
        int r;

        proto_generate_init(&a.gen);
        a.gen.raw = true;
        assert_int_equal(proto_text_set(&a.gen.prompt, "x", 1), 0);
        a.gen.biases = calloc(n, sizeof *a.gen.biases);
        assert_non_null(a.gen.biases);
        a.gen.n_biases = n;
        for (size_t i = 0; i < n; i++) a.gen.biases[i].id = (int64_t)i;
        assert_int_equal(proto_write_request(&out, &a), 0);
        body = body_of(&out, &len);
        r = proto_read_request(&b, body, len);
        assert_int_equal(r, n > PROTO_BIASES_MAX ? -EINVAL : 0);
        if (r < 0) assert_string_equal(error_text(r), "logit_bias: has 10001 tokens, the limit is 10000");
        if (r == 0) assert_int_equal(b.gen.biases[n - 1].id, n - 1);
        if (r == 0) assert_true(b.bytes > n * sizeof *b.gen.biases);
        proto_request_fini(&a);
        proto_request_fini(&b);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_goes_round),      cmocka_unit_test(as_many_biases_as_the_limit),
        cmocka_unit_test(every_event_goes_round),        cmocka_unit_test(messages_follow_each_other_in_a_buffer),
        cmocka_unit_test(large_text_takes_the_memory),   cmocka_unit_test(large_text_at_the_limits),
        cmocka_unit_test(large_text_of_a_wrong_message), cmocka_unit_test(all_reasons_and_codes),
        cmocka_unit_test(events_are_made_utf8),          cmocka_unit_test(what_is_too_large_leaves_the_buffer),
        cmocka_unit_test(a_long_list_of_ids_goes_round), cmocka_unit_test(bytes_are_what_is_held),
        cmocka_unit_test(nothing_shifted_is_no_key),     cmocka_unit_test(the_manuals_example),
        cmocka_unit_test(the_manuals_greeting),          cmocka_unit_test(the_manuals_answer),
    };

    return cmocka_run_group_tests_name("proto", tests, NULL, NULL);
}
