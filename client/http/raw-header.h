/* SPDX-License-Identifier: MIT */
#pragma once
/* The bytes of a request's header. */
#include "client/http/fault.h"
#include <microhttpd.h>

/* Refuse a header that another server could read in another way, but that libmicrohttpd does not refuse. @method and
 * @version are those of the first call of libmicrohttpd's handler for a request. 0; negative with *f. */
int raw_header_check(struct MHD_Connection *c, const char *method, const char *version, struct fault *f);
