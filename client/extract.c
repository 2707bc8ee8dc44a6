/* SPDX-License-Identifier: MIT */
#include "client/extract.h"
#include <string.h>

void extract_fini(struct extract *x)
{
    buf_fini(&x->line);
}

static size_t spaces(const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && (p[n] == ' ' || p[n] == '\t')) n++;
    return n;
}

/* The number of fence characters (` or ~) behind @indent spaces; 0: the line is no fence. */
static size_t fence_of(const char *line, size_t len, size_t indent)
{
    size_t n = indent;
    if (n == len || (line[n] != '`' && line[n] != '~')) return 0;
    while (n < len && line[n] == line[indent]) n++;
    return n - indent >= 3 ? n - indent : 0;
}

static bool begins(struct extract *x, const char *line, size_t len)
{
    size_t indent = spaces(line, len), fence = fence_of(line, len, indent), at = indent + fence;
    /* An info string follows the fence. If it contains another `, the line is inline `code`. */
    if (!fence || (line[indent] == '`' && memchr(line + at, '`', len - at))) return false;
    x->indent = indent;
    x->fence = fence;
    x->mark = line[indent];
    return true;
}

static bool ends(const struct extract *x, const char *line, size_t len)
{
    size_t indent = spaces(line, len), fence = fence_of(line, len, indent), at = indent + fence;
    return fence >= x->fence && line[indent] == x->mark && at + spaces(line + at, len - at) == len;
}

/* Handle a whole line without its line end, which is @end. */
static int take_line(struct extract *x, struct buf *out, const char *line, size_t len, const char *end)
{
    int r;
    if (len > 0 && line[len - 1] == '\r') {
        len--;
        end = *end ? "\r\n" : "\r";
    }
    if (x->where == EXTRACT_BEFORE) {
        if (begins(x, line, len)) x->where = EXTRACT_INSIDE;
        return 0;
    }
    if (ends(x, line, len)) {
        x->where = EXTRACT_BEHIND;
        return 0;
    }
    size_t cut = spaces(line, len);
    if (cut > x->indent) cut = x->indent;
    r = buf_append(out, line + cut, len - cut);
    return r == 0 ? buf_puts(out, end) : r;
}

int extract_text(struct extract *x, struct buf *out, const char *text, size_t len)
{
    int r = 0;
    while (r == 0 && len > 0 && x->where != EXTRACT_BEHIND) {
        const char *newline = memchr(text, '\n', len);
        size_t n = newline ? (size_t)(newline - text) : len;
        r = buf_append(&x->line, text, n);
        if (r < 0 || !newline) break;
        r = take_line(x, out, x->line.data, x->line.len, "\n");
        buf_clear(&x->line);
        text += n + 1;
        len -= n + 1;
    }
    return r;
}

int extract_end(struct extract *x, struct buf *out)
{
    int r = 0;
    if (x->where != EXTRACT_BEHIND && x->line.len > 0) r = take_line(x, out, x->line.data, x->line.len, "");
    buf_clear(&x->line);
    return r;
}
