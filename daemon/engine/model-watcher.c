/* SPDX-License-Identifier: MIT */
#include "daemon/engine/model-watcher.h"
#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#define watcher_of(j) ((struct model_watcher *)((char *)(j)-offsetof(struct model_watcher, job)))

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void look(struct job *j)
{
    struct model_watcher *w = watcher_of(j);
    struct mailbox *m = &w->core->mail;
    struct stat now;
    int r = stat(w->core->config.model_path, &now) < 0 ? -errno : 0;
    pthread_mutex_lock(&m->lock);
    if (r < 0)
        w->note = "model file was removed after it was loaded";
    else if (!same_file(&now, gguf_stat(w->core->model.gguf)))
        w->note = "model file changed after it was loaded; restart hobd to use it";
    else
        w->note = NULL;
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
