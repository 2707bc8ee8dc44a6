/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to spill*.c. */
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/disk/namespace.h"
#include "daemon/cache/spill-config.h"
#include "daemon/jobs/returns.h"

struct kv_cache;

struct spill {
    struct spill_config config;
    struct job_returns *jobs;
    struct namespace_secret secret;
    uint8_t identity[16];
    struct disk *disk; /* NULL: not open yet, or none */
    bool given_up;     /* there will be none */
    uint64_t payload;  /* bytes of a block */
    uint32_t writes;   /* jobs under way */
    uint64_t retry;    /* no write before this, us */
    uint64_t last_step, last_step_at;
    bool all_written;
    bool trimming;
    uint64_t trim_next;               /* us */
    struct disk *states;              /* of the recurrent states; NULL: not open yet, or none */
    uint32_t state_jobs;              /* under way */
    uint64_t state_retry, state_trim; /* no write, no search for files to remove before, us */
};

/* Open the disk and index its files, once the model's identity is known. Again it does nothing. */
void spill_open(struct kv_cache *c);
