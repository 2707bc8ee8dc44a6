/* SPDX-License-Identifier: MIT */
#pragma once
/* Metadata of GGUF files from hobd inspect --json; the client reads no model files. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metadata {
    char *error; /* the reason that the file cannot be read as GGUF; NULL: it can, and the other members are set */
    char *why;   /* the reason that hobd cannot run it; NULL: it can */
    char *type, *architecture; /* NULL: unknown */
    char *encoder;             /* projector of an encoder of images or sounds; NULL: a language model */
    uint64_t bytes, context;   /* 0: unknown */
    uint64_t parts;            /* files of the model */
    char *packed_why;          /* the reason that @packed is not known; NULL: it is */
    bool supported, chat_template, packed;
    bool incomplete; /* not supported because a part is missing */
};

/* Check one file that becomes an adapter of the model in the file @base, as metadata_check. */
int metadata_check_adapter(struct metadata *out, const char *file, const char *base);

/* Read the metadata of @files [n], absolute paths, into @out [n]. 0: call metadata_fini for each; else -errno; sets the
 * error message. */
int metadata_read(struct metadata *out, const char *const *files, size_t n);
void metadata_fini(struct metadata *f);

/* Check one file that becomes the model @name; an encoder has the name of its model and ".mmproj". 0: call
 * metadata_fini; -EINVAL: not readable, -EOPNOTSUPP: hobd does not support it, or the name is for another kind of file;
 * sets the error message, which lacks the file. */
int metadata_check(struct metadata *out, const char *file, const char *name);

/* Log the new model: "@did NAME: 98.1M, Q4_1, …". */
void metadata_log(const struct metadata *f, const char *did, const char *name, bool system);
