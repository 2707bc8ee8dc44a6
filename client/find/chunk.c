/* SPDX-License-Identifier: MIT */
#include "client/find/chunk.h"
#include "libcommon/utf8.h"
#include <string.h>

void chunker_init(struct chunker *c, const char *text, size_t len)
{
    *c = (struct chunker){.at = text, .end = text + len, .new = text, .line = 1};
}

/* One past the line at @at, its newline included. */
static const char *line_end(const struct chunker *c, const char *at)
{
    const char *newline = memchr(at, '\n', (size_t)(c->end - at));
    return newline ? newline + 1 : c->end;
}

static bool blank(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n\f\v", *at) && *at) at++;
    return at == end;
}

static void skip_blank(struct chunker *c)
{
    while (c->at < c->end) {
        const char *end = line_end(c, c->at);
        if (!blank(c->at, end)) return;
        c->line += end[-1] == '\n';
        c->at = end;
    }
}

/* A piece of a line that is too long. */
static void cut_line(struct chunker *c, struct chunk *out, const char *end)
{
    size_t left = (size_t)(end - c->at), n = left > CHUNK_BYTES ? utf8_whole(c->at, CHUNK_BYTES) : left;
    if (n == 0) n = CHUNK_BYTES; /* no UTF-8 */
    *out = (struct chunk){c->line, c->line, c->at, n};
    c->at += n;
    c->line += c->at[-1] == '\n';
}

/* The lines of a chunk: line i begins at start[i], line n would begin at start[n]. */
struct lines {
    const char *start[CHUNK_LINES + 1];
    unsigned n;
};

static void collect(const struct chunker *c, struct lines *l)
{
    l->n = 0;
    l->start[0] = c->at;
    while (l->n < CHUNK_LINES && l->start[l->n] < c->end) {
        const char *end = line_end(c, l->start[l->n]);
        if (end - c->at > CHUNK_BYTES) break;
        l->start[++l->n] = end;
    }
}

/* How many of the lines belong to the chunk, and *again: how many of those to the next one, too. */
static unsigned choose(const struct chunker *c, const struct lines *l, unsigned *again)
{
    *again = 0;
    if (l->start[l->n] == c->end) return l->n;
    for (unsigned i = l->n; i > l->n / 2 && i > 1 && l->start[i - 1] > c->new; i--)
        if (blank(l->start[i - 1], l->start[i])) return i;
    *again = l->n / 4 < CHUNK_OVERLAP ? l->n / 4 : CHUNK_OVERLAP;
    return l->n;
}

/* Cut off the next chunk. False: it has nothing but white space, or nothing new. */
static bool cut(struct chunker *c, struct chunk *out)
{
    struct lines l;
    unsigned again;
    collect(c, &l);
    while (l.n > 0 && l.start[l.n] <= c->new) { /* a line that is too long follows the repeated ones */
        c->at = l.start[l.n];
        c->line += l.n;
        if (c->at == c->end) return false;
        collect(c, &l);
    }
    if (l.n == 0) {
        cut_line(c, out, line_end(c, c->at));
        c->new = c->at;
        return !blank(out->text, out->text + out->len);
    }
    unsigned n = choose(c, &l, &again), last = n;
    while (last > 0 && blank(l.start[last - 1], l.start[last])) last--;
    *out = (struct chunk){c->line, c->line + last - 1, c->at, (size_t)(l.start[last] - c->at)};
    bool some = last > 0 && l.start[last] > c->new;
    c->at = l.start[n - again];
    c->new = l.start[n];
    c->line += n - again;
    return some;
}

bool chunk_next(struct chunker *c, struct chunk *out)
{
    do {
        skip_blank(c);
        if (c->at == c->end) return false;
    } while (!cut(c, out));
    return true;
}

bool chunk_is_text(const char *text, size_t len)
{
    size_t looked = len < 8192 ? len : 8192, bad = 0;
    if (memchr(text, 0, len)) return false;
    for (size_t at = 0; at < looked;) {
        size_t good = utf8_check(text + at, looked - at);
        at += good;
        if (at < looked) at++, bad++;
    }
    return bad <= looked / 8;
}

int chunk_put_utf8(struct buf *out, const char *text, size_t len)
{
    int r = 0;
    while (r == 0 && len > 0) {
        size_t good = utf8_check(text, len);
        r = buf_append(out, text, good);
        text += good;
        len -= good;
        if (r < 0 || len == 0) break;
        r = buf_puts(out, "\xef\xbf\xbd");
        text++;
        len--;
    }
    return r;
}
