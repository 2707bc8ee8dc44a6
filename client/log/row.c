/* SPDX-License-Identifier: MIT */
#include "client/log/row.h"
#include "client/json.h"
#include "client/log/column.h"
#include "client/options.h"
#include "client/output.h"
#include "client/sessions-view.h"
#include "client/width.h"
#include "libcommon/plain.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 1000 /* bytes of a line's text that is not cut to a terminal */

int row_id(int64_t *id, const char *word)
{
    return options_exchange(id, word);
}

bool row_bold(void)
{
    const char *no = getenv("NO_COLOR");
    return output_draws(STDOUT_FILENO) && !(no && *no);
}

/* Append a piece of the text, as far as @left columns (0: the width is not limited) reach. */
static int put_piece(struct buf *out, const char *s, size_t n, unsigned *left, bool limited)
{
    struct buf safe = BUF_INIT;
    int r = plain_line(&safe, s, n);
    if (r == 0 && safe.len) {
        unsigned used = 0;
        size_t fits = limited ? width_fit(safe.data, *left, &used) : safe.len;
        r = buf_append(out, safe.data, fits);
        *left = fits < safe.len ? 0 : *left - used;
    }
    buf_fini(&safe);
    return r;
}

static int put_text(struct buf *out, const char *text, unsigned left, bool limited, bool bold)
{
    int r = 0;
    size_t all = 0;
    while (r == 0 && *text && (!limited || left) && all < TEXT_MAX) {
        size_t n = strcspn(text, "\1\2");
        r = put_piece(out, text, n, &left, limited);
        text += n;
        all += n;
        if (r == 0 && *text && bold) r = buf_puts(out, *text == 1 ? "\033[1m" : "\033[0m");
        if (*text) text++;
    }
    return r == 0 && bold ? buf_puts(out, "\033[0m") : r;
}

int row_put(struct buf *out, int64_t id, int64_t began_ms, const char *text, unsigned width, bool bold)
{
    char age[16], head[80];
    int n = snprintf(head, sizeof(head), "@%-5" PRId64 " %-11s ", id,
                     sessions_view_age(age, began_ms / 1000, (int64_t)time(NULL)));
    unsigned used = (unsigned)n;
    int r = buf_puts(out, head);
    text += strspn(text, " \t\r\n");
    if (r == 0) r = put_text(out, text, width > used ? width - used : 1, width > 0, bold);
    while (out->len && out->data[out->len - 1] == ' ') out->data[--out->len] = 0;
    return r == 0 ? buf_puts(out, "\n") : r;
}

static int put_value(struct buf *out, sqlite3_stmt *q, int at, enum column_kind kind)
{
    const char *text = (const char *)sqlite3_column_text(q, at);
    if (!text) return -ENOMEM;
    size_t n = (size_t)sqlite3_column_bytes(q, at);
    return kind == COLUMN_TEXT ? json_put_string(out, text, n) : buf_append(out, text, n);
}

int row_json(struct buf *out, sqlite3_stmt *q)
{
    int r = buf_printf(out, "{\"id\":%" PRId64, (int64_t)sqlite3_column_int64(q, 0));
    for (int i = 0; r == 0 && i < COLUMNS; i++) {
        if (sqlite3_column_type(q, i + 1) == SQLITE_NULL) continue;
        r = buf_printf(out, ",\"%s\":", columns[i].name);
        if (r == 0) r = put_value(out, q, i + 1, columns[i].kind);
    }
    return r == 0 ? buf_puts(out, "}\n") : r;
}
