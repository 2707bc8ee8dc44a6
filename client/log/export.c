/* SPDX-License-Identifier: MIT */
/* hob log export: all exchanges, or some, as lines of JSON, the oldest first. */
#include "client/exit-status.h"
#include "client/log/column.h"
#include "client/log/log-options.h"
#include "client/log/row.h"
#include "client/output.h"
#include "libcommon/error.h"
#include <inttypes.h>

#define PIECE (256u << 10) /* bytes that are printed together */

/* Print the rows of @q; *@n: how many. */
static int print_rows(struct store *s, sqlite3_stmt *q, size_t *n)
{
    struct buf lines = BUF_INIT;
    int r = 0, more = 0;
    for (*n = 0; r == 0 && (more = store_step(s, q)) == 0; ++*n) {
        r = row_json(&lines, q);
        if (r < 0) error_say(r, "no memory for the exchange");
        if (r < 0 || lines.len < PIECE) continue;
        r = output_print(lines.data, lines.len);
        buf_clear(&lines);
    }
    if (more < 0) r = more;
    if (r == 0 && lines.len) r = output_print(lines.data, lines.len);
    buf_fini(&lines);
    return r;
}

static int print_one(struct store *s, sqlite3_stmt *q, const char *word)
{
    int64_t id;
    size_t n;
    int r = row_id(&id, word);
    if (r < 0) return r;
    sqlite3_reset(q);
    sqlite3_bind_int64(q, 1, id);
    r = print_rows(s, q, &n);
    return r == 0 && !n ? error_say(-ENOENT, "no exchange @%" PRId64 " in the log", id) : r;
}

int log_export(const struct log_options *o)
{
    struct store s = {0};
    struct buf sql = BUF_INIT;
    sqlite3_stmt *q = NULL;
    size_t n;
    int r = store_open(&s, false);
    if (r == 0)
        r = buf_printf(&sql, "SELECT id,%s FROM exchange %s", column_names,
                       o->n_words ? "WHERE id = ?1" : "ORDER BY id");
    if (r == -ENOMEM) error_say(r, "no memory for the list");
    if (r == STORE_NONE && o->n_words) r = error_say(-ENOENT, "the log is empty");
    if (r == 0) r = store_prepare(&s, &q, sql.data);
    if (r == 0 && !o->n_words) r = print_rows(&s, q, &n);
    for (size_t i = 0; r == 0 && i < o->n_words; i++) r = print_one(&s, q, o->words[i]);
    sqlite3_finalize(q);
    store_close(&s);
    buf_fini(&sql);
    return r < 0 ? exit_status_before(r) : 0;
}
