/* SPDX-License-Identifier: MIT */
#pragma once
/* A request to a daemon that one event answers. */
#include "client/http/exchange.h"

/* Send @q, which is freed, to the daemon of @model (NULL: the default one). @fn gets the events, with @x as its ctx. 0;
 * negative with x->fault. */
int daemon_call(struct exchange *x, const char *model, struct proto_request *q, upstream_fn fn);

/* In @fn: true if @e is the answer, an event of the type @want. The connection is then closed; the caller responds. An
 * error is the response of @x. */
bool daemon_answered(struct exchange *x, const struct proto_event *e, int r, enum proto_event_type want);
