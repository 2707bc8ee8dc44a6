/* SPDX-License-Identifier: MIT */
#pragma once
/* The texts of hob embed and hob rank: each file is one, and each line of standard input is one. */
#include "libcommon/buf.h"
#include "libcommon/proto.h"

struct embed_input {
    struct proto_text *texts; /* [n] point into @storage */
    const char **names;       /* [n] the file's path; NULL: a line of standard input */
    size_t n;
    struct buf storage;
};

/* Read the files @paths [n] ("-": standard input), or standard input if there are none. Lines may end with CR LF; with
 * @skip_empty, empty lines are no texts. 0; -EINVAL: there are no texts; -EILSEQ: not UTF-8; -EMSGSIZE: too large; else
 * -errno; sets the error message. Call embed_input_fini in any case. */
int embed_input_read(struct embed_input *t, const char *const *paths, size_t n, bool skip_empty);
void embed_input_fini(struct embed_input *t);
