/* SPDX-License-Identifier: MIT */
#include "libcommon/conf.h"
#include "libcommon/buf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char *trim(char *s)
{
    while (blank(*s)) s++;
    size_t n = strlen(s);
    while (n && blank(s[n - 1])) n--;
    s[n] = 0;
    return s;
}

/* Remove the quotes of "value" in place. Inside them a backslash quotes the next character. */
static int unquote(char *s)
{
    char *to = s, *from = s + 1;
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && (from[1] == '"' || from[1] == '\\')) from++;
        *to++ = *from;
    }
    if (!*from) return error_say(-EINVAL, "the closing quote is missing");
    if (from[1]) return error_say(-EINVAL, "text after the closing quote: %.64s", from + 1);
    *to = 0;
    return 0;
}

struct reader {
    FILE *f;
    char *line; /* buffer of getline */
    size_t cap, number;
};

/* Read the next line. 1: the end of the file. */
static int next_line(struct reader *in)
{
    errno = 0;
    ssize_t n = getline(&in->line, &in->cap, in->f);
    if (n < 0 && (ferror(in->f) || errno)) return error_origin(errno ? -errno : -EIO);
    if (n < 0) return 1;
    in->number++;
    return memchr(in->line, 0, (size_t)n) ? error_say(-EINVAL, "a NUL byte") : 0;
}

/* Append the lines up to one that is CONF_BLOCK. */
static int block(struct reader *in, struct buf *out)
{
    const size_t begin = in->number;
    int r = buf_puts(out, "");
    for (bool first = true; r == 0; first = false) {
        r = next_line(in);
        if (r == 1) {
            in->number = begin;
            return error_say(-EINVAL, "the closing " CONF_BLOCK " is missing");
        }
        if (r < 0) return r;
        size_t n = strcspn(in->line, "\n");
        if (n && in->line[n - 1] == '\r') n--;
        in->line[n] = 0;
        const char *text = in->line + strspn(in->line, " \t");
        if (strncmp(text, CONF_BLOCK, strlen(CONF_BLOCK)) == 0 && !text[3 + strspn(text + 3, " \t")]) return 0;
        if (!first) r = buf_puts(out, "\n");
        if (r == 0) r = buf_append(out, in->line, n);
    }
    return error_say(r, "out of memory");
}

/* The value of @key is a block. */
static int block_pair(struct reader *in, const char *key, conf_fn fn, void *ctx)
{
    const size_t begin = in->number;
    struct buf value = BUF_INIT;
    char *name = strdup(key); /* the line it is in is read over */
    int r = name ? block(in, &value) : error_say(-ENOMEM, "out of memory");
    if (r == 0 && (r = fn(ctx, name, value.data)) < 0) in->number = begin;
    free(name);
    buf_fini(&value);
    return r < 0 ? r : 0;
}

/* Parse the line that was read. */
static int pair(struct reader *in, conf_fn fn, void *ctx)
{
    char *key = trim(in->line);
    int r;
    if (!*key || *key == '#') return 0;
    char *eq = strchr(key, '=');
    if (!eq || eq == key) return error_say(-EINVAL, "expected 'key = value', not '%.64s'", key);
    *eq = 0;
    key = trim(key);
    char *value = trim(eq + 1);
    if (strcmp(value, CONF_BLOCK) == 0) return block_pair(in, key, fn, ctx);
    if (*value == '"') {
        r = unquote(value);
        if (r < 0) return r;
    }
    r = fn(ctx, key, value);
    return r < 0 ? r : 0;
}

int conf_read(const char *path, conf_fn fn, void *ctx)
{
    /* A regular file only: on a pipe, a reload would wait for the writer. */
    int fd = file_open_regular(path, CONF_BYTES_MAX);
    if (fd < 0) return fd == -ENOENT ? 1 : fd;

    _cleanup_(fclosep) FILE *f = fdopen(fd, "r");
    struct reader in = {.f = f};
    int r;

    if (!f) {
        close(fd);
        return error_origin(-ENOMEM);
    }
    while ((r = next_line(&in)) == 0) {
        r = pair(&in, fn, ctx);
        if (r < 0) break;
    }
    free(in.line);
    if (r == 1) return 0;
    return in.number ? error_in(r, "%s:%zu", path, in.number) : error_in(r, "%s", path);
}

enum { KEY_MAX = 64 };

/* Levenshtein distance of strings shorter than KEY_MAX. */
static size_t distance(const char *a, const char *b)
{
    size_t row[KEY_MAX + 1], na = strlen(a), nb = strlen(b);
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

/* The first of @keys that begins with @key, or is a prefix of @key; NULL: none, or @key is too short to tell. */
static const char *longer_or_shorter(const char *key, const char *const *keys)
{
    enum { LEAST = 3 };

    for (; *keys; keys++) {
        size_t a = strlen(key), b = strlen(*keys), n = a < b ? a : b;
        if (n >= LEAST && memcmp(key, *keys, n) == 0) return *keys;
    }
    return NULL;
}

const char *conf_nearest(const char *key, const char *const *keys)
{
    /* If more than a third of the letters differ, it is another word. */
    size_t nearest = strlen(key) / 3 + 1;
    const char *found = NULL;

    if (strlen(key) >= KEY_MAX) return NULL;
    for (const char *const *k = keys; *k; k++) {
        size_t d = strlen(*k) < KEY_MAX ? distance(key, *k) : KEY_MAX;
        if (d >= nearest + !found || d >= strlen(*k)) continue;
        nearest = d;
        found = *k;
    }
    return found ? found : longer_or_shorter(key, keys);
}
