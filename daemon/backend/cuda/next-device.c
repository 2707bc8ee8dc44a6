/* SPDX-License-Identifier: MIT */
/*
 * What goes from one device to the next in a pass: the residual streams of all tokens, which all that was pending has
 * joined, and the layers' embeddings. The notes come from the host. The copies are in the stream of the next device,
 * behind an event of the one before; no graph has them.
 */
#include "daemon/backend/cuda/cuda.h"

/* Make room for the notes of the first device on another one. */
static int take_notes(struct cuda *c, const struct cuda_notes *from)
{
    void *device = NULL;
    int r = c->notes.size < from->size ? cuda_alloc(&c->device, &device, from->size, "the places of a step") : 0;
    if (r) return r;
    if (device) {
        cuda_free(&c->device, c->notes.device);
        c->notes.device = device;
        c->notes.size = from->size;
    }
    c->notes.host = from->host;
    c->notes.used = from->used;
    return 0;
}

static int copy_streams(const struct cuda_pass *p, const struct cuda *from, const float *x)
{
    const struct cuda *to = p->c;
    const struct hparams *s = &to->host->base.hparams;
    const size_t row = p->n * sizeof(float);
    int r = cuda_copy_from(&to->device, to->buf.layers.e, &from->device, from->buf.layers.e,
                           row * s->n_layers * s->per_layer);
    if (r) return r;
    return s->altup.streams ? cuda_copy_from(&to->device, to->buf.altup.streams, &from->device, from->buf.altup.streams,
                                             row * s->altup.streams * s->dim)
                            : cuda_copy_from(&to->device, to->buf.x, &from->device, x, row * s->dim);
}

int cuda_go_on(struct cuda_pass *p)
{
    const struct cuda *from = p->c;
    struct cuda *to = p->c->next;
    const float *x = p->x;
    int r = cuda_mark(&from->device, 0);
    if (!r) r = cuda_device_use(&to->device);
    if (!r) r = take_notes(to, &from->notes);
    if (r) return r;
    p->c = to;
    p->x = to->buf.x;
    p->post = p->out_scale = NULL; /* nothing is pending */
    r = cuda_upload_notes(p);
    if (!r) r = cuda_follow(&to->device, &from->device, 0);
    return r ? r : copy_streams(p, from, x);
}
