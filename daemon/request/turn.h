/* SPDX-License-Identifier: MIT */
#pragma once
/* Turns of sessions: store the answer of a request in its session, or the reason of its failure. */
#include "daemon/request/request.h"

/* In a job: read the log of a session that is busy for it. 0, or -errno and an error message. */
int turn_load(struct core *core, struct session *x);
/* In a job: claim room on disk for the turn, whose prompt is prepared. 0, or -errno and an error message. */
int turn_claim(struct request *r);

/* For turn_replay: acquire the session that the request would make, if one of this name exists already. */
void turn_find_fork(struct request *r);
/* If this turn was made before, by a request with the same UUID whose answer was lost, repeat its answer. True: the
 * request is answered, and may be freed. */
bool turn_replay(struct request *r);
/* Move the turn to the new session that the request names. 0, or -errno and an error message. */
int turn_fork(struct request *r);

/* Add the turn to the session, write the log (REQUEST_SAVING), and then send r->end. False: it cannot be stored. */
bool turn_keep(struct request *r);
/* A detached request fails with r->end: store the reason in its session, and write the log (REQUEST_SAVING). False: the
 * request is not detached, or has no reason to store. */
bool turn_note_failure(struct request *r);
/* The daemon stops before a detached request has ended: store the partial answer and the reason in its session. */
void turn_cut(struct request *r);
