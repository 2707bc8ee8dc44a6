/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-lines.h"
#include "client/interrupt.h"
#include "libcommon/error.h"
#include <string.h>
#include <unistd.h>

#define LINES_CHUNK (64u << 10)

/* Read the next chunk. 0: there is one, or the end; BATCH_LINE_WAIT. */
static int fill(struct batch_lines *in)
{
    struct pollfd pfd = {.fd = in->fd, .events = POLLIN};
    int r = buf_reserve(&in->chunk, LINES_CHUNK);
    if (r < 0) return error_say(r, "%s: out of memory", in->name);
    r = interrupt_poll(&pfd, 1, 0);
    if (r < 0) return r == -EINTR ? r : error_in(r, "%s", in->name);
    if (r == 0) return BATCH_LINE_WAIT;
    ssize_t n = read(in->fd, in->chunk.data, LINES_CHUNK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return BATCH_LINE_WAIT;
    if (n < 0) {
        r = error_origin(-errno);
        return error_in(r, "%s", in->name);
    }
    in->chunk.len = (size_t)n;
    in->at = 0;
    in->eof = n == 0;
    return 0;
}

/* Take the part of the line that the chunk has. 1: with its end. */
static int take(struct batch_lines *in)
{
    const char *from = in->chunk.data + in->at, *end = memchr(from, in->null ? 0 : '\n', in->chunk.len - in->at);
    size_t n = end ? (size_t)(end - from) : in->chunk.len - in->at;
    in->at += n + (end != NULL);
    in->bytes += n + (end != NULL);
    if (in->line.len + n > BATCH_LINE_MAX) in->too_long = true;
    if (in->too_long) n = 0;
    int r = n ? buf_append(&in->line, from, n) : 0;
    return r < 0 ? error_say(r, "%s: no memory for a line", in->name) : end != NULL;
}

int batch_lines_next(struct batch_lines *in)
{
    if (in->over || in->number == 0) {
        buf_clear(&in->line);
        in->bytes = 0;
        in->too_long = in->torn = in->over = false;
        in->number++;
    }
    for (;;) {
        int r = in->at < in->chunk.len ? take(in) : 0;
        if (r == 0 && in->at == in->chunk.len && !in->eof) {
            r = fill(in);
            if (r == 0) continue;
            return r;
        }
        if (r < 0) return r;
        if (r == 0 && !in->bytes) return BATCH_LINE_END;
        in->torn = r == 0;
        in->over = true;
        return BATCH_LINE_WHOLE;
    }
}

void batch_lines_fini(struct batch_lines *in)
{
    buf_fini(&in->line);
    buf_fini(&in->chunk);
}
