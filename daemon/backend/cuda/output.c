/* SPDX-License-Identifier: MIT */
/* Both ends of a pass: what the host gives to the device, and the logits and states that it gets back. */
#include "daemon/backend/cuda/cuda.h"
#include <string.h>

#define THREADS      256
#define EMBED_TOKENS 256 /* that are copied at once */

/* What the host has computed of a batch: where it is, and its bytes. */
struct rows {
    const float *host;
    size_t bytes;
};

/* The embeddings, and the angles as they are in struct cuda_pass. */
static void find_rows(const struct cuda_pass *p, struct rows rows[4])
{
    const struct scratch *s = &p->c->host->scratch;
    const struct hparams *y = &p->c->host->base.hparams;
    const size_t each = p->n * sizeof(float);
    rows[0] = (struct rows){s->x, each * y->dim};
    for (uint32_t i = 0; i < 2; i++)
        rows[1 + i] = (struct rows){s->cs[i], y->rotates && i < hparams_ropes(y) ? each * hparams_rotated(y, i) : 0};
    rows[3] = (struct rows){s->sink_cs, p->slides ? each * y->rope_dim : 0};
}

static bool is_small(const struct cuda_pass *p)
{
    return p->n <= CUDA_NOTED_ROWS;
}

int cuda_embed_batch(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const uint32_t each = is_small(p) ? p->n : EMBED_TOKENS;
    const size_t dim = c->host->base.hparams.dim;
    int r = 0;
    for (uint32_t i = 0; !r && i < p->n; i += each) {
        const uint32_t n = p->n - i < each ? p->n - i : each;
        cpu_embed(&p->cpu, i, n);
        if (!is_small(p))
            r = cuda_upload(&c->device, c->buf.x + i * dim, c->host->scratch.x + i * dim, n * dim * sizeof(float));
    }
    return r;
}

void cuda_find_angles(struct cuda_pass *p)
{
    for (uint32_t i = 0; i < 2; i++) p->cs[i] = cuda_note(p->c, p->angles[i]);
    p->sink_cs = cuda_note(p->c, p->angles[2]);
}

int cuda_upload_notes(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    cuda_find_angles(p);
    return cuda_upload(&c->device, c->notes.device, c->notes.host, c->notes.used);
}

int cuda_upload_batch(struct cuda_pass *p)
{
    const struct cuda *c = p->c;
    const size_t at[] = {p->rows, p->angles[0], p->angles[1], p->angles[2]};
    struct rows rows[4];
    find_rows(p, rows);
    for (uint32_t i = is_small(p) ? 0 : 1; i < 4; i++)
        if (rows[i].bytes) memcpy(c->notes.host + at[i], rows[i].host, rows[i].bytes);
    p->x = is_small(p) ? cuda_note(c, at[0]) : c->buf.x;
    return cuda_upload_notes(p);
}

/* The ids of the largest of @n rows of logits. */
static int pick(const struct cuda *c, uint32_t n)
{
    const struct cuda_largest a = {.x = c->buf.logits,
                                   .parts = c->buf.tops,
                                   .done = c->buf.row_done,
                                   .best = c->buf.best,
                                   .k = c->host->base.hparams.vocab};
    return cuda_launch(&c->device, c->kern.largest, (struct cuda_grid){cuda_divide(a.k, CUDA_LARGEST), n, THREADS, 0},
                       &a);
}

int cuda_compute_logits(const struct cuda_pass *p, uint32_t first, uint32_t n)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const struct product out = {&c->host->weights.output, c->buf.logits};
    struct cuda_pass rows = *p;
    rows.n = n;
    rows.first = first;
    rows.x = p->x + (size_t)first * s->dim;
    const struct cuda_norm_by by = {.w = c->host->weights.output_norm, .bias = c->host->weights.output_norm_bias};
    int r = cuda_norm_products(&rows, &by, &out, 1, NULL);
    const struct cuda_logits a = {.x = c->buf.logits,
                                  .bias = cuda_weight(c, out.m->bias),
                                  .scale = s->scale.logits,
                                  .cap = s->cap.logits,
                                  .k = s->vocab};
    if (!r && (a.bias || a.scale != 1 || a.cap > 0))
        r = cuda_launch(&c->device, c->kern.logits, (struct cuda_grid){cuda_divide(a.k, THREADS), n, THREADS, 0}, &a);
    return r || !p->picks ? r : pick(c, n);
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

/* Wait for @n rows of logits from number @first on. From pinned memory with all threads is the fastest way: some rows,
 * while the next ones come. */
