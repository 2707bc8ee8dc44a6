/* SPDX-License-Identifier: MIT */
/* The fields of embed and rank requests, and of the events that answer them. */
#include "libcommon/error.h"
#include "libcommon/proto-read.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int read_texts(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                      const struct field *f)
{
    static const struct field each = {0};
    struct proto_embed *e = at;
    const size_t n = o->type == MSGPACK_OBJECT_ARRAY ? o->via.array.size : 0;
    if (o->type != MSGPACK_OBJECT_ARRAY) return proto_bad(where, "must be a list of strings");
    if (!n) return proto_bad(where, "is empty");
    if (n > PROTO_TEXTS_MAX) return proto_bad(where, "has %zu texts, the limit is %d", n, PROTO_TEXTS_MAX);
    e->texts = calloc(n, sizeof(*e->texts));
    if (!e->texts) return -ENOMEM;
    in->bytes += n * sizeof(*e->texts);
    for (int r; e->n_texts < n;) {
        const struct place inside = {where, NULL, e->n_texts};
        r = proto_read_text(in, &inside, &o->via.array.ptr[e->n_texts], &e->texts[e->n_texts], &each);
        e->n_texts++;
        if (r < 0) return r;
    }
    return 0;
}

static int read_question(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                         const struct field *f)
{
    struct proto_text **question = at;
    *question = calloc(1, sizeof(**question));
    if (!*question) return -ENOMEM;
    in->bytes += sizeof(**question);
    return proto_read_text(in, where, o, *question, f);
}

static int read_pooling(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                        const struct field *f)
{
    for (int p = PROTO_POOLING_MEAN; p <= PROTO_POOLING_LAST; p++)
        if (proto_is(o, proto_pooling_name((enum proto_pooling)p))) {
            *(enum proto_pooling *)at = (enum proto_pooling)p;
            return 0;
        }
    return proto_bad(where, "must be mean, cls or last");
}

static int read_normalize(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                          const struct field *f)
{
    int r = proto_read_bool(in, where, o, at, f);
    if (r == 0) *(bool *)at = !*(bool *)at;
    return r;
}

#define AT(member) offsetof(struct proto_request, member)

/* The keys that both have. */
#define FIELDS_COMMON                                                                                                  \
    {.key = "type", .read = proto_read_skip},                                                                          \
        {.key = "id",                                                                                                  \
         .read = proto_read_u64,                                                                                       \
         .offset = AT(id),                                                                                             \
         .required = true,                                                                                             \
         .lo = 1,                                                                                                      \
         .wanted = "a whole number from 1 to 2^64-1"},                                                                 \
        {.key = "texts", .read = read_texts, .offset = AT(embed), .required = true},                                   \
        {.key = "salt", .read = proto_read_text, .offset = AT(gen.salt), .lo = 1, .hi = PROTO_SALT_MAX},               \
        {.key = "priority", .read = proto_read_priority, .offset = AT(gen.priority)},                                  \
    {                                                                                                                  \
        .key = "timeout_ms", .read = proto_read_i64, .offset = AT(gen.timeout_ms), .hi = INT64_MAX / 1000000,          \
        .wanted = "a whole number from 0 to 9223372036854"                                                             \
    }

const struct field proto_embed_fields[9] = {
    FIELDS_COMMON,
    {.key = "pooling", .read = read_pooling, .offset = AT(embed.pooling)},
    {.key = "dims",
     .read = proto_read_u32,
     .offset = AT(embed.dims),
     .lo = 1,
     .hi = PROTO_DIMS_MAX,
     .wanted = "a whole number from 1 to 65536"},
    {.key = "normalize", .read = read_normalize, .offset = AT(embed.unscaled)},
};

const struct field proto_rank_fields[7] = {
    FIELDS_COMMON,
    {.key = "question", .read = read_question, .offset = AT(embed.question), .required = true, .lo = 1},
};

#undef AT
#define AT(member) offsetof(struct proto_event, member)

/* Of four bytes, little-endian. */
static float float_at(const char *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    const uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* f32, little-endian. Their number becomes @dim, until proto_check_vectors divides it by that of the texts. */
static int read_values(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    struct proto_vectors *v = at;
    if (o->type != MSGPACK_OBJECT_BIN || o->via.bin.size % sizeof(float) != 0)
        return proto_bad(where, "must be bytes of floats");
    if (!o->via.bin.size) return proto_bad(where, "is empty");
    const size_t n = o->via.bin.size / sizeof(float);
    v->values = malloc(n * sizeof(*v->values));
    if (!v->values) return -ENOMEM;
    for (size_t i = 0; i < n; i++) v->values[i] = float_at(o->via.bin.ptr + i * sizeof(float));
    v->dim = (uint32_t)n; /* a message has fewer than 2^32 bytes */
    return 0;
}

static int read_counts(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    struct proto_vectors *v = at;
    if (o->type != MSGPACK_OBJECT_ARRAY || !o->via.array.size || o->via.array.size > PROTO_TEXTS_MAX)
        return proto_bad(where, "must be a list of 1 to %d numbers", PROTO_TEXTS_MAX);
    v->tokens = calloc(o->via.array.size, sizeof(*v->tokens));
    if (!v->tokens) return -ENOMEM;
    v->n = o->via.array.size;
    for (uint32_t i = 0; i < v->n; i++) {
        const msgpack_object *count = &o->via.array.ptr[i];
        if (count->type != MSGPACK_OBJECT_POSITIVE_INTEGER || count->via.u64 > UINT32_MAX)
            return proto_bad(where, "element %u is not a number of tokens", (unsigned)i);
        v->tokens[i] = (uint32_t)count->via.u64;
    }
    return 0;
}

static int read_method(struct reading *in, const struct place *where, const msgpack_object *o, void *at,
                       const struct field *f)
{
    if (o->type != MSGPACK_OBJECT_STR) return proto_bad(where, "must be a string");
    *(const char **)at = proto_is(o, "rank") ? "rank" : proto_is(o, "cosine") ? "cosine" : "other";
    return 0;
}

#define FIELDS_EVENT                                                                                                   \
    {.key = "id", .read = proto_read_u64, .offset = AT(id), .required = true},                                         \
        {.key = "first", .read = proto_read_u32, .offset = AT(vectors.first)},                                         \
        {.key = "tokens", .read = read_counts, .offset = AT(vectors), .required = true},                               \
    {                                                                                                                  \
        .key = "cached", .read = proto_read_u32, .offset = AT(vectors.cached)                                          \
    }

const struct field proto_embeddings_fields[5] = {
    FIELDS_EVENT,
    {.key = "vectors", .read = read_values, .offset = AT(vectors), .required = true},
};

const struct field proto_scores_fields[6] = {
    FIELDS_EVENT,
    {.key = "scores", .read = read_values, .offset = AT(vectors), .required = true},
    {.key = "method", .read = read_method, .offset = AT(vectors.method)},
};

int proto_check_vectors(const struct place *where, struct proto_event *e)
{
    struct proto_vectors *v = &e->vectors;
    if (v->dim % v->n != 0) return proto_bad(where, "%u values for %u texts", (unsigned)v->dim, (unsigned)v->n);
    v->dim /= v->n;
    if (e->type == PROTO_EV_SCORES && v->dim != 1) return proto_bad(where, "more than one score for a text");
    if (v->first > PROTO_TEXTS_MAX - v->n || v->cached > v->n) return proto_bad(where, "more texts than a request has");
    return 0;
}
