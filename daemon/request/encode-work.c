/* SPDX-License-Identifier: MIT */
#include "daemon/request/encode-work.h"
#include "daemon/cache/media/media-disk.h"
#include "daemon/encoder/encoder.h"
#include "daemon/media/media-helper.h"
#include "libcommon/clock.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECODING_MOST                                                                                                  \
    3 /* files decoded again and not encoded yet: their pixels are in nobody's budget; one user's are fewer */
#define WRITES_MOST 16

#define work_of(x) ((struct encode_work *)((char *)(x)-offsetof(struct encode_work, job)))

void encode_work_free(struct encode_work *w)
{
    for (uint32_t i = 0; i < w->n_runs; i++) embeddings_unref(w->runs[i].e);
    if (w->decoded_again) w->core->media->decoding--;
    if (w->encoding) w->core->media->active--;
    encoding_free(w->encoding);
    media_source_unref(w->source);
    media_fini(&w->media);
    free(w->waiting);
    free(w);
}

void encode_work_drop(struct encode_work *w)
{
    struct encode_work **at = &w->core->media->works;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    if (!w->in_job || jobs_recall(&w->job))
        encode_work_free(w);
    else
        w->dropped = true;
}

/* --- jobs --- */

/* The job of a work that nobody waits for is back. */
static void free_dropped(struct encode_work *w)
{
    struct core *core = w->core;
    encode_work_free(w);
    encode_work_pump(core); /* it may have counted for room->decoding */
}

static void run_read(struct job *j)
{
    struct encode_work *w = work_of(return_job_of(j));
    w->result = 0;
    for (uint32_t i = 0; w->result == 0 && i < w->n_runs; i++) {
        struct encode_run *x = &w->runs[i];
        if (!x->e) w->result = media_disk_read(w->core->media->disk, &x->key, &x->e);
    }
    if (w->result < 0) snprintf(w->why, sizeof(w->why), "%s", error_text(w->result));
}

/* Embeddings of another model cannot be used. */
static bool is_whole(const struct encode_work *w)
{
    for (uint32_t i = 0; i < w->n_runs; i++) {
        const struct encode_run *x = &w->runs[i];
        if (!x->e || x->e->n != x->n || x->e->dim != encoder_dim(w->core->model.encoder)) return false;
    }
    return true;
}

static void read_back(struct return_job *j)
{
    struct encode_work *w = work_of(j);
    w->in_job = false;
    if (w->dropped) {
        free_dropped(w);
        return;
    }
    if (w->result < 0 && w->result != -ENOENT)
        log_warning("an image is encoded again because its embeddings on disk cannot be used: %s", w->why);
    if (w->result == 0 && is_whole(w)) {
        encode_work_done(w, 0, NULL);
    } else if (!w->source) {
        encode_work_done(w, -ENODATA, "the embeddings of an image of the session cannot be read any more");
    } else {
        w->state = w->source->pixels ? ENCODE_READY : ENCODE_BARE;
        encode_work_pump(w->core);
        core_again(w->core);
    }
}

static void run_decode(struct job *j)
{
    struct encode_work *w = work_of(return_job_of(j));
    const struct blob *file = w->source->file;
    struct media_helper *helper = w->core->media->helper;
    w->result = helper ? media_helper_decode(helper, blob_data(file), blob_size(file), &w->media)
                       : error_say(-EOPNOTSUPP, MEDIA_NO_HELPER);
    if (w->result < 0) snprintf(w->why, sizeof(w->why), "%s", error_text(w->result));
}

static void decode_back(struct return_job *j)
{
    struct encode_work *w = work_of(j);
    w->in_job = false;
    if (w->dropped) {
        free_dropped(w);
        return;
    }
    if (w->result == 0 && memcmp(w->media.digest, w->source->digest, MEDIA_DIGEST) != 0) {
        w->result = -EBADMSG;
        snprintf(w->why, sizeof(w->why),
                 "the file is decoded to other pixels than before: send it again in a new session");
    }
    if (w->result < 0) {
        encode_work_done(w, w->result, w->why);
        return;
    }
    w->state = ENCODE_READY;
    core_again(w->core);
}

/* Files of @uid that are decoded again. */
static uint32_t decoding_of(const struct core *core, uid_t uid)
{
    uint32_t n = 0;
    for (const struct encode_work *w = core->media->works; w; w = w->next) n += w->uid == uid && w->decoded_again;
    return n;
}

/* Of the works without pixels, the one of the user with the smallest account, and of these the oldest. */
static struct encode_work *pick_bare(const struct core *core)
{
    struct encode_work *best = NULL;
    for (struct encode_work *w = core->media->works; w; w = w->next) {
        if (w->state != ENCODE_BARE || (best && encode_work_served(w) >= encode_work_served(best))) continue;
        if (decoding_of(core, w->uid) < DECODING_MOST - 1) best = w;
    }
    return best;
}

