/* SPDX-License-Identifier: MIT */
#pragma once
/* What hobd says of GGUF files (hobd inspect --json): this side reads no models. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct facts {
    char *error;               /* why it is no GGUF file that can be read; NULL: it is one, and the rest is set */
    char *why;                 /* why hobd cannot run it; NULL: it can */
    char *type, *architecture; /* NULL: not known */
    uint64_t bytes, context;   /* 0: not known */
    bool supported, chat_template, packed;
};

/* @files [n], absolute paths, into @out [n]. 0, and facts_fini for each; else -errno with a sentence (no hobd, …). */
int facts_read(struct facts *out, const char *const *files, size_t n);
void facts_fini(struct facts *f);

/* One file that is to be used: 0; -EINVAL: it is none that can be read, -EOPNOTSUPP: hobd cannot run it; with a
 * sentence that lacks the file. facts_fini on 0. */
int facts_check(struct facts *out, const char *file);

/* Say what has come to be there: "@did NAME: 98.1M, Q4_1, …". */
void facts_tell(const struct facts *f, const char *did, const char *name, bool system);
