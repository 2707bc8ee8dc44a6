/* SPDX-License-Identifier: MIT */
/* Both ends of a pass: what the host gives to the device, and the logits and states that it gets back. */
#include "daemon/backend/cuda/cuda.h"
#include <string.h>

#define THREADS 256

/* What the host has computed of a batch: where it is, and its bytes. */
struct rows {
    const float *host;
    size_t bytes;
};

/* The embeddings, and the angles as they are in struct cuda_pass. */
static void find_rows(const struct cuda_pass *p, struct rows rows[4])
{
    const struct scratch *s = &p->c->host.scratch;
    const struct hparams *y = &p->c->host.base.hparams;
    const size_t each = p->n * sizeof(float);
    rows[0] = (struct rows){s->x, each * y->dim};
    for (uint32_t i = 0; i < 2; i++)
        rows[1 + i] = (struct rows){s->cs[i], y->rotates && i < hparams_ropes(y) ? each * hparams_rotated(y, i) : 0};
    rows[3] = (struct rows){s->sink_cs, p->slides ? each * y->rope_dim : 0};
}

int cuda_upload_batch(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const bool small = p->n <= CUDA_GRAPH_TOKENS;
    const size_t at[] = {p->rows, p->angles[0], p->angles[1], p->angles[2]};
    float *const buf[] = {c->buf.x, c->buf.cs[0], c->buf.cs[1], c->buf.sink_cs};
    float *to[4];
    struct rows rows[4];
    int r = 0;
    find_rows(p, rows);
    for (uint32_t i = 0; i < 4; i++) {
        to[i] = small ? cuda_note(c, at[i]) : buf[i];
        if (small && rows[i].bytes) memcpy(c->notes.host + at[i], rows[i].host, rows[i].bytes);
        if (!small && !r) r = cuda_upload(&c->device, buf[i], rows[i].host, rows[i].bytes);
    }
    p->x = to[0];
    p->cs[0] = to[1], p->cs[1] = to[2], p->sink_cs = to[3];
    return r ? r : cuda_upload(&c->device, c->notes.device, c->notes.host, c->notes.used);
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
