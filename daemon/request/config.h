/* SPDX-License-Identifier: MIT */
#pragma once
/* The configuration of an engine: the keys of hobd.conf(5) that concern the model, its caches and its queue. */
#include "daemon/model/device.h"
#include "kernels/kernels.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stdint.h>

struct media_helper;

struct session_config {
    uint64_t bytes;    /* limit on disk for the sessions of one user; 0: no limit */
    uint32_t count;    /* limit of sessions of one user */
    uint64_t ttl_usec; /* sessions unused for this long are removed; 0: never */
};

/* Images in prompts. */
struct media_config {
    char *mmproj;                /* the encoder's file; NULL: none */
    uint64_t cache_bytes;        /* embeddings in memory */
    struct media_helper *helper; /* decodes files; NULL: none; borrowed, no key sets it */
};

/* Proposed tokens. */
struct speculation_config {
    enum proto_speculate mode; /* what may propose tokens: of requests with more, that is done */
    char *draft;               /* the draft model's file; NULL: the model's MTP layer, if it has one */
    bool no_mtp;               /* or not even that */
};

/* Adapters of the model. */
struct adapter_config {
    struct {
        char *name, *path;
        bool required; /* without it the model is not served */
    } * list;          /* [n] */
    size_t n;
};

/* What is kept of weights for the next start. */
struct packed_config {
    char *dir;    /* fingerprints of models, and packed weights; NULL: neither is kept */
    bool no_file; /* the packed weights are in memory only */
};

#define KV_HOST_DEFAULT UINT64_MAX /* of kv_host_bytes: as load_host_bytes says */

struct engine_config {
    char *model_path;  /* this and all other strings belong to the creator of the config and must outlive the engine */
    char *model_name;  /* for messages and status */
    uint32_t ctx;      /* 0: the model's, at most 32768 */
    uint32_t parallel; /* sequences at once */
    uint32_t threads;  /* 0: as many as suit the CPUs that the process may use */
    struct device_choice device; /* as in struct backend_config, also no_numa */
    bool no_numa, one_group;     /* one_group: layers with a window keep all positions, too; no key sets it */
    int nice;                    /* of the engine's, compute and job threads; 0: as the process was started */
    uint64_t kv_bytes, kv_host_bytes, vector_bytes; /* 0: a quarter of available memory; with a device: of KV in host
                                                     * memory; vectors of texts in memory; 0: none */
    uint32_t state_share;                           /* percent of them for the states of recurrent layers */
    enum kern_kv kv_type;
    uint32_t queue, batch_tokens; /* requests waiting for a slot; most tokens of a step, 0: the backend's default */
    uint64_t queue_timeout_usec, batch_window_usec;
    struct speculation_config speculation;
    const char *cpu;  /* HOB_CPU, or NULL */
    const char *root; /* prepended to the paths of the energy counters, or NULL; no key sets it */
    struct media_config media;
    struct adapter_config adapters;
    /* directories; NULL: none */
    struct packed_config packed;
    char *state_dir;       /* sessions, and the secret of the cache's namespaces */
    char *cache_dir;       /* KV blocks */
    char *prefixes_dir;    /* its *.txt are system prompts that are kept warm for all users */
    uint64_t cache_bytes;  /* limit of KV in cache_dir; 0: none is written */
    uint64_t disk_reserve; /* free space that neither sessions nor KV use; at most a twentieth of the file system */
    struct session_config sessions;
};

void engine_config_init(struct engine_config *c); /* the defaults of hobd.conf(5) */

enum engine_state { ENGINE_LOADING, ENGINE_READY, ENGINE_FAILED };
