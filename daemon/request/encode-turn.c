/* SPDX-License-Identifier: MIT */
/* The slices of encodings, between the steps. */
#include "daemon/request/encode-media.h"
#include "daemon/request/encode-work.h"
#include "daemon/request/source-plan.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <string.h>

#define ALONE_USEC  10000 /* of slices in a turn without a step */
#define ACTIVE_MOST 4     /* encodings whose memory is held, of different users; one more for a user that is behind */
#define TOKEN_MS    10    /* of a decoded token, before a step was measured */

static bool has_active(const struct core *core, uid_t uid)
{
    for (const struct encode_work *w = core->media->works; w; w = w->next)
        if (w->uid == uid && w->state == ENCODE_RUNNING) return true;
    return false;
}

/* Is the user of @w behind those of all active encodings, by a quantum? */
static bool is_behind(const struct core *core, const struct encode_work *w)
{
    const uint64_t served = encode_work_served(w) + core->plan.config.quantum;
    for (const struct encode_work *x = core->media->works; x; x = x->next)
        if (x->state == ENCODE_RUNNING && encode_work_served(x) < served) return false;
    return true;
}

static bool may_run(const struct core *core, const struct encode_work *w)
{
    const uint32_t active = core->media->active;
    if (w->state == ENCODE_RUNNING) return true;
    if (w->state != ENCODE_READY || has_active(core, w->uid)) return false;
    return active < ACTIVE_MOST || (active == ACTIVE_MOST && is_behind(core, w));
}

/* The one of the user with the smallest account; of these the oldest. */
static struct encode_work *pick(const struct core *core)
{
    struct encode_work *best = NULL;
    for (struct encode_work *w = core->media->works; w; w = w->next)
        if (may_run(core, w) && (!best || encode_work_served(w) < encode_work_served(best))) best = w;
    return best;
}

bool encode_ready(const struct core *core)
{
    return core->media && pick(core);
}

static int begin(struct encode_work *w)
{
    const struct media_source *s = w->source;
    const struct encoder *e = w->core->model.encoder;
    const void *data = w->media.data ? w->media.data : s->pixels;
    int r = s->kind == MEDIA_SOUND ? encoding_new_sound(&w->encoding, e, data, s->samples)
                                   : encoding_new(&w->encoding, e, data, s->width, s->height);
    if (r < 0) return r;
    w->core->media->active++;
    w->state = ENCODE_RUNNING;
    return 0;
}

/* The time counts as service of as many tokens as would be decoded in it. */
static void charge(struct encode_work *w, double usec)
{
    struct core *core = w->core;
    const struct plan *p = &core->plan;
    const struct sched_load one = {.decode = 1};
    double token = p->book.time.samples ? sched_time_of(&p->book.time, &one) : TOKEN_MS;
    w->usec += usec;
    w->owed += usec / 1000 / (token > 0.01 ? token : 0.01) * p->config.decode_units;
    const uint32_t units = (uint32_t)w->owed;
    w->owed -= units;
    struct seq *s = w->waiting[0];
    s->sched.spent += units;
    plan_charge(core, s->request->user, units);
    plan_update(core, s);
}

/* The embeddings of all items become those of the runs. */
static int split(struct encode_work *w)
{
    const float *from = encoding_result(w->encoding);
    const uint32_t dim = encoder_dim(w->core->model.encoder);
    struct encoder_plan plan;
    uint64_t items = 0;
    int r = source_plan(w->core->model.encoder, w->source, &plan);
    for (uint32_t i = 0; i < w->n_runs; i++) items += w->runs[i].n;
    if (r == 0 && items != plan.items)
        return error_say(-EINVAL, "the %u embeddings of the %s have %llu places in the prompt", plan.items,
                         media_kind_name(w->source->kind), (unsigned long long)items);
    for (uint32_t i = 0; r == 0 && i < w->n_runs; i++) {
        struct encode_run *x = &w->runs[i];
        embeddings_unref(x->e); /* of a read that failed */
        x->e = NULL;
        r = embeddings_new(&x->e, x->n, dim);
        if (r < 0) return error_say(r, "no memory for the embeddings of the %s", media_kind_name(w->source->kind));
        memcpy(x->e->values, from, (size_t)x->n * dim * sizeof(*from));
        from += (size_t)x->n * dim;
    }
    return r;
}

static void slice(struct encode_work *w)
{
    struct core *core = w->core;
    struct backend *b = core->model.backend;
    uint64_t began = clock_now_usec();
    int r = w->encoding ? 0 : begin(w);
    if (r == 0) {
        struct compute_pool *pool = b->ops->compute_pool ? b->ops->compute_pool(b) : NULL;
        pthread_mutex_unlock(&core->own); /* a status need not wait */
        r = encoding_step(w->encoding, pool);
        pthread_mutex_lock(&core->own);
        core->media->counts.slices++;
        atomic_fetch_add(&core->progress, 1);
        charge(w, (double)(clock_now_usec() - began));
    }
    if (r > 0) return;
    if (r == 0) r = split(w);
    if (r == 0) core->media->counts.encoded++;
    if (r < 0) snprintf(w->why, sizeof(w->why), "%s", error_text(r)); /* the ends of requests may say other errors */
    encode_work_done(w, r, w->why);
}

/* Users that share the time with an encoding. */
static uint32_t others(const struct core *core)
{
    return core->plan.n_users > 2 ? core->plan.n_users - 1 : 1;
}

void encode_turn(struct core *core, uint64_t step_usec)
{
    struct encode_work *w;
    if (!encode_ready(core)) return;
    const uint64_t most = step_usec ? step_usec / others(core) : ALONE_USEC;
    uint64_t began = clock_now_usec(), before = began, now, longest = 0;
    do {
        if (!(w = pick(core))) break;
        slice(w);
        now = clock_now_usec();
        if (now - before > longest) longest = now - before;
        before = now;
    } while (now - began + longest <= most);
    energy_skip(&core->energy, clock_now_usec());
    if (encode_ready(core)) core_again(core);
}
