/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by proto-write-*.c: a packer into a buffer that remembers a failure, and maps that count their keys. */
#include "libcommon/proto.h"
#include <msgpack.h>

enum { WRITER_ELEMS_FIXED = 128 }; /* more than the elements that every message has, without its lists */

struct writer {
    msgpack_packer pk;
    struct buf *out;
    size_t start; /* of the frame in @out */
    size_t keys;  /* of the map that is open */
    int error;    /* the first one: nothing is written after it */
    /* of a request: descriptors of its large files, NULL: none; how many of them its parts have named */
    const struct proto_fds *fds;
    uint32_t n_fds;
};

struct open_map {
    size_t at, outer_keys;
};

/* A file that goes by a descriptor, if one can. */
bool proto_file_is_large(size_t n);
/* Fill @f, which is empty, with a descriptor for each large file of @r, or only for the first ones: as many as it holds
 * and as can be made. */
void proto_fds_of(struct proto_fds *f, const struct proto_request *r);

/* @elems: at least as many as the message will have. */
void writer_init(struct writer *w, struct buf *out, size_t elems);

/* Writes the length in front. After a failure @out is as it was. 0 or -ENOMEM, -EMSGSIZE. */
int writer_finish(struct writer *w);

struct open_map writer_map_begin(struct writer *w);
void writer_map_end(struct writer *w, struct open_map m);

/* A key of the open map; its value follows. */
void writer_key(struct writer *w, const char *name);
void writer_string(struct writer *w, const char *s, size_t n);

/* A key and its value. */
void writer_text(struct writer *w, const char *name, const struct proto_text *t);
void writer_clean(struct writer *w, const char *name, const struct proto_text *t); /* not UTF-8 becomes U+FFFD */
void writer_cstring(struct writer *w, const char *name, const char *s);
void writer_u64(struct writer *w, const char *name, uint64_t v);
void writer_double(struct writer *w, const char *name, double v);

/* A key and its value, or nothing: for false, a NAN, a negative number. */
void writer_true(struct writer *w, const char *name, bool v);
void writer_float_given(struct writer *w, const char *name, float v);
void writer_i64_given(struct writer *w, const char *name, int64_t v);

/* The keys of embed and rank, and of the events that answer them. */
void writer_embed(struct writer *w, const struct proto_request *r);
void writer_vectors(struct writer *w, const struct proto_event *e);

/* The keys of a hello; @features ends with NULL. */
void writer_hello(struct writer *w, uint32_t version, const char *software, const char *const *features);
