/* SPDX-License-Identifier: MIT */
#include "daemon/text/markup/probe.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

static const char parameters[] =
    "{\"type\":\"object\",\"description\":\"d\",\"additionalProperties\":{\"type\":\"string\"},"
    "\"required\":[\"" PROBE_KEY1 "\"],\"properties\":{"
    "\"" PROBE_KEY1 "\":{\"type\":\"string\",\"description\":\"d\"},"
    "\"" PROBE_KEY2 "\":{\"type\":\"integer\",\"description\":\"d\"},"
    "\"" PROBE_KEY3 "\":{\"type\":\"object\",\"description\":\"d\",\"properties\":{},"
    "\"additionalProperties\":{\"type\":\"string\"}}}}";

static const char *const arguments[] = {
    "{\"" PROBE_KEY1 "\": \"" PROBE_VALUE1 "\", \"" PROBE_KEY2 "\": " PROBE_VALUE2 ", \"" PROBE_KEY3
    "\": {\"hobk\": [1, \"hobx\"]}}",
    "{\"" PROBE_KEY1 "\": \"" PROBE_VALUE4 "\"}",
};

static const char *const names[] = {PROBE_NAME1, PROBE_NAME2}, *const ids[] = {PROBE_ID1, PROBE_ID2};

/* @v, or NULL if a part of it is missing (@r is not 0) for want of memory. */
static json_t *whole(json_t *v, int r)
{
    if (r == 0) return v;
    json_decref(v);
    return NULL;
}

static json_t *tools(void)
{
    json_t *list = json_array();
    int r = 0;
    for (int i = 0; i < 2; i++) {
        json_t *p = json_loads(parameters, 0, NULL);
        json_t *f = json_pack("{s:s, s:s, s:o}", "name", names[i], "description", "d", "parameters", p);
        r |= json_array_append_new(list, json_pack("{s:s, s:o}", "type", "function", "function", f));
    }
    return whole(list, r);
}

static json_t *calls(const struct probe_turn *turn)
{
    json_t *list = json_array();
    int r = 0;
    for (unsigned i = 0; i < turn->calls; i++) {
        json_t *args = turn->string_args ? json_string(arguments[i]) : json_loads(arguments[i], 0, NULL);
        json_t *f = json_pack("{s:s, s:o}", "name", names[i], "arguments", args);
        r |= json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "id", ids[i], "type", "function", "function", f));
    }
    return whole(list, r);
}

static json_t *text_content(const struct probe *p, const char *text)
{
    return p->typed ? json_pack("[{s:s, s:s}]", "type", "text", "text", text) : json_string(text);
}

static json_t *content(const struct probe *p, const struct probe_turn *turn)
{
    const char *text = turn->text == PROBE_WITH_TEXT ? PROBE_TEXT : "";
    if (turn->field && strcmp(turn->field, "content") == 0)
        return json_pack("[{s:s, s:s}, {s:s, s:s}]", "type", "thinking", "thinking", PROBE_THOUGHT, "type", "text",
                         "text", text);
    if (turn->field && strcmp(turn->field, "blocks") == 0)
        return json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "blocks", "type", "thoughts", "text", PROBE_THOUGHT, "type",
                         "response", "text", text);
    return turn->text == PROBE_NULL_TEXT ? json_null() : text_content(p, text);
}

static json_t *messages(const struct probe *p, const struct probe_turn *turn)
{
    json_t *list = json_pack("[{s:s, s:o}]", "role", "user", "content", text_content(p, PROBE_USER));
    if (!turn) return list;
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", content(p, turn));
    int r = json_array_append_new(list, m);
    if (turn->calls) r |= json_object_set_new(m, "tool_calls", calls(turn));
    if (turn->field && strcmp(turn->field, "content") != 0 && strcmp(turn->field, "blocks") != 0)
        r |= json_object_set_new(m, turn->field, json_string(PROBE_THOUGHT));
    if (turn->followed)
        r |= json_array_append_new(list,
                                   json_pack("{s:s, s:o}", "role", "user", "content", text_content(p, PROBE_NEXT)));
    return whole(list, r);
}

/* The tools of a conversation: none; as usual; and in the variables that older templates read in place of tools. */
enum tools_in { NO_TOOLS, TOOLS, OLDER_TOOLS };

static json_t *variables(const struct probe *p, const struct probe_turn *turn, enum tools_in in)
{
    json_t *vars = json_pack("{s:o, s:b, s:s, s:s}", "messages", messages(p, turn), "add_generation_prompt",
                             turn == NULL, "bos_token", p->source->bos, "eos_token", p->source->eos);
    int r = vars ? 0 : -1;
    if (r == 0 && in != NO_TOOLS) r = json_object_set_new(vars, "tools", tools());
    if (r == 0 && p->var) r = json_object_set_new(vars, p->var, json_loads(p->value, JSON_DECODE_ANY, NULL));
    if (r == 0 && in == OLDER_TOOLS) {
        r = json_object_set_new(vars, "functions", json_string(parameters));
        r |= json_object_set_new(vars, "datetime", json_string("today"));
    }
    return whole(vars, r);
}

static int render(const struct probe *p, const struct probe_turn *turn, enum tools_in in, struct buf *out)
{
    static const char *const trusted[] = {"bos_token", "eos_token", NULL};
    static const struct template_limits limits = PROBE_LIMITS;
    json_auto_t *vars = variables(p, turn, in);
    if (!vars) return -ENOMEM;
    struct text text = {0};
    int r = template_render(p->source->template, vars, trusted, p->source->now, &limits, &text);
    buf_clear(out);
    if (r == 0 && text.s.len) r = buf_append(out, text.s.data, text.s.len);
    text_fini(&text);
    return r == -ENOMEM ? r : r < 0;
}

int probe_render(const struct probe *p, const struct probe_turn *turn, struct buf *out)
{
    int r = p->no_tools ? 1 : render(p, turn, TOOLS, out);
    if (r == 1 && !p->no_tools) r = render(p, turn, OLDER_TOOLS, out);
    if (r == 1) r = render(p, turn, NO_TOOLS, out);
    if (r == 0 && (out->len == 0 || piece_find_last(piece_of(out->data, 0, out->len), PROBE_USER) == SIZE_MAX)) r = 1;
    return r;
}

struct piece probe_reply(const struct buf *rendered)
{
    struct piece all = piece_of(rendered->data, 0, rendered->len);
    return piece_of(all.p, piece_find_last(all, PROBE_USER) + strlen(PROBE_USER), all.n);
}
