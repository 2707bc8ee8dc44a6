/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How often a file may be written: a token bucket that holds a minute's worth (at least one file), kept as the time at
 * which it will be full again. Times are nanoseconds of a clock that never goes backwards. Not locked.
 */
#include <stdbool.h>
#include <stdint.h>

struct disk_rate {
    uint64_t cost; /* of a file, in time; 0: no limit */
    uint64_t room; /* of the bucket */
    uint64_t full; /* when */
};

void disk_rate_init(struct disk_rate *r, uint64_t file_bytes, uint64_t bytes_a_minute); /* 0: no limit */
bool disk_rate_ready(const struct disk_rate *r, uint64_t now);
/* One file. Those that did not ask make a debt, never more than one bucket. */
void disk_rate_spend(struct disk_rate *r, uint64_t now);
