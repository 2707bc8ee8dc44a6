/* SPDX-License-Identifier: MIT */
#pragma once
/* The columns of the table exchange, which are the members of an exchange as JSON, in their order. */
#include <stddef.h>

enum column_kind {
    COLUMN_TEXT,
    COLUMN_NUMBER,
    COLUMN_JSON, /* a JSON array or object as text */
};

struct column {
    const char *name;
    enum column_kind kind;
};

enum column_id {
    COLUMN_UUID,
    COLUMN_FOLLOWS,
    COLUMN_CONVERSATION,
    COLUMN_BEGAN_MS,
    COLUMN_TOOK_MS,
    COLUMN_WHICH, /* "kind": chat, raw or infill */
    COLUMN_MODEL,
    COLUMN_SESSION,
    COLUMN_STATUS,
    COLUMN_REASON,
    COLUMN_ERROR,
    COLUMN_ROUNDS,
    COLUMN_SYSTEM,
    COLUMN_BEFORE,
    COLUMN_PROMPT,
    COLUMN_SUFFIX,
    COLUMN_MEDIA,
    COLUMN_STEPS,
    COLUMN_THINKING,
    COLUMN_ANSWER,
    COLUMN_TOOL_CALLS,
    COLUMN_OTHERS,
    COLUMN_OPTIONS,
    COLUMN_USAGE,
    COLUMN_TIMINGS,
    COLUMN_SEED,
    COLUMNS,
};

extern const struct column columns[COLUMNS];

/* The column with this name; COLUMNS: none. */
enum column_id column_find(const char *name);

/* The columns' names for SQL, separated by commas. */
extern const char column_names[];
