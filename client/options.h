/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The command line and the configuration file of hob, as one struct. One table names every option: the parser,
 * --help and the keys of hob.conf all read it. What the command line gives wins over the file.
 */
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum command {
    COMMAND_GENERATE,
    COMMAND_STATUS,
    COMMAND_STOP,
    COMMAND_HELP,
    COMMAND_VERSION,
};

struct options {
    enum command command;
    char *model;                 /* NULL: not given anywhere, which means "default" */
    char *system, *session;      /* NULL: none */
    const char **files, **words; /* arrays owned, strings argv's */
    size_t n_files, n_words;
    char *stop[PROTO_STOPS_MAX];
    size_t n_stop;
    bool continue_last, ignore_eos, raw, special, quiet, verbose, no_stream, no_stdin, jsonl, logprobs, json;
    int64_t max_tokens; /* -1: the daemon's default */
    int64_t timeout_ms; /* -1: none */
    struct proto_sampling sampling;
    uint64_t given; /* a bit for every option that stood on the command line */
};

/* Read the command line into @o, which the caller has not to initialize and gives to options_fini in any case.
 * 0; -EINVAL: wrong usage, with a sentence; -ENOMEM. */
int options_parse(struct options *o, int argc, char **argv);

/* Add what the file @path says where the command line said nothing, then check that all of it goes together. A file
 * that is not there says nothing; NULL: no file. 0; -EINVAL with a sentence (file, line); -ENOMEM; -errno. */
int options_complete(struct options *o, const char *path);

void options_fini(struct options *o);

/* The text of --help, appended. 0 or -ENOMEM. */
int options_help(struct buf *out);
