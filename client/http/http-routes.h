/* SPDX-License-Identifier: MIT */
#pragma once
/* The paths of the API. */
#include "client/http/exchange.h"

/* The route of @url and @method (HEAD counts as GET). On failure *f is set: 404, or 405 with the route of the path's
 * own method; NULL: none. */
const struct http_route *routes_find(const char *url, const char *method, struct fault *f);

/* The handlers, see http_route.handle. */
int route_health(struct exchange *x);
int route_models(struct exchange *x);
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
