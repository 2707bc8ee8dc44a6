/* SPDX-License-Identifier: MIT */
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 1024 };

static _Thread_local struct {
    int number; /* the error that the message belongs to; 0: no message */
    char text[MESSAGE_MAX];
    char plain[128]; /* strerror's text, for a number without a message */
} last;

/* snprintf counts bytes, so a long message may end inside a character. */
static void keep(int r, const char *text)
{
    size_t n = strnlen(text, MESSAGE_MAX - 1);
    n = utf8_whole(text, n);
    memcpy(last.text, text, n);
    last.text[n] = 0;
    last.number = r;
}

int error_say(int r, const char *fmt, ...)
{
    char text[MESSAGE_MAX]; /* the arguments may point into last */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    keep(r, text);
    return r;
}

int error_in(int r, const char *fmt, ...)
{
    char text[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(text)) snprintf(text + n, sizeof(text) - n, ": %s", error_text(r));
    keep(r, text);
    return r;
}

const char *error_text(int r)
{
    if (r && last.number == r) return last.text;
    /* GNU's strerror_r: may or may not use the buffer. */
    return strerror_r(r < 0 ? -r : r, last.plain, sizeof(last.plain));
}

void error_forget(void)
{
    last.number = 0;
}

int error_origin_at(int r, const char *file, int line)
{
    last.number = 0;
    log_debug("%s:%d: %s", file, line, error_text(r));
    return r;
}
