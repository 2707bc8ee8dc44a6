/* SPDX-License-Identifier: MIT */
#include "client/http/anthropic-fields.h"
#include "client/http/chat-messages.h"
#include "client/http/chat-tools.h"
#include "client/http/fields.h"
#include <errno.h>
#include <string.h>

static bool is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

/* "omitted": the answer has no thinking. */
static int read_display(struct completion *c, const struct field *f, const json_t *v)
{
    if (!v || json_is_null(v) || is_word(v, "summarized")) return 0;
    if (!is_word(v, "omitted")) return field_wrong(c, f, "an object whose 'display' is summarized or omitted");
    c->show_thinking = false;
    return 0;
}

/* "adaptive" is the template's default. Thinking that a client sends back has no signature that could be checked
 * (block_binding). */
static int read_thinking(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"type", "budget_tokens", "display", "block_binding", NULL};
    struct proto_thinking *t = &c->request.thinking;
    const json_t *type = json_object_get(v, "type"), *budget = json_object_get(v, "budget_tokens");
    bool enabled = is_word(type, "enabled"), disabled = is_word(type, "disabled");
    int r = chat_check_members(c, v, known, f->name);
    if (r < 0) return r;
    if (!enabled && !disabled && !is_word(type, "adaptive"))
        return field_wrong(c, f, "an object of the type enabled, disabled or adaptive");
    c->show_thinking = !disabled;
    r = read_display(c, f, json_object_get(v, "display"));
    if (r < 0) return r;
    t->mode = enabled ? PROTO_THINKING_ON : disabled ? PROTO_THINKING_OFF : PROTO_THINKING_UNSET;
    t->limited = budget && !json_is_null(budget);
    t->budget = json_integer_value(budget);
    if (!t->limited || (enabled && json_is_integer(budget) && t->budget >= 0)) return 0;
    return field_wrong(c, f, "of the type enabled if it has 'budget_tokens', an integer, 0 or more");
}

/* The edit that keeps all thinking edits nothing. Others remove parts of the prompt. */
static int read_management(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"edits", NULL};
    const json_t *edits = json_object_get(v, "edits"), *edit;
    size_t i;
    if (!json_is_object(v)) return field_wrong(c, f, "an object");
    int r = chat_check_members(c, v, known, f->name);
    if (r < 0) return r;
    if (edits && !json_is_null(edits) && !json_is_array(edits))
        return field_wrong(c, f, "an object with a list 'edits'");
    json_array_foreach((json_t *)edits, i, edit)
    {
        const json_t *type = json_object_get(edit, "type"), *keep = json_object_get(edit, "keep");
        if (is_word(type, "clear_thinking_20251015") &&
            (is_word(keep, "all") || is_word(json_object_get(keep, "type"), "all")))
            continue;
        fault_set(&c->exchange->fault, 400, f->name, "'%s': the edit '%.64s' is not supported%s", f->name,
                  json_is_string(type) ? json_string_value(type) : "",
                  is_word(type, "clear_thinking_20251015") ? " unless 'keep' is \"all\"" : "");
        c->exchange->fault.code = "unsupported_parameter";
        return -EINVAL;
    }
    return 0;
}

static int read_speed(struct completion *c, const struct field *f, const json_t *v)
{
    return is_word(v, "standard") ? 0 : field_wrong(c, f, "standard: there is no other speed");
}

/* The schema of the answer. "effort" is a hint without a meaning for a template. */
static int read_output(struct completion *c, const struct field *f, const json_t *v)
{
    static const char *const known[] = {"format", "effort", NULL}, *const known_format[] = {"type", "schema", NULL};
    const json_t *form = json_object_get(v, "format"), *type = json_object_get(form, "type");
    int r = chat_check_members(c, v, known, f->name);
    if (r == 0) r = chat_check_members(c, form, known_format, f->name);
    if (r < 0) return r;
    if (!json_is_object(v)) return field_wrong(c, f, "an object");
    if (!form || json_is_null(form)) return 0;
    if (!is_word(type, "json_schema") || !json_object_get(form, "schema"))
        return field_wrong(c, f, "an object whose 'format' has the type json_schema and a 'schema'");
    return field_set_schema(c, json_object_get(form, "schema"));
}

static const struct field fields[] = {
    {"messages", chat_read_anthropic, 0},
    {"system", field_ignore, 0}, /* read before the messages */
    {"stop_sequences", field_stop, 0},
    {"thinking", read_thinking, 0},
    {"output_config", read_output, 0},
    {"tools", tools_read_anthropic, 0},
    {"tool_choice", tool_choice_read_anthropic, 0},
    {"mcp_servers", field_refuse, 0},
    {"container", field_refuse, 0},
    {"context_management", read_management, 0},
    {"compaction", field_refuse, 0},
    {"thread", field_refuse, 0},
    {"speed", read_speed, 0},
    {"cache_control", field_ignore, 0},
    {"inference_geo", field_ignore, 0},
    {"billing_policy", field_ignore, 0},
    {"diagnostics", field_ignore, 0},
    {"fallbacks", field_ignore, 0}, /* if a model declines, which is not known here */
    {"fallback_credit_token", field_ignore, 0},
    {0},
};

/* The system prompt is the first message, wherever it is in the object. */
int anthropic_read(struct completion *c, const json_t *object)
{
    static const struct field *const tables[] = {fields, fields_common, NULL};
    const json_t *system = json_object_get(object, "system");
    int r = 0;
    if (system && !json_is_null(system)) r = chat_add(c, "system", system, "system");
    size_t before = c->request.gen.n_messages;
    if (r == 0) r = fields_read(c, object, tables);
    if (r == 0 && c->request.gen.n_messages == before)
        r = fault_set(&c->exchange->fault, 400, "messages", "'messages' is missing");
    return r == 0 ? tools_check(c, "disable_parallel_tool_use") : r;
}
