/* SPDX-License-Identifier: MIT */
#pragma once
/* The commands of hob-find: hob index and hob find. */
#include "client/options.h"

struct find_options {
    bool list, remove, no_ignore, answer, jsonl, quiet, verbose;
    const char *model, *prefix, *question_prefix; /* NULL: not given */
    uint64_t max_size;                            /* bytes */
    uint32_t dims;                                /* 0: not given */
    unsigned most;                                /* results */
    const char **words;                           /* [n_words], of argv */
    size_t n_words;
};

/* Each returns the exit status; errors are printed. @o: hob.conf's settings. */
int index_command(const struct find_options *f, struct options *o);
int find_command(const struct find_options *f, struct options *o);

/* hob index --list. */
int index_list(const struct find_options *f);

/* The exit status of the negative error @r, which is printed unless it is -ECANCELED, whose status is @status. */
int command_status(int r, int status);
