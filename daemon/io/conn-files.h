/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Files that a peer passes by descriptors. Each is mapped and its descriptor closed as soon as it arrives, so that a
 * connection holds none. A message takes those that it announces, in the order in which they came; those that cannot
 * belong to a later message are dropped.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct blob;
struct proto_request;

/* A file that came. */
struct passed {
    struct blob *file; /* held; NULL: it is refused */
    int error;         /* then, negative */
    char *why;         /* owned: the message; NULL: no memory for it */
    uint64_t until;    /* it came before this byte of the input */
    bool lost;         /* hobd had no room for this descriptor, and perhaps for more that came with it */
};

struct conn_files {
    struct passed *list; /* [n], owned */
    size_t n, cap;
    size_t bytes;      /* of the files and the messages */
    uint64_t received; /* bytes of input */
    uid_t uid;         /* of the peer */
};

/* As recv(2) without waiting. The bytes, 0 at the end, or -errno. -EPROTO, -EBUSY and -ENOMEM have a message, and the
 * connection must end. *partial: descriptors came, at which the kernel ends a read. */
ssize_t conn_files_receive(struct conn_files *f, int fd, void *p, size_t n, bool *partial);

/* The message @r, which was read with the result @result, takes its files. It ends @left bytes before the
 * end of the input; descriptors that came with it and that it does not announce are dropped. 0; -EBADF: fewer came than
 * it announces, or hobd had no room for them; else as blob_map; both with a message. A negative @result is returned as
 * it is, with its message. */
int conn_files_give(struct conn_files *f, struct proto_request *r, int result, size_t left);

/* Bytes that @f holds. */
size_t conn_files_memory(const struct conn_files *f);
void conn_files_fini(struct conn_files *f);
