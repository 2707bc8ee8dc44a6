/* SPDX-License-Identifier: MIT */
#pragma once
/* POST /v1/responses: the request, its state, and the objects of the response. A stored response is a session of the
 * daemon (response-id.h); its note has the fields of the request that the response repeats. */
#include "client/http/completion.h"
#include "client/http/response-id.h"
#include <jansson.h>

enum response_kind { RESPONSE_NO_ITEM, RESPONSE_REASONING, RESPONSE_MESSAGE, RESPONSE_CALL };

/* The open item of a stream. */
struct response_item {
    enum response_kind kind;
    char id[RESPONSE_ITEM_ID_MAX];
    struct buf text; /* or the arguments of a call */
    size_t call;     /* number of the call */
};

struct response {
    struct response_id id;
    struct response_id previous;
    char previous_text[RESPONSE_ID_MAX]; /* "": the response continues no other */
    uint64_t instructions;               /* as in struct response_id */
    bool no_store;
    json_t *echo; /* owned: the fields of the request that the response repeats */
    /* of a stream */
    struct response_item item;
    json_t *output;               /* owned: the items that are complete */
    size_t counts[RESPONSE_CALL]; /* items begun, by their kind */
    uint64_t sequence;            /* events written */
    json_t *logprobs;             /* owned: of the open message; NULL: none */
    size_t logprobs_told;         /* those that events have */
};

/* Read the request's object into @c, which has a response. 0; negative with the fault. */
int responses_read(struct completion *c, const json_t *object);

struct field;

/* Value of struct field.read: "input". */
int responses_read_input(struct completion *c, const struct field *f, const json_t *v);

/* The messages of the request follow the conversation of the previous response, which is the JSON of its session: put
 * its messages before those of the request, after new instructions. 0; negative with the fault. */
int responses_prepend(struct completion *c, const json_t *session);

/* The results of tools in the request answer calls of @session: add the names of the tools. 0; negative with the fault.
 */
int responses_name_tools(struct completion *c, const json_t *session);
bool responses_unnamed(const struct completion *c); /* the request has a result without the name of its tool */

extern const struct completion_format responses_format;

void response_free(struct response *r); /* NULL does nothing */
