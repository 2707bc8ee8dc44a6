/* SPDX-License-Identifier: MIT */
#pragma once
/* The ways in which an answer stops running: it is done, it fails, or it is preempted. */
#include "daemon/request/request.h"

/* Answer @s of @r (NULL: the request, which has no sequences) ends with an error of -@error and the message @why. What
 * a session can keep of its turn is kept. Either may be freed. */
void answer_fail(struct request *r, struct seq *s, int error, const char *why);
/* The same for one that is complete or cancelled. */
void answer_done(struct request *r, struct seq *s, enum proto_reason reason);

/* @s loses its slot and waits again. Its blocks stay in the cache as long as there is room. */
void answer_preempt(struct seq *s);
