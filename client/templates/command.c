/* SPDX-License-Identifier: MIT */
/* hob templates: list, show, edit. */
#include "client/columns.h"
#include "client/editor.h"
#include "client/exit-status.h"
#include "client/input.h"
#include "client/output.h"
#include "client/templates/place.h"
#include "client/templates/templates.h"
#include "libcommon/cleanup.h"
#include "libcommon/conf.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/paths.h"
#include "libcommon/plain.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const origins[] = {
    [TEMPLATE_USER] = "yours", [TEMPLATE_SYSTEM] = "system", [TEMPLATE_SHIPPED] = "hob"};

static const char skeleton[] = "# A template of hob: see TEMPLATES in hob(1).\n"
                               "description = \n"
                               "#system = You are brief.\n"
                               "prompt = \"\"\"\n"
                               "{input}\n"
                               "\"\"\"\n";

static int find_description(void *ctx, const char *key, const char *value)
{
    struct buf *out = ctx;
    if (strcmp(key, "description") != 0) return 0;
    buf_clear(out);
    return buf_puts(out, value);
}

static int add_row(struct table *t, const struct template_place *p)
{
    struct buf description = BUF_INIT;
    int r = conf_read(p->path, find_description, &description);
    if (r < 0 && r != -ENOMEM) { /* a broken file is listed too */
        buf_clear(&description);
        r = buf_printf(&description, "(%s)", error_text(r));
    }
    if (r >= 0) r = table_put(t, p->name);
    if (r == 0) r = table_put(t, origins[p->origin]);
    if (r == 0) r = table_put(t, description.data ? description.data : "");
    buf_fini(&description);
    return r;
}

static int list(const struct template_list *all)
{
    static const char *const heads[] = {"NAME", "FROM", "DESCRIPTION"};
    struct table t = {.columns = 3};
    struct buf out = BUF_INIT;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 3; i++) r = table_put(&t, heads[i]);
    for (size_t i = 0; r == 0 && i < all->n; i++) r = add_row(&t, &all->places[i]);
    if (r == 0) r = table_print(&out, &t);
    r = r < 0 ? error_say(-ENOMEM, "no memory for the templates") : output_print(out.data, out.len);
    table_fini(&t);
    buf_fini(&out);
    return r;
}

/* Print the file; on a terminal with its control characters replaced. */
static int show(const struct template_place *p)
{
    struct buf text = BUF_INIT, plain = BUF_INIT;
    int r = input_whole(&text, p->path, -1);
    if (r == 0) log_info("%s", p->path);
    if (r == 0 && isatty(STDOUT_FILENO))
        r = text.len && plain_text(&plain, text.data, text.len) < 0 ? error_say(-ENOMEM, "out of memory")
                                                                    : output_print(plain.data, plain.len);
    else if (r == 0)
        r = output_print(text.data, text.len);
    buf_fini(&plain);
    buf_fini(&text);
    return r;
}

/* Make the user's file @path with @text. 1: it exists. */
static int make(const char *path, const struct buf *text)
{
    _cleanup_(freep) char *dir = strndup(path, (size_t)(strrchr(path, '/') - path));
    int r = dir ? paths_make(dir) : error_say(-ENOMEM, "no memory for a path");
    if (r < 0) return r;
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) return 1;
    if (fd < 0 || write(fd, text->data, text->len) != (ssize_t)text->len) {
        r = error_origin(errno ? -errno : -EIO);
        if (fd >= 0) unlink(path);
        return error_in(r, "%s", path);
    }
    return 0;
}

static int same(const char *path, const struct buf *text, bool *is)
{
    struct buf now = BUF_INIT;
    int r = input_whole(&now, path, -1);
    *is = r == 0 && now.len == text->len && (!now.len || memcmp(now.data, text->data, now.len) == 0);
    buf_fini(&now);
    return r;
}

/* Edit the user's file @path. If it is new, it begins as @first and is removed unless it was changed. */
static int edit_file(int tty, const char *path, const struct buf *first)
{
    bool unchanged = false;
    int r = make(path, first);
    if (r < 0) return r;
    bool new = r == 0;
    r = editor_file(tty, path);
    if (r < 0) {
        if (new) unlink(path);
        return r;
    }
    if (new) r = same(path, first, &unchanged);
    if (unchanged) {
        unlink(path);
        log_info("nothing was changed, so there is no file of yours");
        return r;
    }
    if (r == 0) r = template_check(path);
    if (r == 0) log_info("%s", path);
    return r < 0 ? error_in(r, "the file is kept, but cannot be used") : 0;
}

static int edit(const struct template_list *all, const char *name)
{
    _cleanup_(freep) char *path = NULL;
    struct buf first = BUF_INIT;
    const struct template_place *p = NULL;
    int r = template_user_path(name, &path);
    if (r < 0) return r;
    _cleanup_(closep) int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0) return error_say(-EINVAL, "templates edit needs a terminal; the file is %s", path);
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->places[i].name, name) == 0) p = &all->places[i];
    if (p)
        r = input_whole(&first, p->path, -1);
    else if (buf_puts(&first, skeleton) < 0)
        r = error_say(-ENOMEM, "out of memory");
    if (r == 0) r = edit_file(tty, path, &first);
    buf_fini(&first);
    return r;
}

int template_command(const struct options *o)
{
    const char *verb = o->n_words ? o->words[0] : "list", *name = o->n_words > 1 ? o->words[1] : NULL;
    struct template_list all = {0};
    const struct template_place *p;
    int r = 0;
    bool lists = strcmp(verb, "list") == 0, shows = strcmp(verb, "show") == 0;
    if (!lists && !shows && strcmp(verb, "edit") != 0)
        r = error_say(-EINVAL,
                      "unknown subcommand '%s' of 'templates', use list, show or edit (to send it as a prompt: "
                      "hob -- templates %s …)",
                      verb, verb);
    else if (o->n_words > 2 || !name != lists)
        r = error_say(-EINVAL, "usage: hob templates %s%s", verb, lists ? "" : " NAME");
    if (r == 0) r = template_list(&all);
    if (r == 0 && lists)
        r = list(&all);
    else if (r == 0 && shows)
        r = (p = template_find(&all, name)) ? show(p) : -EINVAL;
    else if (r == 0)
        r = edit(&all, name);
    template_list_free(&all);
    return r < 0 ? exit_status_before(r) : EXIT_ANSWERED;
}
