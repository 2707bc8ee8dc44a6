/* SPDX-License-Identifier: MIT */
#include "client/input.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/utf8.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_CHUNK   4096
#define INPUT_HINT_MS 2000 /* time without end of input until a hint is printed */

static int input_too_long(const char *name, size_t most)
{
    return error_say(-EMSGSIZE, "%s: larger than %zu MiB, the limit of %s", name, most >> 20,
                     most == PROTO_FILE_MAX ? "an image or a sound" : "a request");
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

/* At most @most bytes in @out. */
static int input_fd(struct buf *out, int fd, const char *name, size_t most)
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
            if (out->len > most) return input_too_long(name, most);
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
    if (out->len > INPUT_MAX) return input_too_long(name, INPUT_MAX);
    if (!o->raw)
        while (len > 0 && (out->data[start + len - 1] == '\n' || out->data[start + len - 1] == '\r')) len--;
    out->len = start + len;
    if (out->data) out->data[out->len] = 0;
    return len == 0;
}

static int input_file(struct buf *out, const char *path, size_t most)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int r;
    if (fd < 0) {
        r = error_origin(-errno);
        return r == -EINTR ? r : error_in(r, "%s", path);
    }
    return input_fd(out, fd, path, most);
}

int input_whole(struct buf *out, const char *path, int fd)
{
    const char *name = path ? path : "standard input";
    size_t start = out->len;
    int r = path ? input_file(out, path, INPUT_MAX) : input_fd(out, fd, name, INPUT_MAX);
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

static int add_media(struct input *in, enum proto_media_kind kind, struct buf *file)
{
    struct proto_media *more = reallocarray(in->media, in->n_media + 1, sizeof(*more));
    size_t n;
    if (!more) return -ENOMEM;
    in->media = more;
    more[in->n_media] = (struct proto_media){.kind = kind, .at = in->text.len};
    char *data = buf_steal(file, &n);
    int r = blob_take(&more[in->n_media].file, data, n);
    if (r < 0) free(data);
    if (r == 0) in->n_media++;
    return r;
}

int input_media(struct input *in, enum proto_media_kind kind, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    struct buf file = BUF_INIT;
    if (in->n_media == PROTO_MEDIA_MAX)
        return error_say(-EINVAL, "%s: more than %d images and sounds", name, PROTO_MEDIA_MAX);
    int r = standard ? input_fd(&file, STDIN_FILENO, name, PROTO_FILE_MAX) : input_file(&file, path, PROTO_FILE_MAX);
    if (r == 0 && !file.len) r = error_say(-EINVAL, "%s: the file is empty", name);
    if (r == 0 && (r = add_media(in, kind, &file)) < 0) error_say(r, "%s: out of memory", name);
    buf_fini(&file);
    return r;
}

void input_fini(struct input *in)
{
    buf_fini(&in->text);
    for (size_t i = 0; i < in->n_media; i++) blob_unref(in->media[i].file);
    free(in->media);
    *in = (struct input){0};
}

/* Append text @i of the input: 0 is standard input, then the files, then the words. */
static int input_piece(const struct options *o, size_t i, int stdin_fd, struct buf *out, const char **name)
{
    if (i == 0) {
        *name = "standard input";
        return stdin_fd < 0 ? 0 : input_fd(out, stdin_fd, *name, INPUT_MAX);
    }
    if (i <= o->n_files) {
        *name = o->files[i - 1].path;
        return input_file(out, *name, INPUT_MAX);
    }
    *name = "the prompt's words";
    return input_words(out, o);
}

/* Append what separates a text from the text before. */
static int input_separate(const struct options *o, struct buf *out)
{
    int r = !o->raw && out->len ? buf_puts(out, "\n\n") : 0;
    return r < 0 ? error_say(r, "no memory for the prompt") : 0;
}

/* The text from @start on is complete; the one before it ends at @before. As input_append. */
static int input_settle(const struct options *o, struct input *in, size_t before, size_t start, const char *name)
{
    struct buf *out = &in->text;
    int r = input_finish(o, out, start, name);
    if (r < 0) return r;
    if (r > 0) {
        out->len = before;
        if (out->data) out->data[before] = 0;
        return 1;
    }
    for (size_t k = in->n_media; k > 0 && in->media[k - 1].at == before; k--) in->media[k - 1].at = start;
    return 0;
}

int input_append(const struct options *o, struct input *in, const struct buf *text, const char *name)
{
    size_t before = in->text.len;
    int r = input_separate(o, &in->text);
    size_t start = in->text.len;
    if (r == 0 && text->len && buf_append(&in->text, text->data, text->len) < 0)
        r = error_say(-ENOMEM, "no memory for the prompt");
    return r == 0 ? input_settle(o, in, before, start, name) : r;
}

/* Append text @i of the input and what separates it from the text before. As input_read. */
static int input_text(const struct options *o, size_t i, int stdin_fd, struct input *in)
{
    size_t before = in->text.len;
    const char *name;
    int r = input_separate(o, &in->text);
    size_t start = in->text.len;
    if (r == 0) r = input_piece(o, i, stdin_fd, &in->text, &name);
    if (r == 0) r = input_settle(o, in, before, start, name);
    return r < 0 ? r : 0;
}

int input_read(const struct options *o, int stdin_fd, struct input *in)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < o->n_files + 2; i++) {
        const struct option_file *file = i > 0 && i <= o->n_files ? &o->files[i - 1] : NULL;
        r = file && file->kind ? input_media(in, file->kind, file->path) : input_text(o, i, stdin_fd, in);
    }
    return r < 0 ? r : !in->text.len && !in->n_media;
}
