/* SPDX-License-Identifier: MIT */
#include "client/chat-attach.h"
#include "client/exit-status.h"
#include "client/interrupt.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of @path, in which "~/" becomes the home directory. NULL: no memory. */
static char *expand(const char *path)
{
    const char *home = getenv("HOME");
    char *out;
    if (strncmp(path, "~/", 2) != 0 || !home) return strdup(path);
    return asprintf(&out, "%s%s", home, path + 1) < 0 ? NULL : out;
}

static void list(const struct chat *c, const char *name)
{
    if (!c->next.n_media) log_info("the next message has no images and sounds; /%s PATH adds one", name);
    for (size_t i = 0; i < c->next.n_media; i++)
        log_info("%s: %s (%zu bytes)", proto_media_name(c->next.media[i].kind), c->attached[i],
                 blob_size(c->next.media[i].file));
}

static int add(struct chat *c, enum proto_media_kind kind, const char *arg)
{
    _cleanup_(freep) char *path = expand(arg);
    if (!path) return error_say(-ENOMEM, "out of memory");
    int r = input_media(&c->next, kind, path);
    if (r < 0) return r;
    c->attached[c->next.n_media - 1] = path;
    path = NULL;
    return 0;
}

int chat_attach(struct chat *c, enum proto_media_kind kind, const char *arg)
{
    const char *name = proto_media_name(kind);
    if (!*arg) list(c, name);
    if (strcmp(arg, "none") == 0) chat_attach_none(c);
    if (!*arg || strcmp(arg, "none") == 0) return 0;
    if (strcmp(arg, "-") == 0) {
        log_error("/%s: standard input has the lines of the chat", name);
        return EXIT_USAGE;
    }
    int r = add(c, kind, arg);
    interrupt_clear();
    interrupt_init();
    if (r == 0) return 0;
    error_in(r, "/%s", name);
    return exit_status_before(r);
}

void chat_attach_again(struct chat *c, struct proto_message *m)
{
    if (!m->n_media) return;
    c->next.media = m->media;
    c->next.n_media = m->n_media;
    m->media = NULL;
    m->n_media = 0;
    log_info("the next message has the images and sounds of this one; /image none removes them");
}

void chat_attach_none(struct chat *c)
{
    input_fini(&c->next);
    for (size_t i = 0; i < PROTO_MEDIA_MAX && c->attached[i]; i++) {
        free(c->attached[i]);
        c->attached[i] = NULL;
    }
}
