/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Images in prompts: decoders, caches and encodings of an engine whose model has an encoder. The engine's thread owns
 * it; @pool, @memo, @pixels and @disk are for any thread.
 */
#include "daemon/cache/media/media-cache.h"
#include "daemon/jobs/returns.h"
#include <stdatomic.h>
#include <stdbool.h>

struct core;
struct encode_work;
struct media_disk;
struct media_helper;
struct media_memo;
struct pixel_budget;

/* Sums since the start. */
struct media_counts {
    uint64_t encoded; /* images that the encoder computed */
    uint64_t cached;  /* images of requests that it did not have to compute */
    uint64_t slices;
};

/* What is said where there is no helper. */
#define MEDIA_NO_HELPER "images cannot be decoded: hobd-decode is missing or did not start; see the daemon's log"

struct media_room {
    struct media_helper *helper; /* borrowed; NULL: hobd-decode did not start, for which the log has the error */
    struct job_pool *pool;       /* decodes, so that slow files delay no other jobs */
    struct media_memo *memo;
    struct pixel_budget *pixels;
    struct media_cache cache;
    struct media_disk *disk;      /* NULL: none */
    struct encode_work *works;    /* the oldest first */
    uint32_t active;              /* works that are computed */
    uint32_t decoding;            /* works whose file is decoded again, or was */
    uint32_t writes;              /* jobs that write to @disk */
    _Atomic uint64_t write_until; /* monotonic us; later they only return */
    struct media_counts counts;
};

struct media_stats {
    const char *projector;
    uint8_t identity[16];
    uint64_t encoder_bytes, cache_bytes, cache_runs, disk_bytes, disk_runs, pixel_bytes;
    struct media_counts counts;
};

/* Set core->media if the model has an encoder. 0; -ENOMEM; -EAGAIN: no thread can be started; with an error message. */
int media_room_new(struct core *core);
/* The engine stops: end all decoding at once, and writing to the disk at @write_until (monotonic us), so that its jobs
 * return soon. */
void media_room_stop(struct core *core, uint64_t write_until);
/* No job is under way, and no request is left. */
void media_room_free(struct core *core);

/* False: the model has no encoder. */
bool media_room_stats(const struct core *core, struct media_stats *out);
/* The key of a run of @namespace. */
struct media_key media_key_of(const uint8_t namespace[16], const uint8_t digest[16]);
