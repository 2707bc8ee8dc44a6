/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The limit on the rate of writes: a token bucket that holds the tokens of one minute, or of one file if that is more.
 * The state is the time at which the bucket is full again. All times are in nanoseconds of a clock that never goes
 * back. The struct owns nothing and has no lock.
 */
#include <stdbool.h>
#include <stdint.h>

struct disk_rate {
    uint64_t cost; /* time in which the tokens of one file flow in; 0: no limit */
    uint64_t room; /* time in which the empty bucket becomes full */
    uint64_t full; /* the time at which the bucket is full */
};

/* Makes a full bucket for files of @file_bytes. @bytes_a_minute 0: no limit. */
void disk_rate_init(struct disk_rate *r, uint64_t file_bytes, uint64_t bytes_a_minute);
/* True: the bucket has the tokens of one file. */
bool disk_rate_ready(const struct disk_rate *r, uint64_t now);
/* Takes the tokens of one file, whether or not the bucket has them. A debt is at most one bucket. */
void disk_rate_spend(struct disk_rate *r, uint64_t now);
