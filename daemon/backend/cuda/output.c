/* SPDX-License-Identifier: MIT */
/* Both ends of a pass: what the host gives to the device, and the logits and states that it gets back. */
#include "daemon/backend/cuda/cuda.h"
#include <string.h>

#define THREADS 256

int cuda_upload_rows(const struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const struct scratch *s = &c->host.scratch;
    const struct hparams *y = &c->host.base.hparams;
    int r = cuda_upload(&c->device, c->buf.x, s->x, (size_t)p->n * y->dim * sizeof(float));
    for (uint32_t i = 0; !r && y->rotates && i < hparams_ropes(y); i++)
        r = cuda_upload(&c->device, c->buf.cs[i], s->cs[i], (size_t)p->n * hparams_rotated(y, i) * sizeof(float));
    if (!r && p->slides)
        r = cuda_upload(&c->device, c->buf.sink_cs, s->sink_cs, (size_t)p->n * y->rope_dim * sizeof(float));
    return r;
}

int cuda_compute_logits(const struct cuda_pass *p, uint32_t first, uint32_t n)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host.base.hparams;
    const struct product out = {&c->host.weights.output, c->buf.logits};
    struct cuda_pass rows = *p;
    rows.n = n;
    rows.x = p->x + (size_t)first * s->dim;
    int r = cuda_norm_products(&rows, c->host.weights.output_norm, &out, 1, NULL);
    const struct cuda_logits a = {.x = c->buf.logits,
                                  .bias = cuda_weight(c, out.m->bias),
                                  .scale = s->scale.logits,
                                  .cap = s->cap.logits,
                                  .k = s->vocab};
    if (r || !(a.bias || a.scale != 1 || a.cap > 0)) return r;
    return cuda_launch(&c->device, c->kern.logits, (struct cuda_grid){(a.k + THREADS - 1) / THREADS, n, THREADS, 0},
                       &a);
}

struct rows_copy {
    float *to;
    const float *from;
    size_t width;
};

static void copy_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t thread)
{
    const struct rows_copy *x = ctx;
    memcpy(x->to + begin * x->width, x->from + begin * x->width, (end - begin) * x->width * sizeof(float));
}

/* From pinned memory with all threads is the fastest way: some rows, while the next ones come. */
int cuda_download_logits(const struct cuda_pass *p, uint32_t n, float *logits)
{
    const struct cuda *c = p->c;
    const size_t width = c->host.base.hparams.vocab;
    const uint32_t each = (n + CUDA_MARKS - 1) / CUDA_MARKS;
    int r = 0;
    if (!c->staging) {
        r = cuda_download(&c->device, logits, c->buf.logits, n * width * sizeof(float));
        return r ? r : cuda_wait(&c->device);
    }
    for (uint32_t i = 0, at = 0; !r && at < n; i++, at += each) {
        const size_t rows = n - at < each ? n - at : each, from = at * width;
        r = cuda_download(&c->device, c->staging + from, c->buf.logits + from, rows * width * sizeof(float));
        if (!r) r = cuda_mark(&c->device, i);
    }
    for (uint32_t i = 0, at = 0; !r && at < n; i++, at += each) {
        struct rows_copy x = {logits + at * width, c->staging + at * width, width};
        r = cuda_wait_mark(&c->device, i);
        if (!r) compute_pool_run(c->host.pool, copy_rows, &x, n - at < each ? n - at : each, 1, 1);
    }
    return r;
}

/* The states of the kept tokens behind the last norm -> c->buf.h, of which the wanted ones go to @hidden. */
static int finish_hidden(struct cuda_pass *p, const uint32_t *list, float *hidden)
{
    const struct cuda *c = p->c;
    const uint32_t dim = c->host.base.hparams.dim;
    struct cuda_norm a = {.x = p->x,
                          .w = cuda_weight(c, c->host.weights.output_norm),
                          .f = c->buf.h,
                          .eps = c->host.base.hparams.rms_eps,
                          .k = dim};
    int r = cuda_start_norm(c, p->n, &a);
    for (uint32_t i = 0; !r && i < p->n; i++) {
        if (!(token_wants(&c->host.scratch.tokens[list[i]]) & WANT_HIDDEN)) continue;
        r = cuda_download(&c->device, hidden, c->buf.h + (size_t)i * dim, dim * sizeof(float));
        hidden += dim;
    }
    return r;
}

/* Runs of kept tokens that want logits. */
int cuda_output(struct cuda_pass *p, float *logits, float *hidden)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host.base.hparams;
    const uint32_t *list = (const uint32_t *)(const void *)(c->notes.host + c->views[VIEW_LAST].list);
    const struct cuda_norm join = {.x = p->x,
                                   .h = c->buf.h,
                                   .bias = cuda_weight(c, p->bias),
                                   .post = cuda_weight(c, p->post),
                                   .out_scale = cuda_weight(c, p->out_scale),
                                   .eps = s->rms_eps,
                                   .residual = s->scale.residual,
                                   .k = s->dim};
    int r = cuda_start_norm(c, p->n, &join);
    p->pending = false;
    if (!r && hidden) r = finish_hidden(p, list, hidden);
    for (uint32_t i = 0, n; !r && i < p->n; i += n) {
        const bool wants = token_wants(&c->host.scratch.tokens[list[i]]) & WANT_LOGITS;
        for (n = 1; n < c->logit_rows && i + n < p->n; n++)
            if (!(token_wants(&c->host.scratch.tokens[list[i + n]]) & WANT_LOGITS) == wants) break;
        if (!wants) continue;
        r = cuda_compute_logits(p, i, n);
        if (!r) r = cuda_download_logits(p, n, logits);
        logits += (size_t)n * s->vocab;
    }
    return r;
}
