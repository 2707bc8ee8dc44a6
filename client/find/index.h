/* SPDX-License-Identifier: MIT */
#pragma once
/* An open index: its place, its database and its vectors. */
#include "client/find/embedder.h"
#include "client/find/index-store.h"
#include "client/find/place.h"
#include "client/find/vector-file.h"

struct index {
    struct place place;
    struct store store;
    struct store_meta meta;
    struct vector_file vectors;
};

#define INDEX_INIT                                                                                                     \
    {                                                                                                                  \
        .place = PLACE_INIT, .vectors = VECTOR_FILE_INIT                                                               \
    }

/* A text whose vector tells models apart. */
#define INDEX_PROBE "The quick brown fox jumps over the lazy dog."

/* Open the index of @x->place for reading and begin a transaction, so that all that is read is of the same moment. Call
 * index_close in any case. 0; 1: there is no index; -EUCLEAN: it is damaged; else -errno; sets the error message, which
 * tells what to do. */
int index_read(struct index *x);

/* Open it under its lock to change it; a new one gets the settings @new. As index_read. */
int index_write(struct index *x, const struct store_meta *new);

/* End the transaction of index_read, so that hob index can write; index_read_again begins one of a later moment. As
 * index_read. */
void index_pause(struct index *x);
int index_read_again(struct index *x);

void index_close(struct index *x);

/* Whether @probe [@dim], the vector of INDEX_PROBE, comes from the model of the index. 0; -EMEDIUMTYPE; sets the error
 * message, which tells what to do. */
int index_check_model(const struct index *x, const float *probe, uint32_t dim);

/* Say that @r, a failure, is one of a damaged index, and what to do. Returns @r. */
int index_damaged(const struct index *x, int r);
