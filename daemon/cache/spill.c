/* SPDX-License-Identifier: MIT */
#include "daemon/cache/spill.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/payload.h"
#include "daemon/cache/spill-job.h"
#include "daemon/cache/spill-state.h"
#include "daemon/cache/spill-states.h"
#include "libcommon/cleanup.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>
#include <string.h>

#define WRITES_IDLE 2u          /* concurrent jobs that write blocks nobody uses */
#define WRITES_MOST 16u         /* including those for evicted blocks, whose copies wait in memory */
#define IDLE_USEC   1000000ull  /* after the last step, before blocks are written */
#define RETRY_USEC  10000000ull /* after the disk or its rate limit has refused a write */
#define TRIM_USEC   1000000ull  /* between two checks of the room on disk */

/* Memory holds one model only, and every file names its model, so that the namespaces need not. */
static const uint8_t no_identity[16];

int spill_new(struct kv_cache *c, const struct spill_config *config, struct job_returns *jobs)
{
    struct spill *t = c->spill = calloc(1, sizeof(*t));
    if (!t) return -ENOMEM;
    t->config = *config;
    t->jobs = jobs;
    int r = namespace_secret_load(&t->secret, config->state_dir);
    if (r < 0) {
        log_warning("KV blocks are kept only in memory: %s", error_text(r));
        t->given_up = true;
        r = namespace_secret_load(&t->secret, NULL);
        if (r < 0) return r;
    }
    t->payload = payload_bytes(c->backend, 0);
    if (!config->cache_dir || config->cache_bytes == 0 || !config->state_dir) t->given_up = true;
    spill_namespace(t, &(struct namespace_owner){.public = true}, &c->public_namespace);
    spill_open(c);
    return 0;
}

void spill_limit(struct kv_cache *c, uint64_t cache_bytes, uint64_t disk_reserve)
{
    struct spill *t = c->spill;
    if (!t) return;
    t->config.cache_bytes = cache_bytes;
    t->config.disk_reserve = disk_reserve;
    if (t->disk) disk_limit(t->disk, spill_kv_bytes(c, cache_bytes), disk_reserve);
    if (t->states) disk_limit(t->states, spill_state_bytes(c, cache_bytes), disk_reserve);
}

void spill_namespace(const struct spill *t, const struct namespace_owner *owner, struct prefix_namespace *out)
{
    namespace_make(out, &t->secret, no_identity, owner, 0);
}

struct disk *spill_disk(const struct kv_cache *c)
{
    return c->spill->disk;
}

struct disk *spill_states(const struct kv_cache *c)
{
    return c->spill->states;
}

struct job_returns *spill_jobs(const struct kv_cache *c)
{
    return c->spill->jobs;
}

/* --- writing --- */

static void written(struct return_job *x)
{
    struct spill_job *w = spill_job_of(x);
    struct kv_cache *c = w->cache;
    struct spill *t = c->spill;
    t->writes--;
    if (w->r == 0) {
        prefix_disk_written(c->prefix, w->info.id);
    } else {
        prefix_disk_write_failed(c->prefix, w->info.id);
        t->all_written = false;
        t->retry = clock_now_usec() + RETRY_USEC;
        if (w->r < 0) log_warning("cannot write a KV block to disk: %s", w->why);
    }
    free(w);
}

/* Copy what the node's file will have, each block from memory or from the node's slot. 0, or as kv_read. */
static int copy_payload(struct kv_cache *c, const struct prefix_info *info, uint8_t *out)
{
    struct backend *b = c->backend;
    int r = info->slot == KV_NO_BLOCK ? 0 : host_pool_wait(c, info->slot);
    for (uint32_t g = 0; r == 0 && g < hparams_kv_groups(&b->hparams); g++) {
        if (info->lacks >> g & 1) continue;
        if (info->blocks[g] != KV_NO_BLOCK)
            r = b->ops->kv_read(b, g, info->blocks[g], out);
        else
            memcpy(out, host_pool_at(c->host, info->slot, g), payload_block(b, g));
        out += payload_block(b, g);
    }
    return r;
}

/* A job writes a copy of @info's block, after removing @victim (NULL: none) to make room. False: no job, and the victim
 * stays. */
static bool start_write(struct kv_cache *c, const struct prefix_info *info, const struct prefix_id *victim)
{
    struct spill *t = c->spill;
    struct spill_job *w = spill_job_new(c, t->disk, payload_bytes(c->backend, info->lacks));
    if (!w || copy_payload(c, info, w->payload)) {
        t->retry = clock_now_usec() + RETRY_USEC;
        free(w);
        return false;
    }
    if (victim) {
        spill_job_remove(w, *victim);
        prefix_disk_removed(c->prefix, *victim);
    }
    t->writes++;
    spill_job_write(w, info, written);
    return true;
}

static bool may_write(const struct kv_cache *c, uint32_t most, uint64_t now)
{
    const struct spill *t = c->spill;
    return t->disk && t->writes < most && now >= t->retry && c->may_keep && !c->stopping;
}

bool spill_evicting(void *ctx, const struct prefix_info *info)
{
    struct kv_cache *c = ctx;
    return !info->on_disk && may_write(c, WRITES_MOST, clock_now_usec()) && disk_room(c->spill->disk, false) == 0 &&
           start_write(c, info, NULL);
}

/* The file to remove so that @info can be written: one that was used earlier than @info, or the same blocks would be
 * written and removed for ever. When there are too many files, any. */
static bool find_victim(const struct kv_cache *c, const struct prefix_info *info, struct prefix_info *victim)
{
    return prefix_disk_victim(c->prefix, victim) && (victim->used < info->used || disk_excess(c->spill->disk));
}

