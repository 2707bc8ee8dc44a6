/* SPDX-License-Identifier: MIT */
#include "client/http/responses-logprobs.h"
#include "client/http/openai-logprobs.h"
#include "client/http/responses.h"
#include "libcommon/error.h"
#include "libcommon/json-whole.h"
#include <string.h>

int response_logprobs_add(struct completion *c, const struct proto_event *e)
{
    struct response *s = c->response;
    if (!c->logprobs) return 0;
    if (!s->logprobs) s->logprobs = json_array();
    json_auto_t *more = logprobs_of_event(e);
    return json_array_extend(s->logprobs, more) < 0 ? error_origin(-ENOMEM) : 0;
}

/* A copy of the tokens of @list from number @from on. */
static json_t *without_bytes(const json_t *list, size_t from)
{
    json_t *copy = json_array();
    for (size_t i = from; i < json_array_size(list); i++) {
        json_t *token = json_deep_copy(json_array_get(list, i)), *likely;
        size_t k;
        json_object_del(token, "bytes");
        json_array_foreach(json_object_get(token, "top_logprobs"), k, likely) json_object_del(likely, "bytes");
        json_whole_append(copy, token);
    }
    return copy;
}

json_t *response_logprobs_new(struct completion *c)
{
    struct response *s = c->response;
    json_t *list = without_bytes(s->logprobs, s->logprobs_told);
    s->logprobs_told = json_array_size(s->logprobs);
    return list;
}

json_t *response_logprobs_all(const struct completion *c)
{
    return without_bytes(c->response->logprobs, 0);
}

void response_logprobs_put(const struct completion *c, json_t *part)
{
    if (c->response->logprobs) json_whole_set(part, "logprobs", json_incref(c->response->logprobs));
}

void response_logprobs_clear(struct completion *c)
{
    struct response *s = c->response;
    json_decref(s->logprobs); /* not json_array_clear: the item has the list */
    s->logprobs = NULL;
    s->logprobs_told = 0;
}

void response_logprobs_put_whole(const struct completion *c, json_t *output)
{
    json_t *tokens = c->choices[0].logprobs, *item;
    size_t i;
    json_array_foreach(output, i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));
        json_t *part = json_array_get(json_object_get(item, "content"), 0);
        if (tokens && type && strcmp(type, "message") == 0) json_whole_set(part, "logprobs", json_incref(tokens));
    }
}
