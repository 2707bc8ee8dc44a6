/* SPDX-License-Identifier: MIT */
#include "client/thought.h"
#include "client/render.h"
#include "libcommon/error.h"
#include "libcommon/plain.h"
#include <unistd.h>

void thought_init(struct thought *t, const struct options *o, struct output *out)
{
    *t = (struct thought){0};
    const bool shown = o->thinking.how == THINK_SHOW || o->thinking.how == THINK_ON;
    if (o->jsonl || o->warm || o->detach || (shown && o->extract)) return;
    output_init(&t->err, STDERR_FILENO, false);
    if (shown) t->out = out;
    if (o->thinking.how == THINK_STDERR) t->out = &t->err;
    t->styled = t->out && render_wanted(t->out->fd);
}

void thought_fini(struct thought *t)
{
    buf_fini(&t->line);
}

static int thought_put(struct thought *t)
{
    int r = output_write(t->out, t->line.data, t->line.len);
    buf_clear(&t->line);
    return t->out == &t->err && r != -EINTR ? 0 : r; /* without standard error the answer continues */
}

int thought_text(struct thought *t, const char *text, size_t len)
{
    int r = 0;
    if (!t->out || !len) return 0;
    if (!t->open && t->styled) r = buf_puts(&t->line, "\x1b[2m");
    if (r == 0) r = t->out->tty ? plain_text(&t->line, text, len) : buf_append(&t->line, text, len);
    if (r < 0) return error_say(r, "no memory for the answer");
    t->open = true;
    t->last = text[len - 1];
    return thought_put(t);
}

int thought_end(struct thought *t, bool more)
{
    int r = 0;
    if (!t->open) return 0;
    t->open = false;
    if (t->styled) r = buf_puts(&t->line, "\x1b[0m");
    if (r == 0 && t->last != '\n') r = buf_puts(&t->line, "\n");
    if (r == 0 && more && t->out != &t->err) r = buf_puts(&t->line, "\n");
    if (r < 0) return error_say(r, "no memory for the answer");
    return t->line.len ? thought_put(t) : 0;
}
