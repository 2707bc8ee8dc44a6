/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <string.h>
#include <unistd.h>

static int write_all(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDOUT_FILENO, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return error_say(-errno, "standard output: %s", strerror(errno));
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

int command_print(const char *text, size_t n)
{
    if (!isatty(STDOUT_FILENO)) return write_all(text, n);
    _cleanup_(buf_fini) struct buf safe = BUF_INIT;
    int r = plain_text(&safe, text, n);
    return r < 0 ? error_origin(r) : write_all(safe.data, safe.len);
}
