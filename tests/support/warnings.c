/* SPDX-License-Identifier: MIT */
#include "tests/support/warnings.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    int was, to;
    char text[4096];
} heard;

int warnings_begin(void)
{
    fflush(stderr);
    heard.was = dup(2);
    heard.to = memfd_create("warnings", MFD_CLOEXEC);
    if (heard.was < 0 || heard.to < 0 || dup2(heard.to, 2) < 0) return -1;
    log_limit(LOG_WARNING);
    return 0;
}

const char *warnings_end(void)
{
    log_limit(LOG_ERROR);
    fflush(stderr);
    dup2(heard.was, 2);
    close(heard.was);
    const ssize_t n = pread(heard.to, heard.text, sizeof(heard.text) - 1, 0);
    close(heard.to);
    if (n < 0) return NULL;
    heard.text[n] = 0;
    return heard.text;
}
