/* SPDX-License-Identifier: MIT */
#pragma once
/* The images and sounds of messages in the payload of a turn record. */
#include "daemon/session/record-bytes.h"
#include "daemon/session/store.h"

/* How many the messages of @x have, from message @from on. */
size_t record_media_count(const struct session *x, size_t from);
/* Append them to @out. 0 or -ENOMEM. */
int record_put_media(struct buf *out, const struct session *x, size_t from);
/* Add those of a record to the messages of @x, which has the record's messages from @from on. 0; -EBADMSG: they do not
 * fit the messages; -ENOMEM. */
int record_apply_media(struct record_cursor *c, struct session *x, size_t from);
