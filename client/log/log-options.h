/* SPDX-License-Identifier: MIT */
#pragma once
/* The commands of hob log. Each returns the exit status; errors are printed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LIMIT 20 /* exchanges of a list, unless --limit is given */

struct log_options {
    const char **words; /* [n_words], of argv */
    size_t n_words;
    bool json, all, quiet;
    int64_t limit;        /* 0: all */
    bool on;              /* hob.conf has log = yes */
    int64_t size, age_ms; /* of log_write: limits of the log */
};

int log_list(const struct log_options *o);
int log_search(const struct log_options *o);
int log_show(const struct log_options *o);
int log_export(const struct log_options *o);
int log_remove(const struct log_options *o);
int log_on(const struct log_options *o);
int log_off(const struct log_options *o);
/* Not for users: write the exchange on standard input; print the conversation up to an exchange. */
int log_write(const struct log_options *o);
int log_conversation(const struct log_options *o);
