/* SPDX-License-Identifier: MIT */
#pragma once
/* A streaming reader of a call that is a JSON object: {"name": NAME, "arguments": {…}, "id": ID}, in any order, perhaps
 * within another object; or {NAME: {…}}. */
#include "daemon/output/literal.h"
#include "daemon/text/markup/markup.h"

/* {0} owns nothing. */
struct envelope {
    const struct markup_calls *calls; /* its keys */
    enum {
        ENVELOPE_START,
        ENVELOPE_KEY,
        ENVELOPE_IN_KEY,
        ENVELOPE_COLON,
        ENVELOPE_VALUE,
        ENVELOPE_IN_VALUE,
        ENVELOPE_AFTER
    } at;
    enum { ENVELOPE_OTHER, ENVELOPE_NAME, ENVELOPE_ARGS, ENVELOPE_ID, ENVELOPE_WRAPPER } what; /* the value */
    bool wrapped;                                                                              /* in the inner object */
    bool has_name, has_args;
    bool streams;         /* the value: an object of arguments */
    struct literal value; /* or key */
    struct buf text;      /* of it, as JSON */
    struct buf name, id;
};

void envelope_start(struct envelope *e, const struct markup_calls *calls);
void envelope_fini(struct envelope *e);
int envelope_clone(struct envelope *to, const struct envelope *from); /* 0; -ENOMEM, and @to is {0} */

/* Takes one character, appends JSON of the arguments to @args: an enum literal_result, or -ENOMEM. Name and id are
 * complete when their text is not empty. */
int envelope_feed(struct envelope *e, char c, struct buf *args);