static int download_rows(const struct cuda *c, uint32_t first, uint32_t n, float *logits)
{
    const size_t width = c->host->base.hparams.vocab;
    const float *rows = c->buf.logits + first * width;
    const uint32_t each = cuda_divide(n, CUDA_MARKS);
    int r = 0;
    if (!c->staging) {
        r = cuda_download(&c->device, logits, rows, n * width * sizeof(float));
        return r ? r : cuda_wait(&c->device);
    }
    for (uint32_t i = 0, at = 0; !r && at < n; i++, at += each) {
        const size_t now = n - at < each ? n - at : each, from = at * width;
        r = cuda_download(&c->device, c->staging + from, rows + from, now * width * sizeof(float));
        if (!r) r = cuda_mark(&c->device, i);
    }
    for (uint32_t i = 0, at = 0; !r && at < n; i++, at += each) {
        struct rows_copy x = {logits + at * width, c->staging + at * width, width};
        r = cuda_wait_mark(&c->device, i);
        if (!r) compute_pool_run(c->host->pool, copy_rows, &x, n - at < each ? n - at : each, 1, 1);
    }
    return r;
}

static const uint32_t *kept_tokens(const struct cuda *c)
{
    return (const uint32_t *)(const void *)(c->notes.host + c->views[VIEW_LAST].list);
}

/* What is wanted of kept token @i. */
static unsigned wants_of(const struct cuda *c, uint32_t i)
{
    return token_wants(&c->host->scratch.tokens[kept_tokens(c)[i]]);
}

/* Kept tokens from @first on, up to @n, of which the bits @mask are wanted as of the first: any or none. */
static uint32_t run_of(const struct cuda *c, uint32_t first, uint32_t n, unsigned mask)
{
    uint32_t i = 1;
    while (i < n && !(wants_of(c, first + i) & mask) == !(wants_of(c, first) & mask)) i++;
    return i;
}

/* The ids of the largest logits go to the entries of their tokens. */
static void give_ids(struct cuda_pass *p, uint32_t first, uint32_t n)
{
    const struct cuda *c = p->c;
    for (uint32_t i = 0; i < n; i++) {
        const struct batch_entry *e = c->host->scratch.tokens[kept_tokens(c)[first + i]].entry;
        if (!(wants_of(c, first + i) & WANT_BEST)) continue;
        if (p->of != e) p->given = 0;
        p->of = e;
        e->best[p->given++] = c->best[i];
    }
}

int cuda_hand_over(struct cuda_pass *p, uint32_t first, uint32_t n, float **logits)
{
    const struct cuda *c = p->c;
    int r = p->picks ? cuda_download(&c->device, c->best, c->buf.best, n * sizeof(*c->best)) : 0;
    for (uint32_t i = 0, rows; !r && i < n; i += rows) {
        rows = run_of(c, first + i, n - i, WANT_LOGITS);
        if (!(wants_of(c, first + i) & WANT_LOGITS)) continue;
        r = download_rows(c, i, rows, *logits);
        *logits += (size_t)rows * c->host->base.hparams.vocab;
    }
    if (r || !p->picks) return r;
    r = cuda_wait(&c->device);
    if (!r) give_ids(p, first, n);
    return r;
}

/* The states of the kept tokens behind the last norm (of some MTP layers before it) -> c->buf.h, of which the wanted
 * ones go to @hidden. */
static int finish_hidden(struct cuda_pass *p, float *hidden)
{
    const struct cuda *c = p->c;
    const struct hparams *s = &c->host->base.hparams;
    const uint32_t dim = s->dim;
    struct cuda_norm_by by = {.w = c->host->weights.output_norm, .bias = c->host->weights.output_norm_bias};
    if (s->mtp.first && s->desc->mtp == MTP_PLAIN) by = (struct cuda_norm_by){.w = NULL};
    struct cuda_norm a = cuda_join_of(p, &by);
    a.f = c->buf.h;
    int r = cuda_join(p, &by, &a);
    for (uint32_t i = 0; !r && i < p->n; i++) {
        if (!(wants_of(c, i) & WANT_HIDDEN)) continue;
        r = cuda_download(&c->device, hidden, c->buf.h + (size_t)i * dim, dim * sizeof(float));
        hidden += dim;
    }
    return r;
}

/* Runs of kept tokens that want logits, or the largest of them. */
int cuda_output(struct cuda_pass *p, float *logits, float *hidden)
{
    const struct cuda *c = p->c;
    const struct cuda_norm_by none = {.w = NULL};
    const struct cuda_norm join = cuda_join_of(p, &none);
    int r = cuda_join(p, &none, &join);
    if (!r && hidden) r = finish_hidden(p, hidden);
    for (uint32_t i = 0, n; !r && i < p->n; i += n) {
        n = run_of(c, i, p->n - i < c->logit_rows ? p->n - i : c->logit_rows, WANT_LOGITS | WANT_BEST);
        if (!(wants_of(c, i) & (WANT_LOGITS | WANT_BEST))) continue;
        r = cuda_compute_logits(p, i, n);
        if (!r) r = cuda_hand_over(p, i, n, &logits);
    }
    return r;
}
