/* SPDX-License-Identifier: MIT */
#include "daemon/request/decode-media.h"
#include "daemon/cache/media/media-memo.h"
#include "daemon/media/media-helper.h"
#include "daemon/request/finish.h"
#include "daemon/request/media-room.h"
#include "daemon/request/request-job.h"
#include "daemon/request/source-plan.h"
#include "libcommon/error.h"
#include <stdlib.h>
#include <string.h>

static size_t count(const struct request *r)
{
    const struct proto_generate *g = &r->proto.gen;
    size_t n = 0;
    for (size_t i = 0; i < g->n_messages; i++) n += g->messages[i].n_media;
    return n;
}

bool request_has_media(const struct request *r)
{
    return count(r) > 0;
}

/* The @at-th of the request's media. */
static const struct proto_media *media_at(const struct request *r, size_t at)
{
    const struct proto_message *m = r->proto.gen.messages;
    while (at >= m->n_media) at -= m++->n_media;
    return &m->media[at];
}

int decode_media_begin(struct request *r)
{
    const struct media_room *room = r->core->media;
    const size_t n = count(r);
    if (n == 0 || r->sources) return 0;
    if (!room) return error_say(-EOPNOTSUPP, "the model has no encoder of images and sounds; see --mmproj in hobd(8)");
    if (!room->helper) return error_say(-EOPNOTSUPP, MEDIA_NO_HELPER);
    if (n > PROTO_MEDIA_MAX) return error_say(-EINVAL, "a request may have %d images, not %zu", PROTO_MEDIA_MAX, n);
    r->sources = calloc(n, sizeof(*r->sources));
    for (size_t i = 0; r->sources && i < n; i++) {
        if (media_source_new(&r->sources[i], media_at(r, i)->file) < 0) return -ENOMEM;
        r->n_sources = i + 1;
    }
    return r->sources ? 0 : -ENOMEM;
}

/* --- the job --- */

/* May the model read it? */
static int check(const struct request *r, const struct media_source *s, enum proto_media_kind wanted)
{
    struct encoder_plan plan;
    if (s->kind == MEDIA_SOUND && wanted == PROTO_MEDIA_IMAGE) return error_say(-EINVAL, "it is a sound, not an image");
    if (s->kind == MEDIA_IMAGE && wanted == PROTO_MEDIA_SOUND) return error_say(-EINVAL, "it is an image, not a sound");
    return source_plan(r->core->model.encoder, s, &plan);
}

static int decode_file(struct request *r, struct media_source *s)
{
    struct media_room *room = r->core->media;
    struct media_key key;
    struct media_fact f;
    struct media m;
    memcpy(key.namespace, r->decoding.namespace.bytes, sizeof(key.namespace));
    media_file_digest(blob_data(s->file), blob_size(s->file), key.digest);
    if (media_memo_find(room->memo, &key, &f)) {
        m = (struct media){.kind = f.kind, .width = f.width, .height = f.height, .samples = f.samples};
        memcpy(m.digest, f.digest, sizeof(m.digest));
        media_source_decoded(s, &m);
        return 0;
    }
    int result = media_helper_decode(room->helper, blob_data(s->file), blob_size(s->file), &m);
    if (result < 0) return result;
    f = (struct media_fact){.kind = m.kind, .width = m.width, .height = m.height, .samples = m.samples};
    memcpy(f.digest, m.digest, sizeof(f.digest));
    media_memo_add(room->memo, &key, &f);
    media_source_decoded(s, &m);
    media_source_charge(s, room->pixels, r->uid);
    return 0;
}

/* The error for the client: a damaged file is a wrong request. EFBIG remains. */
static int file_error(int result)
{
    static const int damaged[] = {-EBADMSG, -ETIME};
    for (size_t i = 0; i < sizeof(damaged) / sizeof(*damaged); i++)
        if (result == damaged[i]) return error_say(-EINVAL, "%s", error_text(result));
    return result;
}

static int decode_next(struct request *r)
{
    const size_t at = r->decoding.next;
    struct media_source *s = r->sources[at];
    if (atomic_load(&r->decoding.unwanted)) return 0;
    int result = file_error(decode_file(r, s));
    if (result == 0) result = check(r, s, media_at(r, at)->kind);
    if (result < 0) return error_in(result, "file %zu of %zu", at + 1, r->n_sources);
    if (++r->decoding.next < r->n_sources && !atomic_load(&r->decoding.unwanted)) jobs_again(&r->job.base);
    return 0;
}

static void decoded(struct request *r, int result)
{
    r->job.base.job.elapsed = false;
    if (result < 0)
        answer_fail(r, request_first(r), result, request_job_error(r));
    else
        r->decoding.then(r);
}

bool decode_media(struct request *r, void (*next)(struct request *r))
{
    const struct proto_text *salt = &r->proto.gen.salt;
    const struct namespace_owner owner = {.uid = r->uid, .salt = salt->data, .salt_len = salt->len};
    if (!r->n_sources || r->decoding.next == r->n_sources) return false;
    kv_cache_namespace(&r->core->cache, &owner, &r->decoding.namespace);
    r->decoding.then = next;
    r->job.base.job.elapsed = true;
    request_send_to(r, r->core->media->pool, decode_next, decoded);
    return true;
}

void decode_media_stop(struct request *r)
{
    atomic_store(&r->decoding.unwanted, true);
}

void decode_media_fini(struct request *r)
{
    for (size_t i = 0; i < r->n_sources; i++) media_source_unref(r->sources[i]);
    free(r->sources);
}
