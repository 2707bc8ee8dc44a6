/* SPDX-License-Identifier: MIT */
#include "daemon/media/media-source.h"
#include "libcommon/proto.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* NOLINTNEXTLINE(misc-redundant-expression): two names of one limit */
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
    media_source_drop(s);
    s->pixels = m->data;
    *m = (struct media){0};
}

void media_source_charge(struct media_source *s, struct pixel_budget *budget, uid_t uid)
{
    const struct media m = {.kind = s->kind, .width = s->width, .height = s->height, .samples = s->samples};
    const uint64_t bytes = media_bytes(&m);
    if (!s->pixels || s->budget || bytes == 0) return;
    if (!pixel_budget_take(budget, uid, bytes)) {
        media_source_drop(s);
        return;
    }
    s->budget = budget;
    s->uid = uid;
    s->charged = bytes;
}

void media_source_drop(struct media_source *s)
{
    free(s->pixels);
    s->pixels = NULL;
    if (s->budget) pixel_budget_give(s->budget, s->uid, s->charged);
    s->budget = NULL;
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
    media_source_drop(s);
    free(s);
    return NULL;
}
