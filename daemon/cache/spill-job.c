/* SPDX-License-Identifier: MIT */
#include "daemon/cache/spill-job.h"
#include "daemon/cache/cache.h"
#include "daemon/cache/spill-state.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>

struct spill_job *spill_job_new(struct kv_cache *c, struct disk *disk, uint64_t payload)
{
    struct spill_job *w = malloc(sizeof(*w) + payload);
    if (w) *w = (struct spill_job){.cache = c, .disk = disk, .job.job.uncharged = true};
    return w;
}

void spill_job_remove(struct spill_job *w, struct prefix_id id)
{
    w->victims[w->n_victims++] = id;
}

static void run(struct job *j)
{
    struct spill_job *w = spill_job_of(return_job_of(j));
    for (uint32_t i = 0; i < w->n_victims; i++) disk_remove(w->disk, w->victims[i]);
    if (!w->write) return;
    w->r = disk_room(w->disk, false);
    if (w->r == 0) w->r = disk_write(w->disk, &w->info, w->payload);
    if (w->r < 0) snprintf(w->why, sizeof(w->why), "%s", error_text(w->r));
}

void spill_job_send(struct spill_job *w, void (*done)(struct return_job *))
{
    jobs_send(w->cache->spill->jobs, &w->job, (uid_t)-1, run, done);
}

void spill_job_write(struct spill_job *w, const struct prefix_info *info, void (*done)(struct return_job *))
{
    w->info = *info;
    w->write = true;
    spill_job_send(w, done);
}
