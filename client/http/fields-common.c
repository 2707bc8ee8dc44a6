/* SPDX-License-Identifier: MIT */
#include "client/http/fields.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <string.h>

static int read_model(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_string(v)) return field_wrong(c, f, "a string");
    free(c->model);
    c->model = strdup(json_string_value(v));
    return c->model ? 0 : fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

static int read_stream(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v)) return field_wrong(c, f, "true or false");
    c->stream = json_is_true(v);
    return 0;
}

/* -1 means a random seed, as in other servers. */
static int read_seed(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < -1) return field_wrong(c, f, "an integer, 0 or more");
    c->request.gen.sampling.seed = json_integer_value(v);
    return 0;
}

static int read_priority(struct completion *c, const struct field *f, const json_t *v)
{
    enum proto_priority p = proto_priority_value(json_is_string(v) ? json_string_value(v) : "");
    if (p == PROTO_PRIORITY_UNSET) return field_wrong(c, f, "infill, interactive or batch");
    c->request.gen.priority = p;
    return 0;
}

static int read_speculate(struct completion *c, const struct field *f, const json_t *v)
{
    enum proto_speculate s = proto_speculate_value(json_is_string(v) ? json_string_value(v) : "");
    if (s == PROTO_SPECULATE_UNSET) return field_wrong(c, f, "auto, off, lookup or draft");
    c->request.speculate = s;
    return 0;
}

static int read_adapter(struct completion *c, const struct field *f, const json_t *v)
{
    const char *s = json_is_string(v) ? json_string_value(v) : "";
    const size_t len = strlen(s);
    if (len == 0 || len > PROTO_NAME_MAX) return field_wrong(c, f, "NAME or NAME=SCALE");
    int r = proto_text_set(&c->request.adapter, s, len);
    return r < 0 ? fault_of_error(&c->exchange->fault, error_origin(r)) : 0;
}

static int read_context(struct completion *c, const struct field *f, const json_t *v)
{
    enum proto_context context = proto_context_value(json_is_string(v) ? json_string_value(v) : "");
    if (context == PROTO_CONTEXT_UNSET) return field_wrong(c, f, "refuse, shift or rotate");
    c->request.gen.context = context;
    return 0;
}

/* Seconds, or a text such as "500ms". */
static int read_timeout(struct completion *c, const struct field *f, const json_t *v)
{
    uint64_t usec;
    double seconds = json_is_number(v) ? json_number_value(v) : -1;
    if (json_is_string(v) && parse_time(json_string_value(v), &usec) == 0) seconds = (double)usec * 1e-6;
    if (seconds < 0 || seconds > 9e9) return field_wrong(c, f, "a number of seconds, or a time such as \"500ms\"");
    c->request.gen.timeout_ms = (int64_t)(seconds * 1e3);
    return 0;
}

/* A template has a switch and no levels: "medium", OpenAI's default, turns it on. */
int field_effort(struct completion *c, const struct field *f, const json_t *v)
{
    const char *effort = json_is_string(v) ? json_string_value(v) : "";
    bool off = strcmp(effort, "none") == 0;
    if (!off && strcmp(effort, "medium") != 0)
        return field_wrong(c, f, "none or medium: the thinking has no other levels");
    c->request.thinking.mode = off ? PROTO_THINKING_OFF : PROTO_THINKING_ON;
    return 0;
}

int field_budget(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) return field_wrong(c, f, "an integer, 0 or more");
    c->request.thinking.limited = true;
    c->request.thinking.budget = json_integer_value(v);
    return 0;
}

#define AT(member) offsetof(struct proto_generate, member)

const struct field fields_common[] = {
    {"model", read_model, 0},
    {"stream", read_stream, 0},
    {"max_tokens", field_count, AT(max_tokens)},
    {"temperature", field_float, AT(sampling.temperature)},
    {"top_p", field_float, AT(sampling.top_p)},
    {"top_k", field_int, AT(sampling.top_k)},
    {"min_p", field_float, AT(sampling.min_p)},
    {"typical_p", field_float, AT(sampling.typical_p)},
    {"repeat_penalty", field_float, AT(sampling.repeat_penalty)},
    {"repeat_last_n", field_int, AT(sampling.repeat_last_n)},
    {"ignore_eos", field_bool, AT(ignore_eos)},
    {"seed", read_seed, 0},
    {"session", field_text, AT(session)},
    {"fork", field_text, AT(fork)},
    {"priority", read_priority, 0},
    {"speculate", read_speculate, 0},
    {"context", read_context, 0},
    {"adapter", read_adapter, 0},
    {"timeout", read_timeout, 0},
    {"cache_prompt", field_ignore, 0},
    {"metadata", field_ignore, 0},
    {"service_tier", field_ignore, 0},
    {0},
};
