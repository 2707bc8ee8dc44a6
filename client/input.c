/* SPDX-License-Identifier: MIT */
#include "client/input.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define INPUT_CHUNK   4096
#define INPUT_HINT_MS 2000 /* time without end of input until a hint is printed */

static int input_too_long(const char *name)
{
    return error_say(-EMSGSIZE, "%s: larger than %u MiB, the limit of a request", name, INPUT_MAX >> 20);
}

/* Before a read: print a hint if the read waits too long on a terminal. 0 or -EINTR. */
static int input_hint(int fd, int64_t *hint)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    if (*hint < 0) return 0;
    if (interrupt_poll(&pfd, 1, *hint) == -EINTR) return -EINTR;
    if (interrupt_now() < *hint) return 0;
    log_info("waiting for the end of standard input%s", isatty(fd) ? " (Ctrl-D ends it)" : "; see --no-stdin");
    *hint = -1;
    return 0;
}

static int input_fd(struct buf *out, int fd, const char *name)
{
    int64_t hint = fd == STDIN_FILENO && isatty(STDERR_FILENO) ? interrupt_now() + INPUT_HINT_MS : -1;
    for (;;) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        int r;
        /* Grow in proportion to the length: few calls for a large input, little memory for a small one. */
        if (out->cap - out->len < 2) {
            r = buf_reserve(out, out->len < INPUT_CHUNK ? INPUT_CHUNK : out->len / 2);
            if (r < 0) return error_say(r, "%s: out of memory", name);
        }
        if (interrupted() || input_hint(fd, &hint) < 0) return -EINTR;
        ssize_t n = read(fd, out->data + out->len, out->cap - out->len - 1);
        if (n == 0) return 0;
        if (n > 0) {
            out->len += (size_t)n;
            out->data[out->len] = 0;
            if (out->len > INPUT_MAX) return input_too_long(name);
        } else if (errno == EAGAIN) {
            r = interrupt_poll(&pfd, 1, -1);
            if (r < 0) return r;
        } else if (errno != EINTR) {
            r = error_origin(-errno);
            return error_in(r, "%s", name);
        }
    }
}

int input_finish(const struct options *o, struct buf *out, size_t start, const char *name)
{
    size_t len = out->len - start, bad = len ? utf8_check(out->data + start, len) : 0;
    if (bad < len) return error_say(-EILSEQ, "%s: invalid UTF-8 at byte %zu", name, bad);
    if (out->len > INPUT_MAX) return input_too_long(name);
    if (!o->raw)
        while (len > 0 && (out->data[start + len - 1] == '\n' || out->data[start + len - 1] == '\r')) len--;
    out->len = start + len;
    if (out->data) out->data[out->len] = 0;
    return len == 0;
}

static int input_file(struct buf *out, const char *path)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int r;
    if (fd < 0) {
        r = error_origin(-errno);
        return r == -EINTR ? r : error_in(r, "%s", path);
    }
    return input_fd(out, fd, path);
}

int input_whole(struct buf *out, const char *path, int fd)
{
    const char *name = path ? path : "standard input";
    size_t start = out->len;
    int r = path ? input_file(out, path) : input_fd(out, fd, name);
    if (r < 0) return r;
    size_t bad = out->len > start ? utf8_check(out->data + start, out->len - start) : 0;
    if (bad < out->len - start) return error_say(-EILSEQ, "%s: invalid UTF-8 at byte %zu", name, bad);
    return 0;
}

static int input_words(struct buf *out, const struct options *o)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->n_words; i++) {
        if (i > 0) r = buf_puts(out, " ");
        if (r == 0) r = buf_puts(out, o->words[i]);
    }
    return r < 0 ? error_say(r, "no memory for the prompt") : 0;
}

/* Append piece @i of the input: 0 is standard input, then the files, then the words. */
static int input_piece(const struct options *o, size_t i, int stdin_fd, struct buf *out, const char **name)
{
    if (i == 0) {
        *name = "standard input";
        return stdin_fd < 0 ? 0 : input_fd(out, stdin_fd, *name);
    }
    if (i <= o->n_files) {
        *name = o->files[i - 1];
        return input_file(out, *name);
    }
    *name = "the prompt's words";
    return input_words(out, o);
}

int input_read(const struct options *o, int stdin_fd, struct buf *out)
{
    size_t begin = out->len;
    for (size_t i = 0; i < o->n_files + 2; i++) {
        size_t before = out->len;
        const char *name;
        int r = 0;
        if (!o->raw && before > begin) r = buf_puts(out, "\n\n");
        if (r < 0) return error_say(r, "no memory for the prompt");
        size_t start = out->len;
        r = input_piece(o, i, stdin_fd, out, &name);
        if (r == 0) r = input_finish(o, out, start, name);
        if (r < 0) return r;
        if (r > 0) {
            out->len = before;
            if (out->data) out->data[before] = 0;
        }
    }
    return out->len == begin;
}
