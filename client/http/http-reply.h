/* SPDX-License-Identifier: MIT */
#pragma once
/* JSON in responses. */
#include "client/http/exchange.h"
#include "client/http/fault.h"
#include "libcommon/buf.h"
#include <jansson.h>

/* Append @json as text to @out, and release it. @json NULL: no memory. 0 or -ENOMEM; sets the error message. */
int reply_put_json(struct buf *out, json_t *json);

/* Append an event of a stream: "event: NAME" (not if @name is NULL) and "data: JSON". Releases @json. As
 * reply_put_json. */
int reply_put_event(struct buf *out, const char *name, json_t *json);

/* The fault in the form of @api; the caller owns it. NULL: no memory. */
json_t *reply_fault(enum api api, const struct fault *f);

/* Append reply_fault as text. As reply_put_json. */
int reply_put_fault(struct buf *out, enum api api, const struct fault *f);

/* Answer 200 with @json, which is released. 0; negative with x->fault. */
int reply_json(struct exchange *x, json_t *json);
