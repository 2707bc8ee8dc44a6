/* SPDX-License-Identifier: MIT */
#pragma once
/* The objects of a response. Each function json_t *() returns a new object, or NULL: no memory. */
#include "client/http/response-id.h"
#include "libcommon/proto.h"
#include <jansson.h>

struct response_view {
    const char *id, *model;
    int64_t created;
    const char *status; /* "in_progress", "completed", "incomplete", "cancelled" or "failed" */
    const json_t *echo; /* the fields of the request */
    json_t *output;     /* released */
    json_t *usage;      /* released; NULL: none yet */
    json_t *error;      /* released; NULL: none */
};

json_t *response_json(const struct response_view *v);

/* The fields that a response repeats, of the request @object; a missing field has its default. */
json_t *response_echo(const json_t *object);

/* "completed", "incomplete" or "cancelled". */
const char *response_status(enum proto_reason r);

struct response_tokens {
    uint64_t prompt, cached, completed, thought;
};

json_t *response_usage(const struct response_tokens *t);

/* The items. The text is @n bytes. */
json_t *response_message(const char *id, const char *status, const char *text, size_t n);
json_t *response_reasoning(const char *id, const char *status, const char *text, size_t n);
json_t *response_call(const char *id, const char *status, const struct proto_call *call);

/* The part of a message or of a reasoning item. */
json_t *response_part(bool thinking, const char *text, size_t n);

/* Append the items of an assistant's message, with the keys of a message in hob-protocol(7). The last item has @status.
 * @first: added to the numbers in the ids. */
void response_add_answer(json_t *list, const json_t *message, const struct response_id *id, const char *status,
                         size_t first);

/* Append the items of a message of any role, as the input of a response. */
void response_add_input(json_t *list, const json_t *message, const struct response_id *id);
