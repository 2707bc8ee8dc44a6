/* SPDX-License-Identifier: MIT */
#include "libcommon/conf.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include <stdbool.h>
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

/* Parse one line, which is modified. */
static int pair(char *line, conf_fn fn, void *ctx)
{
    char *key = trim(line);
    int r;
    if (!*key || *key == '#') return 0;
    char *eq = strchr(key, '=');
    if (!eq || eq == key) return error_say(-EINVAL, "expected 'key = value', not '%.64s'", key);
    *eq = 0;
    key = trim(key);
    char *value = trim(eq + 1);
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
    _cleanup_(freep) char *line = NULL;
    size_t cap = 0, number = 0;
    ssize_t n;

    if (!f) {
        close(fd);
        return error_origin(-ENOMEM);
    }
    while (errno = 0, (n = getline(&line, &cap, f)) >= 0) {
        number++;
        if (memchr(line, 0, (size_t)n)) return error_say(-EINVAL, "%s:%zu: a NUL byte", path, number);
        int r = pair(line, fn, ctx);
        if (r < 0) return error_in(r, "%s:%zu", path, number);
    }
    if (ferror(f) || errno) return error_say(errno ? -errno : -EIO, "%s: %s", path, strerror(errno ? errno : EIO));
    return 0;
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
