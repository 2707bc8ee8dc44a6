/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Shared by proto-read*.c: msgpack maps into structs by tables of fields. A map that was scanned is walked once; each
 * key finds its field, whose function checks the value and stores it.
 */
#include "libcommon/proto.h"
#include <msgpack.h>

/* Position in the message, for error messages: a chain on the stack, which is formatted only when printed. */
struct place {
    const struct place *up; /* NULL: the message itself, whose key is its type's name */
    const char *key;        /* NULL: an element of an array */
    size_t index;
};

struct reading {
    size_t bytes;               /* allocated so far */
    bool lenient;               /* unknown keys are ignored */
    uint32_t n_fds, n_media;    /* of a request: descriptors that come with it; images and sounds so far */
    bool used[PROTO_MEDIA_MAX]; /* [n_fds] a part names the descriptor */
    /* A text of so many bytes (0: none) is not copied: @taken points into the message until the caller sees to it. */
    size_t take_least;
    struct proto_text *taken;
};

struct field {
    const char *key;
    /* Check @o and store it at @at. 0, -ENOMEM, or -EINVAL; sets the error message that begins with @where. */
    int (*read)(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                const struct field *f);
    size_t offset;
    bool required;
    uint64_t lo, hi;    /* integers; bytes of texts (hi 0: no limit) */
    double flo, fhi;    /* floats */
    const char *wanted; /* "a number from 0 to 1" */
};

enum { PROTO_FIELDS_MAX = 64 };

/* Of types whose fields are in proto-read-embed.c. */
extern const struct field proto_embed_fields[9], proto_rank_fields[7];        /* of struct proto_request */
extern const struct field proto_embeddings_fields[5], proto_scores_fields[6]; /* of struct proto_event */

/* Read the map @o by @fields (at most PROTO_FIELDS_MAX) into the struct at @base. 0, -ENOMEM, -EINVAL. */
int proto_read_map(struct reading *in, const struct place *where, const msgpack_object *o, const struct field *fields,
                   size_t n_fields, void *base);

/* -EINVAL with "PLACE: " in front of the error message. */
int proto_bad(const struct place *where, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The value of @key in the map @o, or NULL. */
const msgpack_object *proto_find(const msgpack_object *o, const char *key);
bool proto_is(const msgpack_object *o, const char *text); /* @o is the string @text */

/* At most 40 bytes of a peer's string, made fit for an error message; returns @out. */
const char *proto_printable(char out[64], const char *s, size_t n);

/* Whole body -> one map, after a scan. 0, -ENOMEM, -EBADMSG. The caller destroys @u in any case. */
int proto_unpack(msgpack_unpacked *u, const char *body, size_t len);

/* The version of a hello: 0, -EINVAL, or -EPROTO for another one than ours; *version is set for 0 and -EPROTO. */
int proto_read_version(const struct place *where, const msgpack_object *o, uint32_t *version);

/* Field functions, by what they store. */
int proto_read_skip(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_bool(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_u32(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_u64(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_i64(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_float(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_double(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_text(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_strings(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_constraint(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_messages(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_tool_choice(struct reading *, const struct place *, const msgpack_object *, void *,
                           const struct field *);
int proto_read_thinking(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_budget(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_priority(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);
int proto_read_on_limit(struct reading *, const struct place *, const msgpack_object *, void *, const struct field *);

/* Keys that do not go together. 0 or -EINVAL. */
int proto_check_constraint(const struct place *where, const struct proto_constraint *c);
int proto_check_tools(const struct place *where, const struct proto_request *r);

/* Find how many values each text of the event has. 0 or -EINVAL: the values do not divide. */
int proto_check_vectors(const struct place *where, struct proto_event *e);
