/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The memory for bodies of requests in work, until the daemon has them. A small body always has room. All large ones
 * together have BODY_BUDGET times --max-body, and a user may hold at most as much as stays free for others.
 */
#include "client/http/exchange.h"

enum { BODY_BUDGET = 8, BODY_SMALL = 64 << 10 /* bytes */ };

/* @x has a body of @n bytes so far. 0, or negative with x->fault: the status 503. */
int body_budget_take(struct exchange *x, size_t n);
/* The daemon has the request. */
void body_budget_release(struct exchange *x);
