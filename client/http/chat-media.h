/* SPDX-License-Identifier: MIT */
#pragma once
/* Images and sounds in the messages of each API. They are in the request as base64; nothing is fetched. */
#include "client/http/completion.h"
#include <jansson.h>

/* If @part is an image or a sound, add it to @m behind @at bytes of its text. @place names the part in errors. 0; 1: it
 * is another part; negative with the fault. */
int chat_media(struct completion *c, struct proto_message *m, size_t at, const json_t *part, const char *place);
