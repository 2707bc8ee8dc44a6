/* SPDX-License-Identifier: MIT */
#pragma once
/* The context policy of a request, and what fits into its context. */
#include "daemon/request/loaded-model.h"
#include "daemon/session/session.h"

/* The policy of @g in @x (may be NULL): the request's, else the session's; without either, refuse. */
enum proto_context context_policy(const struct proto_generate *g, const struct session *x);

/* The greatest number of tokens of a sequence under @policy, answer included. */
uint64_t context_limit(uint32_t ctx, enum proto_context policy);

/* May the prompt of @q, whatever its tokens are, fit into a context? 0; -E2BIG, and the error message: it is not worth
 * the memory to prepare it. */
int context_check_bytes(const struct loaded *m, const struct proto_request *q);
