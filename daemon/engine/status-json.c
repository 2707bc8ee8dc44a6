/* SPDX-License-Identifier: MIT */
#include "daemon/engine/state.h"
#include "daemon/engine/status-snapshot.h"
#include "daemon/request/draft-model.h"
#include "daemon/request/named-users.h"
#include "libcommon/hex.h"
#include "libcommon/json-whole.h"
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static void set_int(json_t *o, const char *key, uint64_t v)
{
    json_whole_set(o, key, json_integer((json_int_t)v));
}

static void set_str(json_t *o, const char *key, const char *s)
{
    json_whole_set_str(o, key, s, s ? strlen(s) : 0);
}

static void set_real(json_t *o, const char *key, double v)
{
    json_whole_set(o, key, json_real(round(v * 1000) / 1000));
}

static void add_counts(json_t *o, const struct status_counts *c)
{
    set_int(o, "running", c->running);
    set_int(o, "queued", c->queued);
    set_int(o, "sessions", c->sessions);
    set_int(o, "sessions_bytes", c->sessions_bytes);
    set_int(o, "requests", c->sums.requests);
    set_int(o, "tokens_prompt", c->sums.tokens_prompt);
    set_int(o, "tokens_cached", c->sums.tokens_cached);
    set_int(o, "tokens_generated", c->sums.tokens_generated);
}

/* The recurrent layers; NULL: the model has none. */
static const struct kv_group *recurrent_group(const struct status_snapshot *s)
{
    return hparams_state(&s->engine->core.model.backend->hparams);
}

static void add_blocks(json_t *o, const struct prefix_stats *n, const struct status_counts *c, bool recurrent,
                       bool host)
{
    set_int(o, "blocks_memory", n->blocks_memory);
    if (host) set_int(o, "blocks_host", n->blocks_host);
    set_int(o, "blocks_disk", n->blocks_disk);
    set_int(o, "evictions", n->evictions);
    if (recurrent) {
        set_int(o, "states_memory", n->states_memory);
        if (host) set_int(o, "states_host", n->states_host);
        set_int(o, "states_disk", n->states_disk);
    }
    set_int(o, "tokens_found", c->sums.tokens_cached);
    set_int(o, "tokens_asked", c->sums.tokens_prompt);
}

static void add_cache(json_t *o, const struct status_snapshot *s)
{
    json_t *c = json_object();
    const struct user_counts *sum = &s->counts.sums;
    uint64_t block = s->engine->core.model.backend->hparams.groups[0].bytes_per_token * KV_BLOCK;
    double rate = sum->tokens_prompt ? (double)sum->tokens_cached / (double)sum->tokens_prompt : 0;
    const struct kv_group *states = recurrent_group(s);
    const struct host_pool_stats *host = &s->tiers.host;
    add_blocks(c, &s->cache, &s->counts, states, host->bytes);
    if (states) {
        set_int(c, "states_bytes_memory", states->state_bytes * s->cache.states_memory);
        if (host->bytes) set_int(c, "states_bytes_host", host->states.bytes * s->cache.states_host);
        set_int(c, "states_bytes_disk", states->state_bytes * s->cache.states_disk);
    }
    set_int(c, "bytes_memory", block * s->cache.blocks_memory);
    if (host->bytes) set_int(c, "bytes_host", host->blocks.bytes * s->cache.blocks_host);
    set_int(c, "bytes_disk", block * s->cache.blocks_disk);
    json_whole_set(c, "hit_rate", json_real(round(rate * 1000) / 1000));
    set_str(c, "last_miss", sum->last_miss ? sum->last_miss : "");
    json_whole_set(c, "disk", json_boolean(s->disk));
    if (s->all) { /* of others one would learn from these */
        set_int(c, "shed", s->kv.shed_blocks);
        set_int(c, "disk_written", s->tiers.disk.written);
        set_int(c, "disk_read", s->tiers.disk.read);
        set_int(c, "disk_damaged", s->tiers.disk.damaged);
    }
    json_whole_set(o, "cache", c);
}

