/* SPDX-License-Identifier: MIT */
#pragma once
/* The commands of hob-models, the helper program of hob models. */
#include <stdbool.h>
#include <stddef.h>

struct models_options {
    bool json, force, copy, link, system, insecure_http, quiet;
    const char *adapter_of; /* the model of an adapter; NULL: not given */
    const char *sha256;     /* 64 hex digits; NULL: not given */
    const char **words;     /* after the verb; the strings belong to argv */
    size_t n_words;
    const char *chosen; /* the model that is used without -m */
};

/* Each returns the exit status; errors are printed. */
int models_list(const struct models_options *o);
int models_add(const struct models_options *o);
int models_pull(const struct models_options *o);
int models_remove(const struct models_options *o);
