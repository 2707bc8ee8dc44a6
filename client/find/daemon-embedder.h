/* SPDX-License-Identifier: MIT */
#pragma once
/* Vectors of texts from the daemon of a model. */
#include "client/embed/embed-call.h"
#include "client/find/embedder.h"

struct daemon_embedder {
    struct embedder e; /* for callers */
    struct options o;  /* only the model and the priority; borrowed */
    struct embed_client client;
    uint32_t dims; /* only the first values of each vector; 0: all */
};

/* @model must outlive @d. Texts of an index wait behind other requests of the user; a question does not (@question). */
void daemon_embedder_init(struct daemon_embedder *d, const char *model, uint32_t dims, bool question);
void daemon_embedder_fini(struct daemon_embedder *d);
