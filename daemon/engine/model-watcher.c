/* SPDX-License-Identifier: MIT */
#include "daemon/engine/model-watcher.h"
#include <stddef.h>
#include <sys/stat.h>

#define watcher_of(j) ((struct model_watcher *)((char *)(j)-offsetof(struct model_watcher, job)))

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* How the model's files differ from those that were loaded; NULL: they do not. */
static const char *difference(const struct gguf *g)
{
    const struct gguf *part;
    struct stat now;
    for (uint32_t i = 0; (part = gguf_part(g, i)); i++) {
        if (stat(gguf_path(part), &now) < 0) return "model file was removed after it was loaded";
        if (!same_file(&now, gguf_stat(part))) return "model file changed after it was loaded; restart hobd to use it";
    }
    return NULL;
}

static void look(struct job *j)
{
    struct model_watcher *w = watcher_of(j);
    struct mailbox *m = &w->core->mail;
    const char *note = difference(w->core->model.gguf);
    pthread_mutex_lock(&m->lock);
    w->note = note;
    pthread_mutex_unlock(&m->lock);
}

static void done(struct job *j)
{
    struct model_watcher *w = watcher_of(j);
    struct mailbox *m = &w->core->mail;
    pthread_mutex_lock(&m->lock);
    w->looking = false;
    pthread_mutex_unlock(&m->lock);
    w->looked(w->ctx);
}

int model_watcher_start(struct model_watcher *w, struct core *core, void (*looked)(void *ctx), void *ctx)
{
    w->core = core;
    w->looked = looked;
    w->ctx = ctx;
    w->job = (struct job){.run = look, .done = done};
    return job_pool_new(&w->pool, 1, NULL, NULL);
}

void model_watcher_end(struct model_watcher *w)
{
    w->pool = job_pool_free(w->pool);
}

void model_watcher_look(struct model_watcher *w)
{
    job_pool_push(w->pool, &w->job);
}
