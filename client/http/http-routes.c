/* SPDX-License-Identifier: MIT */
#include "client/http/http-routes.h"
#include "client/http/http-reply.h"
#include "client/http/model-list.h"
#include <string.h>

static const struct http_route routes[] = {
    {"GET", "/health", API_OPENAI, true, route_health},
    {"GET", "/v1/health", API_OPENAI, true, route_health},
    {"GET", "/v1/models", API_OPENAI, false, route_models},
    {"GET", "/models", API_OPENAI, false, route_models},
    {"GET", "/metrics", API_OPENAI, false, route_metrics},
    {"POST", "/v1/chat/completions", API_OPENAI, false, route_chat},
    {"POST", "/v1/completions", API_OPENAI, false, route_completions},
    {"POST", "/tokenize", API_OPENAI, false, route_tokenize},
    {"POST", "/v1/messages", API_ANTHROPIC, false, route_messages},
    {"POST", "/v1/messages/count_tokens", API_ANTHROPIC, false, route_count_tokens},
};

enum { ROUTES = sizeof(routes) / sizeof(*routes) };

const struct http_route *routes_find(const char *url, const char *method, struct fault *f)
{
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (size_t i = 0; i < ROUTES; i++) {
        if (strcmp(url, routes[i].path) != 0) continue;
        if (strcmp(method, routes[i].method) != 0)
            fault_set(f, 405, NULL, "%s allows only %s", routes[i].path, routes[i].method);
        return &routes[i];
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

int route_metrics(struct exchange *x)
{
    unsigned requests = 0;
    for (const struct exchange *y = x->gateway->exchanges; y; y = y->next) requests++;
    int r = metrics_put(&x->out, &x->gateway->metrics, x->gateway->n_peers, requests);
    if (r < 0) return fault_of_error(&x->fault, r);
    exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8");
    return 0;
}
