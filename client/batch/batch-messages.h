/* SPDX-License-Identifier: MIT */
#pragma once
/* The list `messages` of a line: as OpenAI's, texts only. */
#include "libcommon/proto.h"

/* Append the messages of the JSON list @s. 0; -EBADMSG, -EINVAL: not such a list, or it is empty; sets the error
 * message, which names the message; -ENOMEM. @g owns what was read in any case. */
int batch_messages_read(struct proto_generate *g, const char *s, size_t len);

/* Put a system message before the others. 0 or -ENOMEM. */
int batch_messages_system(struct proto_generate *g, const char *text);
