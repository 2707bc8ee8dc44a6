/* SPDX-License-Identifier: MIT */
#pragma once
/* The messages of a request and of its session, and the text that the model's chat template makes of them. */
#include "daemon/request/loaded-model.h"
#include "daemon/session/session.h"
#include <jansson.h>

/* The first of the request's messages that are new to @x (may be NULL): 1 when its first only repeats the session's
 * system message. */
size_t messages_first_new(const struct proto_generate *g, const struct session *x);

/* Of the request: what the template gets besides the messages. */
struct prompt_extras {
    const json_t *tools; /* NULL: none */
    enum proto_thinking_mode thinking;
    bool limited; /* thinking has a budget */
};

/* Append to @out, with its provenance, what the template makes of the messages of @x (may be NULL) and the new ones of
 * @g, with @e (NULL: nothing). 0; -EOPNOTSUPP: the model has no usable template, or one without tools, the switch, or thinking to limit;
 * -EILSEQ: a message is not UTF-8; -EINVAL: a message has no role, or the template refuses; -ENOMEM. All but -ENOMEM
 * set the error message. */
int messages_render(const struct loaded *m, const struct proto_generate *g, const struct session *x,
                    const struct prompt_extras *e, struct text *out);
