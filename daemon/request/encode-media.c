/* SPDX-License-Identifier: MIT */
#include "daemon/request/encode-media.h"
#include "daemon/cache/media/media-disk.h"
#include "daemon/request/encode-work.h"
#include "daemon/request/finish.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

#define AHEAD 3 /* images of a prompt whose embeddings are at hand or being made */

static bool is_cached(struct core *core, const struct seq *s, const struct item_run *run)
{
    const struct media_key key = media_key_of(s->reuse.namespace.bytes, run->digest);
    struct embeddings *e = media_cache_find(&core->media->cache, &key);
    embeddings_unref(e);
    return e || (core->media->disk && media_disk_has(core->media->disk, &key));
}

/* 0: all that is not computed can be had, and computed; -ENODATA; -E2BIG. */
static int check(struct core *core, struct seq *s)
{
    const struct run_list *l = seq_runs(s);
    const struct hparams *h = &core->model.backend->hparams;
    int r = 0;
    for (uint32_t i = l->n; r == 0 && i-- > 0 && l->runs[i].at + l->runs[i].n > s->kv.n_tokens;) {
        if (!l->embd[i] && !seq_media(s, l->runs[i].digest) && !is_cached(core, s, &l->runs[i]))
            return seq_no_embd(&l->runs[i]);
        r = seq_check_whole(s, h, &l->runs[i], s->kv.n_tokens);
    }
    return r;
}

static void attach(struct seq *s, const uint8_t digest[16], struct embeddings *e)
{
    const struct prompt_media *media = seq_media(s, digest);
    seq_attach_embd(s, digest, e);
    if (media) media_source_drop(media->source); /* nobody encodes it */
}

static bool attach_cached(struct core *core, struct seq *s, const struct item_run *run)
{
    const struct media_key key = media_key_of(s->reuse.namespace.bytes, run->digest);
    struct embeddings *e = media_cache_find(&core->media->cache, &key);
    bool fits = e && e->n == run->n && e->dim == core->model.backend->hparams.dim;
    if (fits) seq_attach_embd(s, run->digest, e);
    embeddings_unref(e);
    return fits;
}

int encode_ahead(struct core *core, struct seq *s)
{
    const struct run_list *l = seq_runs(s);
    const struct prompt_media *last = NULL;
    struct encode_work *w;
    if (!core->media || l->n == 0) return 0;
    seq_drop_embd(s);
    for (uint32_t i = 0, ahead = 0; i < l->n; i++) {
        const struct item_run *run = &l->runs[i];
        if (run->at + run->n <= s->kv.n_tokens) continue;
        const struct prompt_media *media = seq_media(s, run->digest);
        if ((!media || media != last) && ++ahead > AHEAD) break;
        last = media;
        if (l->embd[i] || attach_cached(core, s, run)) continue;
        int r = encode_work_for(core, s, run, &w);
        if (r < 0) return r == -ENOMEM ? error_say(r, "no memory to encode an image") : r;
        if (run->at <= s->kv.n_tokens) s->state = SEQ_ENCODING;
    }
    encode_work_pump(core);
    plan_update(core, s);
    if (encode_ready(core)) core_again(core);
    return 0;
}

int encode_start(struct core *core, struct seq *s)
{
    if (!core->media) return seq_check_embd(s, &core->model.backend->hparams);
    int r = check(core, s);
    return r < 0 ? r : encode_ahead(core, s);
}

void encode_wait(struct core *core, struct seq *s)
{
    struct run_list *l = seq_runs(s);
    const struct prompt_media *next = NULL;
    for (uint32_t i = 0; core->media && i < l->n; i++) {
        const struct prompt_media *media = l->embd[i] ? seq_media(s, l->runs[i].digest) : NULL;
        if (!media) continue;
        if (!next) next = media;
        if (media != next || is_cached(core, s, &l->runs[i])) l->embd[i] = embeddings_unref(l->embd[i]);
    }
}

