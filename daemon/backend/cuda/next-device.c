/* SPDX-License-Identifier: MIT */
/*
 * What goes from one device to the next in a pass: the residual streams of all tokens, which all that was pending has
 * joined, and the layers' embeddings. The copies are in the stream of the next device, behind an event of the one
 * before; no graph has them. The notes come from the host, but for overlapping pieces from the device before: the host
 * then writes those of the next piece.
 */
#include "daemon/backend/cuda/cuda.h"

/* Make room for the notes of the first device on another one. */
static int take_notes(struct cuda *c, const struct cuda_notes *from)
{
    void *device = NULL;
    const bool more = c->notes.size < from->size;
    int r = more ? cuda_wait_all(c) : 0;
    if (!r && more) r = cuda_alloc(&c->device, &device, from->size, "the places of a step");
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

/* The notes of a piece, from the device before. */
static int copy_notes(struct cuda_pass *p, const struct cuda *from)
{
    const struct cuda *to = p->c;
    int r = to->next ? cuda_follow(&to->device, &to->next->device, MARK_TAKEN) : 0;
    if (!r) r = cuda_copy_from(&to->device, to->notes.device, &from->device, from->notes.device, from->notes.used);
    cuda_find_angles(p);
    return r;
}

int cuda_go_on(struct cuda_pass *p)
{
    const struct cuda *from = p->c;
    struct cuda *to = p->c->next;
    const float *x = p->x;
    int r = cuda_mark(&from->device, MARK_DONE);
    if (!r) r = cuda_device_use(&to->device);
    if (!r) r = take_notes(to, &from->notes);
    if (r) return r;
    p->c = to;
    p->x = to->buf.x;
    p->post = p->out_scale = NULL; /* nothing is pending */
    if (!p->overlaps) r = cuda_upload_notes(p);
    if (!r) r = cuda_follow(&to->device, &from->device, MARK_DONE);
    if (!r && p->overlaps) r = copy_notes(p, from);
    if (!r) r = copy_streams(p, from, x);
    return r || !p->overlaps ? r : cuda_mark(&to->device, MARK_TAKEN);
}

int cuda_begin_piece(struct cuda *first)
{
    int r = cuda_device_use(&first->device);
    if (!r) r = cuda_wait_mark(&first->device, MARK_GIVEN);
    return r ? r : cuda_follow(&first->device, &first->next->device, MARK_TAKEN);
}

int cuda_wait_all(const struct cuda *c)
{
    int r = 0;
    for (const struct cuda *i = c; !r && i; i = i->next) {
        r = cuda_device_use(&i->device);
        if (!r) r = cuda_wait(&i->device);
    }
    return r ? r : cuda_device_use(&c->device);
}
