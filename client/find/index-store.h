/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The database of an index (SQLite): which files it holds, and which rows of the vector file belong to which lines.
 *
 *     meta(key, value)               see struct store_meta
 *     content(id, digest, row, n)    a text of that digest (XXH3-128): its chunks are the n rows from row on; without
 *                                    chunks, as of a binary file, row is -1
 *     chunk(row, first, last)        lines of a row, from 1
 *     file(path, size, mtime, content)
 *
 * Files of equal text share their content, so that a file that is renamed or copied is not embedded again. The texts
 * themselves are not stored.
 *
 * Errors: -EUCLEAN: the database is damaged; -ENOSPC, -EBUSY, -EACCES, -ENOMEM, -EIO; all set the error message.
 */
#include "libcommon/buf.h"
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define STORE_FILE "index.db"

struct store {
    sqlite3 *db; /* owned; NULL: none */
};

/* What meta contains. Strings are owned. */
struct store_meta {
    char *root;            /* absolute path of the folder */
    char *model;           /* the name under which it was asked for */
    char *prefix;          /* before each chunk */
    char *question_prefix; /* before each question */
    uint32_t dims;         /* as asked for; 0: all of the model's */
    uint32_t dim;          /* of the vectors; 0: none yet */
    uint64_t generation;   /* of the vector file */
    uint64_t rows;         /* rows of the vector file that count */
    float *probe;          /* [dim] the vector of a fixed text, which tells models apart; NULL: none yet */
};

/* Open the database at @path, for writing if @write; @make: make a new one with mode 0600 if none exists. Call
 * store_close in any case. */
int store_open(struct store *s, const char *path, bool write, bool make);
void store_close(struct store *s);

/* Begin and end a transaction. A reader's one makes all that it reads of the same moment. */
int store_begin(struct store *s, bool write);
int store_commit(struct store *s);
void store_rollback(struct store *s);

/* Read meta into @m; -EUCLEAN: a key is missing or wrong. Call store_meta_fini in any case. */
int store_meta_read(struct store *s, struct store_meta *m);
int store_meta_write(struct store *s, const struct store_meta *m);
void store_meta_fini(struct store_meta *m);

/* Run SQL without a result. */
int store_run(struct store *s, const char *sql);

/* Prepare @sql. On 0 the caller calls sqlite3_finalize. */
int store_prepare(struct store *s, sqlite3_stmt **out, const char *sql);

/* Step: 1: a row; 0: done; or an error. */
int store_step(struct store *s, sqlite3_stmt *q);

/* The single number that @sql gives; 0 if it gives none. */
int store_number(struct store *s, const char *sql, int64_t *out);

/* The error of the last call that failed. */
int store_error(struct store *s);

void store_statement_fini(sqlite3_stmt **q); /* for _cleanup_ */
