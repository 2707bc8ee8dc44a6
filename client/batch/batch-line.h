/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * One line of a batch: a JSON object with `prompt` or `messages`, options of hob under their long names ('_' may stand
 * for '-'), and an `id`; or a line of OpenAI's batch files, with `custom_id`, `url` and `body`, whose body has the same
 * keys or OpenAI's names of them.
 */
#include "client/options.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"

enum batch_form {
    BATCH_HOB,
    BATCH_CHAT, /* OpenAI's, of /v1/chat/completions */
    BATCH_TEXT, /* OpenAI's, of /v1/completions */
};

struct batch_line {
    enum batch_form form;
    struct buf id;          /* JSON text; the line's number unless the line has an id */
    bool url;               /* the line has one */
    struct buf body;        /* of OpenAI's forms: the object with the request */
    bool extract, thinking; /* what the result shows: only the first code block; the thought */
    struct proto_request request;
};

/* Fill @l, which is new, except its request, from line @number. Call batch_line_fini in any case. 0; -EBADMSG, -EINVAL:
 * broken, the id is then as far as it could be read; sets the error message; -ENOMEM. */
int batch_line_begin(struct batch_line *l, uint64_t number, const char *s, size_t len);

/* Fill the request of @l after batch_line_begin, from the same text. @defaults: the options of the command line. 0;
 * -ENOMEM; else -errno: the line cannot be sent; sets the error message, which names the key. */
int batch_line_request(struct batch_line *l, const struct options *defaults, const char *s, size_t len);

void batch_line_fini(struct batch_line *l);
