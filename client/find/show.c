/* SPDX-License-Identifier: MIT */
#include "client/find/show.h"
#include "client/json.h"
#include "libcommon/plain.h"
#include "libcommon/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME  "\33[35m"
#define LINE  "\33[32m"
#define POINT "\33[36m"
#define MARK  "\33[1;31m"
#define OFF   "\33[m"

/* Bytes of @a that are also the first components of @b, without a slash at the end. */
static size_t common(const char *a, const char *b)
{
    size_t last = 0;
    for (size_t i = 0;; i++) {
        bool ends_a = a[i] == 0 || a[i] == '/', ends_b = b[i] == 0 || b[i] == '/';
        if (ends_a && ends_b) last = i;
        if (a[i] == 0 || a[i] != b[i]) return last;
    }
}

char *show_path(const char *root, const char *path, const char *from)
{
    struct buf whole = BUF_INIT, out = BUF_INIT;
    int r = strcmp(root, "/") == 0 ? 0 : buf_puts(&whole, root);
    if (r == 0) r = buf_printf(&whole, "/%s", path);
    if (strcmp(from, "/") == 0) from = "";
    size_t same = r == 0 ? common(from, whole.data) : 0;
    for (const char *p = from + same; r == 0 && *p; p++)
        if (*p == '/') r = buf_puts(&out, "../");
    if (r == 0) r = buf_puts(&out, whole.data + same + 1);
    buf_fini(&whole);
    if (r == 0) return buf_steal(&out, NULL);
    buf_fini(&out);
    return NULL;
}

int show_name(struct buf *out, const char *name)
{
    int r = 0;
    while (r == 0 && *name) {
        size_t n = strcspn(name, "\t\n\r"); /* plain_line would make them spaces */
        r = plain_line(out, name, n);
        name += n;
        if (r == 0 && *name) r = buf_printf(out, "\xe2\x90%c", 0x80 + *name++);
    }
    return r;
}

static int put(struct buf *out, const char *text, size_t n, bool escape)
{
    return escape ? plain_line(out, text, n) : buf_append(out, text, n);
}

/* Append the line's text with the words marked. */
static int put_text(struct buf *out, const char *text, size_t len, const struct words *w, struct show_style style)
{
    int r = 0;
    for (size_t at = 0; r == 0 && at < len;) {
        size_t n = 0, found = style.color ? words_find(w, text, len, at, &n) : len;
        r = put(out, text + at, found - at, style.escape);
        if (r == 0 && found < len) r = buf_puts(out, MARK);
        if (r == 0 && found < len) r = put(out, text + found, n, style.escape);
        if (r == 0 && found < len) r = buf_puts(out, OFF);
        at = found + n;
    }
    return r;
}

/* The part of a long line around its first word of the question. */
static size_t cut(const struct result *r, const struct words *w, size_t *n)
{
    size_t len = r->line.len, word, at = 0;
    *n = len;
    if (len <= SHOW_LINE_BYTES) return 0;
    size_t found = words_find(w, r->line.text, len, 0, &word);
    if (found < len && found > SHOW_LINE_BYTES / 2) at = found - SHOW_LINE_BYTES / 2;
    while (at > 0 && at < len && ((unsigned char)r->line.text[at] & 0xc0) == 0x80) at++;
    *n = len - at > SHOW_LINE_BYTES ? utf8_whole(r->line.text + at, SHOW_LINE_BYTES) : len - at;
    return at;
}

int show_line(struct buf *out, const char *path, const struct result *r, const struct words *w, struct show_style style)
{
    const char *name = style.color ? NAME : "", *line = style.color ? LINE : "", *point = style.color ? POINT : "",
               *off = style.color ? OFF : "";
    size_t n, at = cut(r, w, &n);
    int e = buf_puts(out, name);
    if (e == 0) e = style.escape ? show_name(out, path) : buf_puts(out, path);
    if (e == 0) e = buf_printf(out, "%s%s:%s%s%" PRIu32 "%s%s:%s", off, point, off, line, r->line.no, off, point, off);
    if (e == 0 && at > 0) e = buf_puts(out, "…");
    if (e == 0) e = put_text(out, r->line.text + at, n, w, style);
    if (e == 0 && at + n < r->line.len) e = buf_puts(out, "…");
    return e == 0 ? buf_puts(out, "\n") : e;
}

int show_json(struct buf *out, const char *path, const struct result *r)
{
    int e = buf_puts(out, "{\"file\":");
    if (e == 0) e = json_put_string(out, path, strlen(path));
    if (e == 0)
        e = buf_printf(out, ",\"line\":%" PRIu32 ",\"first\":%" PRIu32 ",\"last\":%" PRIu32 ",\"score\":%.6f,\"text\":",
                       r->line.no, r->first, r->last, r->score);
    if (e == 0) e = json_put_string(out, r->line.text, r->line.len);
    return e == 0 ? buf_puts(out, "}\n") : e;
}
