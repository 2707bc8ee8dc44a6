/* SPDX-License-Identifier: MIT */
#pragma once
/* /v1/embeddings, /v1/rerank and /rerank: a request for vectors or scores of texts, whose response is made piece by
 * piece as they come. */
#include "client/http/exchange.h"
#include <jansson.h>

struct text_call {
    struct proto_request request; /* until it is sent */
    char *model;                  /* as the client named it; NULL: not at all */
    struct buf out;               /* of the response */
    bool base64;                  /* embeddings as base64 of float32 */
    bool documents;               /* rerank: results have the texts */
    json_t *texts;                /* [n] rerank: the documents, held */
    float *scores;                /* [n] */
    uint32_t n, done, top_n;      /* texts; those whose values came; results wanted, at most */
};

/* NULL ok, returns NULL. */
struct text_call *text_call_free(struct text_call *c);
