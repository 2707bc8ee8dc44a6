/* SPDX-License-Identifier: MIT */
#pragma once
/* Turns of sessions: how a request's answer becomes part of its session, and what happens when it cannot. */
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

/* Add the turn to the session, write the log (REQUEST_SAVING), and then send r->end. False: it cannot be kept. */
bool turn_keep(struct request *r);
/* A detached request fails with r->end: note why in its session, and write the log (REQUEST_SAVING). False: there is
 * nothing to note. */
bool turn_note_failure(struct request *r);
/* The daemon stops before a detached request has ended: its session gets the answer so far, and a note. */
void turn_cut(struct request *r);
