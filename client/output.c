/* SPDX-License-Identifier: MIT */
#include "client/output.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe that poll reports as writable accepts this much without blocking (PIPE_BUF), so SIGINT can always interrupt.
 */
#define OUTPUT_PIECE 4096

void output_init(struct output *o, int fd, bool hold)
{
    struct stat st;
    *o = (struct output){.fd = fd, .hold = hold};
    if (fstat(fd, &st) < 0) return;
    o->watch = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
    o->tty = S_ISCHR(st.st_mode) && isatty(fd);
}

void output_fini(struct output *o)
{
    buf_fini(&o->held);
}

static int output_push(int fd, const char *p, size_t n)
{
    while (n > 0 && fd >= 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLOUT};
        int r = interrupt_poll(&pfd, 1, -1);
        if (r == -EINTR) return r;
        if (r < 0) return error_say(r, "standard output: cannot wait for it");
        ssize_t done = write(fd, p, n < OUTPUT_PIECE ? n : OUTPUT_PIECE);
        if (done >= 0) {
            p += done;
            n -= (size_t)done;
        } else if (errno == EPIPE) {
            return -EPIPE;
        } else if (errno != EAGAIN && errno != EINTR) {
            r = error_origin(-errno);
            return error_in(r, "standard output");
        }
    }
    return 0;
}

bool output_closed(int fd)
{
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP);
}

int output_write(struct output *o, const char *p, size_t n)
{
    if (!o->hold) return output_push(o->fd, p, n);
    int r = buf_append(&o->held, p, n);
    return r < 0 ? error_say(r, "no memory to hold the answer") : 0;
}

int output_print(const char *text, size_t n)
{
    struct output o;
    output_init(&o, STDOUT_FILENO, false);
    return output_write(&o, text, n);
}

bool output_draws(int fd)
{
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0 && isatty(fd);
}

int output_release(struct output *o)
{
    int r = output_push(o->fd, o->held.data, o->held.len);
    buf_clear(&o->held);
    return r;
}
