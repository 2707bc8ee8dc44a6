/* SPDX-License-Identifier: MIT */
/* The table meta of an index. */
#include "client/find/index-store.h"
#include "client/find/vector-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void store_meta_fini(struct store_meta *m)
{
    free(m->root);
    free(m->model);
    free(m->prefix);
    free(m->question_prefix);
    free(m->probe);
    *m = (struct store_meta){0};
}

static int copy_text(char **out, sqlite3_stmt *q)
{
    const char *text = (const char *)sqlite3_column_text(q, 1);
    free(*out);
    *out = strdup(text ? text : "");
    return *out ? 0 : -ENOMEM;
}

static int copy_probe(struct store_meta *m, sqlite3_stmt *q)
{
    size_t n = (size_t)sqlite3_column_bytes(q, 1);
    free(m->probe);
    m->probe = NULL;
    if (n == 0) return 0;
    if (n % sizeof(float) || n / sizeof(float) > VECTOR_DIM_MAX) return -EUCLEAN;
    m->probe = malloc(n);
    if (!m->probe) return -ENOMEM;
    memcpy(m->probe, sqlite3_column_blob(q, 1), n);
    m->dim = (uint32_t)(n / sizeof(float));
    return 0;
}

/* Keep one pair; unknown keys are skipped. 0, -ENOMEM or -EUCLEAN. */
static int take(struct store_meta *m, sqlite3_stmt *q)
{
    const char *key = (const char *)sqlite3_column_text(q, 0);
    const sqlite3_int64 v = sqlite3_column_int64(q, 1);
    if (!key) return -EUCLEAN;
    if (strcmp(key, "root") == 0) return copy_text(&m->root, q);
    if (strcmp(key, "model") == 0) return copy_text(&m->model, q);
    if (strcmp(key, "prefix") == 0) return copy_text(&m->prefix, q);
    if (strcmp(key, "question_prefix") == 0) return copy_text(&m->question_prefix, q);
    if (strcmp(key, "probe") == 0) return copy_probe(m, q);
    if (v < 0) return -EUCLEAN;
    if (strcmp(key, "dims") == 0 && v <= VECTOR_DIM_MAX) m->dims = (uint32_t)v;
    if (strcmp(key, "generation") == 0) m->generation = (uint64_t)v;
    if (strcmp(key, "rows") == 0) m->rows = (uint64_t)v;
    return 0;
}

int store_meta_read(struct store *s, struct store_meta *m)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    *m = (struct store_meta){0};
    int r = store_prepare(s, &q, "SELECT key, value FROM meta"), more = 0;
    if (r < 0) return r;
    while (r == 0 && (more = store_step(s, q)) > 0) {
        r = take(m, q);
        if (r == -ENOMEM) return error_say(r, "no memory for the index");
    }
    if (more < 0) return more;
    if (r < 0 || !m->root || !m->model || !m->prefix || !m->question_prefix || (m->rows > 0 && !m->probe))
        return error_say(-EUCLEAN, "the database of the index lacks a setting");
    return 0;
}

enum kind { NUMBER, TEXT, BYTES };

static int put(struct store *s, sqlite3_stmt *q, const char *key, enum kind kind, const void *p, uint64_t n)
{
    sqlite3_reset(q);
    sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
    if (kind == NUMBER)
        sqlite3_bind_int64(q, 2, (sqlite3_int64)n);
    else if (kind == TEXT)
        sqlite3_bind_text(q, 2, p, -1, SQLITE_STATIC);
    else
        sqlite3_bind_blob64(q, 2, p ? p : "", n, SQLITE_STATIC);
    return store_step(s, q);
}

int store_meta_write(struct store *s, const struct store_meta *m)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    int r = store_prepare(s, &q, "INSERT OR REPLACE INTO meta VALUES(?, ?)");
    if (r == 0) r = put(s, q, "root", TEXT, m->root, 0);
    if (r == 0) r = put(s, q, "model", TEXT, m->model, 0);
    if (r == 0) r = put(s, q, "prefix", TEXT, m->prefix, 0);
    if (r == 0) r = put(s, q, "question_prefix", TEXT, m->question_prefix, 0);
    if (r == 0) r = put(s, q, "dims", NUMBER, NULL, m->dims);
    if (r == 0) r = put(s, q, "generation", NUMBER, NULL, m->generation);
    if (r == 0) r = put(s, q, "rows", NUMBER, NULL, m->rows);
    if (r == 0) r = put(s, q, "probe", BYTES, m->probe, m->probe ? m->dim * sizeof(float) : 0);
    return r;
}
