/* SPDX-License-Identifier: MIT */
/* hob log list and hob log search. */
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/log/column.h"
#include "client/log/log-files.h"
#include "client/log/log-options.h"
#include "client/log/row.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <string.h>
#include <unistd.h>

/* A list's row: id, began_ms, text. */
static int put_row(struct buf *out, sqlite3_stmt *q, unsigned width, bool bold)
{
    const char *text = (const char *)sqlite3_column_text(q, 2);
    return row_put(out, sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1), text ? text : "", width, bold);
}

/* Print the rows of @q; *@n: how many. */
static int print_rows(struct store *s, sqlite3_stmt *q, const struct log_options *o, size_t *n)
{
    const unsigned width = table_terminal(STDOUT_FILENO);
    const bool bold = row_bold();
    struct buf line = BUF_INIT;
    int r = 0;
    for (*n = 0; (r = store_step(s, q)) == 0; ++*n) {
        buf_clear(&line);
        r = o->json ? row_json(&line, q) : put_row(&line, q, width, bold);
        if (r < 0) r = error_say(r, "no memory for the list");
        if (r == 0) r = output_print(line.data, line.len);
        if (r < 0) break;
    }
    buf_fini(&line);
    return r < 0 ? r : 0;
}

/* Run "SELECT …@tail" with the arguments @match (NULL: none) and the limit. */
static int select_rows(struct store *s, const struct log_options *o, const char *text, const char *tail,
                       const char *match, size_t *n)
{
    struct buf sql = BUF_INIT;
    sqlite3_stmt *q = NULL;
    int r = o->json ? buf_printf(&sql, "SELECT id,%s %s", column_names, tail)
                    : buf_printf(&sql, "SELECT id,began_ms,%s %s", text, tail);
    r = r < 0 ? error_say(r, "no memory for the list") : store_prepare(s, &q, sql.data);
    if (r == 0) {
        sqlite3_bind_int64(q, 1, o->limit ? o->limit : -1);
        if (match) sqlite3_bind_text(q, 2, match, -1, SQLITE_STATIC);
        r = print_rows(s, q, o, n);
    }
    sqlite3_finalize(q);
    buf_fini(&sql);
    return r;
}

static void say_empty(const struct log_options *o)
{
    log_info(o->on ? "the log is empty"
                   : "the log is empty and off; 'hob log on' turns it on, and 'hob --log' logs one "
                     "exchange");
}

/* How an exchange looks in a list: its prompt, with the reason if it has no answer. */
#define LISTED                                                                                                         \
    "CASE WHEN status=0 THEN '' WHEN status=130 THEN '(interrupted) ' ELSE '(failed) ' END || "                        \
    "substr(coalesce(nullif(prompt,''), answer, ''), 1, 1000)"

int log_list(const struct log_options *o)
{
    struct store s = {0};
    size_t n = 0;
    int r = store_open(&s, false);
    if (r == 0) r = select_rows(&s, o, LISTED, "FROM exchange ORDER BY id DESC LIMIT ?1", NULL, &n);
    store_close(&s);
    if (r >= 0 && !n) say_empty(o);
    return r < 0 ? exit_status_report(r) : 0;
}

/* Append the words as a query of FTS5: each a string in double quotes and a prefix, so that nothing in them is syntax.
 * 0; -EINVAL: not UTF-8; -ENOMEM; sets the error message. */
static int query_of(struct buf *out, const struct log_options *o)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->n_words; i++) {
        const char *p = o->words[i];
        if (p[utf8_check(p, strlen(p))]) return error_say(-EINVAL, "word %zu is not UTF-8", i + 1);
        while (r == 0 && *(p += strspn(p, " \t\n\r"))) {
            r = buf_puts(out, "\"");
            for (; r == 0 && *p && !strchr(" \t\n\r", *p); p++)
                r = *p == '"' ? buf_puts(out, "\"\"") : buf_append(out, p, 1);
            if (r == 0) r = buf_puts(out, "\"* ");
        }
    }
    return r < 0 ? error_say(r, "no memory for the words") : 0;
}

int log_search(const struct log_options *o)
{
    static const char text[] = "snippet(words, -1, char(1), char(2), '…', 24)";
    const char *tail = o->json ? "FROM exchange WHERE id IN (SELECT rowid FROM words WHERE words MATCH ?2)"
                                 " ORDER BY id DESC LIMIT ?1"
                               : "FROM words JOIN exchange e ON e.id = words.rowid WHERE words MATCH ?2"
                                 " ORDER BY words.rowid DESC LIMIT ?1";
    struct buf match = BUF_INIT;
    struct store s = {0};
    size_t n = 0;
    int r = query_of(&match, o);
    if (r == 0) r = store_open(&s, false);
    if (r == 0 && match.len) r = select_rows(&s, o, text, tail, match.data, &n);
    store_close(&s);
    buf_fini(&match);
    if (r >= 0 && !n) log_info("no exchange has these words");
    return r < 0 ? exit_status_before(r) : n ? 0 : EXIT_FAILED;
}
