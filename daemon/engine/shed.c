/* SPDX-License-Identifier: MIT */
/* When memory is short: the coldest blocks go, and their memory goes back to the system; and sessions that are on disk
 * and that nobody uses are read from there when they are. */
#include "daemon/engine/state.h"

#define SHED_SHARE    4    /* of the blocks that nobody uses, one in so many */
#define SHED_SLICE    128u /* blocks a turn, so that the kernel's work on their pages holds up no answer */
#define SHED_SESSIONS 16u  /* likewise */

void engine_shed(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->shed_wanted = true;
    e->kick = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

/* Memory of blocks that are free, whoever freed them. False: there may be more of it. */
static bool release(struct engine *e)
{
    struct backend *b = e->model.backend;
    uint32_t left = SHED_SLICE, at = 0, n;
    while (left && (n = kv_pool_sweep(e->pool, &at, left))) {
        b->ops->kv_release(b, 0, at, n);
        at += n;
        left -= n;
    }
    return left;
}

/* Nothing is written for it: a copy would take memory, and so would the file's pages. What was idle for a while is on
 * disk already. */
void shed_look(struct engine *e)
{
    if (e->shed_begin) e->shed_left = (prefix_evictable(e->prefix) + SHED_SHARE - 1) / SHED_SHARE;
    if (!e->shed_begin && !e->shedding) return;
    e->shed_begin = false;
    uint32_t want = e->shed_left < SHED_SLICE ? e->shed_left : SHED_SLICE;
    uint32_t gone = prefix_evict(e->prefix, want, NULL, NULL);
    e->shed_blocks += gone;
    e->shed_left = gone < want ? 0 : e->shed_left - gone;
    uint32_t unloaded = 0;
    while (unloaded < SHED_SESSIONS && session_unload_idle(e->sessions)) unloaded++;
    e->shedding = !release(e) || e->shed_left || unloaded == SHED_SESSIONS;
    if (!e->shedding) return;
    engine_again(e); /* for the rest */
}
