/* SPDX-License-Identifier: MIT */
#pragma once
/* What an image or a sound of a prompt becomes. */
#include "daemon/encoder/encoder.h"
#include "daemon/media/media-source.h"
#include "libcommon/error.h"

/* 0; -EOPNOTSUPP: @e does not take its kind; -EINVAL as encoder_plan and encoder_plan_sound; with a message. */
static inline int source_plan(const struct encoder *e, const struct media_source *s, struct encoder_plan *out)
{
    if (s->kind != encoder_takes(e))
        return error_say(-EOPNOTSUPP,
                         s->kind == MEDIA_SOUND ? "the model takes no sounds" : "the model takes no images");
    if (s->kind == MEDIA_SOUND) return encoder_plan_sound(e, s->samples, out);
    return encoder_plan(e, s->width, s->height, out);
}