void encode_work_pump(struct core *core)
{
    struct media_room *m = core->media;
    struct encode_work *w;
    while (m->decoding < DECODING_MOST && (w = pick_bare(core))) {
        m->decoding++;
        w->decoded_again = w->in_job = w->job.job.elapsed = true;
        w->job.job.uncharged = false;
        w->state = ENCODE_DECODING;
        jobs_send_to(&core->mail.returns, m->pool, &w->job, w->uid, run_decode, decode_back);
    }
}

/* --- writing --- */

struct write {
    struct return_job job;
    struct core *core;
    uid_t uid;
    uint32_t n;
    struct encode_run runs[];
};

static void run_write(struct job *j)
{
    const struct write *x = (struct write *)return_job_of(j);
    struct media_room *m = x->core->media;
    for (uint32_t i = 0; i < x->n && clock_now_usec() < atomic_load(&m->write_until); i++)
        if (media_disk_write(m->disk, &x->runs[i].key, x->uid, x->runs[i].e) < 0) break;
}

static void written(struct return_job *j)
{
    struct write *x = (struct write *)j;
    x->core->media->writes--;
    for (uint32_t i = 0; i < x->n; i++) embeddings_unref(x->runs[i].e);
    free(x);
}

void encode_work_write(const struct encode_work *w)
{
    struct media_room *m = w->core->media;
    struct write *x = m->disk && m->writes < WRITES_MOST ? calloc(1, sizeof(*x) + w->n_runs * sizeof(*x->runs)) : NULL;
    if (!x) return;
    x->core = w->core;
    x->uid = w->uid;
    x->n = w->n_runs;
    memcpy(x->runs, w->runs, w->n_runs * sizeof(*x->runs));
    for (uint32_t i = 0; i < x->n; i++) embeddings_ref(x->runs[i].e);
    x->job.job.uncharged = true;
    m->writes++;
    jobs_send(&w->core->mail.returns, &x->job, (uid_t)-1, run_write, written);
}

/* --- a new one --- */

static bool on_disk(const struct encode_work *w)
{
    struct media_disk *d = w->core->media->disk;
    for (uint32_t i = 0; d && i < w->n_runs; i++)
        if (!w->runs[i].e && !media_disk_has(d, &w->runs[i].key)) return false;
    return d;
}

static int begin(struct encode_work *w, const struct item_run *run)
{
    if (on_disk(w)) {
        w->in_job = true;
        w->job.job.uncharged = true;
        jobs_send(&w->core->mail.returns, &w->job, w->uid, run_read, read_back);
        return 0;
    }
    if (!w->source) return seq_no_embd(run);
    w->state = w->source->pixels ? ENCODE_READY : ENCODE_BARE;
    return 0;
}

static struct encode_work *find(const struct core *core, const struct media_key *key)
{
    for (struct encode_work *w = core->media->works; w; w = w->next)
        for (uint32_t i = 0; i < w->n_runs; i++)
            if (memcmp(&w->runs[i].key, key, sizeof(*key)) == 0) return w;
    return NULL;
}

/* All runs of the image, or @run alone if the prompt has no source for it. */
static struct encode_work *new_work(struct core *core, const struct seq *s, const struct item_run *run)
{
    const struct prompt_media *media = seq_media(s, run->digest);
    const struct item_run *runs = media ? &s->prompt.runs.runs[media->first] : run;
    uint32_t n = media ? media->n : 1;
    struct encode_work *w = calloc(1, sizeof(*w) + n * sizeof(*w->runs));
    if (!w) return NULL;
    w->core = core;
    w->uid = s->uid;
    w->source = media ? media_source_ref(media->source) : NULL;
    w->n_runs = n;
    for (uint32_t i = 0; i < n; i++) {
        w->runs[i].key = media_key_of(s->reuse.namespace.bytes, runs[i].digest);
        w->runs[i].n = runs[i].n;
    }
    return w;
}

static int join(struct encode_work *w, struct seq *s)
{
    for (uint32_t i = 0; i < w->n_waiting; i++)
        if (w->waiting[i] == s) return 0;
    struct seq **more = reallocarray(w->waiting, w->n_waiting + 1, sizeof(struct seq *));
    if (!more) return -ENOMEM;
    w->waiting = more;
    w->waiting[w->n_waiting++] = s;
    return 0;
}

int encode_work_for(struct core *core, struct seq *s, const struct item_run *run, struct encode_work **out)
{
    const struct media_key key = media_key_of(s->reuse.namespace.bytes, run->digest);
    struct encode_work *w = find(core, &key), **at = &core->media->works;
    *out = w;
    if (w) return join(w, s);
    w = new_work(core, s, run);
    int r = w ? join(w, s) : -ENOMEM;
    if (r == 0) r = begin(w, run);
    if (r < 0 && w) encode_work_free(w);
    if (r < 0) return r;
    while (*at) at = &(*at)->next;
    *at = *out = w;
    return 0;
}
