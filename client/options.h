/* SPDX-License-Identifier: MIT */
#pragma once
/* The command line and the configuration file of hob, as one struct. One table lists every option for the parser,
 * --help and hob.conf. The command line overrides the file. */
#include "libcommon/buf.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum command {
    COMMAND_GENERATE,
    COMMAND_STATUS,
    COMMAND_STOP,
    COMMAND_SESSIONS,
    COMMAND_CHAT,
    COMMAND_MODELS, /* hob-models parses the words after it */
    COMMAND_MEDIA,  /* "hobd media" parses the words after it */
    COMMAND_INFILL,
    COMMAND_HELP,
    COMMAND_VERSION,
};

/* Subcommands of sessions, and the number of their names. */
enum sessions_verb {
    SESSIONS_LIST,   /* none */
    SESSIONS_SHOW,   /* one */
    SESSIONS_FORK,   /* an old one, a new one */
    SESSIONS_RENAME, /* an old one, a new one */
    SESSIONS_REMOVE, /* one or more */
};

/* At most one of the first four is given. */
struct option_constraint {
    char *schema;          /* a path, or JSON that begins with '{' or is true or false. */
    char *grammar, *regex; /* a path; a regular expression */
    char **choices;        /* [n_choices] */
    size_t n_choices;
    enum proto_on_limit on_limit;
    bool schema_lenient, any_order, compact;
};

/* Where the model's thinking is printed. */
enum option_think {
    THINK_HIDE, /* nowhere */
    THINK_SHOW, /* before the answer */
    THINK_STDERR,
    THINK_ON,  /* the model shall think; before the answer */
    THINK_OFF, /* the model shall not think */
};

struct option_thinking {
    enum option_think how;
    int64_t budget; /* tokens; -1: no limit */
};

/* Either a file, or executables that hob runs. */
struct option_tools {
    const char *file;   /* a list of tools; NULL: none */
    const char **paths; /* [n_paths]; the array is owned, the strings belong to their giver */
    size_t n_paths;
    const char *choice; /* auto, none, required or the name of a tool; NULL: not given */
    bool yes;           /* run calls without a question */
    int64_t rounds;     /* answers with calls, at most */
    int64_t timeout_ms; /* of a call */
};

/* A file that is put before the prompt. */
struct option_file {
    const char *path;           /* belongs to argv; "-" of a medium: standard input */
    enum proto_media_kind kind; /* 0: its text */
};

struct options {
    enum command command;
    enum sessions_verb verb; /* of COMMAND_SESSIONS, set by option_check; words are then the names */
    char *model;             /* NULL: not given, use "default" */
    char *system;            /* NULL: none */
    char *session, *fork;    /* NULL: none */
    enum proto_context context;
    enum proto_priority priority;
    enum proto_speculate speculate;
    struct option_file *files; /* [n_files], owned */
    const char **words;        /* [n_words], owned; the strings belong to argv */
    size_t n_files, n_words;
    const char *prefix_file, *suffix_file; /* infill: NULL: not given, "-": standard input */
    int64_t at, max_lines; /* infill: offset of the gap in standard input, bytes; limit; -1: not given */
    char *stop[PROTO_STOPS_MAX];
    size_t n_stop;
    struct proto_bias *biases;
    size_t n_biases;
    struct option_constraint constraint;
    struct option_tools tools;
    struct option_thinking thinking;
    bool continue_last, wait, warm, ignore_eos, raw, special, quiet, verbose, no_stream, no_stdin, extract, render,
        jsonl, logprobs, json, detach;
    int64_t n, max_tokens;        /* number of answers, 0: one; -1: the daemon's default */
    int64_t timeout_ms, watch_ms; /* -1: none; of status --watch, 0: not given */
    struct proto_sampling sampling;
    uint64_t given[2]; /* a bit for every option on the command line */
};

/* Parse the command line into @o, which need not be initialized. Call options_fini in any case. 0; -EINVAL: wrong
 * usage; -ENOMEM; sets the error message. */
int options_parse(struct options *o, int argc, char **argv);

/* Add the settings of the file @path (NULL: none; a missing file is empty) that the command line does not set, then
 * check the combination. 0; -EINVAL (the error message has file and line); -ENOMEM; -errno; sets the error message. */
int options_complete(struct options *o, const char *path);

void options_fini(struct options *o);

/* Check a session name. 0; -EINVAL; sets the error message, which lacks the name. */
int options_session_name(const char *value);

/* Set --watch; @value NULL: the default. 0; -EINVAL; sets the error message, which lacks the option's name. */
int options_watch(struct options *o, const char *value);

/* Set --think. 0; -EINVAL; sets the error message, which lacks the option's name. */
int options_think(struct options *o, const char *value);
/* The value of --think: "hide", … */
const char *options_think_name(const struct options *o);

/* Whether --tool-choice makes the model call a tool. */
bool option_call_required(const struct options *o);

/* Append the text of --help. 0 or -ENOMEM. */
int options_help(struct buf *out);
