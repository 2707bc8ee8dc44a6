/* SPDX-License-Identifier: MIT */
#include "client/tool-result.h"
#include "libcommon/utf8.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* A request holds UTF-8 only; a NUL is no text either. */
static int put_text(struct buf *out, const char *text, size_t len)
{
    size_t from = 0, at = 0;
    int r = 0;
    while (r == 0 && at < len) {
        uint32_t cp;
        size_t n = utf8_decode(text + at, len - at, &cp);
        if (n && cp) {
            at += n;
            continue;
        }
        r = buf_append(out, text + from, at - from);
        if (r == 0) r = buf_puts(out, "\xef\xbf\xbd");
        from = ++at;
    }
    return r == 0 ? buf_append(out, text + from, len - from) : r;
}

/* Without the newlines at its end. */
static int put_trimmed(struct buf *out, const struct buf *text)
{
    size_t n = text->len;
    while (n > 0 && (text->data[n - 1] == '\n' || text->data[n - 1] == '\r')) n--;
    return n ? put_text(out, text->data, n) : 0;
}

const char *tool_result_failure(char *out, const struct child_result *c, const struct child_limits *l)
{
    *out = 0;
    if (c->late)
        snprintf(out, 64, "no result within %" PRId64 " s", (l->ms + 999) / 1000);
    else if (WIFSIGNALED(c->status) && !(c->cut && WTERMSIG(c->status) == SIGPIPE))
        snprintf(out, 64, "ended with signal %d", WTERMSIG(c->status));
    else if (WIFEXITED(c->status) && WEXITSTATUS(c->status) && !c->cut)
        snprintf(out, 64, "exit status %d", WEXITSTATUS(c->status));
    return out;
}

int tool_result(struct buf *out, const struct child_result *c, const struct child_limits *l)
{
    char reason[64];
    size_t head = out->len;
    int r = 0;
    if (*tool_result_failure(reason, c, l)) {
        r = buf_printf(out, "error: %s", reason);
        if (r == 0 && c->err.len) r = buf_puts(out, "\n");
        if (r == 0) r = put_trimmed(out, &c->err);
        if (r == 0 && c->out.len) r = buf_puts(out, "\n");
    }
    if (r == 0) r = put_trimmed(out, &c->out);
    if (r == 0 && c->cut)
        r = buf_printf(out, "%s[the output was cut after %zu bytes]", out->len > head ? "\n" : "", l->bytes);
    return r;
}