/* accept_rate: null before the first token. */
static void add_drafted(json_t *x, uint64_t drafted, uint64_t accepted)
{
    set_int(x, "drafted", drafted);
    set_int(x, "accepted", accepted);
    json_whole_set(x, "accept_rate", json_null());
    if (drafted) set_real(x, "accept_rate", (double)accepted / (double)drafted);
}

/* null: there is none. */
static void add_draft_model(json_t *o, const struct status_snapshot *s)
{
    const struct draft_model *d = s->engine->core.model.draft;
    const struct model_draft_stats *n = &s->kv.draft;
    json_t *x = d ? json_object() : json_null();
    json_whole_set(o, "draft_model", x);
    if (!d) return;
    set_str(x, "name", d->hparams.name);
    const char *path = s->engine->core.config.speculation.draft;
    set_str(x, "path", d->mtp ? s->engine->core.config.model_path : path);
    json_whole_set(x, "mtp", json_boolean(d->mtp));
    set_int(x, "weights_bytes", d->backend->weight_bytes);
    set_int(x, "kv_bytes", d->backend->config.kv_bytes);
    add_drafted(x, s->counts.sums.model_drafted, s->counts.sums.model_accepted);
    if (!s->all) return; /* what others use is not this uid's to know */
    set_int(x, "kv_blocks", n->blocks);
    set_int(x, "kv_blocks_free", n->blocks_free);
    set_int(x, "passes", n->passes);
    set_int(x, "tokens_computed", n->tokens);
    set_real(x, "pass_ms", n->step_ms);
}

static void add_adapters(json_t *o, const struct status_snapshot *s)
{
    const struct adapters *a = &s->engine->core.model.adapters;
    json_t *list = json_array();
    uint64_t sum = 0;
    for (size_t i = 0; i < a->n; i++) {
        const struct named_adapter *x = &a->list[i];
        json_t *u = json_object();
        uint32_t rank = 0;
        for (size_t k = 0; k < x->file->n_pairs; k++)
            if (x->file->pairs[k].rank > rank) rank = x->file->pairs[k].rank;
        set_str(u, "name", x->name);
        set_int(u, "rank", rank);
        set_int(u, "matrices", x->file->n_pairs);
        json_whole_set(u, "activated", json_boolean(x->file->n_invocation > 0));
        set_int(u, "bytes_memory", x->bytes);
        json_whole_append(list, u);
        sum += x->bytes;
    }
    set_int(o, "adapters_bytes", sum);
    json_whole_set(o, "adapters", list);
}

/* Proposed tokens since the start. */
static void add_speculation(json_t *o, const struct status_snapshot *s)
{
    const struct user_counts *c = &s->counts.sums;
    json_t *x = json_object();
    uint64_t tokens = c->passes + c->tokens_accepted;
    add_drafted(x, c->tokens_drafted, c->tokens_accepted);
    set_real(x, "tokens_pass", c->passes ? (double)tokens / (double)c->passes : 0);
    set_int(x, "bytes_memory", s->own.speculation_bytes);
    json_whole_set(o, "speculation", x);
}

static void add_own(json_t *o, const struct status_snapshot *s)
{
    json_t *own = json_object();
    set_int(own, "sessions", s->own.sessions);
    set_int(own, "sessions_bytes", s->own.bytes);
    set_int(own, "sessions_max_bytes", s->own.bytes_max);
    set_int(own, "constraints", s->own.constraints);
    set_int(own, "constraints_bytes", s->own.constraints_bytes);
    json_whole_set(o, "own", own);
}

/* null: the counters are not readable. */
static void add_energy(json_t *o, const struct status_snapshot *s)
{
    json_t *x = s->energy.known ? json_object() : json_null();
    if (s->energy.known) {
        set_real(x, "joules", s->counts.sums.joules);
        set_real(x, "joules_saved", s->counts.sums.joules_saved);
    }
    if (s->energy.known && s->all) { /* the idle power has the work of others in it */
        set_real(x, "idle_watts", s->energy.idle_watts);
        json_whole_set(x, "joules_prompt_token", json_real(s->energy.prompt_token));
        json_whole_set(x, "joules_answer_token", json_real(s->energy.answer_token));
    }
    json_whole_set(o, "energy", x);
}

