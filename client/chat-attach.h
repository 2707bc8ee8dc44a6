/* SPDX-License-Identifier: MIT */
#pragma once
/* The images and sounds of a chat's next message. */
#include "client/chat.h"

/* The command /image or /audio: attach the file @arg ("~/" is the home directory); "": list them; "none": remove all.
 * 0, or an exit status; errors are printed. */
int chat_attach(struct chat *c, enum proto_media_kind kind, const char *arg);
/* The message @m, which had them, got no answer: attach them to the next message again. */
void chat_attach_again(struct chat *c, struct proto_message *m);
/* The next message has none. */
void chat_attach_none(struct chat *c);
