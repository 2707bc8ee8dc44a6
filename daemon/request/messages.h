/* SPDX-License-Identifier: MIT */
#pragma once
/* The messages of a request and of its session, and the text that the model's chat template makes of them. */
#include "daemon/request/loaded-model.h"
#include "daemon/session/session.h"

/* The first of the request's messages that are new to @x (may be NULL): 1 when its first only repeats the session's
 * system message. */
size_t messages_first_new(const struct proto_generate *g, const struct session *x);

/* Append to @out, with its provenance, what the template makes of the messages of @x (may be NULL) and the new ones of
 * @g. 0; -EOPNOTSUPP: the model has no usable template; -EILSEQ: a message is not UTF-8; -EINVAL: a message has no
 * role, or the template refuses; -ENOMEM. All but -ENOMEM set the error message. */
int messages_render(const struct loaded *m, const struct proto_generate *g, const struct session *x, struct text *out);
