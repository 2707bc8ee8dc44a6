/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Framing, pure: a u32 little-endian length, then that many bytes of body (one msgpack map). The decoder is fed
 * bytes in pieces of any size and allocates no more than what has arrived (a peer's length alone reserves nothing
 * beyond FRAME_CHUNK).
 */
#include "libcommon/buf.h"
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAX   (64u << 20) /* largest body */
#define FRAME_CHUNK (64u << 10)

struct frame_decoder {
    struct buf in;
    size_t max; /* largest body accepted here; 0 means FRAME_MAX */
    size_t at;  /* bytes of @in that are already popped */
};

void frame_decoder_fini(struct frame_decoder *d);

/* Add bytes. 0, -ENOMEM, or -EMSGSIZE as soon as a length over the limit is seen (sets the error message). */
int frame_feed(struct frame_decoder *d, const void *p, size_t n);

/* 1: *body, *len is a whole body, valid until frame_pop or frame_feed; 0: not yet whole; -EMSGSIZE as above. */
int frame_peek(struct frame_decoder *d, const char **body, size_t *len);
void frame_pop(struct frame_decoder *d);
/* Pop the body that frame_peek has returned, together with its memory. *memory, which the caller frees, is no larger
 * than needed and has a NUL behind the body; *body is the body inside *memory. 0; -ENOMEM: nothing has changed. */
int frame_take(struct frame_decoder *d, char **memory, const char **body);

/* Write the 4 bytes of a body's length. */
void frame_header(unsigned char out[4], uint32_t len);