/* Write the next unused block: the first that would be evicted, or on a full disk the last. False: not now. */
static bool write_idle(struct kv_cache *c, uint64_t now)
{
    struct spill *t = c->spill;
    struct prefix_info info, victim;
    int room = disk_room(t->disk, false);
    bool full = room == 1;
    if (room != 0 && !full) {
        t->retry = now + RETRY_USEC;
        return false;
    }
    t->all_written = !prefix_disk_begin_write(c->prefix, full, 0, &info);
    if (t->all_written) return false;
    t->all_written = full && !find_victim(c, &info, &victim); /* the disk's blocks have higher scores */
    if (!t->all_written && start_write(c, &info, full ? &victim.id : NULL)) return true;
    prefix_disk_write_failed(c->prefix, info.id);
    return false;
}

/* --- less room --- */

static void trimmed(struct return_job *j)
{
    struct spill_job *x = spill_job_of(j);
    x->cache->spill->trimming = false;
    x->cache->spill->trim_next = 0; /* more files may have to be removed */
    free(x);
}

/* Other programs have filled the disk, or the limit is lower: remove the files unused for longest, even if nothing is
 * to be written. */
static void trim(struct kv_cache *c, uint64_t now)
{
    struct spill *t = c->spill;
    struct prefix_info victim;
    if (t->trimming || now < t->trim_next) return;
    t->trim_next = now + TRIM_USEC;
    uint64_t over = disk_excess(t->disk);
    struct spill_job *x = over ? spill_job_new(c, t->disk, 0) : NULL;
    if (!x) return;
    while (x->n_victims < over && x->n_victims < SPILL_REMOVALS && prefix_disk_victim(c->prefix, &victim)) {
        prefix_disk_removed(c->prefix, victim.id);
        spill_job_remove(x, victim.id);
    }
    if (!x->n_victims) {
        free(x);
        return;
    }
    t->trimming = true;
    spill_job_send(x, trimmed);
}

/* Since when nothing was computed. */
static uint64_t idle_since(struct spill *t, uint64_t now, uint64_t steps)
{
    if (t->last_step != steps || t->last_step_at == 0) {
        t->last_step_at = now;
        t->all_written = false;
    }
    t->last_step = steps;
    return t->last_step_at;
}

void spill_turn(struct kv_cache *c, uint64_t now, uint64_t steps)
{
    struct spill *t = c->spill;
    spill_open(c);
    host_pool_turn(c, t->last_step != steps);
    if (t->disk && !c->stopping) trim(c, now);
    bool idle = now - idle_since(t, now, steps) >= IDLE_USEC;
    spill_states_turn(c, now, idle);
    if (!idle) return;
    while (!t->all_written && may_write(c, WRITES_IDLE, now) && write_idle(c, now)) continue;
}

uint64_t spill_next(const struct kv_cache *c, uint64_t now)
{
    const struct spill *t = c->spill;
    if (!t || !t->disk || c->stopping || !c->may_keep) return UINT64_MAX;
    uint64_t idle = t->last_step_at + IDLE_USEC, at = UINT64_MAX, state = UINT64_MAX;
    if (!t->all_written && t->writes < WRITES_IDLE) at = idle > t->retry ? idle : t->retry;
    if (spill_states_left(c)) state = idle > t->state_retry ? idle : t->state_retry;
    if (state < at) at = state;
    return at > now ? at : now;
}

/* Write all blocks that are not on disk, the latest first, while there is time and room. */
static void flush(struct kv_cache *c, uint64_t until)
{
    struct spill *t = c->spill;
    struct prefix_info info, victim;
    _cleanup_(freep) uint8_t *payload = malloc(t->payload);
    uint64_t blocks = 0;
    int r = 0;
    while (payload && r == 0 && clock_now_usec() < until && prefix_disk_begin_write(c->prefix, true, 0, &info)) {
        while ((r = disk_room(t->disk, true)) == 1 && find_victim(c, &info, &victim)) {
            prefix_disk_removed(c->prefix, victim.id);
            disk_remove(t->disk, victim.id);
        }
        if (r == 0) {
            r = copy_payload(c, &info, payload);
            if (r == 0) r = disk_write(t->disk, &info, payload);
        }
        if (r == 0) {
            prefix_disk_written(c->prefix, info.id);
            blocks++;
        } else {
            prefix_disk_write_failed(c->prefix, info.id);
        }
    }
    if (r < 0) log_warning("not all KV blocks were written to disk: %s", error_text(r));
    log_debug("%llu blocks of KV written", (unsigned long long)blocks);
}

void spill_flush(struct kv_cache *c, uint64_t until)
{
    if (!c->spill || !c->may_keep) return;
    if (clock_now_usec() < until) spill_open(c);
    const uint64_t now = clock_now_usec(), half = c->spill->states && now < until ? until - (until - now) / 2 : until;
    if (c->spill->disk) flush(c, half);
    spill_states_flush(c, until);          /* no KV is found again without a state */
    if (c->spill->states) flush(c, until); /* beside an open disk */
}

void spill_free(struct kv_cache *c)
{
    if (c->spill) disk_close(c->spill->disk);
    if (c->spill) disk_close(c->spill->states);
    free(c->spill);
    c->spill = NULL;
}

bool spill_count(const struct kv_cache *c, struct disk_stats *out)
{
    *out = (struct disk_stats){0};
    if (!c->spill || !c->spill->disk) return false;
    disk_stats_get(c->spill->disk, out);
    return c->may_keep;
}

bool spill_count_states(const struct kv_cache *c, struct disk_stats *out)
{
    *out = (struct disk_stats){0};
    if (!c->spill || !c->spill->states) return false;
    disk_stats_get(c->spill->states, out);
    return c->may_keep;
}
