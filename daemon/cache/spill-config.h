/* SPDX-License-Identifier: MIT */
#pragma once
/* The configuration of the tiers behind the backend's memory. */
#include <stdint.h>

struct spill_config {
    uint64_t host_bytes;               /* of host memory, with a device; 0: none */
    const char *cache_dir, *state_dir; /* of KV blocks, of the secret; NULL: none. They outlive it */
    uint64_t cache_bytes;              /* limit in cache_dir; 0: nothing is written */
    uint64_t disk_reserve;             /* free bytes that stay free */
};
