/* SPDX-License-Identifier: MIT */
#pragma once
/* Continues from an exchange of the log. */
#include "client/options.h"

/*
 * Put the conversation up to the exchange o->log.from before the new text of @q: if the exchange is the last turn of a
 * session that the daemon has, @q continues the session; else the messages are sent again. Sets the model of @o, if the
 * command line does not, and what the record follows. 0; -ENOENT: no such exchange, or a part of its conversation is
 * removed; -EINVAL: it cannot be continued like this; else -errno; each sets the error message.
 */
int resume_request(struct options *o, struct proto_request *q);
