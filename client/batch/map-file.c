/* SPDX-License-Identifier: MIT */
#include "client/batch/map-file.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int path_of(char path[PATH_MAX], const char *name, const char *suffix)
{
    int n = snprintf(path, PATH_MAX, "%s%s", name, suffix);
    return n < PATH_MAX ? 0 : error_say(-ENAMETOOLONG, "%s: the name is too long", name);
}

int map_file_check(const char *name, bool resume)
{
    char path[PATH_MAX];
    int r = path_of(path, name, ".out");
    if (r < 0) return r;
    if (access(path, F_OK) < 0) return 0;
    return resume ? 1 : error_say(-EEXIST, "%s exists: give --resume to leave it as it is, or remove it", path);
}

static int failed(const char *path)
{
    int r = error_origin(-errno);
    return error_in(r, "cannot write %s", path);
}

static int write_all(int fd, const struct buf *text)
{
    for (size_t at = 0; at < text->len;) {
        ssize_t n = write(fd, text->data + at, text->len - at);
        if (n < 0 && errno != EINTR) return -1;
        if (n > 0) at += (size_t)n;
    }
    return 0;
}

int map_file_write(const char *name, const struct buf *text)
{
    char path[PATH_MAX], part[PATH_MAX];
    int r = path_of(path, name, ".out");
    if (r == 0) r = path_of(part, name, ".out.part");
    if (r < 0) return r;
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return failed(part);
    if (write_all(fd, text) < 0) r = failed(part);
    /* An empty file, which a power failure may leave otherwise, would count as an answer with --resume. */
    if (r == 0 && fsync(fd) < 0 && errno != EINVAL) r = failed(part);
    if (close(fd) < 0 && r == 0) r = failed(part);
    if (r == 0 && rename(part, path) < 0) r = failed(path);
    if (r < 0) unlink(part);
    return r;
}
