/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Marks in the messages that a chat template renders, each in place of an image or a sound: "[#KEY:NUMBER#]". The key
 * is drawn for each prompt, so that no text that a user writes is a mark. A mark has neither letters, quotes nor white
 * space, so that filters such as trim, upper and tojson do not change it.
 */
#include "daemon/media/media-source.h"
#include "daemon/text/text.h"
#include "libcommon/proto.h"

struct media_marks {
    uint64_t key;
    size_t n; /* marks in messages so far */
};

/* Draw the key. 0 or -errno (message). */
int media_marks_init(struct media_marks *k);

/* Append the content of @m, the message @n (from 1), with the next marks to @out. 0; -EINVAL: an image is not at the
 * beginning of a character of the content, or is not behind those before; sets the error message; -ENOMEM. */
int media_marks_put(struct media_marks *k, const struct proto_message *m, size_t n, struct buf *out);

/* Bytes of a mark in a text. */
struct media_place {
    size_t begin, end;
};

/* Find all marks in @t, which a template has rendered. @sources: [k->n] that the marks stand for; @out: [k->n], set in
 * the order of the text. 0; -EINVAL: the template has dropped or repeated a mark, or changed their order; sets the
 * error message; -ENOMEM. */
int media_marks_find(const struct media_marks *k, const struct text *t, struct media_source *const *sources,
                     struct media_place *out);
