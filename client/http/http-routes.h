/* SPDX-License-Identifier: MIT */
#pragma once
/* The paths of the API. */
#include "client/http/exchange.h"

/* The route of @url and @method (HEAD counts as GET). On failure *f is set: 404, or 405 with the route of the path's
 * own method; NULL: none. */
const struct http_route *routes_find(const char *url, const char *method, struct fault *f);

/* The segment of @url that "*" in the route's path stands for; *name NULL: it has none. The caller frees *name. 0 or
 * -ENOMEM. */
int routes_name(const struct http_route *route, const char *url, char **name);

/* The methods of the route's path. */
const char *routes_allow(const struct http_route *route);

/* The handlers, see http_route.handle. */
int route_health(struct exchange *x);
int route_models(struct exchange *x);
int route_model(struct exchange *x);
int route_embeddings(struct exchange *x);
int route_responses(struct exchange *x);
int route_response(struct exchange *x);
int route_response_delete(struct exchange *x);
int route_input_items(struct exchange *x);
int route_metrics(struct exchange *x);
int route_chat(struct exchange *x);
int route_completions(struct exchange *x);
int route_tokenize(struct exchange *x);
int route_detokenize(struct exchange *x);
int route_infill(struct exchange *x);
int route_rerank(struct exchange *x);
int route_messages(struct exchange *x);
int route_count_tokens(struct exchange *x);
int route_page(struct exchange *x);
int route_status(struct exchange *x);
int route_sessions(struct exchange *x);
int route_session(struct exchange *x);
int route_session_fork(struct exchange *x);
int route_session_rename(struct exchange *x);
int route_session_remove(struct exchange *x);
