/* SPDX-License-Identifier: MIT */
#include "daemon/cache/spill-states.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/spill-job.h"
#include "daemon/cache/spill-state.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATES_DIR     "states"
#define SHARE          2u  /* states take at most one part in so many of the space */
#define WRITES         2u  /* concurrent jobs, whose copies wait in memory */
#define REMOVALS       16u /* files that one job removes; at most SPILL_REMOVALS */
#define RETRY_USEC     10000000ull
#define BYTES_A_MINUTE (512ull << 20)

static uint64_t state_bytes(const struct kv_cache *c)
{
    return c->backend->hparams.groups[c->state].state_bytes;
}

uint64_t spill_state_bytes(const struct kv_cache *c, uint64_t bytes)
{
    return c->state ? bytes / SHARE : 0;
}

uint64_t spill_kv_bytes(const struct kv_cache *c, uint64_t bytes)
{
    return bytes - spill_state_bytes(c, bytes);
}

/* --- begin --- */

static bool found(void *ctx, struct prefix_info *info)
{
    const struct kv_cache *c = ctx;
    return prefix_state_disk_add(c->prefix, info) == 0;
}

static int open_directory(struct spill *t, struct disk_config *config)
{
    _cleanup_(freep) char *dir = NULL;
    if (asprintf(&dir, "%s/" STATES_DIR, t->config.cache_dir) < 0) return -ENOMEM;
    config->dir = dir;
    return disk_open(&t->states, config);
}

void spill_states_open(struct kv_cache *c)
{
    struct spill *t = c->spill;
    if (!c->state) return;
    struct disk_config config = {.payload = state_bytes(c),
                                 .unit = DISK_UNIT,
                                 .bytes_max = spill_state_bytes(c, t->config.cache_bytes),
                                 .reserve = t->config.disk_reserve,
                                 .bytes_a_minute = BYTES_A_MINUTE};
    memcpy(config.identity, t->identity, sizeof(config.identity));
    int r = open_directory(t, &config);
    if (r == 0) r = disk_scan(t->states, found, c, NULL);
    if (r == 0) return;
    log_warning("recurrent states are kept only in memory: %s", error_text(r));
    t->states = disk_close(t->states);
}

/* --- jobs --- */

static void done(struct return_job *x)
{
    struct spill_job *w = spill_job_of(x);
    struct kv_cache *c = w->cache;
    struct spill *t = c->spill;
    t->state_jobs--;
    if (w->write && w->r == 0) {
        prefix_state_written(c->prefix, w->info.id);
    } else if (w->write) {
        prefix_state_write_failed(c->prefix, w->info.id);
        t->state_retry = clock_now_usec() + RETRY_USEC;
        if (w->r < 0) log_warning("cannot write a recurrent state to disk: %s", w->why);
    }
    free(w);
}

/* NULL: no memory, or enough jobs. */
static struct spill_job *new_job(struct kv_cache *c, uint64_t payload)
{
    return c->spill->state_jobs < WRITES ? spill_job_new(c, c->spill->states, payload) : NULL;
}

/* Copy the state from memory or its slot. 0, or as kv_read. */
static int copy_state(struct kv_cache *c, const struct prefix_info *info, uint8_t *out)
{
    if (info->state != KV_NO_BLOCK) return c->backend->ops->kv_read(c->backend, c->state, info->state, out);
    int r = host_pool_wait_state(c, info->state_slot);
    if (r == 0) memcpy(out, host_pool_state(c->host, info->state_slot), state_bytes(c));
    return r;
}

/* A job writes a copy of the state, after removing @victim (NULL: none) to make room. False: no job, and the victim
 * stays. */
static bool start_write(struct kv_cache *c, const struct prefix_info *info, const struct prefix_id *victim)
{
    struct spill_job *w = new_job(c, state_bytes(c));
    if (!w || copy_state(c, info, w->payload)) {
        free(w);
        return false;
    }
    if (victim) {
        spill_job_remove(w, *victim);
        prefix_state_removed(c->prefix, *victim);
    }
    c->spill->state_jobs++;
    spill_job_write(w, info, done);
    return true;
}

