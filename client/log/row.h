/* SPDX-License-Identifier: MIT */
#pragma once
/* Rows of exchanges for people: of a list, and of a search. */
#include "client/log/log-store.h"

/* "@12" or "12", as a number. 0; -EINVAL: sets the error message. */
int row_id(int64_t *id, const char *word);

/* Append the line "@12  5 min ago  TEXT", cut to @width columns (0: not cut). @text: one line is made of it; the bytes
 * 1 and 2 in it begin and end what is shown bold if @bold, else they are removed. 0 or -ENOMEM. */
int row_put(struct buf *out, int64_t id, int64_t began_ms, const char *text, unsigned width, bool bold);

/* Append the exchange of @q, whose columns are id and those of column_names, as a JSON object on one line. 0 or
 * -ENOMEM. */
int row_json(struct buf *out, sqlite3_stmt *q);

/* Whether bold text is shown: standard output draws, and NO_COLOR is not set. */
bool row_bold(void);
