/* SPDX-License-Identifier: MIT */
#pragma once
/* The files of a request become sources: their size and digest, and the pixels while there is memory for them. Jobs of
 * a pool of their own decode them, one file each time, so that users take turns. */
#include "daemon/request/request.h"

/* Its messages have images or sounds. */
bool request_has_media(const struct request *r);

/* Make the sources of @r, not decoded yet. 0, also without media; -EOPNOTSUPP: the model or this daemon takes none;
 * -ENOMEM; with an error message. */
int decode_media_begin(struct request *r);

/* Have jobs decode the sources of @r, and then call @next, or end @r if one cannot be decoded. False: it has none. */
bool decode_media(struct request *r, void (*next)(struct request *r));

/* The request has ended: no further file is decoded. Any thread. */
void decode_media_stop(struct request *r);
void decode_media_fini(struct request *r);
