/* SPDX-License-Identifier: MIT */
/* The fields of /v1/responses. */
#include "client/http/chat-messages.h"
#include "client/http/chat-tools.h"
#include "client/http/fields.h"
#include "client/http/openai-logprobs.h"
#include "client/http/response-json.h"
#include "client/http/responses.h"
#include "libcommon/error.h"
#include <string.h>

#define AT(member) offsetof(struct proto_generate, member)

static int no_memory(struct completion *c)
{
    return fault_of_error(&c->exchange->fault, error_origin(-ENOMEM));
}

static bool is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

/* The daemon's form has the name in another object, and no null. */
static json_t *nested_tool(const json_t *tool)
{
    json_t *function = json_object(), *value;
    const char *name;
    int r = 0;
    json_object_foreach((json_t *)tool, name, value)
    {
        if (r == 0 && strcmp(name, "type") != 0 && !json_is_null(value)) r = json_object_set(function, name, value);
    }
    if (r < 0) {
        json_decref(function);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "function", "function", function);
}

static int add_tool(struct completion *c, json_t *list, const json_t *tool, const char *place)
{
    static const char *const known[] = {"type", "name", "description", "parameters", "strict", NULL};
    const json_t *type = json_object_get(tool, "type");
    if (!is_word(type, "function"))
        return fault_set(&c->exchange->fault, 400, place, "%s: tools of the type '%.64s' are not supported", place,
                         json_is_string(type) ? json_string_value(type) : "");
    int r = chat_check_members(c, tool, known, place);
    if (r < 0) return r;
    return json_array_append_new(list, nested_tool(tool)) ? no_memory(c) : 0;
}

static int read_tools(struct completion *c, const struct field *f, const json_t *v)
{
    return tools_read_each(c, f, v, add_tool);
}

static int read_tool_choice(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"type", "name", NULL};
    if (!json_is_object(v) || !is_word(json_object_get(v, "type"), "function")) return tool_choice_read_openai(c, f, v);
    int r = chat_check_members(c, v, known, f->name);
    json_auto_t *nested = r == 0 ? nested_tool(v) : NULL;
    if (r < 0) return r;
    return nested ? tool_choice_read_openai(c, f, nested) : no_memory(c);
}

static int read_format(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"type", "name", "description", "schema", "strict", NULL};
    json_t *schema = json_object_get(v, "schema");
    if (!is_word(json_object_get(v, "type"), "json_schema")) return field_format(c, f, v);
    int r = chat_check_members(c, v, known, f->name);
    if (r < 0) return r;
    if (!schema) return field_wrong(c, f, "an object with a 'schema'");
    json_auto_t *nested = json_pack("{s:s, s:{s:O}}", "type", "json_schema", "json_schema", "schema", schema);
    return nested ? field_format(c, f, nested) : no_memory(c);
}

static int read_text(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"format", "verbosity", NULL};
    const json_t *format = json_object_get(v, "format"), *verbosity = json_object_get(v, "verbosity");
    if (!json_is_object(v)) return field_wrong(c, f, "an object");
    int r = chat_check_members(c, v, known, f->name);
    if (r < 0) return r;
    if (verbosity && !json_is_null(verbosity) && !is_word(verbosity, "medium"))
        return field_wrong(c, &(struct field){.name = "text.verbosity"}, "medium: there are no other levels");
    return !format || json_is_null(format) ? 0 : read_format(c, &(struct field){.name = "text.format"}, format);
}

/* A summary is not made: "auto" permits that. */
static int read_reasoning(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"effort", "summary", "generate_summary", NULL};
    const json_t *effort = json_object_get(v, known[0]);
    if (!json_is_object(v)) return field_wrong(c, f, "an object");
    int r = chat_check_members(c, v, known, f->name);
    for (unsigned i = 1; r == 0 && i < 3; i++) {
        const json_t *summary = json_object_get(v, known[i]);
        if (summary && !json_is_null(summary) && !is_word(summary, "auto"))
            r = field_wrong(c, &(struct field){.name = "reasoning.summary"}, "auto: no summaries are made");
    }
    if (r < 0 || !effort || json_is_null(effort)) return r;
    return field_effort(c, &(struct field){.name = "reasoning.effort"}, effort);
}

static int read_truncation(struct completion *c, const struct field *f, const json_t *v)
{
    if (!is_word(v, "auto") && !is_word(v, "disabled")) return field_wrong(c, f, "auto or disabled");
    c->request.gen.context = is_word(v, "auto") ? PROTO_CONTEXT_SHIFT : PROTO_CONTEXT_REFUSE;
    return 0;
}

