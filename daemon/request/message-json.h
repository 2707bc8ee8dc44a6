/* SPDX-License-Identifier: MIT */
#pragma once
/* A message as the chat template reads it. */
#include "daemon/request/media-marks.h"
#include "daemon/text/markup/markup.h"
#include "libcommon/proto.h"
#include <jansson.h>

/* Appends @m to @list, with thought and calls in the form that the template of @markup writes. @n: which message, from
 * 1, for the error message. 0; -EILSEQ: not UTF-8; -EINVAL: no role, or a call whose arguments are no JSON object: sets
 * the error message; -ENOMEM. @marks: for the media of @m, which @m does not have if this is NULL. */
int message_push(json_t *list, const struct markup *markup, struct media_marks *marks, const struct proto_message *m,
                 size_t n);
