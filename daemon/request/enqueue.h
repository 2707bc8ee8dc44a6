/* SPDX-License-Identifier: MIT */
#pragma once
/* A prompt is prepared: the request becomes active, and its first sequence waits for a slot. */

struct request;

/* The job of @r, with prepare_request(), is back with @result. Fix the length of the answer, its context and its
 * sampling, and add the sequence to the plan. If that fails, or the session has the answer already, the request ends,
 * and may be freed. */
void enqueue_request(struct request *r, int result);
