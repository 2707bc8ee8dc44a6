/* SPDX-License-Identifier: MIT */
#include "daemon/command/media-read.h"
#include "daemon/media/media.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/file.h"
#include <string.h>
#include <sys/stat.h>

int media_read_file(const char *path, struct buf *in)
{
    _cleanup_(closep) int opened = strcmp(path, "-") == 0 ? -1 : file_open_once(path);
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : opened;
    struct stat st;
    if (fd < 0) return fd;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)MEDIA_FILE_MAX)
        return error_say(-EFBIG, "%s: over the limit of %u MiB", path, MEDIA_FILE_MAX >> 20);
    for (;;) {
        int r = buf_reserve(in, 1 << 20);
        if (r < 0) return error_say(r, "%s: no memory", path);
        ssize_t n = read(fd, in->data + in->len, 1 << 20);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_say(-errno, "%s: %s", path, strerror(errno));
        if (n == 0) return 0;
        in->len += (size_t)n;
        if (in->len > MEDIA_FILE_MAX)
            return error_say(-EFBIG, "%s: over the limit of %u MiB", path, MEDIA_FILE_MAX >> 20);
    }
}
