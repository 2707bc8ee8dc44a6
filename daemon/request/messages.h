/* SPDX-License-Identifier: MIT */
#pragma once
/* The messages of a request and of its session, and the text that the model's chat template makes of them. */
#include "daemon/request/loaded-model.h"
#include "daemon/request/prompt-pieces.h"
#include "daemon/session/session.h"
#include <jansson.h>

/* The first of the request's messages that are new to @x (may be NULL): 1 when its first only repeats the session's
 * system message. */
size_t messages_first_new(const struct proto_generate *g, const struct session *x);

/* Of the request: besides the messages. */
struct prompt_extras {
    const json_t *tools; /* NULL: none */
    enum proto_thinking_mode thinking;
    bool limited;                        /* thinking has a budget */
    struct media_source *const *sources; /* [n_sources] the media of the request's messages, decoded */
    size_t n_sources;
};

/* Append to @out, with its provenance, what the template makes of the messages of @x (may be NULL) and the new ones of
 * @g, with @e (NULL: nothing). 0; -EOPNOTSUPP: the model has no usable template, or one without tools, the switch, or
 * thinking to limit; -EILSEQ: a message is not UTF-8; -EINVAL: a message has no role, or the template refuses; -ENOMEM.
 * All but -ENOMEM set the error message. @marks: the text has its marks in place of the media; NULL: the messages have
 * no media. */
int messages_render(const struct loaded *m, const struct proto_generate *g, const struct session *x,
                    const struct prompt_extras *e, struct media_marks *marks, struct text *out);

/* Append the media of the messages of @x (may be NULL) and of the new ones of @g to @out, in their order. Those of @x
 * have no pixels; those of @g are e->sources. 0; -EINVAL: a medium of @g is not among the sources; sets the error
 * message; -ENOMEM. */
int messages_media(const struct proto_generate *g, const struct session *x, const struct prompt_extras *e,
                   struct prompt_sources *out);
