/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A request from its submission to its last event. It owns its sequences, one for each answer; a request about sessions
 * or tokens has none. The type's functions (types.h) say what each kind of request does; these here are common to all.
 */
#include "daemon/request/answer-format.h"
#include "daemon/request/core.h"
#include "daemon/session/list.h"
#include "daemon/session/session.h"

struct constraint;
struct media_source;
struct request_type;
struct texts;

enum request_state {
    REQUEST_NEW,       /* submitted, not begun */
    REQUEST_PREPARING, /* a job has it: images, template, tokens, a session's log */
    REQUEST_ACTIVE,    /* its sequences wait or run */
    REQUEST_SAVING,    /* answered but for `done`; a job writes the session's log */
    REQUEST_ENDED,     /* exists only because a job still uses it */
};

struct request_control {
    bool cancel_wanted; /* set by the loop's thread, guarded by the mailbox's lock */
    bool cancel;        /* the same, as the engine's thread has last seen it */
    bool paused;        /* likewise: the connection's reader is slow */
    bool lost;          /* there was no memory for a piece of an answer */
    bool silent;        /* nobody receives its events */
    bool internal;      /* the daemon's own, of a public prefix; it is no load */
};

/* The session of a turn, or the one that the request is about. */
struct request_session {
    struct session *session; /* busy for this request; NULL: none */
    struct session *target;  /* likewise: where a fork or a renamed session goes */
    bool forked;             /* @session is a new copy, removed again if this turn fails */
};

/* Private to request-job.c, which sends it. */
struct request_job {
    struct return_job base;
    int (*work)(struct request *r);
    void (*finish)(struct request *r, int result);
    int result;
    char *error; /* the message of a negative result; NULL: no memory for it */
};

/* Private to decode-media.c. */
struct request_decoding {
    size_t next; /* source to be decoded */
    struct prefix_namespace namespace;
    atomic_bool unwanted; /* the request has ended */
    void (*then)(struct request *r);
};

struct request {
    struct request_job job;
    bool in_job; /* the job pool has the request */
    struct core *core;
    const struct request_type *type;
    struct request *prev, *next; /* of the inbox, or of all */
    enum request_state state;
    uint64_t conn, arrival;
    uint64_t submitted, deadline; /* monotonic us; 0: none */
    uid_t uid;
    struct user *user; /* held */
    struct proto_request proto;
    struct media_source **sources; /* [n_sources] held: the media of its messages, in order, decoded */
    size_t n_sources;
    struct request_decoding decoding;
    struct request_control control;
    struct seq_group answers;
    struct request_session turn;
    struct session_page page;      /* of a list */
    struct tokens tokens;          /* of a tokenize request */
    struct texts *texts;           /* of an embed or rank request that has begun; NULL: none */
    struct constraint *constraint; /* of its answers, held; NULL: none */
    struct answer_format format;
    struct event_node *end_node; /* for the last event of a request without sequences */
    struct proto_event end;      /* REQUEST_SAVING: sent when the log is written */
};

/* --- lists --- */

void request_list_push(struct request_list *l, struct request *r); /* at the end */
void request_list_remove(struct request_list *l, struct request *r);

/* --- begin --- */

/* A request of @type from @uid on @conn. On 0 takes the contents of @proto. -ENOMEM. */
int request_new(struct request **out, struct core *core, const struct request_type *type, uint64_t conn, uid_t uid,
                struct proto_request *proto);
struct request *request_free(struct request *r); /* NULL ok, returns NULL */

/* The first answer, before others are made of it; NULL: the request has none. */
static inline struct seq *request_first(const struct request *r)
{
    return r->answers.n ? r->answers.seqs[0] : NULL;
}

/* --- events and ends; engine thread --- */

/* Queue an event of answer @s (NULL: of the request) that is not its last one. Takes the contents of @ev. Without
 * memory for a piece of an answer, the request is marked as lost. */
void request_emit(struct request *r, const struct seq *s, struct proto_event *ev);

/* End answer @s (NULL: a request without answers) with r->end, and release its blocks, slot and user. With the last
 * answer the request ends. Both may be freed. */
void request_end(struct request *r, struct seq *s);
/* The same for an answer that a job still uses; it is freed when the job returns. Takes the contents of @ev. */
void request_end_in_job(struct request *r, struct seq *s, struct proto_event *ev);
/* End @s, one of the sequences of a request that continues, without an event; frees it. */
void request_end_part(struct request *r, struct seq *s);
/* The job of an ended request, or the fetch of an ended answer @s, is back. */
void request_returned(struct request *r, struct seq *s);
/* The daemon ends: the request ends without an event. */
void request_drop(struct request *r);
