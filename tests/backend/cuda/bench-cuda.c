/* SPDX-License-Identifier: MIT */
/*
 * How long the kernels of products take: bench-cuda [TYPE [TOKENS…]], in microseconds, for the matrices of a layer and
 * the vocabulary of a model of 1.1 B. Launches follow each other in a graph, each with other weights, as in a pass. Not
 * a test.
 */
#include "daemon/backend/cuda/products.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAUNCHES 40
#define TOKENS   2048 /* at most */
#define WEIGHTS  ((size_t)512 << 20)
#define WIDEST   32000 /* rows of one product */
#define DEEPEST  5632  /* columns */

static struct cuda_device device;
static uint8_t *weights;
static float *out;
static struct cuda_acts acts;

static void check(int r)
{
    if (!r) return;
    fprintf(stderr, "bench-cuda: %s\n", error_text(r));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

struct shape {
    const char *name;
    uint32_t k, rows[CUDA_PRODUCTS];
};

static const struct shape shapes[] = {{"qkv", 2048, {2048, 256, 256}},
                                      {"o", 2048, {2048}},
                                      {"gate, up", 2048, {5632, 5632}},
                                      {"down", DEEPEST, {2048}},
                                      {"vocabulary", 2048, {WIDEST}}};

/* A product whose weights begin at *at, which moves on. */
static struct cuda_matmul product_of(const struct shape *s, enum kern_type t, uint32_t n, bool wide, size_t *at)
{
    const size_t each = kern_panel_bytes(t, s->k);
    struct cuda_matmul a = {.n = n, .k = s->k, .x = acts};
    a.x.wide = wide;
    for (size_t i = 0, to = 0; i < CUDA_PRODUCTS && s->rows[i]; i++, a.n_products++) {
        const size_t bytes = (s->rows[i] + KERN_ROWS - 1) / KERN_ROWS * each;
        if (*at + bytes > WEIGHTS) *at = 0;
        a.of[i] = (struct cuda_matrix){.panels = weights + *at,
                                       .out = out + to,
                                       .rows = s->rows[i],
                                       .ld = s->rows[i],
                                       .panel_bytes = (uint32_t)each};
        *at += (bytes + 255) / 256 * 256;
        to += (size_t)s->rows[i] * n;
    }
    return a;
}

/* The time of one launch; < 0: the kernel is not for this. */
static double time_of(const struct shape *s, enum kern_type t, uint32_t n, enum cuda_which which)
{
    const struct cuda_driver *d = device.driver;
    const bool wide = which >= CUDA_USE_HALF || (which == CUDA_BEST && cuda_is_wide(&device, n));
    struct cuda_kind kind;
    CUgraph graph;
    CUgraphExec exec;
    size_t at = 0;
    double best = 1e9;
    check(cuda_kind(&device, &kind, t));
    check(cuda_result(&device, d->cuStreamBeginCapture(device.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "graph"));
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        struct cuda_matmul a = product_of(s, t, n, wide, &at);
        check(cuda_multiply(&device, &kind, &a, which));
    }
    check(cuda_result(&device, d->cuStreamEndCapture(device.stream, &graph), "graph"));
    check(cuda_result(&device, d->cuGraphInstantiateWithFlags(&exec, graph, 0), "graph"));
    for (uint32_t i = 0; i < 4; i++) {
        const double start = now();
        check(cuda_result(&device, d->cuGraphLaunch(exec, device.stream), "graph"));
        check(cuda_wait(&device));
        const double took = (now() - start) / LAUNCHES;
        if (took < best) best = took;
    }
    d->cuGraphExecDestroy(exec);
    d->cuGraphDestroy(graph);
    return best;
}

static void bench(enum kern_type t, uint32_t n)
{
    static const char *const names[] = {"best", "few", "several", "some", "many", "batch", "split", "half", "wide"};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        printf("%s, %u tokens, %s:", kern_type_name(t), n, shapes[i].name);
        for (enum cuda_which w = CUDA_BEST; w <= CUDA_USE_WIDE; w++) {
            if ((w == CUDA_USE_FEW || w == CUDA_USE_SEVERAL) && n > 32) continue;
            if ((w == CUDA_USE_BATCH && n > 512) || (w == CUDA_USE_SPLIT && n > 64)) continue;
            printf(" %s %.1f", names[w], time_of(&shapes[i], t, n, w));
        }
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const uint32_t some[] = {16, 32, 64, 128, 256};
    const char *type = argc > 1 ? argv[1] : "Q4_0";
    check(cuda_device_open(&device, 0));
    check(cuda_device_use(&device));
    check(cuda_alloc(&device, (void **)&weights, WEIGHTS, "weights"));
    check(cuda_alloc(&device, (void **)&out, (size_t)TOKENS * WIDEST * sizeof(float), "results"));
    acts.ld = TOKENS;
    check(cuda_alloc(&device, (void **)&acts.q, (size_t)TOKENS * DEEPEST * 2, "codes"));
    check(cuda_alloc(&device, (void **)&acts.d, (size_t)TOKENS * DEEPEST / 4, "scales"));
    check(cuda_alloc(&device, (void **)&acts.s, (size_t)TOKENS * DEEPEST / 4, "sums"));
    for (enum kern_type t = 0; t < KERN_TYPES; t++) {
        if (strcmp(kern_type_name(t), type) || !kern_type_quantized(t)) continue;
        for (int i = 2; i < argc; i++) bench(t, (uint32_t)atoi(argv[i]) % (TOKENS + 1));
        for (size_t i = 0; argc <= 2 && i < sizeof(some) / sizeof(*some); i++) bench(t, some[i]);
    }
    cuda_device_close(&device);
    return 0;
}
