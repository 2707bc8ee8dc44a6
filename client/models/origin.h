/* SPDX-License-Identifier: MIT */
#pragma once
/* Where a model is pulled from: what the user names, and what is written beside the part of it that is here. */
#include "client/models/place.h"
#include <stdbool.h>

struct origin {
    char *url;             /* without what it says of a user */
    char *user, *password; /* that; kept in no file; NULL: nothing */
    char *tag;             /* of the file there (fetch.h); NULL: none */
    char sha256[65];       /* lower case; "": not known */
    int64_t total;         /* bytes; -1: not known */
    bool hub;              /* Hugging Face's: it tells the SHA-256 */
};

/* "hf:ORG/REPO[@REVISION]/FILE" (at $HF_ENDPOINT, else huggingface.co), or a URL. 0; -EINVAL, -ENOMEM with a
 * sentence. origin_fini in any case. */
int origin_parse(struct origin *o, const char *text);

/* The last component of the URL's path, escapes undone, the caller's; NULL: it has none. */
char *origin_file(const struct origin *o);

/* What the place's .from says: 0; 1: nothing that can be used. origin_fini in any case. */
int origin_read(struct origin *o, const struct place *p);
int origin_write(const struct origin *o, const struct place *p);

void origin_fini(struct origin *o);
