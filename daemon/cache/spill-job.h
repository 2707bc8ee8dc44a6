/* SPDX-License-Identifier: MIT */
#pragma once
/* A job that removes files of a disk, writes one, or both. Private to spill*.c. */
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/prefix/prefix.h"
#include "daemon/jobs/returns.h"

#define SPILL_REMOVALS 64u /* files that one job removes at most */

struct kv_cache;

struct spill_job {
    struct return_job job;
    struct kv_cache *cache;
    struct disk *disk;
    uint32_t n_victims;
    struct prefix_id victims[SPILL_REMOVALS]; /* their files are removed first */
    bool write;
    struct prefix_info info; /* of the KV block or the state that is written */
    int r;                   /* of the write: 0, 1 (no room any more) or -errno */
    char why[160];           /* if it is -errno */
    uint8_t payload[];       /* what is written; the caller fills it in */
};

#define spill_job_of(x) ((struct spill_job *)((char *)(x)-offsetof(struct spill_job, job)))

/* A job for @disk with room for @payload bytes. NULL: no memory. It is freed by free. */
struct spill_job *spill_job_new(struct kv_cache *c, struct disk *disk, uint64_t payload);
/* The job will remove this file. At most SPILL_REMOVALS times. */
void spill_job_remove(struct spill_job *w, struct prefix_id id);
/* Start the job. @done runs in the engine's thread and frees it. */
void spill_job_send(struct spill_job *w, void (*done)(struct return_job *));
/* The same, and the job writes its payload as @info's. */
void spill_job_write(struct spill_job *w, const struct prefix_info *info, void (*done)(struct return_job *));
