/* SPDX-License-Identifier: MIT */
#pragma once
/* A prompt of a batch on its way: read, sent, answered, written. */
#include "client/answer-parts.h"
#include "client/batch/batch-line.h"

enum batch_state {
    BATCH_WAITING, /* to be sent; also again, after a refusal of a busy daemon, or its end */
    BATCH_SENT,
    BATCH_ANSWERED, /* @done is the event of its end */
    BATCH_FAILED,   /* @code and @message say why */
};

struct batch_job {
    struct batch_job *next, *previous; /* in the queue, in the order of the input */
    enum batch_state state;
    uint64_t number;        /* of the line or file, from 1 */
    uint64_t bytes;         /* of the input, for the progress */
    char *name;             /* the file of map; owned */
    struct batch_line line; /* the request is empty once it is a frame */
    struct buf frame;       /* the request as it is sent */
    bool patient;           /* the request has no time limit of its own */
    uint64_t request_id;    /* of the frame */
    unsigned refused;       /* times that the daemon had no room for it although no other was sent */
    struct {
        struct answer_parts parts;
        struct buf ids, logprobs; /* JSON numbers, with commas between them */
        struct buf warnings;      /* JSON strings, likewise */
        uint64_t tokens;          /* text events */
    } answer;
    struct proto_event done;
    int code; /* positive errno */
    struct buf message;
};

/* The jobs between the input and the output. */
struct batch_queue {
    struct batch_job *first, *last;
    size_t n;
    uint64_t bytes; /* of the frames */
};

/* Returns NULL if there is no memory. */
struct batch_job *batch_job_new(uint64_t number);
struct batch_job *batch_job_free(struct batch_job *j); /* NULL ok, returns NULL */

void batch_queue_push(struct batch_queue *q, struct batch_job *j);
/* The caller owns @j again. */
void batch_queue_remove(struct batch_queue *q, struct batch_job *j);
void batch_queue_fini(struct batch_queue *q);

/* Make the frame of the request of @j->line; @id: of the request. 0; -EMSGSIZE, -EINVAL: the daemon would refuse
 * it; sets the error message; -ENOMEM. */
int batch_job_frame(struct batch_job *j, uint64_t id);

/* @j has failed with @r (negative errno) and its error message. */
void batch_job_fail(struct batch_job *j, int r);

/* Forget what arrived of the answer: it is sent again. */
void batch_job_again(struct batch_job *j);

/* Take what @e says, an event of the request. @logprobs as of the request. 0, or -ENOMEM. */
int batch_job_event(struct batch_job *j, struct proto_event *e);
