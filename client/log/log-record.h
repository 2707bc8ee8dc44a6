/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Collects an exchange for the log: the new messages of a request, the answers to it, and what the tools did between
 * them. The exchange ends as a JSON object on the standard input of hob-log, which writes it to the database. The
 * collector never fails a request: if the exchange cannot be logged, it prints a warning.
 */
#include "client/tool-calls.h"
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <sys/types.h>

#define RECORD_UUID 40 /* bytes of a UUID with its NUL */

struct options;

struct record_answer {
    struct buf text, thinking, error;
    struct tool_calls calls;
    bool ended;
    enum proto_reason reason;
    uint64_t completion; /* tokens */
};

/* Numbers of the last done event. */
struct record_end {
    bool known;
    uint64_t prompt, cached, thinking;
    double queue_ms, prefill_ms, decode_ms, ttft_ms;
    int64_t seed;
};

struct record {
    unsigned depth;         /* record_open without record_close */
    bool broken;            /* no memory for it */
    bool whole;             /* the log does not have the old messages, so they are written too */
    unsigned rounds;        /* requests inside the outer record_open */
    char uuid[RECORD_UUID]; /* of the last request */
    char after[RECORD_UUID], conversation[RECORD_UUID]; /* "": it begins a conversation */
    size_t old;                                         /* messages that the requests repeat */
    int64_t began_ms;                                   /* since 1970 */
    uint64_t began_usec;                                /* clock_now_usec */
    struct record_answer *answers;                      /* [n], of the last request */
    size_t n;
    struct record_end end;
    struct buf session; /* where the answer is stored; empty: nowhere */
    pid_t writer;       /* the hob-log of the exchange before; 0: none */
};

/* All functions accept NULL for @r and then do nothing. */

/* The next exchange continues the one with the UUID @after; @conversation: the first one of them ("": @after is).
 * Its requests repeat @old messages behind the system message. "": it begins a conversation. */
void record_follow(struct record *r, const char *after, const char *conversation, size_t old);

/* The log does not have the old messages of record_follow: write them with the exchange. */
void record_whole(struct record *r);

/* The request @q is sent. Calls may nest: the inner ones are further requests of the same exchange. */
void record_open(struct record *r, const struct proto_request *q);

/* An event of the last request. */
void record_event(struct record *r, const struct proto_event *e);

/* End what record_open began. @q: the request of the outer record_open, with the messages that were added to it. The
 * outer call starts hob-log and does not wait for it. @status: the exit status. */
void record_close(struct record *r, const struct options *o, const struct proto_request *q, int status);

void record_fini(struct record *r);

/* Append the exchange as a JSON object on one line (JSON in hob-log(1), without "id"). 0 or -ENOMEM. */
int record_json(struct buf *out, const struct record *r, const struct options *o, const struct proto_request *q,
                int status);

/* Start hob-log with @line [@len] on its standard input; *pid: its process, a child. 0; -errno: sets the error message.
 */
int record_send(const char *line, size_t len, const struct options *o, pid_t *pid);
