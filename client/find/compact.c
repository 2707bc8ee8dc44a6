/* SPDX-License-Identifier: MIT */
/* Drops the rows of a vector file that belong to no text any more. */
#include "client/find/update.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdlib.h>

/* A text whose rows move down. */
struct move {
    int64_t id;
    uint64_t from, to, n;
};

static int copy_rows(struct index *x, struct vector_file *new, const struct move *m)
{
    const size_t stride = vector_stride(x->meta.dim);
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < m->n; i++) {
        const uint64_t row = m->from + i, b = row / VECTOR_BLOCK, slot = row % VECTOR_BLOCK;
        if (!vector_row_is_whole(&x->vectors, row)) return error_say(-EUCLEAN, "a vector is not as it was written");
        r = vector_file_write(new, m->to + i, vector_codes(&x->vectors, b) + slot * stride,
                              vector_scales(&x->vectors, b) + slot, 1);
    }
    return r;
}

/* Ascending, a row moves to one that is free. */
static int renumber(struct store *s, const struct move *m)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *chunk = NULL, *content = NULL;
    if (m->from == m->to) return 0;
    int r = store_prepare(s, &chunk, "UPDATE chunk SET row = row - ? WHERE row = ?");
    if (r == 0) r = store_prepare(s, &content, "UPDATE content SET row = ? WHERE id = ?");
    for (uint64_t i = 0; r == 0 && i < m->n; i++) {
        sqlite3_reset(chunk);
        sqlite3_bind_int64(chunk, 1, (sqlite3_int64)m->from - (sqlite3_int64)m->to);
        sqlite3_bind_int64(chunk, 2, (sqlite3_int64)m->from + (sqlite3_int64)i);
        r = store_step(s, chunk);
    }
    if (r < 0) return r;
    sqlite3_bind_int64(content, 1, (sqlite3_int64)m->to);
    sqlite3_bind_int64(content, 2, m->id);
    return store_step(s, content);
}

static int move_all(struct index *x, struct vector_file *new)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    uint64_t to = 0;
    int more,
        r = store_run(&x->store, "CREATE TEMP TABLE kept AS SELECT id, row, n FROM content WHERE n > 0 ORDER BY row");
    if (r == 0) r = store_prepare(&x->store, &q, "SELECT id, row, n FROM temp.kept ORDER BY rowid");
    while (r == 0 && (more = store_step(&x->store, q)) != 0) {
        if (more < 0) return more;
        struct move m = {sqlite3_column_int64(q, 0), (uint64_t)sqlite3_column_int64(q, 1), to,
                         (uint64_t)sqlite3_column_int64(q, 2)};
        if (m.from < to || m.from > x->meta.rows || m.n > x->meta.rows - m.from)
            return error_say(-EUCLEAN, "the rows of a text are outside the file");
        r = copy_rows(x, new, &m);
        if (r == 0) r = renumber(&x->store, &m);
        to += m.n;
    }
    if (r == 0) x->meta.rows = to;
    return r;
}

int compact_run(struct index *x)
{
    char name[PLACE_NAME];
    struct vector_file new = VECTOR_FILE_INIT;
    const uint64_t generation = x->meta.generation + 1, rows = x->meta.rows;
    vector_file_close(&x->vectors); /* the map lacks what was appended */
    int r = vector_file_open(&x->vectors, x->place.fd, place_vectors(name, x->meta.generation), x->meta.dim,
                             x->meta.generation, false);
    if (r == 0) r = vector_file_map(&x->vectors, rows);
    if (r == 0) r = vector_file_make(&new, x->place.fd, place_vectors(name, generation), x->meta.dim, generation);
    if (r == 0) r = store_begin(&x->store, true);
    if (r == 0) r = move_all(x, &new);
    if (r == 0) r = vector_file_sync(&new);
    if (r == 0) {
        x->meta.generation = generation;
        r = store_meta_write(&x->store, &x->meta);
    }
    if (r == 0) r = store_commit(&x->store);
    if (r == 0) place_tidy(&x->place, generation);
    vector_file_close(&x->vectors);
    x->vectors = new;
    return r;
}
