/* SPDX-License-Identifier: MIT */
#include "libcommon/model-parts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAIL = sizeof("-00001-of-00003.gguf") - 1 };

static bool number(const char *s, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *out = *out * 10 + (uint32_t)(s[i] - '0');
    }
    return true;
}

bool model_part_named(const char *path, size_t *stem, uint32_t *no, uint32_t *count)
{
    size_t n = strlen(path);
    if (n <= TAIL) return false;
    const char *tail = path + n - TAIL;
    *stem = n - TAIL;
    return *tail == '-' && number(tail + 1, no) && memcmp(tail + 6, "-of-", 4) == 0 && number(tail + 10, count) &&
           strcmp(tail + 15, ".gguf") == 0;
}

/* @first is a download: its other parts may be, too. */
static bool is_download(const char *first)
{
    size_t n = strlen(first);
    return n > 5 && strcmp(first + n - 5, ".part") == 0;
}

/* Bytes of @path before the ending of a first part; a download has .part behind it. */
static size_t stem_of(const char *path)
{
    size_t n = strlen(path), stem;
    uint32_t no, count;
    if (model_part_named(path, &stem, &no, &count)) return stem;
    if (is_download(path)) n -= 5;
    return n > 5 && memcmp(path + n - 5, ".gguf", 5) == 0 ? n - 5 : n;
}

static char *part_beside(const char *first, uint32_t no, uint32_t count, const char *more)
{
    char *path;
    return asprintf(&path, "%.*s-%05u-of-%05u.gguf%s", (int)stem_of(first), first, no, count, more) < 0 ? NULL : path;
}

int model_part_path(char **out, const char *first, uint32_t no, uint32_t count)
{
    _cleanup_(freep) char *beside = part_beside(first, no, count, ""), *real = NULL, *other = NULL;
    if (!beside) return error_say(-ENOMEM, "no memory for a path");
    if (is_download(first))
        other = part_beside(first, no, count, ".part");
    else if (faccessat(AT_FDCWD, beside, F_OK, 0) < 0 && (real = realpath(first, NULL)))
        other = part_beside(real, no, count, "");
    *out = other && faccessat(AT_FDCWD, other, F_OK, 0) == 0 ? steal(other) : steal(beside);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list_beside(char **out, size_t n, size_t max, const char *first)
{
    const char *slash = strrchr(first, '/');
    size_t folder = slash ? (size_t)(slash - first) + 1 : 0, stem = stem_of(first), len;
    uint32_t no, count;
    if (stem < folder) return n;
    _cleanup_(freep) char *dir = folder ? strndup(first, folder) : strdup(".");
    DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *e; d && n < max && (e = readdir(d));) {
        if (!model_part_named(e->d_name, &len, &no, &count) || len != stem - folder ||
            memcmp(e->d_name, first + folder, len) != 0 || strcmp(e->d_name, first + folder) == 0)
            continue;
        if (asprintf(&out[n], "%.*s%s", (int)folder, first, e->d_name) >= 0) n++;
    }
    if (d) closedir(d);
    return n;
}

size_t model_parts_list(char **out, size_t max, const char *first)
{
    size_t n = list_beside(out, 0, max, first);
    _cleanup_(freep) char *real = n ? NULL : realpath(first, NULL);
    if (real && strcmp(real, first) != 0) n = list_beside(out, n, max, real);
    if (n) qsort(out, n, sizeof(*out), by_text);
    return n;
}
