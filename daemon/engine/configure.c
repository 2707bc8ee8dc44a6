/* SPDX-License-Identifier: MIT */
/* The configuration of a running engine. */
#include "daemon/engine/engine.h"
#include "daemon/engine/state.h"
#include "daemon/request/session-limits.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

/* Replace *to by a copy of @text, or by NULL. False: no memory, and *to is as before. */
static bool set_note(char **to, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy) return false;
    free(*to);
    *to = copy;
    return true;
}

int engine_check(struct engine *e, const struct engine_config *c)
{
    if (c->speculation.mode != PROTO_SPECULATE_DRAFT || engine_state(e, NULL) != ENGINE_READY || e->core.model.draft)
        return 0;
    return error_say(-EINVAL, "speculate: 'draft' needs a draft model (--draft), or a model with an MTP layer: the "
                              "daemon has neither");
}

int engine_configure(struct engine *e, const struct engine_config *c, const char *pending)
{
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&m->lock);
    bool noted = set_note(&e->reload.pending, pending);
    set_note(&e->reload.failed, NULL);
    e->reload.wanted = *c;
    e->reload.configured = true;
    mailbox_kick_locked(m);
    pthread_mutex_unlock(&m->lock);
    return noted ? 0 : error_origin(-ENOMEM);
}

void engine_configure_failed(struct engine *e, const char *why)
{
    pthread_mutex_lock(&e->core.mail.lock);
    set_note(&e->reload.failed, why);
    pthread_mutex_unlock(&e->core.mail.lock);
}

void configure_take(struct engine *e)
{
    const struct engine_config *from = &e->reload.wanted;
    struct engine_config *to = &e->core.config;
    if (!e->reload.configured) return;
    e->reload.configured = false;
    if (to->sessions.ttl_usec != from->sessions.ttl_usec) e->core.sessions_next.expire = 0;
    to->queue = from->queue;
    to->queue_timeout_usec = from->queue_timeout_usec;
    to->speculation.mode = from->speculation.mode;
    to->batch_window_usec = from->batch_window_usec;
    to->cache_bytes = from->cache_bytes;
    to->sessions.ttl_usec = from->sessions.ttl_usec;
    to->sessions.bytes = from->sessions.bytes;
    to->sessions.count = from->sessions.count;
    to->disk_reserve = from->disk_reserve;
    spill_limit(&e->core.cache, to->cache_bytes, to->disk_reserve);
    sessions_limit(&e->core);
}

void configure_fini(struct engine *e)
{
    free(e->reload.pending);
    free(e->reload.failed);
}
