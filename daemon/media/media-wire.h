/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How a file reaches a decoder and its pixels come back, through pipes and sockets of this machine: struct media_ask
 * and the bytes of the file; then struct media_head and its bytes. The numbers have the machine's byte order.
 */
#include "daemon/media/media.h"

enum { MEDIA_TEXT_MAX = 300 /* bytes of a message */ };

struct media_ask {
    uint64_t size; /* bytes of the file, at most MEDIA_FILE_MAX */
};

struct media_head {
    uint32_t kind;   /* enum media_kind; MEDIA_NONE: the file is refused, and a message follows */
    uint32_t format; /* enum media_format */
    uint32_t width, height;
    uint64_t samples;
    uint64_t size;  /* bytes that follow */
    int32_t error;  /* of a refused file: -errno */
    uint32_t magic; /* MEDIA_MAGIC */
};

#define MEDIA_MAGIC 0x68624d31u

_Static_assert(sizeof(struct media_head) == 40, "no padding, which would send bytes of the stack");

/* A message (struct media_head) with its bytes. */
struct media_reply {
    struct media_head head;
    void *data; /* owned */
};

/* 0; -EPROTO: the sender does not follow the rules (a size that does not fit the kind, over a limit); sets the message.
 */
int media_head_check(const struct media_head *head);

/* The message of @m, whose data it takes. */
void media_reply_of(struct media_reply *out, struct media *m);
/* The message that says the error @r of this thread. -ENOMEM: *out is a message without its bytes. */
int media_reply_error(struct media_reply *out, int r);
/* Sets *m, without a digest, from @reply, whose data it takes; or returns the error that @reply says. */
int media_reply_take(struct media_reply *reply, struct media *m);
void media_reply_fini(struct media_reply *reply);

/* Transfer @n bytes on a blocking descriptor. 0; -ENODATA: the other side has closed it; else -errno; sets the error
 * message. media_send is for sockets. */
int media_read(int fd, void *data, size_t n);
int media_write(int fd, const void *data, size_t n);
int media_send(int fd, const void *data, size_t n);
