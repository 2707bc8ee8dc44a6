/* SPDX-License-Identifier: MIT */
#include "daemon/engine/memory-pressure.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/state.h"
#include "daemon/request/media-room.h"
#include "daemon/session/session.h"

#define EVICT_SHARE  4    /* one of so many unused blocks is evicted */
#define BLOCKS_TURN  128u /* in one turn, because the kernel's work on their pages delays the next step */
#define UNLOADS_TURN 16u  /* sessions, likewise */

void engine_shed(struct engine *e)
{
    struct mailbox *m = &e->core.mail;
    pthread_mutex_lock(&m->lock);
    e->pressure.wanted = true;
    mailbox_kick_locked(m);
    pthread_mutex_unlock(&m->lock);
}

/* Return the memory of free blocks to the system. False: there may be more. */
static bool release(struct core *core)
{
    struct backend *b = core->cache.backend;
    uint32_t left = BLOCKS_TURN, n;
    if (b->hparams.embedding.whole) return true; /* its blocks have no memory (load_weights) */
    if (b->ops->kv_apart) return true;
    for (uint32_t g = 0; g < kv_cache_pools(&core->cache); g++)
        for (uint32_t at = 0; left && (n = kv_pool_sweep(core->cache.pools[g], &at, left)); at += n) {
            b->ops->kv_release(b, g, at, n);
            left -= n;
        }
    return left;
}

/* One of so many recurrent states in the cache is evicted, too. */
static void shed_states(struct core *core)
{
    struct prefix_stats sum;
    prefix_stats_get(core->cache.prefix, (uid_t)-1, &sum);
    prefix_state_evict(core->cache.prefix, (uint32_t)((sum.states_memory + EVICT_SHARE - 1) / EVICT_SHARE));
}

/* Evicted blocks are not written to disk: a copy would take memory, and so would the file's pages. Blocks that were
 * unused for a while are on disk already. */
static void shed_blocks(struct memory_pressure *p, struct core *core)
{
    const uint32_t want = p->left < BLOCKS_TURN ? p->left : BLOCKS_TURN;
    core->cache.shedding = true;
    if (p->begin && core->cache.state) shed_states(core);
    const uint32_t evicted = prefix_evict(core->cache.prefix, want, NULL, NULL);
    core->cache.shedding = false;
    p->freed += evicted;
    p->left = evicted < want ? 0 : p->left - evicted;
}

/* Blocks in a device's memory stay: the host would gain nothing. */
void memory_pressure_turn(struct memory_pressure *p, struct core *core)
{
    const bool apart = core->cache.backend->ops->kv_apart;
    if (p->begin) p->left = apart ? 0 : (prefix_evictable(core->cache.prefix) + EVICT_SHARE - 1) / EVICT_SHARE;
    if (p->begin && core->media) media_cache_shed(&core->media->cache);
    if (p->begin) vector_cache_shed(&core->vectors);
    if (!p->begin && !p->active) return;
    if (!apart) shed_blocks(p, core);
    p->begin = false;
    uint32_t unloaded = 0;
    while (unloaded < UNLOADS_TURN && session_unload_idle(core->sessions)) unloaded++;
    p->active = !release(core) || p->left || unloaded == UNLOADS_TURN;
    if (p->active) core_again(core);
}
