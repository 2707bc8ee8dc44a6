/* SPDX-License-Identifier: MIT */
#include "client/log/log-limits.h"
#include "libcommon/error.h"
#include <time.h>

#define ROUNDS 8 /* of removals for one limit: the index does not shrink in proportion */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Remove what @sql names, with one number; *@removed: how many rows. */
static int remove_rows(struct store *s, const char *sql, int64_t number, int *removed)
{
    sqlite3_stmt *q = NULL;
    int r = store_begin(s);
    if (r < 0) return r;
    r = store_prepare(s, &q, sql);
    if (r == 0) {
        sqlite3_bind_int64(q, 1, number);
        r = store_step(s, q);
    }
    sqlite3_finalize(q);
    *removed = sqlite3_changes(s->db);
    return store_end(s, r < 0 ? r : 0);
}

static int keep_age(struct store *s, int64_t age_ms)
{
    static const char old[] = "DELETE FROM exchange WHERE conversation IN (SELECT conversation FROM exchange"
                              " GROUP BY conversation HAVING max(began_ms) < ?)"
                              " AND conversation <> (SELECT conversation FROM exchange ORDER BY id DESC LIMIT 1)";
    int64_t first, limit = now_ms() - age_ms;
    int removed = 0;
    int r = store_number(s, "SELECT began_ms FROM exchange ORDER BY id LIMIT 1", &first);
    if (r == 0 && first < limit) r = remove_rows(s, old, limit, &removed);
    return r == 0 && removed ? store_shrink(s) : r;
}

/* Bytes of the database that are in use. */
static int used(struct store *s, int64_t *bytes)
{
    int64_t pages, unused, size;
    int r = store_number(s, "PRAGMA page_count", &pages);
    if (r == 0) r = store_number(s, "PRAGMA freelist_count", &unused);
    if (r == 0) r = store_number(s, "PRAGMA page_size", &size);
    *bytes = r == 0 ? (pages - unused) * size : 0;
    return r;
}

static int keep_size(struct store *s, int64_t size)
{
    /* The conversations that ended first and have at least this many bytes together. */
    static const char oldest[] =
        "DELETE FROM exchange WHERE conversation IN (SELECT conversation FROM (SELECT conversation,"
        " sum(sum(bytes)) OVER (ORDER BY max(began_ms), conversation ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        " AS before FROM exchange GROUP BY conversation) WHERE ifnull(before, 0) < ?)"
        " AND conversation <> (SELECT conversation FROM exchange ORDER BY id DESC LIMIT 1)";
    int64_t bytes, least = size / 10 * 9;
    int r = used(s, &bytes), removed = 1;
    if (r < 0 || bytes <= size) return r;
    for (int i = 0; r == 0 && i < ROUNDS && bytes > least && removed; i++) {
        r = remove_rows(s, oldest, (bytes - least + 1) / 2, &removed);
        if (r == 0) r = store_shrink(s);
        if (r == 0) r = used(s, &bytes);
    }
    return r;
}

int limits_keep(struct store *s, int64_t size, int64_t age_ms)
{
    int r = age_ms ? keep_age(s, age_ms) : 0;
    return r == 0 && size ? keep_size(s, size) : r;
}
