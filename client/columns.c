/* SPDX-License-Identifier: MIT */
#include "client/columns.h"
#include "client/width.h"
#include "libcommon/plain.h"
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#define TABLE_GAP   2        /* spaces between columns */
#define TABLE_OUT   UINT_MAX /* width of a column that is not printed */
#define TABLE_LEAST 4        /* the first column is never narrower */
#define TABLE_NAME  12       /* the first column is not narrower while other columns can be dropped */

int table_plain(struct buf *out, const char *text)
{
    return plain_line(out, text, strlen(text));
}

int table_put(struct table *t, const char *text)
{
    int r = table_plain(&t->cells, text);
    return r == 0 ? buf_append(&t->cells, "", 1) : r;
}

void table_fini(struct table *t)
{
    buf_fini(&t->cells);
}

unsigned table_terminal(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) < 0) return 0;
    return size.ws_col ? size.ws_col : 80;
}

/* Drop optional columns until the lines fit. @widths: the widths of all columns. Returns the width of all columns but
 * the first. */
static unsigned drop_columns(const struct table *t, unsigned *widths)
{
    unsigned least = widths[0] < TABLE_NAME ? widths[0] : TABLE_NAME;
    unsigned others = t->prefix ? width_columns(t->prefix) : 0;
    for (unsigned c = 1; c < t->columns; c++) others += TABLE_GAP + widths[c];
    for (unsigned c = t->columns; t->width && c-- > 1 && least + others > t->width;) {
        if (!(t->optional >> c & 1)) continue;
        others -= TABLE_GAP + widths[c];
        widths[c] = TABLE_OUT;
    }
    return others;
}

/* The widths of the columns; returns the number of complete rows. */
static size_t measure(const struct table *t, unsigned *widths)
{
    const char *p = t->cells.data, *end = p + t->cells.len;
    unsigned others, n;
    size_t cells = 0;

    memset(widths, 0, t->columns * sizeof(*widths));
    for (; p < end; p += strlen(p) + 1, cells++) {
        n = width_columns(p);
        if (n > widths[cells % t->columns]) widths[cells % t->columns] = n;
    }
    others = drop_columns(t, widths);
    if (t->width && widths[0] + others > t->width) {
        n = others < t->width ? t->width - others : 0;
        if (n < TABLE_LEAST) n = TABLE_LEAST;
        if (n < widths[0]) widths[0] = n;
    }
    return cells / t->columns;
}

/* Print @text in @width columns; truncate it if it is longer. */
static int print_cell(struct buf *out, const char *text, unsigned width, bool right, bool last)
{
    unsigned n = width_columns(text);
    int r;
    if (n > width) {
        r = buf_append(out, text, width_fit(text, width - 1, &n));
        /* If a wide character did not fit, one column is free. */
        return r == 0 ? buf_printf(out, "…%*s", last ? 0 : (int)(width - 1 - n), "") : r;
    }
    if (right) return buf_printf(out, "%*s%s", (int)(width - n), "", text);
    return buf_printf(out, "%s%*s", text, last ? 0 : (int)(width - n), "");
}

int table_print(struct buf *out, const struct table *t)
{
    unsigned widths[TABLE_COLUMNS_MAX];
    const char *p = t->cells.data;
    size_t rows = t->columns && t->cells.len ? measure(t, widths) : 0;
    int r = 0;

    while (r == 0 && rows--) {
        if (t->prefix) r = buf_puts(out, t->prefix);
        for (unsigned c = 0; r == 0 && c < t->columns; c++, p += strlen(p) + 1) {
            if (widths[c] == TABLE_OUT) continue;
            if (c) r = buf_printf(out, "%*s", TABLE_GAP, "");
            if (r == 0) r = print_cell(out, p, widths[c], t->right >> c & 1, c + 1 == t->columns);
        }
        while (out->len && out->data[out->len - 1] == ' ') out->len--;
        if (r == 0) r = buf_puts(out, "\n");
    }
    return r;
}
