/* SPDX-License-Identifier: MIT */
#pragma once
/* The checks of a request's header. */
#include "client/http/exchange.h"

/* Check the fields that decide where the body ends, Host, Origin, Content-Type and the key. @route may be NULL. 0: *key
 * is the client's key (NULL: the gateway has none); negative: *f is set, unless it was before. */
int check_header(struct gateway *g, struct MHD_Connection *c, const struct http_route *route, struct key **key,
                 struct fault *f);
