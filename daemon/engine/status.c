/* SPDX-License-Identifier: MIT */
/* What `hob status` shows: sums for root and the daemon's own uid, for others their own share. */
#include "daemon/engine/state.h"
#include "libcommon/error.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static void set_int(json_t *o, const char *key, uint64_t v)
{
    json_object_set_new(o, key, json_integer((json_int_t)v));
}

static void set_str(json_t *o, const char *key, const char *s)
{
    json_t *v = s ? json_string(s) : NULL; /* NULL too when it is not UTF-8 */
    json_object_set_new(o, key, v ? v : json_null());
}

/* @all: of everybody. *total (may be NULL): the sums. */
static void add_counts(json_t *o, struct engine *e, uid_t uid, bool all, struct tally *total)
{
    uint64_t running = 0, queued = 0, bytes;
    for (const struct seq *s = e->all.head; s; s = s->next) {
        if ((!all && s->uid != uid) || s->req.type == PROTO_STATUS) continue;
        if (s->state == SEQ_RUNNING)
            running++;
        else if (s->state != SEQ_ENDED)
            queued++;
    }
    set_int(o, "running", running);
    set_int(o, "queued", queued);
    size_t sessions = 0;
    if (e->sessions) session_count(e->sessions, all ? (uid_t)-1 : uid, &sessions, &bytes);
    set_int(o, "sessions", sessions);
    struct tally sum = {0};
    for (const struct tally *t = e->tallies; t; t = t->next)
        if (all || t->uid == uid) tally_add(&sum, t);
    if (all) tally_add(&sum, &e->forgotten);
    if (total) *total = sum;
    set_int(o, "requests", sum.requests);
    set_int(o, "tokens_prompt", sum.tokens_prompt);
    set_int(o, "tokens_cached", sum.tokens_cached);
    set_int(o, "tokens_generated", sum.tokens_generated);
}

/* What of the prefix cache is @uid's, or with (uid_t)-1 everybody's. */
static void add_blocks(json_t *o, const struct engine *e, uid_t uid, const struct tally *sum)
{
    struct prefix_sum n;
    prefix_count(e->prefix, uid, &n);
    set_int(o, "blocks_memory", n.blocks_memory);
    set_int(o, "blocks_disk", n.blocks_disk);
    set_int(o, "evictions", n.evictions);
    set_int(o, "tokens_found", sum->tokens_cached);
    set_int(o, "tokens_asked", sum->tokens_prompt);
}

static void add_cache(json_t *o, const struct engine *e, uid_t uid, bool all, const struct tally *sum)
{
    json_t *c = json_object();
    struct disk_sum disk;
    uint64_t block = e->model.backend->shape.groups[0].bytes_per_token * PREFIX_BLOCK;
    add_blocks(c, e, all ? (uid_t)-1 : uid, sum);
    set_int(c, "bytes_memory", block * (uint64_t)json_integer_value(json_object_get(c, "blocks_memory")));
    set_int(c, "bytes_disk", block * (uint64_t)json_integer_value(json_object_get(c, "blocks_disk")));
    double rate = sum->tokens_prompt ? (double)sum->tokens_cached / (double)sum->tokens_prompt : 0;
    json_object_set_new(c, "hit_rate", json_real(round(rate * 1000) / 1000));
    set_str(c, "last_miss", sum->last_miss ? sum->last_miss : "");
    json_object_set_new(c, "disk", json_boolean(store_count(e, &disk)));
    if (all) { /* of others one would learn from these */
        set_int(c, "shed", e->shed_blocks);
        set_int(c, "disk_written", disk.written);
        set_int(c, "disk_read", disk.read);
        set_int(c, "disk_damaged", disk.damaged);
    }
    json_object_set_new(o, "cache", c);
}

static void add_uids(json_t *o, struct engine *e)
{
    json_t *list = json_array();
    for (const struct tally *t = e->tallies; t; t = t->next) {
        json_t *u = json_object();
        set_int(u, "uid", t->uid);
        add_counts(u, e, t->uid, false, NULL);
        add_blocks(u, e, t->uid, t);
        json_array_append_new(list, u);
    }
    json_object_set_new(o, "uids", list);
}

static void set_real(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, json_real(round(v * 1000) / 1000));
}

