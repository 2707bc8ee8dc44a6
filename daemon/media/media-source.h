/* SPDX-License-Identifier: MIT */
#pragma once
/* An image or a sound of a prompt: its file, and its size and digest once it was decoded. */
#include "daemon/media/media.h"
#include "daemon/media/pixel-budget.h"
#include "libcommon/blob.h"
#include <stdatomic.h>

/* It belongs to all who have a reference, in any thread. Only @pixels changes once there are several. */
struct media_source {
    atomic_uint refs;
    struct blob *file; /* held */
    enum media_kind kind;
    uint32_t width, height; /* of an image */
    uint64_t samples;       /* of a sound */
    uint8_t digest[MEDIA_DIGEST];
    void *pixels;                /* owned: as data of struct media; NULL: not at hand. Of who prepares or encodes it */
    struct pixel_budget *budget; /* that has @charged bytes of @uid for the pixels; NULL: none */
    uid_t uid;
    uint64_t charged;
};

/* Not decoded: all but @file is zero. Takes a reference of its own on @file. 0 or -ENOMEM. */
int media_source_new(struct media_source **out, struct blob *file);
/* Take over kind, size, digest and the data of @m, which is zero then. */
void media_source_decoded(struct media_source *s, struct media *m);
/* Charge @budget, which must outlive @s, for the pixels; they are dropped if it has no room. */
void media_source_charge(struct media_source *s, struct pixel_budget *budget, uid_t uid);
/* Free the pixels. */
void media_source_drop(struct media_source *s);
struct media_source *media_source_ref(struct media_source *s);   /* NULL ok; returns @s */
struct media_source *media_source_unref(struct media_source *s); /* NULL ok, returns NULL */
