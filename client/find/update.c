/* SPDX-License-Identifier: MIT */
#include "client/find/update.h"
#include "client/find/index-batch.h"
#include "client/find/tree-file.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A file that changed so short before it was read may change again with the same time; it is read again next time. */
#define RACE_NS INT64_C(2000000000)

struct listing {
    struct store *store;
    sqlite3_stmt *q;
};

static int list_file(void *ctx, const char *path, const struct stat *st)
{
    struct listing *l = ctx;
    sqlite3_reset(l->q);
    sqlite3_bind_blob(l->q, 1, path, (int)strlen(path), SQLITE_STATIC);
    sqlite3_bind_int64(l->q, 2, (sqlite3_int64)st->st_size);
    sqlite3_bind_int64(l->q, 3, tree_file_mtime(st));
    return store_step(l->store, l->q);
}

/* Fill the table `here` with the files of the folder, and `todo` with those that differ from the index. */
static int list_files(struct update *u, int root)
{
    struct store *s = &u->index->store;
    struct listing l = {.store = s};
    struct walk w = {.root = root, .max_size = u->max_size, .all = u->all, .fn = list_file, .ctx = &l};
    int r =
        store_run(s, "CREATE TEMP TABLE here(path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER) WITHOUT ROWID; BEGIN");
    if (r == 0) r = store_prepare(s, &l.q, "INSERT INTO here VALUES(?, ?, ?)");
    if (r == 0) r = walk_tree(&w);
    store_statement_fini(&l.q);
    u->walked = w.counts;
    if (r == 0)
        r = store_run(s,
                      "CREATE TEMP TABLE todo AS SELECT h.path, h.size FROM here h LEFT JOIN file f ON f.path = h.path"
                      " WHERE f.path IS NULL OR f.size <> h.size OR f.mtime <> h.mtime ORDER BY h.path; COMMIT");
    int64_t files = 0, bytes = 0;
    if (r == 0) r = store_number(s, "SELECT count(*) FROM todo", &files);
    if (r == 0) r = store_number(s, "SELECT sum(size) FROM todo", &bytes);
    u->changed = (uint64_t)files;
    u->bytes_changed = (uint64_t)bytes;
    return r;
}

/* Read a changed file and add it. */
static int take_file(struct update *u, struct batch *b, int root, const char *path)
{
    struct stat st;
    struct timespec now;
    _cleanup_(freep) char *text = NULL;
    ssize_t n = tree_file_read(root, path, u->max_size, &text, &st);
    if (n == -ENOMEM) return error_say(-ENOMEM, "no memory for the file %s", path);
    if (n == -EINTR) return -EINTR;
    if (n < 0) {
        u->failed += n != -ENOENT;
        return 0;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t mtime = tree_file_mtime(&st), at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return batch_add(b, u->index, path, st.st_size, at - mtime < RACE_NS ? 0 : mtime, text, (size_t)n);
}

/* The next row of todo after *@row. 0; 1: none is left. */
static int next_file(struct update *u, sqlite3_stmt *q, int64_t *row, char **path, uint64_t *size)
{
    sqlite3_reset(q);
    sqlite3_bind_int64(q, 1, *row);
    int r = store_step(&u->index->store, q);
    if (r <= 0) return r < 0 ? r : 1;
    *row = sqlite3_column_int64(q, 0);
    *size = (uint64_t)sqlite3_column_int64(q, 2);
    *path = strndup(sqlite3_column_blob(q, 1), (size_t)sqlite3_column_bytes(q, 1));
    sqlite3_reset(q);
    return *path ? 0 : error_say(-ENOMEM, "no memory for a path");
}

static int take_files(struct update *u, int root)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    struct batch b = {0};
    int64_t row = 0;
    int r = store_prepare(&u->index->store, &q, "SELECT rowid, path, size FROM temp.todo WHERE rowid > ? LIMIT 1");
    while (r == 0) {
        _cleanup_(freep) char *path = NULL;
        uint64_t size;
        r = interrupted() ? -EINTR : next_file(u, q, &row, &path, &size);
        if (r == 0) r = take_file(u, &b, root, path);
        if (r == 0) u->read++, u->bytes_read += size;
        if (r > 0 || (r == 0 && batch_is_full(&b))) {
            int e = batch_flush(&b, u->index, u->embedder);
            if (e < 0) r = e;
        }
        u->embedded = b.embedded;
        if (r == 0 && u->progress) u->progress(u->ctx, u);
    }
    batch_fini(&b);
    return r < 0 ? r : 0;
}

/* Forget files that are gone, and texts that no file has. */
static int forget(struct update *u)
{
    struct store *s = &u->index->store;
    int r = store_begin(s, true);
    /* Below a folder that cannot be read now, nothing is known to be gone. */
    if (r == 0 && u->walked.unreadable == 0)
        r = store_run(s, "DELETE FROM file WHERE NOT EXISTS (SELECT 1 FROM temp.here h WHERE h.path = file.path)");
    if (r == 0 && u->walked.unreadable == 0) u->gone = (uint64_t)sqlite3_changes(s->db);
    if (r == 0)
        r = store_run(
            s,
            "CREATE TEMP TABLE unused AS SELECT id, row, n FROM content c WHERE NOT EXISTS"
            " (SELECT 1 FROM file f WHERE f.content = c.id);"
            "DELETE FROM chunk WHERE row IN (SELECT k.row FROM temp.unused u CROSS JOIN chunk k ON k.row >= u.row AND"
            " k.row < u.row + u.n);"
            "DELETE FROM content WHERE id IN (SELECT id FROM temp.unused)");
    return r == 0 ? store_commit(s) : r;
}

/* More rows than a quarter, and enough to matter, belong to nothing. */
static bool sparse(const struct update *u)
{
    uint64_t unused = u->index->meta.rows - u->chunks;
    return unused > 256 && unused > u->index->meta.rows / 4;
}

int update_run(struct update *u)
{
    struct store *s = &u->index->store;
    int64_t chunks = 0, binary = 0;
    _cleanup_(closep) int root = open(u->index->place.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return error_say(-errno, "%s: %s", u->index->place.root, strerror(errno));
    int r = list_files(u, root);
    if (r == 0) r = take_files(u, root);
    if (r == 0) r = forget(u);
    if (r == 0) r = store_number(s, "SELECT count(*) FROM chunk", &chunks);
    u->chunks = (uint64_t)chunks;
    if (r == 0 && sparse(u)) r = compact_run(u->index);
    if (r == 0)
        r = store_number(s, "SELECT count(*) FROM file JOIN content c ON c.id = content WHERE c.n = 0 AND size > 0",
                         &binary);
    u->binary = (uint64_t)binary;
    return r;
}
