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
    COMMAND_FIND,   /* hob-find parses the words "index" and "find" and what is after them */
    COMMAND_INFILL,
    COMMAND_BATCH, /* words: a file, or none */
    COMMAND_MAP,   /* words: the prompt, then files */
    COMMAND_EMBED,
    COMMAND_RANK,
    COMMAND_LOG,       /* hob-log parses the words after it */
    COMMAND_TEMPLATES, /* words: the subcommand and a name */
    COMMAND_DO,
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
    SESSIONS_SEARCH, /* one or more words */
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

/* Of batch and map. */
struct option_batch {
    const char *out; /* NULL: standard output; belongs to argv */
    int64_t jobs;    /* requests at a time; 0: the default */
    bool ordered, resume, write, null;
};

/* Of embed. */
struct option_embed {
    bool npy;     /* NumPy's format */
    int64_t dims; /* first values of each vector; 0: all */
    enum proto_pooling pooling;
};

struct option_stops {
    char *texts[PROTO_STOPS_MAX]; /* [n], owned */
    size_t n;
};

struct option_biases {
    struct proto_bias *all; /* [n], owned */
    size_t n;
};

/* Of infill. */
struct option_infill {
    const char *prefix_file, *suffix_file; /* NULL: not given, "-": standard input */
    int64_t at;                            /* offset of the gap in standard input, bytes; -1: not given */
    int64_t max_lines;                     /* -1: no limit */
};

struct record;

/* The log of exchanges, hob-log(1). */
struct option_log {
    bool on;
    int64_t size, age_ms;  /* limits of the log: bytes, time; 0: none */
    int64_t from;          /* --continue: the exchange that is continued; 0: the last session */
    struct record *record; /* collects the exchange; NULL: it is not logged */
};

/* client/templates/templates.h */
struct option_template {
    const char *name; /* NULL: none */
    const char *
        *params; /* [n_params], NAME=VALUE of the command line; the array is owned, the strings belong to argv */
    const char **defaults; /* [n_defaults], NAME=VALUE of the file; the array is owned, the strings are in kept */
    size_t n_params, n_defaults;
    char *prompt;    /* NULL: the file has none */
    bool has_system; /* the system message comes from the file */
    size_t n_used;   /* words that have a number in the template: the first ones */
    char **kept;     /* [n_kept], owned: values of the file */
    size_t n_kept;
};

/* A file that is put before the prompt. */
struct option_file {
    const char *path;           /* belongs to argv; "-" of a medium: standard input */
    enum proto_media_kind kind; /* 0: its text */
};

struct options {
    enum command command;
    enum sessions_verb verb;                 /* of COMMAND_SESSIONS, set by option_check; words are then the names */
    char *model;                             /* NULL: not given, use "default" */
    char *system, *session, *fork, *adapter; /* NULL: none; NAME[=SCALE] or none */
    enum proto_context context;
    enum proto_priority priority;
    enum proto_speculate speculate;
    struct option_file *files; /* [n_files], owned */
    const char **words;        /* [n_words], owned; the strings belong to argv */
    size_t n_files, n_words;
    struct option_infill infill;
    struct option_stops stop;
    struct option_biases biases;
    struct option_template template;
    struct option_constraint constraint;
    struct option_tools tools;
    struct option_thinking thinking;
    struct option_batch batch;
    struct option_log log;
    bool continue_last, wait, warm, ignore_eos, raw, special, quiet, verbose, no_stream, no_stdin, extract, render,
        jsonl, logprobs, json, detach, print, no_context;
    struct option_embed embed;
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

/* Set *id to the number of an exchange of the log, "@12" or "12". 0; -EINVAL; sets the error message. */
int options_exchange(int64_t *id, const char *value);

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
