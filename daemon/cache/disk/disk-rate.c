/* SPDX-License-Identifier: MIT */
#include "daemon/cache/disk/disk-rate.h"

#define MINUTE   60000000000u
#define COST_MAX ((uint64_t)1 << 60) /* 36 years: the sum of a few such times does not overflow */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void disk_rate_init(struct disk_rate *r, uint64_t file_bytes, uint64_t bytes_a_minute)
{
    *r = (struct disk_rate){0};
    if (!bytes_a_minute) return;
    double cost = (double)file_bytes * (double)MINUTE / (double)bytes_a_minute;
    r->cost = cost < (double)COST_MAX ? (uint64_t)cost : COST_MAX;
    r->room = later(r->cost, MINUTE);
}

bool disk_rate_ready(const struct disk_rate *r, uint64_t now)
{
    return r->full + r->cost <= now + r->room;
}

void disk_rate_spend(struct disk_rate *r, uint64_t now)
{
    uint64_t full = later(r->full, now) + r->cost, most = now + 2 * r->room;
    r->full = full < most ? full : most;
}
