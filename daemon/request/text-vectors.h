/* SPDX-License-Identifier: MIT */
#pragma once
/* The vectors of a request's texts: from the cache, from rows, to events. */
#include "daemon/request/texts.h"

/* The text of item @i; of a cosine, item 0 is the question. */
const struct proto_text *text_of(const struct request *r, uint32_t i);
/* The question that the classifier reads with each text; NULL: none. */
const struct proto_text *text_question(const struct request *r);

/* Take the vector of item @i from the cache. False: it is not there, or there is no memory. */
bool text_find(struct request *r, uint32_t i);
/* The vector of the slot's item from its rows, also to the cache. @tokens: of the text. 0 or -ENOMEM, -errno. */
int text_keep(struct request *r, const struct text_slot *x, uint32_t tokens);
/* Emit the vectors that follow the emitted ones, if they are enough for an event, or the last ones. 0 or -ENOMEM. */
int text_emit(struct request *r);
