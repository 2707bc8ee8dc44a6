/* SPDX-License-Identifier: MIT */
#include "libcommon/log.h"
#include "libcommon/plain.h"
#include "libcommon/utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096 };

/* Set once by log_init before other threads start; later only read. */
static struct {
    const char *name;
    bool journal, colour;
} log_state = {NULL, false, false};
static atomic_int log_max = LOG_WARNING;

/* Children inherit JOURNAL_STREAM even if their stderr is redirected, so it must identify the file that stderr is. */
static bool reads_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;
    if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2) return false;
    if (fstat(STDERR_FILENO, &st) < 0) return false;
    return st.st_dev == dev && st.st_ino == ino;
}

static bool wants_colour(void)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color && *no_color) return false;
    return term && *term && strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO);
}

void log_init(const char *name, enum log_level max)
{
    int saved = errno;
    log_state.name = name;
    log_limit(max);
    log_state.journal = reads_journal();
    log_state.colour = !log_state.journal && wants_colour();
    errno = saved;
}

void log_limit(enum log_level max)
{
    atomic_store(&log_max, (int)max);
}

/* The text before the message and after it. */
static const char *decorate(char *out, size_t n, enum log_level level)
{
    static const char *const priority[] = {"<3>", "<4>", "<6>", "<7>"};
    static const char *const colour[] = {"\033[31m", "\033[33m", "", "\033[2m"};
    const char *before = log_state.colour ? colour[level] : "";
    if (log_state.journal)
        snprintf(out, n, "%s", priority[level]);
    else
        snprintf(out, n, "%s%.64s%s", before, log_state.name ? log_state.name : "", log_state.name ? ": " : "");
    return *before ? "\033[0m" : "";
}

void log_at(enum log_level level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
    int saved = errno;
    va_list ap;
    if ((int)level > atomic_load_explicit(&log_max, memory_order_relaxed)) return;
    const char *after = decorate(line, 128, level);
    size_t head = strlen(line);
    size_t room = sizeof(line) - head - strlen(after) - 2; /* less a newline and the NUL of snprintf */
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : utf8_whole(text, sizeof(text) - 1);
    /* A message may quote a peer's text, which must not look like a second line or move the cursor. */
    len = head + plain_into(line + head, room, text, len);
    len += (size_t)snprintf(line + len, sizeof(line) - len, "%s\n", after);
    for (size_t at = 0; at < len;) { /* one write, unless a pipe or the disk takes only a part */
        ssize_t done = write(STDERR_FILENO, line + at, len - at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break;
        at += (size_t)done;
    }
    errno = saved;
}
