/* SPDX-License-Identifier: MIT */
#include "client/find/results.h"
#include "client/find/search.h"
#include "client/find/tree-file.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The files that hold the chunk of a row; a row that no text has any more gives nothing. */
static const char places[] = "SELECT k.first, k.last, f.path, f.size, f.mtime FROM chunk k JOIN file f ON f.content ="
                             " (SELECT id FROM content WHERE row BETWEEN 0 AND ?1 ORDER BY row DESC LIMIT 1)"
                             " WHERE k.row = ?1 ORDER BY f.path";

void results_fini(struct results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->all[i].path);
        free(r->all[i].text);
    }
    free(r->all);
    *r = (struct results){0};
}

static int no_memory(void)
{
    return error_say(-ENOMEM, "no memory for what was found");
}

/* Read the file of @r; its size and time were @size and @mtime. */
static int read_text(struct results *out, struct result *r, int root, int64_t size, int64_t mtime,
                     const struct words *w)
{
    struct stat st;
    ssize_t n = tree_file_read(root, r->path, TREE_FILE_MAX, &r->text, &st);
    if (n == -ENOMEM) return no_memory();
    if (n < 0) {
        out->gone++;
        return 0;
    }
    r->len = (size_t)n;
    r->changed = st.st_size != size || (mtime && tree_file_mtime(&st) != mtime);
    out->changed += r->changed;
    r->line = words_best_line(w, r->text, r->len, r->first, r->last);
    return 0;
}

static bool given(const struct results *out, const struct result *r)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->all[i].line.no == r->line.no && strcmp(out->all[i].path, r->path) == 0) return true;
    return false;
}

static void drop(struct result *r)
{
    free(r->path);
    free(r->text);
}

/* Add the place that @q tells, unless its file was removed or its line was added before. */
static int add(struct results *out, sqlite3_stmt *q, int root, double score, const struct words *w)
{
    struct result r = {.score = score,
                       .first = (uint32_t)sqlite3_column_int64(q, 0),
                       .last = (uint32_t)sqlite3_column_int64(q, 1),
                       .path = strndup(sqlite3_column_blob(q, 2), (size_t)sqlite3_column_bytes(q, 2))};
    int e = r.path ? read_text(out, &r, root, sqlite3_column_int64(q, 3), sqlite3_column_int64(q, 4), w) : no_memory();
    if (e < 0 || r.line.no == 0 || given(out, &r)) {
        drop(&r);
        return e;
    }
    struct result *all = reallocarray(out->all, out->n + 1, sizeof(*all));
    if (!all) {
        drop(&r);
        return no_memory();
    }
    out->all = all;
    out->all[out->n++] = r;
    return 0;
}

/* Add the places of the hits, best first. */
static int add_hits(struct results *out, struct index *x, const struct hit *hits, int n, const struct words *w,
                    unsigned most)
{
    _cleanup_(store_statement_fini) sqlite3_stmt *q = NULL;
    _cleanup_(closep) int root = open(x->place.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return error_say(-errno, "%s: %s", x->place.root, strerror(errno));
    int r = store_prepare(&x->store, &q, places);
    for (int i = 0; r == 0 && i < n && out->n < most; i++) {
        sqlite3_reset(q);
        sqlite3_bind_int64(q, 1, (sqlite3_int64)hits[i].row);
        while (out->n < most && (r = store_step(&x->store, q)) > 0) {
            r = vector_row_is_whole(&x->vectors, hits[i].row)
                    ? add(out, q, root, hits[i].score, w)
                    : error_say(-EUCLEAN, "the vector of row %" PRIu64 " is not as it was written", hits[i].row);
            if (r < 0) break;
        }
    }
    return index_damaged(x, r);
}

int results_find(struct results *out, struct index *x, const float *v, const struct words *w, unsigned most)
{
    *out = (struct results){.rows = x->meta.rows};
    _cleanup_(freep) int8_t *codes = malloc(vector_stride(x->meta.dim));
    struct search s = {.file = &x->vectors,
                       .rows = x->meta.rows,
                       .codes = codes,
                       .dot_rows = dot_rows_get(getenv("HOB_CPU")),
                       .threads = 2};
    if (!s.dot_rows) return error_say(-EINVAL, "HOB_CPU=%s: use scalar, avx2, avx512 or amx", getenv("HOB_CPU"));
    if (!codes) return no_memory();
    if (!vector_quantize(codes, &s.scale, v, x->meta.dim))
        return error_say(-EDOM, "the question's vector is not finite");
    /* Rows of forgotten texts, and lines that several chunks share, take places among the hits. */
    for (unsigned want = 4 * most + 64;; want *= 8) {
        uint64_t from = clock_now_usec();
        _cleanup_(freep) struct hit *hits = malloc(want * sizeof(*hits));
        int n = hits ? search_run(&s, hits, want) : no_memory();
        uint64_t took = clock_now_usec() - from;
        if (n < 0) return n;
        results_fini(out);
        *out = (struct results){.rows = x->meta.rows, .search_usec = took};
        int r = add_hits(out, x, hits, n, w, most);
        if (r < 0 || out->n >= most || (unsigned)n < want) return r;
    }
}
