/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The types of requests. A new type is a file with these functions and a line in the table of types.c.
 *
 *   engine's thread   begin    check the request, take its session      0: a job follows; 1: not yet; -errno: it fails
 *   a job             work     the part that needs no engine state      its result goes to
 *   engine's thread   finish   answer, or wait for a slot
 */
#include "libcommon/proto.h"
#include <stdbool.h>

struct request;

struct request_type {
    enum proto_type proto;
    bool texts;   /* its sequences are those of texts.h, made one after another */
    bool answers; /* it has sequences, and counts against the limits of the queue */
    bool large;   /* its answer can be large: it does not begin while its reader is slow */
    int (*begin)(struct request *r);
    int (*work)(struct request *r);
    void (*finish)(struct request *r, int result);
    /* May @work run before the engine's thread has seen the request? Called with the mailbox's lock held. NULL: no. */
    bool (*early)(struct request *r);
};

/* NULL: requests of this type are not the engine's. */
const struct request_type *request_type_of(enum proto_type t);

extern const struct request_type request_generate, request_warm, request_infill, request_tokenize, request_detokenize;
extern const struct request_type request_embed, request_rank;
extern const struct request_type request_session_list, request_session_show, request_session_rename,
    request_session_fork, request_session_remove;
