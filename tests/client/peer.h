/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A peer by script: the client runs in a child with HOB_SOCKET set to a socket of the test's own, which answers each
 * connection with one function. For peers that a real daemon cannot be made to be.
 */
#include "libcommon/proto.h"
#include <stddef.h>
#include <sys/types.h>

struct peer {
    int fd;    /* the connection; a script may close it and set -1 */
    pid_t pid; /* the client */
    char uuid[40];
};

typedef void (*peer_script)(struct peer *p);

struct peer_result {
    int status; /* exit status; 1000 + signal when it was killed */
    char *out, *err;
    size_t out_len, err_len;
    unsigned connections;
    char uuids[8][40]; /* of the requests, by connection, where the script read one */
};

/* Run hob with @args (a NULL-terminated list, without argv[0]) against @scripts (NULL-terminated); a connection beyond
 * them is counted and closed. @out_fd: its standard output, -1: caught in r->out. peer_fini frees. */
void peer_run(struct peer_result *r, const peer_script *scripts, int out_fd, const char *const *args);
/* The same, with standard error where @err_fd is (-1: caught in r->err). */
void peer_run_on(struct peer_result *r, const peer_script *scripts, int out_fd, int err_fd, const char *const *args);
void peer_fini(struct peer_result *r);
/* What stands on the terminal @master into @out: what is written to the other side comes a moment later, so as much as
 * @want has is waited for. */
void peer_terminal(int master, char *out, size_t size, const char *want);

#define PEER_RUN(r, script, ...)                                                                                       \
    peer_run((r), (const peer_script[]){(script), NULL}, -1, (const char *const[]){__VA_ARGS__, NULL})

/* For scripts. Read hello and one request, whose type has to be @type. */
void peer_expect(struct peer *p, enum proto_type type);
/* Read one more request. */
void peer_expect_next(struct peer *p, enum proto_type type);
/* Read one more request, for the script to look at and to proto_request_fini. */
void peer_take(struct peer *p, enum proto_type type, struct proto_request *req);
void peer_send(struct peer *p, const struct proto_event *e);
void peer_bytes(struct peer *p, const void *data, size_t n);
/* One frame with this body. */
void peer_frame(struct peer *p, const void *body, size_t n);
void peer_hello(struct peer *p);
void peer_text(struct peer *p, const char *text);
void peer_done(struct peer *p, enum proto_reason reason);
void peer_error(struct peer *p, int code, const char *message);
