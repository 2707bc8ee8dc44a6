/* SPDX-License-Identifier: MIT */
#pragma once
/* Sends a generate or warm request and prints the answer. */
#include "client/answer.h"
#include "client/input.h"
#include "client/options.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"

/* @stdin_fd: descriptor of standard input; -1: do not read it. Returns the exit status. */
int generate_run(const struct options *o, int stdin_fd);

#define GENERATE_ID 1 /* of each request, which is the only one of its connection */

/* Send @r and print the answer. @said (NULL: not wanted) is new; it gets what arrived, and the caller calls
 * answer_parts_fini. Returns the exit status. */
int generate_turn(const struct options *o, const struct proto_request *r, struct answer_parts *said);

/* The same, but print nothing of the answer; @said is wanted. */
int generate_silent(const struct options *o, const struct proto_request *r, struct answer_parts *said);

/* Fill @r, which is new, from the options and @input; takes the memory of @input. Call proto_request_fini in any
 * case. 0; -EINVAL: wrong usage; -ENOMEM; else -errno; sets the error message. */
int generate_request(struct proto_request *r, const struct options *o, struct input *input);

/* Set a random UUID (RFC 9562, version 4): each request that is no repetition has its own. 0 or -errno; sets the error
 * message. */
int generate_uuid(struct proto_generate *g);

/* Move the contents of @input to @t. */
void generate_take(struct proto_text *t, struct buf *input);
