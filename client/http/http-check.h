/* SPDX-License-Identifier: MIT */
#pragma once
/* The checks of a request's header. */
#include "client/http/exchange.h"

/* Check that only one reading of the header and of the body's end is possible. @method and @version are those of the
 * first call of libmicrohttpd's handler for a request. 0; negative: *f is set. */
int check_framing(struct MHD_Connection *c, const char *method, const char *version, struct fault *f);

/* Check the length of the body, Host, Origin, Content-Type and the key. @route may be NULL. 0: *key is the client's key
 * (NULL: the gateway has none); negative: *f is set, unless it was before. */
int check_header(struct gateway *g, struct MHD_Connection *c, const struct http_route *route, struct key **key,
                 struct fault *f);
