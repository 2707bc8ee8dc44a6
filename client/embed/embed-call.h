/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Vectors of texts, or scores of texts for a question, from the daemon of a model, which is started if none runs
 * (unless HOB_SOCKET is set). One connection serves many calls.
 *
 * Promises: as many vectors as texts, in their order, all of one dimension, f32, of length 1 unless unscaled. The
 * vector of a text depends on the model, the pooling and the text alone, bit for bit: not on the other texts, the
 * order, the cache or other users. A text that the daemon has seen of this user (with the same pooling) is not computed
 * again. Any number of texts of any size may be given: they are sent in requests of bounded size, one after another. If
 * the daemon ends meanwhile, the rest is asked of the next one.
 *
 *     struct embed_client c;
 *     embed_client_init(&c, options);
 *     struct embed_vectors v;
 *     int status = embed_texts(&c, &(struct embed_ask){.texts = texts, .n = n}, &v);
 *     ... v.values[i * v.dim + k] ...
 *     embed_vectors_fini(&v);
 *     embed_client_fini(&c);
 */
#include "client/connection.h"
#include "client/options.h"

struct embed_client {
    const struct options *o; /* model, priority, timeout_ms; not owned */
    struct connection c;
    uint64_t id;             /* of the last request */
    uint64_t tokens, cached; /* of all calls: tokens of the texts; those of texts that the cache had */
    bool shortens; /* the caller shortens a text that is too long for the model: no error is printed for one */
    bool too_long; /* the last call failed because of such a text */
};

struct embed_ask {
    const struct proto_text *texts; /* [n], UTF-8 */
    size_t n;
    const struct proto_text *question; /* not NULL: scores are asked for, which have dim 1 */
    enum proto_pooling pooling;        /* UNSET: the model's */
    uint32_t dims;                     /* only the first values of each vector (scaled to length 1 again); 0: all */
    bool unscaled;
};

/* The next texts of an ask: @v->first is the number of the first of them among all of the ask. 0, or the exit status,
 * after printing an error. */
typedef int (*embed_piece)(void *ctx, const struct proto_vectors *v);

struct embed_vectors {
    size_t n;
    uint32_t dim;
    float *values; /* [n][dim], owned */
};

void embed_client_init(struct embed_client *c, const struct options *o);
void embed_client_fini(struct embed_client *c);

/* Ask, and give what comes to @piece, in order. 0, or the exit status of hob (interrupted, no daemon, ...); the error
 * is printed, such as that the model has no embeddings. */
int embed_stream(struct embed_client *c, const struct embed_ask *ask, embed_piece piece, void *ctx);

/* The same with all in memory. On 0 the caller owns *out; otherwise it holds nothing. */
int embed_texts(struct embed_client *c, const struct embed_ask *ask, struct embed_vectors *out);
void embed_vectors_fini(struct embed_vectors *v);
