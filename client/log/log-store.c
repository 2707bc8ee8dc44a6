/* SPDX-License-Identifier: MIT */
#include "client/log/log-store.h"
#include "client/log/log-files.h"
#include "client/log/log-schema.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS 10000

/* The error message and the errno of the last failure of SQLite. */
static int store_error(struct store *s, int code)
{
    int system = s->db ? sqlite3_system_errno(s->db) : 0;
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return error_say(-ENOMEM, "no memory for the log");
    case SQLITE_FULL:
        return error_say(-ENOSPC, "%s: no space on the disk", s->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_say(-EBUSY, "%s: another program has held it for %d seconds", s->path, BUSY_MS / 1000);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return error_say(-EBADMSG, "%s is damaged; move it away, and a new one begins with the next exchange", s->path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return error_say(-EACCES, "%s: it cannot be written", s->path);
    default:
        return error_say(system ? -system : -EIO, "%s: %s", s->path, system ? strerror(system) : sqlite3_errmsg(s->db));
    }
}

int store_run(struct store *s, const char *sql)
{
    int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : store_error(s, code);
}

int store_prepare(struct store *s, sqlite3_stmt **out, const char *sql)
{
    int code = sqlite3_prepare_v2(s->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? 0 : store_error(s, code);
}

int store_step(struct store *s, sqlite3_stmt *q)
{
    int code = sqlite3_step(q);
    return code == SQLITE_ROW ? 0 : code == SQLITE_DONE ? STORE_NONE : store_error(s, code);
}

int store_number(struct store *s, const char *sql, int64_t *out)
{
    sqlite3_stmt *q = NULL;
    int r = store_prepare(s, &q, sql);
    if (r == 0) r = store_step(s, q);
    *out = r == 0 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return r < 0 ? r : 0;
}

int store_begin(struct store *s)
{
    return store_run(s, "BEGIN IMMEDIATE");
}

int store_end(struct store *s, int done)
{
    if (done >= 0) done = store_run(s, "COMMIT");
    if (done < 0 && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return done;
}

/* A database of mode 0600, made if @write. SQLite's own files get the same mode. The descriptor is closed before SQLite
 * opens the file, because closing it later would drop SQLite's locks. */
static int store_file(struct store *s, bool write)
{
    struct stat st;
    _cleanup_(closep) int fd = open(s->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && !write) return STORE_NONE;
    if (fd < 0 && errno == ENOENT) {
        char *slash = strrchr(s->path, '/');
        *slash = 0;
        int made = chmod(s->path, 0700);
        *slash = '/';
        if (made < 0) return error_say(-errno, "%s: its directory: %s", s->path, strerror(errno));
        fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    if (fd < 0 || fstat(fd, &st) < 0) return error_say(-errno, "%s: %s", s->path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return error_say(-EINVAL, "%s is not a regular file", s->path);
    if (st.st_mode & 077 && fchmod(fd, 0600) < 0)
        return error_say(-errno, "%s: others may read it, and its mode cannot be changed", s->path);
    return !write && st.st_size == 0 ? STORE_NONE : 0;
}

static int make_tables(struct store *s)
{
    int64_t version;
    int r = store_run(s, "PRAGMA auto_vacuum=INCREMENTAL");
    if (r == 0) r = store_begin(s);
    if (r < 0) return r;
    r = store_number(s, "PRAGMA user_version", &version); /* another hob may have made them */
    if (r == 0 && version == 0) r = store_run(s, schema_sql);
    return store_end(s, r);
}

/* Whether this hob can use the database. */
static int check(struct store *s)
{
    int64_t id, version, tables;
    int r = store_run(s, "BEGIN"); /* the three are of one moment */
    if (r == 0) r = store_number(s, "SELECT count(*) FROM sqlite_schema", &tables);
    if (r == 0) r = store_number(s, "PRAGMA application_id", &id);
    if (r == 0) r = store_number(s, "PRAGMA user_version", &version);
    r = store_end(s, r);
    if (r < 0) return r;
    if (!tables) return make_tables(s);
    if (id != SCHEMA_APPLICATION) return error_say(-EBADMSG, "%s is a database, but not the log of hob", s->path);
    if (version > STORE_VERSION)
        return error_say(-EPROTO, "%s is from a newer hob (its version is %" PRId64 ", this hob reads %d)", s->path,
                         version, STORE_VERSION);
    return 0;
}

int store_open(struct store *s, bool write)
{
    *s = (struct store){0};
    int r = log_files_database(&s->path);
    if (r == 0) r = store_file(s, write);
    if (r != 0) return r;
    int code = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK) return store_error(s, code);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    r = store_run(s, "PRAGMA secure_delete=ON; PRAGMA cell_size_check=ON");
    return r == 0 ? check(s) : r;
}

void store_close(struct store *s)
{
    sqlite3_close(s->db);
    free(s->path);
    *s = (struct store){0};
}

int store_shrink(struct store *s)
{
    int r = store_run(s, "INSERT INTO words(words) VALUES('optimize')");
    return r == 0 ? store_run(s, "PRAGMA incremental_vacuum") : r;
}
