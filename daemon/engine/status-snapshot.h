/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The data of `hob status`: sums for root and the daemon's own uid, the own share for other users. The engine's thread
 * only copies its numbers, which takes microseconds; a job formats the answer from the copy.
 */
#include "daemon/cache/disk/disk.h"
#include "daemon/cache/host-pool.h"
#include "daemon/cache/prefix/prefix.h"
#include "daemon/cache/vectors/vector-cache.h"
#include "daemon/request/config.h"
#include "daemon/request/media-room.h"
#include "daemon/request/model-draft.h"
#include "daemon/request/rates.h"
#include "daemon/request/user.h"
#include <sys/types.h>

struct engine;
struct event_node;

/* A request that waits for its answer. */
struct status_request {
    struct status_request *next;
    struct event_node *node; /* for the answer */
    uint64_t conn, id, since;
    uid_t uid;
};

/* Sums of requests: of one uid, or of all. */
struct status_counts {
    uint64_t running, queued, sessions, sessions_bytes;
    struct user_counts sums;
};

struct status_uid {
    uid_t uid;
    uint32_t nth; /* who asked last is the first */
    struct status_counts counts;
    struct prefix_stats cache;
};

/* Behind the memory of the cache. */
struct status_tiers {
    struct host_pool_stats host; /* all 0: there is none */
    struct disk_stats disk;      /* of KV blocks and of recurrent states */
};

/* Strings are static, or as long as the engine. */
struct status_snapshot {
    uid_t uid;
    bool all; /* what everybody does may be told */
    enum engine_state state;
    bool stopping, has_model, has_cache, has_media, disk;
    const struct engine *engine; /* for what never changes once the model is loaded */
    const char *model_changed;
    char *error, *pending, *failed; /* owned */
    uint64_t uptime_usec;
    uint32_t queue;
    struct {
        uint64_t blocks_free[KV_GROUPS_MAX], blocks_unused, states_free, shed_blocks, steps, preemptions, computed;
        struct model_draft_stats draft; /* if there is a draft model */
        struct vector_stats vectors;    /* of texts: the asker's, or of all */
    } kv;
    struct rates_sum rates;
    struct {
        bool known;
        double idle_watts, prompt_token, answer_token; /* as in struct energy */
    } energy;
    struct status_counts counts;
    struct media_stats media;
    struct {
        uint64_t sessions, bytes, bytes_max, constraints, constraints_bytes, speculation_bytes;
    } own; /* what the asker's own sessions take on disk, and compiled constraints in memory, also for one who sees sums
              of all */
    struct prefix_stats cache;
    struct status_tiers tiers;
    struct status_uid *uids; /* [n_uids], owned */
    size_t n_uids;
};

/* The caller holds core.own, or core.mail.lock while the model loads. 0 or -ENOMEM; call fini in either case. */
int status_take(struct engine *e, uid_t uid, struct status_snapshot *out);
void status_snapshot_fini(struct status_snapshot *s);
/* A JSON object as text, which the caller frees; NULL: no memory. Any thread. */
char *status_json(const struct status_snapshot *s);
