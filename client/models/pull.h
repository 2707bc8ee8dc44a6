/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to pull*.c: the download of one file. */
#include "client/models/bar.h"
#include "client/models/models.h"
#include "client/models/origin.h"
#include "client/models/url.h"
#include <sha2.h>

struct pull {
    const struct models_options *o;
    struct place place;
    struct origin origin;
    struct bar bar;
    char shown[URL_SHOWN];     /* for messages */
    SHA2_CTX sum;              /* of the first @summed bytes */
    uint64_t summed, at, most; /* at: bytes in the .part; most: the largest value of at in this process */
    uint32_t parts;            /* files of the model; the first of them is the one of the URL */
    bool checked;              /* hobd has checked the beginning of the file */
    bool invalid;              /* the content of the .part is invalid */
    bool restart;              /* restart the download at the first byte */
};

/* Download the file of p->origin into the .part of p->place, which is open, and check its SHA-256 if it is known. 0, or
 * -errno: sets the error message; call pull_keep. */
int pull_download(struct pull *p);

/* After a failed download: keep the .part for the next pull if it can be completed, and say so. */
void pull_keep(struct pull *p);

/* Parts that the file name of a URL tells: 1: it is not a part. -EINVAL: it is a part, but not the first; sets the
 * error message. */
int pull_parts_count(const struct origin *o, uint32_t *count);

/* Download the parts behind the first to their .part. Errors as pull_download. */
int pull_parts(const struct pull *p);

/* Give those parts their names. 0 or -errno; sets the error message. */
int pull_parts_commit(const struct pull *p);
