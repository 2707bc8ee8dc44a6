/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The engine: one thread that owns the model's state, all sequences and the KV cache, and steps over every live
 * sequence at once. It is talked to through one bounded queue each way and an eventfd; it never sees a socket.
 * All functions here are called from one other thread (the loop's) unless they say otherwise.
 */
#include "daemon/request/config.h"
#include "daemon/request/event-queue.h"
#include <sys/types.h>

struct engine;

/* Can @c be taken over by engine_configure? 0, also while the model loads; -EINVAL with an error message: it needs a
 * draft model, and none is loaded. */
int engine_check(struct engine *e, const struct engine_config *c);
/* Take over what of @c can change in an engine that runs: queue, queue_timeout_usec, batch_window_usec, cache_bytes
 * (from and to more than 0), session_bytes, session_count, disk_reserve and session_ttl_usec. @pending: names of
 * settings that wait for a restart, for status; NULL: none. 0, or -ENOMEM when there is none for @pending; the rest is
 * done. */
int engine_configure(struct engine *e, const struct engine_config *c, const char *pending);
/* The configuration could not be read again, for status. */
void engine_configure_failed(struct engine *e, const char *why);

/* Makes the engine and starts its thread, which loads the model. Copies @c (not the strings). */
int engine_new(struct engine **out, const struct engine_config *c);
/* Ends the thread (running answers end without an event) and waits for it. KV that is not on disk is written, for
 * @flush_usec at most. NULL ok, returns NULL. */
struct engine *engine_close(struct engine *e, uint64_t flush_usec);
struct engine *engine_free(struct engine *e); /* without a flush */

/* Readable when events wait or the state changed. */
int engine_fd(const struct engine *e);
/* @why (may be NULL): for ENGINE_FAILED the error message; valid as long as the engine. */
enum engine_state engine_state(struct engine *e, const char **why);

/*
 * Any request but hello, cancel and stop, of @uid on connection @conn. On 0 the engine takes what @r holds (and leaves
 * it zero); on error the caller still owns it: -EBUSY queue full, -ESHUTDOWN draining. Requests sent while the model
 * loads wait for it.
 */
int engine_submit(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *r);

/* False for uids of the range that has the numbers of named users. Any thread. */
bool engine_serves(uid_t uid);
/* The number of the user @name of @gateway; see request/named-users.h. Any thread. */
int engine_named_user(struct engine *e, uid_t gateway, const struct proto_text *name, uid_t *out);

/* End request @id of @conn within one step; it answers with done(cancel). */
void engine_cancel(struct engine *e, uint64_t conn, uint64_t id);

/* The peer of @conn has closed it: request @id ends as by engine_cancel, unless it is detached. Its last event comes in
 * any case. */
void engine_abandon(struct engine *e, uint64_t conn, uint64_t id);

/* The reader of @conn is slow, or no longer slow: its sequences pause, or continue. */
void engine_pause(struct engine *e, uint64_t conn, bool pause);

/* Next event, or false. Clears the eventfd when the queue is empty. */
bool engine_poll(struct engine *e, struct engine_event *out);

/* Under memory pressure: evict a part of the KV blocks that no sequence uses and return their memory to the system, and
 * unload all sessions that no request uses and that are on disk. Running sequences keep their blocks. Any thread. */
void engine_shed(struct engine *e);

/* Refuse new requests. Accepted requests are served. */
void engine_drain(struct engine *e);

/* Requests that are queued, being prepared or running. */
uint32_t engine_load(struct engine *e);
/* The detached ones of these, which continue without a client. */
uint32_t engine_detached(struct engine *e);
/* Steps done since start; for the watchdog. Any thread. */
uint64_t engine_progress(struct engine *e);
