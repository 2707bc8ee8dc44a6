/* SPDX-License-Identifier: MIT */
#include "libcommon/file.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int file_open_regular(const char *path, uint64_t max)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    /* ENXIO: a socket, or a device without its driver */
    if (fd < 0 && errno == ENXIO) return error_say(-EINVAL, "%s is not a regular file", path);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return error_say(-EINVAL, "%s is not a regular file", path);
    if ((uint64_t)st.st_size > max)
        return error_say(-EFBIG, "%s has %llu bytes, the limit is %llu", path, (unsigned long long)st.st_size,
                         (unsigned long long)max);
    int opened = fd;
    fd = -1;
    return opened;
}

int file_open_once(const char *path)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return error_say(-EISDIR, "%s: %s", path, strerror(EISDIR));
    bool null = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3); /* /dev/null: at end of file at once */
    if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !null && !isatty(fd)))
        return error_say(-EINVAL, "%s is a device, not a file", path);
    int opened = fd;
    fd = -1;
    return opened;
}