void encode_leave(struct core *core, struct seq *s)
{
    if (!core->media) return;
    for (struct encode_work *w = core->media->works, *next; w; w = next) {
        next = w->next;
        for (uint32_t i = 0; i < w->n_waiting; i++)
            if (w->waiting[i] == s) w->waiting[i--] = w->waiting[--w->n_waiting];
        if (w->n_waiting == 0) encode_work_drop(w);
    }
    encode_work_pump(core);
}

/* --- the end of a work --- */

/* @s has what it waited for, or some of it. */
static void resume(struct core *core, struct seq *s)
{
    if (s->state != SEQ_ENCODING) return;
    s->state = SEQ_RUNNING;
    int r = encode_ahead(core, s);
    if (r < 0) answer_fail(s->request, s, r, error_text(r));
}

static void note(struct seq *s, const struct encode_work *w)
{
    struct prompt_media *media = seq_media(s, w->runs[0].key.digest);
    for (size_t i = 0; media && w->usec > 0 && i < s->prompt.n_media; i++) {
        struct prompt_media *x = &s->prompt.media[i];
        if (memcmp(x->source->digest, media->source->digest, MEDIA_DIGEST) != 0) continue;
        x->encoded = true;
        x->encode_ms += w->usec / 1000;
        break; /* the same image again is cached */
    }
}

static void tell(struct encode_work *w, struct seq *s, int result, const char *why)
{
    if (result < 0) {
        answer_fail(s->request, s, result, why);
        return;
    }
    for (uint32_t i = 0; i < w->n_runs; i++) attach(s, w->runs[i].key.digest, w->runs[i].e);
    note(s, w);
    if (s->state == SEQ_WAITING) encode_wait(w->core, s);
    resume(w->core, s);
}

void encode_work_done(struct encode_work *w, int result, const char *why)
{
    struct media_room *m = w->core->media;
    struct encode_work **at = &m->works;
    while (*at != w) at = &(*at)->next;
    *at = w->next; /* it is not found any more */
    for (uint32_t i = 0; result == 0 && i < w->n_runs; i++)
        media_cache_add(&m->cache, &w->runs[i].key, w->uid, w->runs[i].e);
    if (result == 0 && w->usec > 0) encode_work_write(w);
    while (w->n_waiting) tell(w, w->waiting[--w->n_waiting], result, why);
    struct core *core = w->core;
    encode_work_free(w);
    encode_work_pump(core);
}

/* --- usage --- */

static const struct prompt_media *media_of(const struct seq *s, const struct media_source *source)
{
    for (size_t i = 0; i < s->prompt.n_media; i++)
        if (s->prompt.media[i].source == source) return &s->prompt.media[i];
    return NULL;
}

/* Was it there, so that the sequence did not wait for it? Not if the sequence ended before it. */
static bool was_cached(const struct seq *s, const struct prompt_media *x)
{
    const struct item_run *last = &s->prompt.runs.runs[x->first + x->n - 1];
    return !x->encoded && (s->generated || last->at + last->n <= s->kv.n_tokens);
}

void encode_usage(struct proto_event *ev, const struct request *r, const struct seq *s)
{
    if (!r->n_sources || !(ev->media = calloc(r->n_sources, sizeof(*ev->media)))) return;
    ev->n_media = r->n_sources;
    for (size_t i = 0; i < r->n_sources; i++) {
        const struct prompt_media *x = media_of(s, r->sources[i]);
        struct proto_media_usage *u = &ev->media[i];
        u->kind = r->sources[i]->kind == MEDIA_SOUND ? PROTO_MEDIA_SOUND : PROTO_MEDIA_IMAGE;
        u->cached = x && was_cached(s, x);
        u->encode_ms = x ? x->encode_ms : 0;
        for (uint32_t k = 0; x && k < x->n; k++) u->tokens += s->prompt.runs.runs[x->first + k].n;
        if (u->cached && s->nth == 0) r->core->media->counts.cached++;
    }
}