static bool may_write(const struct kv_cache *c, uint64_t now)
{
    const struct spill *t = c->spill;
    return t->states && t->state_jobs < WRITES && now >= t->state_retry && c->may_keep && !c->stopping && !c->shedding;
}

/* The file to remove so that @info can be written: one that was used before it. */
static bool find_victim(const struct kv_cache *c, const struct prefix_info *info, struct prefix_info *victim)
{
    bool orphan;
    return prefix_state_victim(c->prefix, victim, &orphan) && (orphan || victim->used < info->used);
}

/* Write the state if there is room for it, or a file to remove that was used before it. 1: there is neither. Else
 * -errno. */
static int write_state(struct kv_cache *c, const struct prefix_info *info)
{
    struct prefix_info victim;
    const struct prefix_id *remove = NULL;
    const int room = disk_room(c->spill->states, false);
    if (room == 1) {
        if (!find_victim(c, info, &victim)) return 1;
        remove = &victim.id;
    } else if (room) {
        return room;
    }
    return start_write(c, info, remove) ? 0 : 1;
}

bool spill_state_evicting(void *ctx, const struct prefix_info *info)
{
    struct kv_cache *c = ctx;
    return may_write(c, clock_now_usec()) && write_state(c, info) == 0;
}

/* --- in each turn --- */

/* Remove files without KV, and those that have no room any more. */
static void trim(struct kv_cache *c)
{
    struct spill *t = c->spill;
    struct prefix_info victim;
    bool orphan;
    uint64_t over = disk_excess(t->states);
    if (!prefix_state_victim(c->prefix, &victim, &orphan) || (!over && !orphan)) return;
    struct spill_job *w = new_job(c, 0);
    while (w && w->n_victims < REMOVALS && prefix_state_victim(c->prefix, &victim, &orphan)) {
        if (!orphan && over-- == 0) break;
        prefix_state_removed(c->prefix, victim.id);
        spill_job_remove(w, victim.id);
    }
    if (!w) return;
    t->state_jobs++;
    spill_job_send(w, done);
}

/* Write the latest state that is not on disk. */
static void write_idle(struct kv_cache *c, uint64_t now)
{
    struct prefix_info info;
    if (!prefix_state_begin_write(c->prefix, true, &info)) return;
    if (write_state(c, &info) == 0) return;
    prefix_state_write_failed(c->prefix, info.id);
    c->spill->state_retry = now + RETRY_USEC;
}

void spill_states_turn(struct kv_cache *c, uint64_t now, bool idle)
{
    struct spill *t = c->spill;
    if (!t->states || c->stopping) return;
    if (now >= t->state_trim) {
        t->state_trim = now + 1000000;
        trim(c);
    }
    if (idle && may_write(c, now)) write_idle(c, now);
}

bool spill_states_left(const struct kv_cache *c)
{
    return c->spill->states && c->spill->state_jobs < WRITES && prefix_states_to_write(c->prefix);
}

void spill_states_flush(struct kv_cache *c, uint64_t until)
{
    struct spill *t = c->spill;
    struct prefix_info info, victim;
    _cleanup_(freep) uint8_t *payload = t->states ? malloc(state_bytes(c)) : NULL;
    int r = 0;
    while (payload && r == 0 && clock_now_usec() < until && prefix_state_begin_write(c->prefix, true, &info)) {
        while ((r = disk_room(t->states, true)) == 1 && find_victim(c, &info, &victim)) {
            prefix_state_removed(c->prefix, victim.id);
            disk_remove(t->states, victim.id);
        }
        if (r == 0) {
            r = copy_state(c, &info, payload);
            if (r == 0) r = disk_write(t->states, &info, payload);
        }
        if (r == 0)
            prefix_state_written(c->prefix, info.id);
        else
            prefix_state_write_failed(c->prefix, info.id);
    }
    if (r < 0) log_warning("not all recurrent states were written to disk: %s", error_text(r));
}
