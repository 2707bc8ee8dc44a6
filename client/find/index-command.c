/* SPDX-License-Identifier: MIT */
/* hob index: makes and updates the index of a folder, or removes it. */
#include "client/columns.h"
#include "client/exit-status.h"
#include "client/find/commands.h"
#include "client/find/daemon-embedder.h"
#include "client/find/update.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHOW_AFTER_MS = 1000, SHOW_EVERY_MS = 200 };

/* The line of progress on a terminal. */
struct show {
    bool on;
    int64_t began, last; /* ms */
    int width;           /* characters of the visible line; 0: none */
};

static void show_clear(struct show *s)
{
    if (s->width) dprintf(STDERR_FILENO, "\r%*s\r", s->width, "");
    s->width = 0;
}

static void show_progress(void *ctx, const struct update *u)
{
    struct show *s = ctx;
    char line[120], left[40] = "";
    int64_t now = interrupt_now();
    if (!s->on || now - s->began < SHOW_AFTER_MS || now - s->last < SHOW_EVERY_MS) return;
    if (u->embedded && u->bytes_read < u->bytes_changed) {
        double seconds =
            (double)(now - s->began) / 1000 / (double)u->bytes_read * (double)(u->bytes_changed - u->bytes_read);
        snprintf(left, sizeof(left), seconds < 100 ? ", %.0f s left" : ", %.0f min left",
                 seconds < 100 ? seconds : seconds / 60);
    }
    int n = snprintf(line, sizeof(line), "index %" PRIu64 "/%" PRIu64 " files, %" PRIu64 " chunks%s", u->read,
                     u->changed, u->embedded, left);
    int columns = (int)table_terminal(STDERR_FILENO);
    if (n >= columns) n = columns > 1 ? columns - 1 : 0;
    dprintf(STDERR_FILENO, "\r%.*s%*s", n, line, s->width > n ? s->width - n : 0, "");
    if (n > s->width) s->width = n;
    s->last = now;
}

int command_status(int r, int status)
{
    if (r == -ECANCELED) return status;
    if (r == -EBUSY) {
        log_error("%s", error_text(r));
        return EXIT_BUSY;
    }
    return exit_status_report(r);
}

/* Append ", COUNT WHAT" if there are some. */
static void mention(struct buf *line, const char **before, uint64_t count, const char *what)
{
    if (count == 0) return;
    buf_printf(line, "%s%" PRIu64 " %s", *before, count, what);
    *before = ", ";
}

static void summary(const struct update *u)
{
    struct buf line = BUF_INIT;
    const struct walk_counts *w = &u->walked;
    const char *before = "; left out: ";
    buf_printf(&line, "%s: %" PRIu64 " files (%" PRIu64 " new or changed, %" PRIu64 " gone), %" PRIu64 " chunks",
               u->index->place.root, w->files, u->changed, u->gone, u->chunks);
    mention(&line, &before, u->binary, "binary");
    mention(&line, &before, w->large, "too large");
    mention(&line, &before, w->links, "symbolic links");
    mention(&line, &before, u->failed + w->unreadable, "unreadable");
    mention(&line, &before, w->deep, "folders too deep");
    log_info("%s", line.data ? line.data : "done");
    buf_fini(&line);
    if (w->unreadable) log_warning("a folder could not be read: no file was taken for gone");
}

/* The settings of an index stay as they were when it was made. */
static int check_settings(const struct find_options *f, const struct index *x)
{
    const struct store_meta *m = &x->meta;
    const char *what = NULL;
    if (f->model && strcmp(f->model, m->model) != 0) what = "--model";
    if (f->dims && f->dims != m->dims) what = "--dims";
    if (f->prefix && strcmp(f->prefix, m->prefix) != 0) what = "--prefix";
    if (f->question_prefix && strcmp(f->question_prefix, m->question_prefix) != 0) what = "--question-prefix";
    if (!what) return 0;
    return error_say(
        -EMEDIUMTYPE,
        "the index of %s was made with another %s (model '%s', %u dims): remove it with 'hob index --rm %s' "
        "and index again",
        x->place.root, what, m->model, m->dim, x->place.root);
}

static int update(const struct find_options *f, const struct options *o, struct index *x, int *status)
{
    struct store_meta new = {.model = (char *)(f->model   ? f->model
                                               : o->model ? o->model
                                                          : "default"),
                             .prefix = (char *)f->prefix,
                             .question_prefix = (char *)f->question_prefix,
                             .dims = f->dims};
    struct daemon_embedder d;
    struct show show = {.on = output_draws(STDERR_FILENO) && !f->quiet, .began = interrupt_now()};
    int r = index_write(x, &new);
    if (r == 0) r = check_settings(f, x);
    if (r < 0) return r;
    daemon_embedder_init(&d, x->meta.model, x->meta.dims, false);
    struct update u = {.index = x,
                       .embedder = &d.e,
                       .max_size = f->max_size,
                       .all = f->no_ignore,
                       .progress = show_progress,
                       .ctx = &show};
    r = update_run(&u);
    show_clear(&show);
    if (r == 0 && !f->quiet) summary(&u);
    *status = d.e.status;
    daemon_embedder_fini(&d);
    return r == -EUCLEAN ? index_damaged(x, r) : r;
}

static int find_place(const struct find_options *f, struct place *p)
{
    int r = f->n_words > 0 ? place_of(p, f->words[0]) : place_nearest(p);
    if (r > 0 && !f->remove) r = place_of(p, ".");
    /* Only the index of a folder that is gone may be removed. */
    if (r == 0 && !f->remove && access(p->root, R_OK | X_OK) < 0)
        return error_say(-errno, "%s: %s", p->root, strerror(errno));
    return r;
}

static int remove_index(const struct find_options *f, struct index *x)
{
    int r = x->place.dir ? place_open(&x->place, false) : 1;
    if (r > 0) return error_say(-ENOENT, "there is no index of %s", x->place.root ? x->place.root : "this folder");
    if (r == 0) r = place_lock(&x->place);
    if (r == 0) r = place_remove(&x->place);
    if (r == 0 && !f->quiet) log_info("removed the index of %s", x->place.root);
    return r;
}

int index_command(const struct find_options *f, struct options *o)
{
    struct index x = INDEX_INIT;
    int status = EXIT_FAILED;
    int r = find_place(f, &x.place);
    if (r >= 0) r = f->remove ? remove_index(f, &x) : update(f, o, &x, &status);
    status = r < 0 ? command_status(r, status) : EXIT_ANSWERED;
    index_close(&x);
    return status;
}
