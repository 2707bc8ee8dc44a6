/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-source.h"
#include "libcommon/proto.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MEDIA_FILE_MAX == PROTO_FILE_MAX, "the limits of files differ");

int media_source_new(struct media_source **out, struct blob *file)
{
    struct media_source *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->refs = 1;
    s->file = blob_ref(file);
    *out = s;
    return 0;
}

void media_source_decoded(struct media_source *s, struct media *m)
{
    s->kind = m->kind;
    s->width = m->width;
    s->height = m->height;
    s->samples = m->samples;
    memcpy(s->digest, m->digest, sizeof(s->digest));
    free(s->pixels);
    s->pixels = m->data;
    *m = (struct media){0};
}

struct media_source *media_source_ref(struct media_source *s)
{
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

struct media_source *media_source_unref(struct media_source *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return NULL;
    blob_unref(s->file);
    free(s->pixels);
    free(s);
    return NULL;
}
