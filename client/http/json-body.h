/* SPDX-License-Identifier: MIT */
#pragma once
/* The JSON object of a request. */
#include "client/http/fault.h"
#include "libcommon/buf.h"
#include <jansson.h>

enum { JSON_BODY_DEPTH = 128, JSON_BODY_VALUES = 200000 };

/* Parse @body, and free its memory. Depth and number of values are limited before anything is allocated: in memory a
 * value takes many times its text. The caller owns *out. 0; negative with *f. */
int json_body_read(json_t **out, struct buf *body, struct fault *f);
