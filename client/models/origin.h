/* SPDX-License-Identifier: MIT */
#pragma once
/* Origin of a pull: the URL of the user, and the file that records it beside the incomplete download. */
#include "client/models/place.h"
#include <stdbool.h>

struct origin {
    char *url;             /* without user and password */
    char *user, *password; /* from the URL; never stored in a file; NULL: none */
    char *tag;             /* the server's tag of the file (fetch.h); NULL: unknown */
    char sha256[65];       /* lower case; "": unknown */
    int64_t total;         /* bytes; -1: unknown */
    bool hub;              /* the server is Hugging Face, which sends the SHA-256 */
};

/* Parse "hf:ORG/REPO[@REVISION]/FILE" (at $HF_ENDPOINT, else huggingface.co), or a URL. 0; -EINVAL, -ENOMEM; sets the
 * error message. Call origin_fini in any case. */
int origin_parse(struct origin *o, const char *text);

/* The last component of the URL's path, unescaped, owned by the caller; NULL: none. */
char *origin_file(const struct origin *o);

/* Read the .from file of the place. 0; 1: missing or invalid. Call origin_fini in any case. */
int origin_read(struct origin *o, const struct place *p);
int origin_write(const struct origin *o, const struct place *p);

void origin_fini(struct origin *o);
