/* SPDX-License-Identifier: MIT */
#include "client/chat-attach.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A copy of @path, in which "~/" becomes the home directory. NULL: no memory. */
static char *expand(const char *path)
{
    const char *home = getenv("HOME");
    char *out;
    if (strncmp(path, "~/", 2) != 0 || !home) return strdup(path);
    return asprintf(&out, "%s%s", home, path + 1) < 0 ? NULL : out;
}

static const char *name_of(enum proto_media_kind kind)
{
    return kind ? proto_media_name(kind) : "file";
}

static void list(const struct chat *c, const char *name)
{
    if (!c->n_files) log_info("the next message has no files, no images and sounds; /%s PATH adds one", name);
    for (size_t i = 0; i < c->n_files; i++)
        log_info("%s: %s (%zu bytes)", name_of(c->files[i].kind), c->files[i].path, c->files[i].bytes);
}

/* Append the text of @path, or of @fd if @path is NULL. */
static int add_text(struct chat *c, const char *path, int fd, size_t *bytes)
{
    const char *name = path ? path : "standard input";
    struct buf text = BUF_INIT;
    int r = input_whole(&text, path, fd);
    size_t nul = r == 0 && text.len ? strlen(text.data) : 0;
    if (r == 0 && nul < text.len) r = error_say(-EILSEQ, "%s is not text: a NUL at byte %zu", name, nul);
    if (r == 0) r = input_append(c->o, &c->next, &text, name);
    *bytes = text.len;
    buf_fini(&text);
    return r;
}

/* Attach @path (takes it), or standard input if @fd is not -1. 1: a text that is empty. */
static int add(struct chat *c, enum proto_media_kind kind, char *path, int fd)
{
    struct chat_file *more = reallocarray(c->files, c->n_files + 1, sizeof(*more));
    size_t bytes = 0;
    int r = more && path ? 0 : error_say(-ENOMEM, "out of memory");
    if (more) c->files = more;
    if (r == 0) r = kind ? input_media(&c->next, kind, path) : add_text(c, fd < 0 ? path : NULL, fd, &bytes);
    if (r != 0) {
        free(path);
        return r;
    }
    if (kind) bytes = blob_size(c->next.media[c->next.n_media - 1].file);
    more[c->n_files++] = (struct chat_file){path, kind, bytes};
    return 0;
}

int chat_attach(struct chat *c, enum proto_media_kind kind, const char *arg)
{
    const char *name = name_of(kind);
    if (!*arg) list(c, name);
    if (strcmp(arg, "none") == 0) chat_attach_none(c);
    if (!*arg || strcmp(arg, "none") == 0) return 0;
    if (strcmp(arg, "-") == 0) {
        log_error("/%s: standard input has the lines of the chat", name);
        return EXIT_USAGE;
    }
    int r = add(c, kind, expand(arg), -1);
    interrupt_clear();
    interrupt_init();
    if (r == 0) return 0;
    if (r > 0) r = error_say(-EINVAL, "%s: the file is empty", arg);
    error_in(r, "/%s", name);
    return exit_status_before(r);
}

int chat_attach_given(struct chat *c)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < c->o->n_files; i++)
        status = chat_attach(c, c->o->files[i].kind, c->o->files[i].path);
    return status;
}

int chat_attach_pipe(struct chat *c)
{
    if (isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)) return 0;
    _cleanup_(closep) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0) return 0;
    int r = add(c, 0, strdup("standard input"), STDIN_FILENO);
    if (r >= 0 && dup2(tty, STDIN_FILENO) < 0) {
        r = error_origin(-errno);
        error_in(r, "/dev/tty");
    }
    if (r < 0) return exit_status_before(r);
    if (r > 0)
        log_info("standard input was empty");
    else
        log_info("your first message begins with standard input (%zu bytes); /file none removes it",
                 c->files[c->n_files - 1].bytes);
    return 0;
}

void chat_attach_again(struct chat *c, struct proto_message *m, size_t text)
{
    if (!m->n_media && !text) return;
    if (text && buf_append(&c->next.text, m->content.data, text) < 0) {
        log_error("no memory to keep the files of this message");
        return;
    }
    c->next.media = m->media;
    c->next.n_media = m->n_media;
    for (size_t i = 0; i < m->n_media; i++)
        if (c->next.media[i].at > text) c->next.media[i].at = text;
    m->media = NULL;
    m->n_media = 0;
    log_info("the next message has the %simages and sounds of this one; /image none removes them",
             text ? "files, " : "");
}

void chat_attach_none(struct chat *c)
{
    input_fini(&c->next);
    for (size_t i = 0; i < c->n_files; i++) free(c->files[i].path);
    free(c->files);
    c->files = NULL;
    c->n_files = 0;
}
