/* SPDX-License-Identifier: MIT */
#pragma once
/* The job of a request: the part of its work that needs no engine state and runs in the job pool. A request has one job
 * at a time. */
#include "daemon/request/request.h"

/* Have a job call @work for @r, which is in @state meanwhile, and then @finish in the engine's thread, with the result
 * of @work: negative with a message. If the request ends before that, @finish is not called. Any thread that holds the
 * request may call this; until @finish the job pool has the request. */
void request_send(struct request *r, enum request_state state, int (*work)(struct request *r),
                  void (*finish)(struct request *r, int result));

/* The same in another pool; @r is REQUEST_PREPARING. */
void request_send_to(struct request *r, struct job_pool *pool, int (*work)(struct request *r),
                     void (*finish)(struct request *r, int result));

/* Have jobs decode the media of @r, which is begun, and then do the work of its type. */
void request_prepare(struct request *r);

/* The message of the job's negative result; valid until the next job. */
const char *request_job_error(const struct request *r);

/* Take back the job of @r, or the fetch of @s (NULL: none), if one of them is under way. False: it runs and will be
 * back. */
bool request_recall(struct request *r, struct seq *s);
