/* SPDX-License-Identifier: MIT */
/* What changes around an engine that runs: its configuration, and the file of its model. */
#include "daemon/engine/state.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <string.h>
#include <sys/stat.h>

#define engine_of(j) ((struct engine *)((char *)(j)-offsetof(struct engine, look)))

/* A copy, or NULL for none; false: no memory, and *to is as it was. */
static bool set_note(char **to, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy) return false;
    free(*to);
    *to = copy;
    return true;
}

int engine_configure(struct engine *e, const struct engine_config *c, const char *pending)
{
    pthread_mutex_lock(&e->lock);
    bool noted = set_note(&e->notes.pending, pending);
    set_note(&e->notes.failed, NULL);
    e->wanted = *c;
    e->configured = true;
    e->kick = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    return noted ? 0 : error_origin(-ENOMEM);
}

void engine_configure_failed(struct engine *e, const char *why)
{
    pthread_mutex_lock(&e->lock);
    set_note(&e->notes.failed, why);
    pthread_mutex_unlock(&e->lock);
}

void configure_take(struct engine *e)
{
    const struct engine_config *c = &e->wanted;
    if (!e->configured) return;
    e->configured = false;
    e->config.queue = c->queue;
    e->config.queue_timeout_usec = c->queue_timeout_usec;
    e->config.batch_window_usec = c->batch_window_usec;
    e->config.cache_bytes = c->cache_bytes;
    if (e->config.session_ttl_usec != c->session_ttl_usec) e->expire_next = 0;
    e->config.session_ttl_usec = c->session_ttl_usec;
    e->config.session_bytes = c->session_bytes;
    e->config.session_count = c->session_count;
    e->config.disk_reserve = c->disk_reserve;
    store_limit(e);
    turns_limit(e);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* --- the model's file: its disk may be slow, or not answer at all, so that a thread of its own looks --- */

static void look(struct job *j)
{
    struct engine *e = engine_of(j);
    struct stat now;
    int r = stat(e->config.model_path, &now) < 0 ? -errno : 0;
    pthread_mutex_lock(&e->lock);
    if (r < 0)
        e->notes.model = "model file is gone since it was loaded";
    else if (!same_file(&now, gguf_stat(e->model.gguf)))
        e->notes.model = "model file changed since it was loaded; restart to use it";
    else
        e->notes.model = NULL;
    pthread_mutex_unlock(&e->lock);
}

static void looked(struct job *j)
{
    struct engine *e = engine_of(j);
    pthread_mutex_lock(&e->lock);
    e->looking = false;
    pthread_mutex_unlock(&e->lock);
    status_flush(e);
}

int configure_begin(struct engine *e)
{
    e->look = (struct job){.run = look, .done = looked};
    return job_pool_new(&e->looker, 1, NULL, NULL);
}

void configure_end(struct engine *e)
{
    e->looker = job_pool_free(e->looker);
}

void configure_look(struct engine *e)
{
    job_pool_push(e->looker, &e->look);
}

void configure_fini(struct engine *e)
{
    free(e->notes.pending);
    free(e->notes.failed);
}
