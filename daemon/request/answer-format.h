/* SPDX-License-Identifier: MIT */
#pragma once
/* How the answers of one request are written: the model's markup, with the tools of the request and the place where its
 * prompt ends. */
#include "daemon/output/markup-format.h"
#include "daemon/request/loaded-model.h"
#include "libcommon/proto.h"

/* {0} owns nothing. */
struct answer_format {
    const struct channel_format *format; /* the model's, or that of @markup */
    struct markup_format markup;
    json_t *tools; /* that the model may call, NULL: none */
    /* With thinking only, for constraints: until the answer begins. NULL: it begins at once. */
    const struct channel_format *before;
    struct markup_format thinking;
};

/* The format of answers to the rendered prompt @text [@len]. */
void answer_format_set(struct answer_format *a, const struct loaded *m, const char *text, size_t len);
/* That of answers to prompts that no template made. */
void answer_format_raw(struct answer_format *a, const struct loaded *m);
void answer_format_fini(struct answer_format *a);
