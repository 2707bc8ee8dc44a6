/* SPDX-License-Identifier: MIT */
#pragma once
/* The table of hob's options. */
#include <stdbool.h>

/* In the order of --help. */
enum option_id {
    OPTION_MODEL,
    OPTION_SYSTEM,
    OPTION_FILE,
    OPTION_IMAGE,
    OPTION_AUDIO,
    OPTION_TEMPLATE,
    OPTION_PARAM,
    OPTION_RAW,
    OPTION_SPECIAL,
    OPTION_NO_STDIN,
    OPTION_WARM,
    OPTION_SESSION,
    OPTION_CONTINUE,
    OPTION_FORK,
    OPTION_WAIT,
    OPTION_CONTEXT,
    OPTION_DETACH,
    OPTION_LOG,
    OPTION_NO_LOG,
    OPTION_LOG_SIZE,
    OPTION_LOG_AGE,
    OPTION_MAX_TOKENS,
    OPTION_STOP,
    OPTION_IGNORE_EOS,
    OPTION_N,
    OPTION_TIMEOUT,
    OPTION_PRIORITY,
    OPTION_SPECULATE,
    OPTION_ADAPTER,
    OPTION_TEMP,
    OPTION_TOP_P,
    OPTION_TOP_K,
    OPTION_MIN_P,
    OPTION_SEED,
    OPTION_REPEAT_PENALTY,
    OPTION_FREQUENCY_PENALTY,
    OPTION_PRESENCE_PENALTY,
    OPTION_REPEAT_LAST_N,
    OPTION_TYPICAL_P,
    OPTION_MIROSTAT,
    OPTION_MIROSTAT_ETA,
    OPTION_LOGIT_BIAS,
    OPTION_SCHEMA,
    OPTION_GRAMMAR,
    OPTION_REGEX,
    OPTION_CHOICE,
    OPTION_ON_LIMIT,
    OPTION_SCHEMA_LENIENT,
    OPTION_ANY_ORDER,
    OPTION_COMPACT,
    OPTION_THINK,
    OPTION_THINK_BUDGET,
    OPTION_TOOLS,
    OPTION_TOOL,
    OPTION_TOOL_CHOICE,
    OPTION_YES,
    OPTION_TOOL_ROUNDS,
    OPTION_TOOL_TIMEOUT,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_EXTRACT,
    OPTION_RENDER,
    OPTION_NO_STREAM,
    OPTION_JSONL,
    OPTION_LOGPROBS,
    OPTION_JSON,
    OPTION_WATCH,
    OPTION_PREFIX_FILE,
    OPTION_SUFFIX_FILE,
    OPTION_AT,
    OPTION_MAX_LINES,
    OPTION_OUT,
    OPTION_JOBS,
    OPTION_ORDERED,
    OPTION_RESUME,
    OPTION_WRITE,
    OPTION_NULL,
    OPTION_DIMS,
    OPTION_POOLING,
    OPTION_NPY,
    OPTION_PRINT,
    OPTION_NO_CONTEXT,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_COUNT,
};

enum { OPTION_TOOL_ROUNDS_DEFAULT = 20, OPTION_TOOL_TIMEOUT_DEFAULT = 60000 /* ms */ };
#define OPTION_LOG_SIZE_DEFAULT (256 << 20)

enum option_flags {
    OPTION_IN_FILE = 1,  /* also a key of hob.conf */
    OPTION_COMMANDS = 2, /* also valid for the commands */
    OPTION_CHAT = 4,     /* also valid for chat, like every OPTION_COMMANDS except --json */
    OPTION_STATUS = 8,   /* also valid for status */
    OPTION_INFILL = 16,  /* also valid for infill; without other flags: valid only for infill */
    OPTION_EMBED = 128,  /* also valid for embed and rank; without other flags: valid only there */
    OPTION_DO = 256,     /* also valid for do, like every OPTION_CHAT except those of conversations */
    OPTION_ANSWER = 32,  /* affects an answer; every option except those with OPTION_INFILL alone */
    OPTION_BATCH = 64,   /* only valid for batch or map, or both (option-check.c) */
};

struct option_def {
    const char *name;
    const char *arg;  /* NULL: no value; in brackets: optional, as --name=VALUE */
    const char *help; /* NULL: hidden, and never suggested */
    char letter;      /* 0: none */
    unsigned short flags;
};

extern const struct option_def option_table[OPTION_COUNT];

/* The names of commands. */
struct option_word {
    const char *word;
    int command; /* enum command */
};

extern const struct option_word option_words[]; /* ends with a NULL word */

/* Fill @names, which has room for OPTION_COUNT + 1, with a NULL-terminated list of the long names (@in_file: only the
 * keys of hob.conf), for conf_nearest. */
void option_names(const char **names, bool in_file);
