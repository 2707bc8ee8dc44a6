/* SPDX-License-Identifier: MIT */
#include "libcommon/random.h"
#include "libcommon/error.h"
#include <errno.h>
#include <sys/random.h>

int random_fill(void *out, size_t n)
{
    ssize_t r;
    do r = getrandom(out, n, 0);
    while (r < 0 && errno == EINTR);
    if (r < 0) return error_origin(-errno);
    return r == (ssize_t)n ? 0 : error_origin(-EIO);
}
