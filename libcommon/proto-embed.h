/* SPDX-License-Identifier: MIT */
#pragma once
/* The parts of protocol messages about vectors of texts: requests `embed` and `rank`, events `embeddings` and `scores`.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_TEXTS_MAX 16384 /* texts of a request */
#define PROTO_DIMS_MAX  65536 /* values of a vector */

struct proto_text;

/* How the vectors of a text's tokens become one. */
enum proto_pooling {
    PROTO_POOLING_UNSET, /* as the model's file says */
    PROTO_POOLING_MEAN,  /* their mean */
    PROTO_POOLING_CLS,   /* the first token's */
    PROTO_POOLING_LAST,  /* the last token's */
};

struct proto_embed {
    struct proto_text *texts; /* [n_texts], owned; of rank: the documents. A text may be empty */
    size_t n_texts;
    struct proto_text *question; /* rank: [1], owned; else NULL */
    enum proto_pooling pooling;  /* embed */
    uint32_t dims;               /* embed: only the first values of each vector; 0: all */
    bool unscaled;               /* embed: vectors keep their length, which else becomes 1 */
};

/* Vectors (or scores) of consecutive texts of a request. */
struct proto_vectors {
    uint32_t first;     /* number of the first text in its request */
    uint32_t n, dim;    /* texts, values of each; scores have dim 1 */
    float *values;      /* [n][dim], owned */
    uint32_t *tokens;   /* [n], owned: tokens of each text, special ones included */
    uint32_t cached;    /* so many of the texts were found in the cache */
    const char *method; /* scores: static: "rank" (the model's own scores), "cosine" (of two vectors), "other" */
};

void proto_embed_fini(struct proto_embed *e);
void proto_vectors_fini(struct proto_vectors *v);

const char *proto_pooling_name(enum proto_pooling p);     /* "" for UNSET */
enum proto_pooling proto_pooling_value(const char *name); /* UNSET for no name */
