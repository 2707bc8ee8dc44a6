/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The texts of an embed or rank request. Each text is a sequence of its own, which computes its tokens beside all
 * others' and ends without an event; the request emits the vectors in the order of the texts, in pieces.
 *
 *   items     0 ………… emitted ………… next ………… prepared ………… n
 *             sent to   with a vector, or a    with tokens    not looked at
 *             the peer  sequence has them      or a vector    yet; a job has some
 *
 * Only so many texts have sequences as there are slots, and only so many have tokens as a job prepares at a time, so
 * that a request of thousands of texts takes little memory beside them. All calls come from the engine's thread.
 */
#include "daemon/model/pooling.h"
#include "daemon/request/request.h"

enum { TEXTS_SLOTS = 64 }; /* at least, of a model whose steps are made of whole texts alone */

enum texts_method {
    TEXTS_VECTORS, /* of embed */
    TEXTS_COSINE,  /* scores: of the vectors of the question, which is item 0, and of each text */
    TEXTS_RANK,    /* scores: of the model's classifier, which reads the question and a text as one */
};

struct text_item {
    struct tokens tokens; /* of the text, from its preparation to its end: ids, and as ends their types */
    float *vector;        /* [texts.dim] owned, unscaled; NULL: not computed */
    uint32_t n_tokens;
    bool cached; /* the vector was found in the cache */
};

/* A sequence that computes a text. */
struct text_slot {
    struct seq_group group; /* [1] first, so that the sequence leads here */
    struct seq *seq;        /* NULL: the slot is free */
    uint32_t item;
    double *sums;   /* [texts.width] POOLING_MEAN: of the rows so far */
    float *row;     /* [texts.width] other kinds: the row that is read */
    uint8_t *types; /* [tokens] of a question and a text, where the model has types; else NULL */
};

struct texts {
    struct text_item *items; /* [n] */
    uint32_t n, prepared, next, emitted;
    uint32_t preparing;      /* a job makes the tokens of items from @prepared to here */
    struct text_slot *slots; /* [n_slots] */
    uint32_t n_slots, running;
    enum texts_method method;
    enum pooling pooling, pooled; /* the kind; what makes the row that the backend's head reads */
    uint32_t width;               /* values of a row: hparams.dim */
    uint32_t dim, dims;           /* values of a computed vector; of a sent one */
    struct prefix_namespace namespace;
    uint64_t tokens, cached; /* of the texts that were computed or found; part of them that was found */
    bool begun;              /* a text is computed: the time in the queue is over */
    bool resume;             /* see to it at the next sweep */
    int failed;              /* the error that the sweep ends the request with; 0: none */
    char *why;               /* its message */
};

/* The texts of @r, which is an embed or rank request. 0; -EINVAL, -EOPNOTSUPP, -ENOMEM, and the error message. */
int texts_new(struct request *r);
void texts_free(struct request *r); /* NULL ok */

/* The job: tokens of the items from prepared to preparing. 0; -E2BIG, -EINVAL, -EILSEQ, -ENOMEM, and the message. */
int texts_prepare(struct request *r);
/* Look the next items up in the cache, and set what the job is to prepare. False: nothing, all are found. */
bool texts_look_up(struct request *r);
/* Begin texts that have tokens, emit vectors, send the next job, end the request after its last text. */
void texts_continue(struct request *r);

/* The types of the tokens that @s has to compute; NULL: all are 0. */
const uint8_t *texts_types(const struct seq *s);
/* Rows that the model gives for the next @n tokens of the text's sequence @s: bits of enum batch_want, to @want [n]
 * (may be NULL). Returns the number of rows. */
uint32_t texts_want(const struct seq *s, uint32_t n, uint8_t *want);
/* Take these rows, before the tokens count as computed. */
void texts_rows(struct seq *s, uint32_t n, const float *rows);
/* All tokens of @s are computed: the sequence ends. */
void texts_computed(struct seq *s);
/* The request ends: so do its sequences. */
void texts_stop(struct request *r);
/* The connection's reader is slow, or no longer. */
void texts_update(struct request *r);
/* In the sweep: end the request that texts_fail has marked, or continue after a pause. False: neither. */
bool texts_resume(struct request *r);
/* @s cannot be computed, for @error and its message: it waits, and the sweep ends its request. Other sequences of the
 * request exist until then, so that a caller may walk through all sequences. */
void texts_fail(struct seq *s, int error);
/* After the model is loaded: the cache of vectors; slots that suit a model whose texts are computed whole. */
void texts_configure(struct core *core);

/* Does @s count as the request's place in the queue? One of them does, until a text has begun. */
bool texts_queues(const struct seq *s);
/* Texts are computed whole, as a model needs it whose tokens see each other. */
bool texts_whole(const struct seq *s);
void texts_usage(const struct request *r, struct proto_event *ev);
