/* SPDX-License-Identifier: MIT */
/*
 * Graphs of small batches: the kernels of a pass, recorded once for each shape and started together after that. All
 * that differs between batches of one shape lies in buffers and notes, whose places are a part of the shape.
 */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <string.h>

void cuda_forget_graphs(struct cuda *c)
{
    for (uint32_t i = 0; i < CUDA_GRAPHS; i++)
        if (c->graphs[i].exec) c->device.driver->cuGraphExecDestroy(c->graphs[i].exec);
    memset(c->graphs, 0, sizeof(c->graphs));
}

bool cuda_graph_shape(const struct cuda_pass *p, struct cuda_shape *out)
{
    const struct cuda *c = p->c;
    memset(out, 0, sizeof(*out)); /* it is compared as bytes */
    if (p->n > CUDA_GRAPH_TOKENS || p->n_kept > c->logit_rows) return false;
    out->notes = c->notes.device;
    out->tokens = p->tokens;
    out->table = p->table;
    out->warmth = p->warmth;
    out->runs = p->runs;
    out->run_of = p->run_of;
    out->saves = p->saves;
    for (uint32_t i = 0; i < 2; i++) out->adapted[i] = p->adapted[i].order;
    out->n_runs = p->n_runs;
    out->n = p->n;
    out->n_kept = p->n_kept;
    out->slides = p->slides;
    out->alone = p->alone;
    out->picks = p->picks;
    for (uint32_t v = 0; v < CUDA_VIEWS; v++) {
        const struct cuda_view *w = &c->views[v];
        if (w->n_waves > 1) return false;
        out->views[v].list = w->list;
        out->views[v].seen = w->seen;
        out->views[v].tiles = w->tiles;
        out->views[v].n_tiles = w->n_tiles;
        out->views[v].rows = w->n_waves ? w->waves[0].rows : 0;
        out->views[v].blocks = w->n_waves ? w->waves[0].blocks : 0;
    }
    return true;
}

/* Record what @compute starts. NULL: it failed, and nothing was started. *x: the residual stream behind it. */
static CUgraphExec record(const struct cuda_pass *p, int (*compute)(struct cuda_pass *p), float **x)
{
    const struct cuda_device *d = &p->c->device;
    struct cuda_pass copy = *p;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int r = cuda_result(d, d->driver->cuStreamBeginCapture(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "a graph");
    if (r) return NULL;
    r = compute(&copy);
    *x = copy.x;
    const int ended = cuda_result(d, d->driver->cuStreamEndCapture(d->stream, &graph), "a graph");
    if (!r && !ended) r = cuda_result(d, d->driver->cuGraphInstantiateWithFlags(&exec, graph, 0), "a graph");
    if (r || ended) log_debug("%s", error_text(r ? r : ended));
    if (graph) d->driver->cuGraphDestroy(graph);
    return r || ended ? NULL : exec;
}

/* The graph that was not used for the longest time, emptied. */
static struct cuda_graph *oldest(struct cuda *c)
{
    struct cuda_graph *g = &c->graphs[0];
    for (uint32_t i = 1; i < CUDA_GRAPHS; i++)
        if (c->graphs[i].used < g->used) g = &c->graphs[i];
    if (g->exec) c->device.driver->cuGraphExecDestroy(g->exec);
    memset(g, 0, sizeof(*g));
    return g;
}

int cuda_graph_run(struct cuda_pass *p, const struct cuda_shape *shape, int (*compute)(struct cuda_pass *p))
{
    struct cuda *c = p->c;
    struct cuda_graph *g = NULL;
    for (uint32_t i = 0; i < CUDA_GRAPHS; i++)
        if (c->graphs[i].exec && !memcmp(&c->graphs[i].shape, shape, sizeof(*shape))) g = &c->graphs[i];
    if (!g) {
        g = oldest(c);
        g->shape = *shape;
        g->exec = record(p, compute, &g->x);
    }
    g->used = ++c->graph_clock;
    if (!g->exec) return compute(p);
    p->x = g->x;
    return cuda_result(&c->device, c->device.driver->cuGraphLaunch(g->exec, c->device.stream), "cannot start a graph");
}