static int read_store(struct completion *c, const struct field *f, const json_t *v)
{
    if (!json_is_boolean(v)) return field_wrong(c, f, "true or false");
    c->response->no_store = json_is_false(v);
    return 0;
}

static int read_previous(struct completion *c, const struct field *f, const json_t *v)
{
    struct response *s = c->response;
    if (!json_is_string(v)) return field_wrong(c, f, "a string");
    if (!response_id_read(&s->previous, json_string_value(v))) {
        fault_set(&c->exchange->fault, 404, f->name, "no response '%.64s'", json_string_value(v));
        c->exchange->fault.code = "previous_response_not_found";
        return -EINVAL;
    }
    response_id_write(s->previous_text, &s->previous);
    return 0;
}

static int read_metadata(struct completion *c, const struct field *f, const json_t *v)
{
    const char *name;
    json_t *value;
    if (!json_is_object(v)) return field_wrong(c, f, "an object of strings");
    json_object_foreach((json_t *)v, name, value)
    {
        if (!json_is_string(value)) return field_wrong(c, f, "an object of strings");
    }
    return 0;
}

/* The other values are parts of items that a response cannot have, and encrypted thinking: an answer has the plain one.
 */
static int read_include(struct completion *c, const struct field *f, const json_t *v)
{
    size_t i;
    json_t *one;
    if (!json_is_array(v)) return field_wrong(c, f, "a list of strings");
    json_array_foreach((json_t *)v, i, one)
    {
        if (!json_is_string(one)) return field_wrong(c, f, "a list of strings");
        if (is_word(one, "message.output_text.logprobs")) c->logprobs = true;
    }
    return 0;
}

static const struct field fields[] = {
    {"input", responses_read_input, 0},
    {"instructions", field_ignore, 0}, /* read before the input */
    {"previous_response_id", read_previous, 0},
    {"store", read_store, 0},
    {"metadata", read_metadata, 0},
    {"include", read_include, 0},
    {"text", read_text, 0},
    {"reasoning", read_reasoning, 0},
    {"think_budget", field_budget, 0},
    {"tools", read_tools, 0},
    {"tool_choice", read_tool_choice, 0},
    {"parallel_tool_calls", tool_parallel_read, 0},
    {"truncation", read_truncation, 0},
    {"max_output_tokens", field_count, AT(max_tokens)},
    {"stop", field_stop, 0},
    {"logit_bias", field_logit_bias, 0},
    {"frequency_penalty", field_float, AT(sampling.frequency_penalty)},
    {"presence_penalty", field_float, AT(sampling.presence_penalty)},
    {"prompt_cache_key", field_text, AT(salt)},
    {"stream_options", field_stream_options, 0},
    {"background", field_refuse, 0},
    {"conversation", field_refuse, 0},
    {"prompt", field_refuse, 0},
    {"top_logprobs", logprobs_read_top, 0},
    {"max_tokens", field_refuse, 0},
    {"session", field_refuse, 0},
    {"fork", field_refuse, 0},
    {"max_tool_calls", field_ignore, 0}, /* of tools that run on the server */
    {"user", field_ignore, 0},
    {"safety_identifier", field_ignore, 0},
    {"prompt_cache_retention", field_ignore, 0},
    {0},
};

/* The instructions are the first message, wherever they are in the object. */
static int read_instructions(struct completion *c, const json_t *v)
{
    if (!v || json_is_null(v)) return 0;
    if (!json_is_string(v)) return field_wrong(c, &(struct field){.name = "instructions"}, "a string");
    c->response->id.instructions = response_id_hash(json_string_value(v), json_string_length(v));
    return chat_add(c, "system", v, "instructions");
}

int responses_read(struct completion *c, const json_t *object)
{
    static const struct field *const tables[] = {fields, fields_common, NULL};
    struct fault *f = &c->exchange->fault;
    int r = read_instructions(c, json_object_get(object, "instructions"));
    size_t before = c->request.gen.n_messages;
    if (r == 0) r = fields_read(c, object, tables);
    if (r == 0 && c->request.gen.n_messages == before) r = fault_set(f, 400, "input", "'input' is missing or empty");
    if (r == 0) r = tools_check(c, "parallel_tool_calls");
    if (r == 0) r = logprobs_check(c, "'include': [\"message.output_text.logprobs\"]");
    if (r < 0) return r;
    c->response->echo = response_echo(object);
    return c->response->echo ? 0 : no_memory(c);
}
