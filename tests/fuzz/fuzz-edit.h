/* SPDX-License-Identifier: MIT */
#pragma once
/* Valid files that an input changes at places that matter. So an input is short, and what it changes is read. */
#include "libcommon/buf.h"
#include "tests/fuzz/fuzz.h"

/* A GGUF file and where its keys and tensors are. */
struct fuzz_gguf {
    struct buf file;
    struct fuzz_place {
        size_t name;        /* offset of the name's bytes */
        size_t value, size; /* of a key: its value; of a tensor: its data */
        size_t fields;      /* of a key: behind its name; of a tensor: its number of dimensions */
        size_t name_len;
        unsigned n_dims; /* of a tensor */
    } * places;          /* [n_keys] and then [n_tensors] */
    size_t n_keys, n_tensors;
};

/* Find the places of g->file. */
void fuzz_gguf_find(struct fuzz_gguf *g);
/* Append the file of @g to @out, changed as @in says: at most 16 changes, ended by a byte 0. */
void fuzz_gguf_edit(const struct fuzz_gguf *g, struct fuzz_input *in, struct buf *out);

/* The same for the bytes @b of any file: changed, removed, inserted, repeated and cut. */
void fuzz_edit(struct buf *b, struct fuzz_input *in);

/* A number of 64 bits that is a limit of something, by a byte of @in, or any number. */
uint64_t fuzz_number(struct fuzz_input *in);
