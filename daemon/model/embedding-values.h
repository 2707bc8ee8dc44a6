/* SPDX-License-Identifier: MIT */
#pragma once
/* The embeddings of a run of prompt items. */
#include <stdatomic.h>
#include <stdint.h>

/* The embeddings of a run, as the model's first layer gets them. They belong to all who have a reference, in any
 * thread, and do not change once there are several. */
struct embeddings {
    atomic_uint refs;
    uint32_t n, dim;
    float values[]; /* [n][dim] */
};

/* Zeros, for the caller to fill, who gets the only reference. 0 or -ENOMEM. */
int embeddings_new(struct embeddings **out, uint32_t n, uint32_t dim);
struct embeddings *embeddings_ref(struct embeddings *e);   /* NULL ok; returns @e */
struct embeddings *embeddings_unref(struct embeddings *e); /* NULL ok, returns NULL */
