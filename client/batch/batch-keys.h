/* SPDX-License-Identifier: MIT */
#pragma once
/* The keys of a line that hold its request: texts, and options of hob. */
#include "client/batch/batch-line.h"
#include "client/option-table.h"

struct batch_keys {
    const struct options *defaults;
    struct options *o;    /* a copy of the defaults, which the keys change */
    enum batch_form form; /* of the line */
    bool has_prompt, system;
    struct buf prompt;
    struct buf messages, tools; /* JSON text of a list */
    char **strings;             /* [n_strings], owned: the options refer to them */
    size_t n_strings;
    uint64_t given[2]; /* a bit for every option of the line */
};

/* Read the members of the object @s. 0; -EBADMSG, -EINVAL: a key that cannot be honoured; sets the error message, which
 * names it; -ENOMEM. Call batch_keys_fini in any case, after the last use of the options. */
int batch_keys_read(struct batch_keys *k, const char *s, size_t len);
void batch_keys_fini(struct batch_keys *k);