/* A user whom a gateway names has the gateway's uid and a name. */
static void add_uid(json_t *u, const struct status_snapshot *s, uid_t uid)
{
    char name[PROTO_USER_MAX + 1];
    bool named = named_users_find(s->engine->core.mail.named_users, uid, &uid, name);
    set_int(u, "uid", uid);
    if (named) set_str(u, "user", name);
}

static void add_uids(json_t *o, const struct status_snapshot *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_uids; i++) {
        json_t *u = json_object();
        add_uid(u, s, s->uids[i].uid);
        add_counts(u, &s->uids[i].counts);
        add_blocks(u, &s->uids[i].cache, &s->uids[i].counts, recurrent_group(s), s->tiers.host.bytes);
        if (s->energy.known) set_real(u, "joules", s->uids[i].counts.sums.joules);
        json_whole_append(list, u);
    }
    json_whole_set(o, "uids", list);
}

/* Of the last seconds. */
static void add_rates(json_t *o, const struct rates_sum *s)
{
    json_t *r = json_object();
    set_real(o, "step_ms", s->step_ms);
    set_real(r, "seconds", s->seconds);
    set_int(r, "steps", s->steps);
    set_real(r, "step_ms", s->step_ms);
    set_real(r, "batch", s->batch);
    set_real(r, "prefill_tok_s", s->read);
    set_real(r, "decode_tok_s", s->written);
    add_drafted(r, s->drafted, s->accepted);
    json_whole_set(o, "rolling", r);
}

/* null: the model takes no images. */
static void add_encoder(json_t *o, const struct status_snapshot *s)
{
    const struct media_stats *m = &s->media;
    char identity[2 * sizeof(m->identity) + 1];
    json_t *x = s->has_media ? json_object() : json_null();
    json_whole_set(o, "encoder", x);
    if (!s->has_media) return;
    hex_write(identity, m->identity, sizeof(m->identity));
    set_str(x, "projector", m->projector);
    set_str(x, "identity", identity);
    set_int(x, "bytes", m->encoder_bytes);
    if (!s->all) return; /* what others send is not this uid's to know */
    set_int(x, "media_encoded", m->counts.encoded);
    set_int(x, "media_cached", m->counts.cached);
    set_int(x, "cache_bytes", m->cache_bytes);
    set_int(x, "cache_runs", m->cache_runs);
    set_int(x, "cache_disk_bytes", m->disk_bytes);
    set_int(x, "cache_disk_runs", m->disk_runs);
    set_int(x, "pixel_bytes", m->pixel_bytes);
}

/* null: the model gives texts no vectors. */
static void add_embeddings(json_t *o, const struct status_snapshot *s)
{
    const struct hparams *h = &s->engine->core.model.backend->hparams;
    json_t *x = h->embedding.pooling ? json_object() : json_null();
    json_whole_set(o, "embeddings", x);
    if (!h->embedding.pooling) return;
    set_str(x, "pooling", pooling_name(h->embedding.pooling));
    set_int(x, "dims", s->engine->core.vectors.dim);
    set_int(x, "entries", s->kv.vectors.n);
    set_int(x, "bytes_memory", s->kv.vectors.bytes);
    set_int(x, "found", s->kv.vectors.found);
    set_int(x, "computed", s->kv.vectors.missed);
}

/* Memory of the KV groups: all of it, and that of the blocks that are not free. */
static void add_groups(json_t *o, const struct status_snapshot *s)
{
    const struct backend *b = s->engine->core.model.backend;
    json_t *list = json_array();
    uint64_t sum = 0;
    for (uint32_t g = 0; g < b->hparams.n_groups; g++) {
        const struct kv_group *group = &b->hparams.groups[g];
        const uint64_t block = kv_group_payload(group);
        const uint64_t used = b->kv_blocks[g] > s->kv.blocks_free[g] ? b->kv_blocks[g] - s->kv.blocks_free[g] : 0;
        json_t *x = json_object();
        set_int(x, "layers", group->n_layers);
        set_int(x, "window", group->window);
        set_int(x, "blocks", b->kv_blocks[g]);
        set_int(x, "blocks_used", used);
        set_int(x, "bytes", b->kv_blocks[g] * block);
        set_int(x, "bytes_used", used * block);
        json_whole_append(list, x);
        sum += used * block;
    }
    set_int(o, "kv_bytes_used", sum);
    json_whole_set(o, "kv_groups", list);
}

