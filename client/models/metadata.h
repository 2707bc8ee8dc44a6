/* SPDX-License-Identifier: MIT */
#pragma once
/* What hobd says of GGUF files (hobd inspect --json): this side reads no models. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metadata {
    char *error;               /* why it is no GGUF file that can be read; NULL: it is one, and the rest is set */
    char *why;                 /* why hobd cannot run it; NULL: it can */
    char *type, *architecture; /* NULL: not known */
    uint64_t bytes, context;   /* 0: not known */
    bool supported, chat_template, packed;
};

/* @files [n], absolute paths, into @out [n]. 0, and metadata_fini for each; else -errno with a sentence (no hobd, …).
 */
int metadata_read(struct metadata *out, const char *const *files, size_t n);
void metadata_fini(struct metadata *f);

/* One file that is to be used: 0; -EINVAL: it is none that can be read, -EOPNOTSUPP: hobd cannot run it; with a
 * sentence that lacks the file. metadata_fini on 0. */
int metadata_check(struct metadata *out, const char *file);

/* Say what has come to be there: "@did NAME: 98.1M, Q4_1, …". */
void metadata_log(const struct metadata *f, const char *did, const char *name, bool system);
