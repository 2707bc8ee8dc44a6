/* SPDX-License-Identifier: MIT */
#include "client/http/http-routes.h"
#include "client/http/completion.h"
#include "client/http/http-reply.h"
#include "client/http/model-list.h"
#include <errno.h>
#include <string.h>

static const struct http_route routes[] = {
    {"GET", "/health", API_OPENAI, true, route_health},
    {"GET", "/v1/health", API_OPENAI, true, route_health},
    {"GET", "/v1/models", API_OPENAI, false, route_models},
    {"GET", "/models", API_OPENAI, false, route_models},
    {"GET", "/v1/models/*", API_OPENAI, false, route_model},
    {"POST", "/v1/embeddings", API_OPENAI, false, route_embeddings},
    {"POST", "/v1/responses", API_OPENAI, false, route_responses},
    {"GET", "/v1/responses/*", API_OPENAI, false, route_response},
    {"DELETE", "/v1/responses/*", API_OPENAI, false, route_response_delete},
    {"GET", "/v1/responses/*/input_items", API_OPENAI, false, route_input_items},
    {"GET", "/metrics", API_OPENAI, false, route_metrics},
    {"POST", "/v1/chat/completions", API_OPENAI, false, route_chat},
    {"POST", "/v1/completions", API_OPENAI, false, route_completions},
    {"POST", "/infill", API_OPENAI, false, route_infill},
    {"POST", "/rerank", API_OPENAI, false, route_rerank},
    {"POST", "/v1/rerank", API_OPENAI, false, route_rerank},
    {"POST", "/detokenize", API_OPENAI, false, route_detokenize},
    {"POST", "/tokenize", API_OPENAI, false, route_tokenize},
    {"POST", "/v1/messages", API_ANTHROPIC, false, route_messages},
    {"POST", "/v1/messages/count_tokens", API_ANTHROPIC, false, route_count_tokens},
    {"GET", "/", API_OPENAI, true, route_page},
    {"GET", "/page/page.css", API_OPENAI, true, route_page},
    {"GET", "/page/icon.svg", API_OPENAI, true, route_page},
    {"GET", "/page/conversation.js", API_OPENAI, true, route_page},
    {"GET", "/page/gateway.js", API_OPENAI, true, route_page},
    {"GET", "/page/page.js", API_OPENAI, true, route_page},
    {"GET", "/page/sessions.js", API_OPENAI, true, route_page},
    {"GET", "/page/status.js", API_OPENAI, true, route_page},
    {"GET", "/page/text.js", API_OPENAI, true, route_page},
    {"GET", "/hob/status", API_OPENAI, false, route_status},
    {"GET", "/hob/sessions", API_OPENAI, false, route_sessions},
    {"GET", "/hob/session", API_OPENAI, false, route_session},
    {"POST", "/hob/session/fork", API_OPENAI, false, route_session_fork},
    {"POST", "/hob/session/rename", API_OPENAI, false, route_session_rename},
    {"POST", "/hob/session/remove", API_OPENAI, false, route_session_remove},
};

enum { ROUTES = sizeof(routes) / sizeof(*routes) };

/* Does @url have the form @path? *name: what "*" stands for, [*len]; NULL: nothing. */
static bool match(const char *path, const char *url, const char **name, size_t *len)
{
    const char *star = strchr(path, '*');
    size_t before = star ? (size_t)(star - path) : 0;
    *name = NULL;
    *len = 0;
    if (!star) return strcmp(url, path) == 0;
    if (strncmp(url, path, before) != 0) return false;
    *name = url + before;
    *len = strcspn(*name, "/");
    return *len > 0 && strcmp(*name + *len, star + 1) == 0;
}

int routes_name(const struct http_route *route, const char *url, char **name)
{
    const char *at;
    size_t len;
    *name = NULL;
    if (!match(route->path, url, &at, &len) || !at) return 0;
    *name = strndup(at, len);
    return *name ? 0 : -ENOMEM;
}

const char *routes_allow(const struct http_route *route)
{
    return strcmp(route->path, "/v1/responses/*") == 0 ? "GET, DELETE" : route->method;
}

const struct http_route *routes_find(const char *url, const char *method, struct fault *f)
{
    if (strcmp(method, "HEAD") == 0) method = "GET";
    const struct http_route *other = NULL; /* of the path, with another method */
    for (size_t i = 0; i < ROUTES; i++) {
        const char *name;
        size_t len;
        if (!match(routes[i].path, url, &name, &len)) continue;
        if (strcmp(method, routes[i].method) == 0) return &routes[i];
        other = &routes[i];
    }
    if (other) {
        fault_set(f, 405, NULL, "%s allows only %s", other->path, routes_allow(other));
        return other;
    }
    fault_set(f, 404, NULL, "no such path: %.200s", url);
    return NULL;
}

int route_health(struct exchange *x)
{
    return reply_json(x, json_pack("{s:s}", "status", "ok"));
}

int route_models(struct exchange *x)
{
    json_t *list = NULL;
    int r = model_list(x->gateway->options, &list);
    if (r < 0) return fault_of_error(&x->fault, r);
    return reply_json(x, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

int route_model(struct exchange *x)
{
    json_auto_t *list = NULL;
    size_t i;
    json_t *m;
    int r = model_list(x->gateway->options, &list);
    if (r < 0) return fault_of_error(&x->fault, r);
    json_array_foreach(list, i, m)
    {
        if (strcmp(json_string_value(json_object_get(m, "id")), x->name) == 0) return reply_json(x, json_incref(m));
    }
    fault_set(&x->fault, 404, "model", "no model '%s': /v1/models lists the models", x->name);
    x->fault.code = "model_not_found";
    return -ENOENT;
}

int route_metrics(struct exchange *x)
{
    struct metrics_now now = {.connections = x->gateway->n_peers};
    if (x->key && !x->key->metrics)
        return fault_set(&x->fault, 403, NULL,
                         "the metrics are of all users: the line of a key that may read them has 'metrics'");
    for (const struct exchange *y = x->gateway->exchanges; y; y = y->next) {
        now.requests++;
        now.queued += y->completion && y->completion->queued;
    }
    int r = metrics_put(&x->out, &x->gateway->metrics, &now);
    if (r < 0) return fault_of_error(&x->fault, r);
    exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8");
    return 0;
}
