/* SPDX-License-Identifier: MIT */
#pragma once
/* Sends a generate or warm request and prints the answer. */
#include "client/options.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"

/* @stdin_fd: descriptor of standard input; -1: do not read it. Returns the exit status. */
int generate_run(const struct options *o, int stdin_fd);

/* Send @r, print the answer, and append the text that arrived to @said (NULL: nowhere). Returns the exit status. */
int generate_turn(const struct options *o, const struct proto_request *r, struct buf *said);

/* Fill @r, which is new, from the options and @input; takes the memory of @input on 0. Call proto_request_fini in any
 * case. 0 or -ENOMEM; sets the error message. */
int generate_request(struct proto_request *r, const struct options *o, struct buf *input);

/* Move the contents of @input to @t. */
void generate_take(struct proto_text *t, struct buf *input);