/* Of the last seconds. */
static void add_rates(json_t *o, const struct engine *e)
{
    struct rates_sum s;
    json_t *r = json_object();
    rates_sum(&e->rates, engine_now(), &s);
    set_real(o, "step_ms", s.step_ms);
    set_real(r, "seconds", s.seconds);
    set_int(r, "steps", s.steps);
    set_real(r, "step_ms", s.step_ms);
    set_real(r, "batch", s.batch);
    set_real(r, "prefill_tok_s", s.read);
    set_real(r, "decode_tok_s", s.written);
    json_object_set_new(o, "rolling", r);
}

static void add_model(json_t *o, struct engine *e, bool all)
{
    const struct backend *b = e->model.backend;
    if (!b) return;
    set_str(o, "name", b->shape.name);
    set_str(o, "arch", b->shape.arch);
    set_str(o, "isa", b->isa);
    set_int(o, "threads", b->config.threads);
    set_int(o, "ctx", e->model.ctx);
    set_int(o, "vocab", e->model.vocab);
    set_int(o, "weights_bytes", b->weight_bytes);
    json_object_set_new(o, "weights_mapped", json_boolean(b->weights_mapped));
    set_str(o, "kv_type", kern_kv_name(b->config.kv_type));
    set_int(o, "kv_bytes", b->config.kv_bytes);
    set_int(o, "kv_blocks", b->kv_blocks);
    if (!all) return; /* what others use is not this uid's to know */
    set_int(o, "kv_blocks_free", e->pool ? kv_pool_free_blocks(e->pool) : 0);
    set_int(o, "kv_blocks_unused", e->prefix ? prefix_evictable(e->prefix) : 0);
    set_int(o, "steps", e->steps);
    set_int(o, "preemptions", e->preemptions);
    set_int(o, "tokens_computed", e->computed);
    add_rates(o, e);
}

/* What a person should know, and only while there is something to. With the lock held. */
static void add_notes(json_t *o, const struct engine *e, bool all)
{
    if (e->notes.model) set_str(o, "model_changed", e->notes.model);
    if (all && e->notes.pending) set_str(o, "restart_pending", e->notes.pending);
    if (all && e->notes.failed) set_str(o, "reload_failed", e->notes.failed);
}

int status_json(struct engine *e, uid_t uid, struct proto_text *out)
{
    static const char *const states[] = {
        [ENGINE_LOADING] = "loading", [ENGINE_READY] = "ready", [ENGINE_FAILED] = "failed"};
    bool all = uid == 0 || uid == geteuid(), loaded = e->state != ENGINE_LOADING;
    json_t *o = json_object();
    set_str(o, "state", e->state == ENGINE_READY && e->stopping ? "stopping" : states[e->state]);
    if (e->state == ENGINE_FAILED) set_str(o, "error", e->why);
    set_str(o, "model", e->config.model_name);
    set_str(o, "path", e->config.model_path);
    if (loaded) pthread_mutex_lock(&e->lock);
    add_notes(o, e, all);
    if (loaded) pthread_mutex_unlock(&e->lock);
    set_str(o, "version", HOB_VERSION);
    set_int(o, "pid", (uint64_t)getpid());
    set_int(o, "uptime_s", (engine_now() - e->started) / 1000000);
    set_int(o, "parallel", e->config.parallel);
    set_int(o, "queue", e->config.queue);
    set_int(o, "batch_tokens", e->config.batch_tokens);
    if (loaded) {
        add_model(o, e, all);
        struct tally sum;
        add_counts(o, e, uid, all, &sum);
        if (e->prefix && e->model.backend) add_cache(o, e, uid, all, &sum);
        if (all) add_uids(o, e);
    }
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!text) return -ENOMEM;
    *out = (struct proto_text){.data = text, .len = strlen(text)};
    return 0;
}

int status_beside(struct engine *e, uint64_t conn, uid_t uid, struct proto_request *req)
{
    struct engine_event out = {.conn = conn, .last = true, .ev = {.type = PROTO_EV_STATUS, .id = req->id}};
    bool own = pthread_mutex_trylock(&e->own) == 0;
    if (!own) pthread_mutex_lock(&e->lock);
    int r = own || e->state == ENGINE_LOADING ? status_json(e, uid, &out.ev.status) : 1;
    pthread_mutex_unlock(own ? &e->own : &e->lock);
    if (r != 0) return r;
    pthread_mutex_lock(&e->lock);
    if (queue_full(e->events)) {
        r = error_say(-EBUSY, "too many events wait to be read");
        proto_event_fini(&out.ev);
    } else {
        queue_push(e->events, &out);
        proto_request_fini(req);
    }
    pthread_mutex_unlock(&e->lock);
    return r;
}
