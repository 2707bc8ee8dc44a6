/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The database of the log. Its journal is a rollback journal, not a WAL: a home directory may be on a network file
 * system, where a WAL does not work; the writers are short and run behind the answers, so that they may wait for each
 * other; and removed text leaves no copy in a WAL. Deleted text is overwritten (secure_delete).
 */
#include "libcommon/buf.h"
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define STORE_VERSION 1 /* of the tables: PRAGMA user_version */

struct store {
    sqlite3 *db;
    char *path;
};

enum { STORE_NONE = 1 }; /* a positive outcome */

/*
 * Open the log. @write: make it if there is none, with mode 0600 in a directory of mode 0700. @s is new; call
 * store_close in any case. 0; STORE_NONE: there is no log (only without @write); -EBADMSG: damaged, or not a log;
 * -EPROTO: of a newer hob; -EBUSY: another program holds it; -ENOSPC; else -errno; each sets the error message.
 */
int store_open(struct store *s, bool write);
void store_close(struct store *s);

/* Run statements without results. Errors as store_open. */
int store_run(struct store *s, const char *sql);

/* Compile @sql. On 0 the caller owns *out and calls sqlite3_finalize. Errors as store_open. */
int store_prepare(struct store *s, sqlite3_stmt **out, const char *sql);

/* One row. 0: the columns can be read; STORE_NONE: no more rows; errors as store_open. */
int store_step(struct store *s, sqlite3_stmt *q);

/* The number that @sql selects. Errors as store_open. */
int store_number(struct store *s, const char *sql, int64_t *out);

/* Begin a change: no other program changes the log until store_end. @done: what store_run and store_step of the change
 * returned: 0 commits, another value rolls back. store_end returns @done, or the error of the commit. */
int store_begin(struct store *s);
int store_end(struct store *s, int done);

/* After texts were removed: remove their words from the index, and give the space back to the file system. */
int store_shrink(struct store *s);
