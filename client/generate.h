/* SPDX-License-Identifier: MIT */
#pragma once
/* hob's main job: ask and print the answer; with --warm ask to have the prompt read. */
#include "client/options.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"

/* The exit status. @stdin_fd: where standard input is to be read, -1: it is not. */
int generate_run(const struct options *o, int stdin_fd);

/* Ask @r and print the answer, whose text, as far as it came, is appended to @said (NULL: nowhere). The exit status. */
int generate_turn(const struct options *o, const struct proto_request *r, struct buf *said);

/* Fill @r from the options and @input, whose memory it takes on 0. @r is new; proto_request_fini in any case.
 * 0 or -ENOMEM with a sentence. */
int generate_request(struct proto_request *r, const struct options *o, struct buf *input);

/* @input becomes @t's. */
void generate_take(struct proto_text *t, struct buf *input);