static void add_model(json_t *o, const struct status_snapshot *s)
{
    const struct backend *b = s->engine->core.model.backend;
    set_str(o, "name", b->hparams.name);
    set_str(o, "arch", b->hparams.arch);
    set_str(o, "isa", b->isa);
    set_int(o, "threads", b->config.threads);
    set_int(o, "ctx", s->engine->core.model.ctx);
    set_int(o, "vocab", s->engine->core.model.vocab);
    set_int(o, "weights_bytes", b->weight_bytes);
    json_whole_set(o, "weights_mapped", json_boolean(b->weights_mapped));
    set_str(o, "kv_type", kern_kv_name(b->config.kv_type));
    set_int(o, "kv_bytes", b->config.kv_bytes);
    set_int(o, "kv_blocks", b->kv_blocks[0]);
    const struct kv_group *states = recurrent_group(s);
    const struct host_pool_stats *host = &s->tiers.host;
    if (host->bytes) {
        set_int(o, "kv_host_bytes", host->bytes);
        set_int(o, "kv_host_blocks", host->blocks.slots);
    }
    if (host->bytes && states) set_int(o, "kv_host_states", host->states.slots);
    if (states) {
        set_int(o, "states", b->kv_blocks[b->hparams.n_groups - 1]);
        set_int(o, "state_bytes", states->state_bytes);
    }
    if (!s->all) return; /* what others use is not this uid's to know */
    if (host->bytes) {
        set_int(o, "kv_host_blocks_free", host->blocks.free);
        set_int(o, "kv_host_taken_bytes", host->bytes_taken);
    }
    if (host->bytes && states) set_int(o, "kv_host_states_free", host->states.free);
    set_int(o, "kv_blocks_free", s->kv.blocks_free[0]);
    set_int(o, "kv_blocks_unused", s->kv.blocks_unused);
    if (states) set_int(o, "states_free", s->kv.states_free);
    add_groups(o, s);
    set_int(o, "steps", s->kv.steps);
    set_int(o, "preemptions", s->kv.preemptions);
    set_int(o, "tokens_computed", s->kv.computed);
    add_rates(o, &s->rates);
}

char *status_json(const struct status_snapshot *s)
{
    static const char *const states[] = {
        [ENGINE_LOADING] = "loading", [ENGINE_READY] = "ready", [ENGINE_FAILED] = "failed"};
    const struct engine_config *c = &s->engine->core.config;
    json_t *o = json_object();
    set_str(o, "state", s->state == ENGINE_READY && s->stopping ? "stopping" : states[s->state]);
    if (s->state == ENGINE_FAILED) set_str(o, "error", s->error);
    set_str(o, "model", c->model_name);
    set_str(o, "path", c->model_path);
    /* Warnings, each only while it applies. */
    if (s->model_changed) set_str(o, "model_changed", s->model_changed);
    if (s->pending) set_str(o, "restart_pending", s->pending);
    if (s->failed) set_str(o, "reload_failed", s->failed);
    set_str(o, "version", HOB_VERSION);
    set_int(o, "pid", (uint64_t)getpid());
    set_int(o, "uptime_s", s->uptime_usec / 1000000);
    set_int(o, "parallel", c->parallel);
    set_int(o, "queue", s->queue);
    set_int(o, "batch_tokens", c->batch_tokens);
    if (s->has_model) add_model(o, s);
    if (s->state != ENGINE_LOADING) add_counts(o, &s->counts);
    if (s->has_model) add_encoder(o, s);
    if (s->has_model) add_embeddings(o, s);
    if (s->has_model) add_energy(o, s);
    if (s->has_model) add_speculation(o, s);
    if (s->has_model) add_draft_model(o, s);
    if (s->has_model && s->engine->core.model.adapters.n) add_adapters(o, s);
    if (s->has_cache) add_cache(o, s);
    if (s->state != ENGINE_LOADING) add_own(o, s);
    if (s->all && s->state != ENGINE_LOADING) add_uids(o, s);
    return json_whole_text(o);
}
