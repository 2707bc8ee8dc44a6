/* SPDX-License-Identifier: MIT */
#pragma once
/* Files whose texts are embedded together, and then stored together: an index that is interrupted between two batches
 * lacks the rest and nothing else. */
#include "client/find/index.h"

enum {
    BATCH_CHUNKS = 512, /* a batch is full with so many, the last file's above them included */
    BATCH_FILES = 4096,
};

struct batch_file {
    char *path; /* owned */
    int64_t size, mtime;
    uint8_t digest[16];
    size_t first, n; /* its chunks among those of the batch */
};

struct batch_chunk {
    uint32_t first, last; /* lines */
};

struct batch {
    struct batch_file *files; /* [n_files], owned; as the next ones */
    struct batch_chunk *chunks;
    struct proto_text *texts;       /* [n_chunks], each with its prefix */
    int8_t *codes;                  /* [n_chunks][stride] */
    float *scales;                  /* [n_chunks] */
    size_t n_files, n_chunks, done; /* done: chunks that have codes */
    uint64_t embedded;              /* chunks of all batches that were embedded */
};

void batch_fini(struct batch *b);
bool batch_is_full(const struct batch *b);

/* Add a file of @text[@len]; a text whose digest the index has gets no chunks. 0 or -errno; sets the error message. */
int batch_add(struct batch *b, struct index *x, const char *path, int64_t size, int64_t mtime, const char *text,
              size_t len);

/* Embed and store all, and leave the batch empty. 0; -ECANCELED: see struct embedder; -EMEDIUMTYPE: see
 * index_check_model; else -errno; sets the error message. */
int batch_flush(struct batch *b, struct index *x, struct embedder *e);
