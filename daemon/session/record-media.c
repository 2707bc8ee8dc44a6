/* SPDX-License-Identifier: MIT */
#include "daemon/session/record-media.h"
#include "libcommon/blob.h"
#include <errno.h>
#include <string.h>

enum { DIGEST = sizeof((struct proto_media){0}.digest), SMALLEST = 6 + DIGEST + 2 /* bytes of a medium */ };

size_t record_media_count(const struct session *x, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < x->content.n_messages; i++) n += x->content.messages[i].n_media;
    return n;
}

static int put_medium(struct buf *b, const struct proto_media *m)
{
    int r = record_put(b, m->kind);
    if (r == 0) r = record_put(b, m->at);
    if (r == 0) r = record_put(b, m->width);
    if (r == 0) r = record_put(b, m->height);
    if (r == 0) r = record_put(b, m->samples);
    if (r == 0) r = buf_append(b, m->digest, DIGEST);
    return r < 0 ? r : record_put_bytes(b, blob_data(m->file), blob_size(m->file));
}

int record_put_media(struct buf *out, const struct session *x, size_t from)
{
    const struct session_content *c = &x->content;
    int r = record_put(out, record_media_count(x, from));
    for (size_t i = from, last = from; i < c->n_messages; i++)
        for (size_t j = 0; r == 0 && j < c->messages[i].n_media; j++) {
            r = record_put(out, i - last);
            last = i;
            if (r == 0) r = put_medium(out, &c->messages[i].media[j]);
        }
    return r;
}

/* Does the medium have the size of its kind, and a place in the message behind those before? */
static bool fits(const struct proto_message *m, const struct proto_media *media)
{
    bool image = media->kind == PROTO_MEDIA_IMAGE && media->width && media->height && !media->samples;
    bool sound = media->kind == PROTO_MEDIA_SOUND && media->samples && !media->width && !media->height;
    size_t before = m->n_media ? m->media[m->n_media - 1].at : 0;
    return (image || sound) && media->at >= before && media->at <= m->content.len;
}

/* Of message @i; the next bytes are those behind its number. */
static int apply_medium(struct record_cursor *c, struct session *x, size_t i)
{
    uint64_t kind = record_number(c), at = record_number(c), width = record_number(c), height = record_number(c);
    struct proto_media m = {.kind = (enum proto_media_kind)kind, .at = at, .samples = record_number(c)};
    const uint8_t *digest = record_fixed(c, DIGEST);
    size_t len;
    const char *file = record_bytes(c, &len);
    if (c->bad || !len || kind > PROTO_MEDIA_SOUND || width > UINT32_MAX || height > UINT32_MAX) return -EBADMSG;
    m.width = (uint32_t)width;
    m.height = (uint32_t)height;
    memcpy(m.digest, digest, DIGEST);
    if (!fits(&x->content.messages[i], &m)) return -EBADMSG;
    int r = blob_new(&m.file, file, len);
    if (r == 0) r = session_add_media(x, i, &m);
    blob_unref(m.file);
    return r;
}

int record_apply_media(struct record_cursor *c, struct session *x, size_t from)
{
    size_t n = record_count(c, SMALLEST), at = from;
    if (n == 0) return -EBADMSG;
    for (; n > 0; n--) {
        uint64_t skip = record_number(c);
        if (c->bad || skip >= x->content.n_messages - at) return -EBADMSG;
        at += (size_t)skip;
        int r = apply_medium(c, x, at);
        if (r < 0) return r;
    }
    return 0;
}
