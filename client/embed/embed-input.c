/* SPDX-License-Identifier: MIT */
#include "client/embed/embed-input.h"
#include "client/input.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A text in the storage, which may move until all is read. */
struct span {
    size_t at, len;
    const char *name;
};

struct spans {
    struct span *list;
    size_t n, cap;
};

static int push(struct spans *s, size_t at, size_t len, const char *name)
{
    if (s->n == s->cap) {
        const size_t cap = s->cap ? 2 * s->cap : 64;
        struct span *list = reallocarray(s->list, cap, sizeof(*list));
        if (!list) return error_say(-ENOMEM, "no memory for %zu texts", cap);
        s->list = list;
        s->cap = cap;
    }
    s->list[s->n++] = (struct span){at, len, name};
    return 0;
}

static int push_lines(struct spans *s, const struct buf *b, size_t from, bool skip_empty)
{
    int r = 0;
    while (r == 0 && from < b->len) {
        const char *line = b->data + from, *newline = memchr(line, '\n', b->len - from);
        size_t len = newline ? (size_t)(newline - line) : b->len - from;
        const size_t next = from + len + 1;
        if (len && line[len - 1] == '\r') len--;
        if (len || !skip_empty) r = push(s, from, len, NULL);
        from = next;
    }
    return r;
}

/* NULL: standard input. */
static int read_one(struct embed_input *t, struct spans *s, const char *path, bool skip_empty)
{
    const size_t from = t->storage.len;
    const bool lines = !path || strcmp(path, "-") == 0;
    int r = input_whole(&t->storage, lines ? NULL : path, STDIN_FILENO);
    if (r < 0) return r;
    return lines ? push_lines(s, &t->storage, from, skip_empty) : push(s, from, t->storage.len - from, path);
}

static int point(struct embed_input *t, const struct spans *s)
{
    t->texts = calloc(s->n, sizeof(*t->texts));
    t->names = calloc(s->n, sizeof(*t->names));
    if (!t->texts || !t->names) return error_say(-ENOMEM, "no memory for %zu texts", s->n);
    t->n = s->n;
    for (size_t i = 0; i < s->n; i++) {
        t->texts[i] =
            (struct proto_text){t->storage.data ? t->storage.data + s->list[i].at : (char *)"", s->list[i].len};
        t->names[i] = s->list[i].name;
    }
    return 0;
}

int embed_input_read(struct embed_input *t, const char *const *paths, size_t n, bool skip_empty)
{
    struct spans s = {0};
    *t = (struct embed_input){.storage = BUF_INIT};
    int r = n ? 0 : read_one(t, &s, NULL, skip_empty);
    for (size_t i = 0; r == 0 && i < n; i++) r = read_one(t, &s, paths[i], skip_empty);
    if (r == 0 && s.n == 0) r = error_say(-EINVAL, "no texts: name files, or give a text a line on standard input");
    if (r == 0) r = point(t, &s);
    free(s.list);
    return r;
}

void embed_input_fini(struct embed_input *t)
{
    free(t->texts);
    free(t->names);
    buf_fini(&t->storage);
    *t = (struct embed_input){0};
}
