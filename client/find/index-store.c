/* SPDX-License-Identifier: MIT */
#include "client/find/index-store.h"
#include "client/find/vector-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define APPLICATION "1752134262" /* "hobv" */
#define VERSION     "1"
#define BUSY_MS     10000 /* a commit of another process takes milliseconds */

static const char schema[] =
    "PRAGMA application_id=" APPLICATION "; PRAGMA user_version=" VERSION ";"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE content(id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE,"
    " row INTEGER NOT NULL, n INTEGER NOT NULL);"
    "CREATE INDEX content_row ON content(row);"
    "CREATE TABLE chunk(row INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL);"
    "CREATE TABLE file(path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL,"
    " content INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX file_content ON file(content);";

int store_error(struct store *s)
{
    static const struct {
        int code, error;
    } table[] = {{SQLITE_FULL, ENOSPC},     {SQLITE_BUSY, EBUSY},        {SQLITE_NOMEM, ENOMEM},
                 {SQLITE_PERM, EACCES},     {SQLITE_AUTH, EACCES},       {SQLITE_READONLY, EACCES},
                 {SQLITE_CANTOPEN, EACCES}, {SQLITE_CORRUPT, EUCLEAN},   {SQLITE_NOTADB, EUCLEAN},
                 {SQLITE_ERROR, EUCLEAN},   {SQLITE_CONSTRAINT, EUCLEAN}};
    int code = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM, error = EIO;
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (table[i].code == (code & 0xff)) error = table[i].error;
    return error_say(-error, "the database of the index: %s", s->db ? sqlite3_errmsg(s->db) : strerror(error));
}

int store_run(struct store *s, const char *sql)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_error(s);
}

int store_prepare(struct store *s, sqlite3_stmt **out, const char *sql)
{
    return sqlite3_prepare_v2(s->db, sql, -1, out, NULL) == SQLITE_OK ? 0 : store_error(s);
}

int store_step(struct store *s, sqlite3_stmt *q)
{
    int code = sqlite3_step(q);
    return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : store_error(s);
}

void store_statement_fini(sqlite3_stmt **q)
{
    sqlite3_finalize(*q);
    *q = NULL;
}

int store_number(struct store *s, const char *sql, int64_t *out)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    int r = store_prepare(s, &q, sql);
    if (r == 0) r = store_step(s, q);
    *out = r > 0 ? sqlite3_column_int64(q, 0) : 0;
    return r < 0 ? r : 0;
}

static int check_kind(struct store *s)
{
    int64_t id, version;
    int r = store_number(s, "PRAGMA application_id", &id);
    if (r == 0) r = store_number(s, "PRAGMA user_version", &version);
    if (r < 0) return r;
    if (id != atoll(APPLICATION)) return error_say(-EUCLEAN, "the database of the index is of another program");
    if (version != atoll(VERSION))
        return error_say(-EUCLEAN, "the database of the index has version %lld, not " VERSION, (long long)version);
    return 0;
}

int store_open(struct store *s, const char *path, bool write, bool make)
{
    *s = (struct store){0};
    int flags = SQLITE_OPEN_NOMUTEX | (write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    bool new = false;
    if (make) {
        _cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        new = fd >= 0;
        if (fd < 0 && errno != EEXIST) return error_say(-errno, "cannot make %s: %s", path, strerror(errno));
    }
    if (sqlite3_open_v2(path, &s->db, flags, NULL) != SQLITE_OK) return store_error(s);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    int64_t tables = 0;
    int r = write ? store_run(s, "PRAGMA cache_spill=off") : 0;
    /* A run that was killed may have left an empty file. */
    if (r == 0 && make && !new) r = store_number(s, "SELECT count(*) FROM sqlite_master", &tables);
    if (r == 0 && make && tables == 0) {
        r = store_begin(s, true);
        if (r == 0) r = store_run(s, schema);
        if (r == 0) r = store_commit(s);
    }
    return r == 0 ? check_kind(s) : r;
}

void store_close(struct store *s)
{
    sqlite3_close_v2(s->db);
    *s = (struct store){0};
}

int store_begin(struct store *s, bool write)
{
    return store_run(s, write ? "BEGIN IMMEDIATE" : "BEGIN");
}

int store_commit(struct store *s)
{
    int r = store_run(s, "COMMIT");
    if (r < 0) store_rollback(s);
    return r;
}

void store_rollback(struct store *s)
{
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}
