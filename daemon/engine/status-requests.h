/* SPDX-License-Identifier: MIT */
#pragma once
/* Status requests. They are not the engine thread's: one is answered at once, also while a step computes; several of
 * one uid that come together get one text. */
#include "libcommon/proto.h"
#include <stdint.h>
#include <sys/types.h>

struct engine;
struct status_request;

/* Take a status request, which will be answered soon whatever the engine does. Any thread. On 0 takes the contents of
 * @req; -ENOMEM: the caller still owns them. */
int status_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req);
/* Answer the requests that need not wait longer, or have the engine's thread do it. Any thread. */
void status_flush(struct engine *e);
/* The requests that need not wait longer, which the caller has to answer; NULL: none. The caller holds the lock. */
struct status_request *status_due(struct engine *e);
/* Answer them. The caller holds core.own. */
void status_answer(struct engine *e, struct status_request *list);
/* Us when some request has waited long enough; UINT64_MAX: none waits. The caller holds the lock. */
uint64_t status_next(const struct engine *e);
void status_fini(struct engine *e);
