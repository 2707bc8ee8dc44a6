/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The engine: one thread that owns the model's state, all sequences and the KV cache, and steps over every live
 * sequence at once. It is talked to through one bounded queue each way and an eventfd; it never sees a socket.
 * All functions here are called from one other thread (the loop's) unless they say otherwise.
 */
#include "kernels/kernels.h"
#include "libcommon/proto.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct engine;

struct engine_config {
    char *model_path;  /* owned by whoever made the config; must outlive the engine */
    char *model_name;  /* for messages and status */
    uint32_t ctx;      /* 0: the model's, at most 32768 */
    uint32_t parallel; /* sequences at once */
    uint32_t threads;  /* 0: physical cores */
    uint64_t kv_bytes; /* 0: a quarter of available memory */
    enum kern_kv kv_type;
    uint32_t queue; /* requests waiting for a slot */
    uint64_t queue_timeout_usec;
    uint32_t batch_tokens; /* most tokens of a step */
    uint64_t batch_window_usec;
    const char *cpu; /* HOB_CPU, or NULL */
    /* owned as model_path; NULL: nowhere */
    char *packed_dir;          /* where packed weights are kept for the next start */
    char *state_dir;           /* sessions, and the secret of the cache's namespaces */
    char *cache_dir;           /* KV */
    char *prefixes_dir;        /* *.txt there: system prompts that are kept warm for everybody */
    uint64_t cache_bytes;      /* of KV there; 0: none */
    uint64_t session_bytes;    /* on disk, of the sessions of a user; 0: no limit */
    uint32_t session_count;    /* of a user */
    uint64_t disk_reserve;     /* free space that neither sessions nor KV take; at most a twentieth of the disk */
    uint64_t session_ttl_usec; /* sessions that are not used for so long go; 0: they stay */
};

void engine_config_init(struct engine_config *c); /* the defaults of hobd.conf(5) */

/* Take over what of @c can change in an engine that runs: queue, queue_timeout_usec, batch_window_usec, cache_bytes
 * (from and to more than 0), session_bytes, session_count, disk_reserve and session_ttl_usec. @pending: names of
 * settings that wait for a restart, for status; NULL: none. 0, or -ENOMEM when there is none for @pending; the rest is
 * done. */
int engine_configure(struct engine *e, const struct engine_config *c, const char *pending);
/* The configuration could not be read again, for status. */
void engine_configure_failed(struct engine *e, const char *why);

/* What comes out: an event for request ev.id of connection @conn. The taker calls proto_event_fini. */
struct engine_event {
    uint64_t conn;
    bool last; /* nothing more comes for this request */
    struct proto_event ev;
};

enum engine_state { ENGINE_LOADING, ENGINE_READY, ENGINE_FAILED };

/* Makes the engine and starts its thread, which loads the model. Copies @c (not the strings). */
int engine_new(struct engine **out, const struct engine_config *c);
/* Ends the thread (running answers end without an event) and waits for it; what is not on disk of the KV is written,
 * for
 * @flush_usec at most. NULL ok, returns NULL. */
struct engine *engine_close(struct engine *e, uint64_t flush_usec);
struct engine *engine_free(struct engine *e); /* without a flush */

/* Readable when events wait or the state changed. */
int engine_fd(const struct engine *e);
/* @why (may be NULL): for ENGINE_FAILED the sentence; valid as long as the engine. */
enum engine_state engine_state(struct engine *e, const char **why);

/*
 * Any request but hello, cancel and stop, of @uid on connection @conn. On 0 the engine takes what @r holds (and leaves
 * it zero); on error the caller still owns it: -EBUSY queue full, -ESHUTDOWN draining. Requests sent while the model
 * loads wait for it.
 */
int engine_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *r);

/* End request @id of @conn within one step; it answers with done(cancel). */
void engine_cancel(struct engine *e, uint64_t conn, uint64_t id);

/* The peer of @conn is gone: its request @id ends as by engine_cancel, unless it was to go on without (detach). Its
 * last event comes in any case. */
void engine_abandon(struct engine *e, uint64_t conn, uint64_t id);

/* The reader of @conn is slow (or no longer): its sequences pause (go on). */
void engine_pause(struct engine *e, uint64_t conn, bool pause);

/* Next event, or false. Clears the eventfd when the queue is empty. */
bool engine_poll(struct engine *e, struct engine_event *out);

/* Memory is short: a part of the KV blocks that no sequence uses goes, the least recently used first, and their memory
 * goes back to the system; so do all sessions that no request uses and that are on disk. Running sequences keep theirs.
 * Any thread. */
void engine_shed(struct engine *e);

/* Accept nothing new. What was accepted is served. */
void engine_drain(struct engine *e);

/* Requests that are queued, being prepared or running. */
uint32_t engine_load(struct engine *e);
/* Those of them that go on without their peer. */
uint32_t engine_detached(struct engine *e);
/* Steps done since start; for the watchdog. Any thread. */
uint64_t engine_progress(struct engine *e);
