/* SPDX-License-Identifier: MIT */
#include "client/find/daemon-embedder.h"
#include "client/exit-status.h"
#include "libcommon/error.h"
#include "libcommon/utf8.h"
#include <stdint.h>

struct passing {
    embedder_sink sink;
    void *ctx;
    size_t n;  /* vectors that came */
    int error; /* of the sink */
};

static int pass(void *ctx, const struct proto_vectors *v)
{
    struct passing *p = ctx;
    p->error = p->sink(p->ctx, v->values, v->n, v->dim);
    p->n += v->n;
    return p->error < 0 ? EXIT_FAILED : 0;
}

/* Where a text is too long for the model, ask for fewer at once, down to that one, which is then halved until it fits:
 * its vector is that of its begin. */
static int run(struct embedder *e, const struct proto_text *texts, size_t n, embedder_sink sink, void *ctx)
{
    struct daemon_embedder *d = e->ctx;
    struct passing p = {.sink = sink, .ctx = ctx};
    size_t most = n, keep = SIZE_MAX; /* texts of a call; bytes of a single one */
    while (p.n < n) {
        const struct proto_text *next = texts + p.n;
        struct proto_text one = *next;
        size_t before = p.n, now = most < n - p.n ? most : n - p.n;
        if (now == 1 && keep < one.len) one.len = keep, next = &one;
        e->status = embed_stream(&d->client, &(struct embed_ask){.texts = next, .n = now, .dims = d->dims}, pass, &p);
        if (p.error < 0) return p.error;
        if (e->status != 0 && !d->client.too_long) return -ECANCELED;
        if (e->status == 0) {
            most = 2 * now;
            keep = SIZE_MAX;
        } else if (now > 1) {
            most = p.n > before ? now : now / 2;
        } else {
            keep = utf8_whole(one.data, one.len / 2);
            if (keep == 0) return error_say(-E2BIG, "no text fits into the context of the model '%s'", d->o.model);
        }
    }
    return 0;
}

void daemon_embedder_init(struct daemon_embedder *d, const char *model, uint32_t dims, bool question)
{
    *d = (struct daemon_embedder){.e = {.run = run, .ctx = d}, .dims = dims};
    d->o.model = (char *)model;
    d->o.timeout_ms = -1;
    d->o.priority = question ? PROTO_PRIORITY_INTERACTIVE : PROTO_PRIORITY_BATCH;
    embed_client_init(&d->client, &d->o);
    d->client.shortens = true;
}

void daemon_embedder_fini(struct daemon_embedder *d)
{
    embed_client_fini(&d->client);
}
