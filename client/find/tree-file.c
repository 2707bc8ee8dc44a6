/* SPDX-License-Identifier: MIT */
#include "client/find/tree-file.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

int64_t tree_file_mtime(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int open_below(int root, const char *path)
{
    enum { FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
    struct open_how how = {.flags = FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS) fd = openat(root, path, FLAGS); /* Linux before 5.6, or a container's filter */
    return fd < 0 ? -errno : (int)fd;
}

ssize_t tree_file_read(int root, const char *path, uint64_t max, char **out, struct stat *st)
{
    _cleanup_(closep) int fd = open_below(root, path);
    if (fd < 0) {
        int r = fd;
        fd = -1;
        return r;
    }
    if (fstat(fd, st) < 0) return -errno;
    if (!S_ISREG(st->st_mode)) return -EINVAL;
    if ((uint64_t)st->st_size > max) return -EFBIG;
    size_t n = 0, size = (size_t)st->st_size;
    _cleanup_(freep) char *text = malloc(size + 1);
    ssize_t got = 1;
    if (!text) return -ENOMEM;
    while (got > 0 && n < size) {
        got = read(fd, text + n, size - n);
        if (got < 0 && errno == EINTR && !interrupted())
            got = 1;
        else if (got > 0)
            n += (size_t)got;
    }
    if (got < 0) return -errno;
    *out = steal(text);
    return (ssize_t)n;
}
