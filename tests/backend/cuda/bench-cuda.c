/* SPDX-License-Identifier: MIT */
/*
 * How long the kernels of products take, in microseconds, for the matrices of a layer and the vocabulary of a model of
 * 1.1 B. Not a test.
 *
 *   bench-cuda [TYPE [TOKENS…]]       each kernel; its launches follow each other in a graph, each with other weights
 *   bench-cuda pass [TYPE [TOKENS…]]  all products of the model, each with weights of its own, in one graph, with the
 *                                     kernels that the backend uses for so many tokens
 */
#include "daemon/backend/cuda/products.h"
#include "daemon/model/arch.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAUNCHES 40
#define TOKENS   2048                 /* at most */
#define WEIGHTS  ((size_t)1280 << 20) /* all of the model have fewer bytes */
#define WIDEST   32000                /* rows of one product */
#define DEEPEST  5632                 /* columns */
#define ROWS     4 /* of a token: the residual stream, what joins it, activated gates, the joined stream */
#define LAYERS   22
#define PASSES   20 /* that follow each other */
#define ROUNDS   5
#define NOISE    ((size_t)1 << 20)

static struct cuda_device device;
static uint8_t *weights;
static float *out, *rows; /* rows: [ROWS][DEEPEST] */
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

enum { QKV, OUT, GATE_UP, DOWN, VOCABULARY, SHAPES };

static const struct shape shapes[SHAPES] = {[QKV] = {"qkv", 2048, {2048, 256, 256}},
                                            [OUT] = {"o", 2048, {2048}},
                                            [GATE_UP] = {"gate, up", 2048, {5632, 5632}},
                                            [DOWN] = {"down", DEEPEST, {2048}},
                                            [VOCABULARY] = {"vocabulary", 2048, {WIDEST}}};

/* Allocate bytes that look like weights: a device that reads zeros needs less power, and is faster. */
static void *alloc_noise(size_t bytes, const char *what)
{
    static uint32_t noise[NOISE / sizeof(uint32_t)];
    uint32_t x = 1;
    void *to;
    for (size_t i = 0; i < NOISE / sizeof(*noise); i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        noise[i] = x;
    }
    check(cuda_alloc(&device, &to, bytes, what));
    for (size_t at = 0; at < bytes; at += NOISE)
        check(cuda_upload(&device, (uint8_t *)to + at, noise, bytes - at < NOISE ? bytes - at : NOISE));
    check(cuda_wait(&device));
    return to;
}

/* The launches between record() and replay() are a graph. replay() starts it @times times in a row and returns the time
 * of one, in the best of some rounds. */
static void record(void)
{
    check(cuda_result(&device, device.driver->cuStreamBeginCapture(device.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                      "graph"));
}

static double replay(uint32_t times)
{
    const struct cuda_driver *d = device.driver;
    CUgraph graph;
    CUgraphExec exec;
    double best = 1e9;
    check(cuda_result(&device, d->cuStreamEndCapture(device.stream, &graph), "graph"));
    check(cuda_result(&device, d->cuGraphInstantiateWithFlags(&exec, graph, 0), "graph"));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const double start = now();
        for (uint32_t k = 0; k < times; k++)
            check(cuda_result(&device, d->cuGraphLaunch(exec, device.stream), "graph"));
        check(cuda_wait(&device));
        const double took = (now() - start) / times;
        if (took < best) best = took;
    }
    d->cuGraphExecDestroy(exec);
    d->cuGraphDestroy(graph);
    return best;
}

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

/* The time of one launch. */
static double time_of(const struct shape *s, enum kern_type t, uint32_t n, enum cuda_which which)
{
    const bool wide = which >= CUDA_USE_HALF || (which == CUDA_BEST && cuda_is_wide(&device, n));
    struct cuda_kind kind;
    size_t at = 0;
    check(cuda_kind(&device, &kind, t));
    record();
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        struct cuda_matmul a = product_of(s, t, n, wide, &at);
        check(cuda_multiply(&device, &kind, &a, which));
    }
    return replay(1) / LAUNCHES;
}

static void bench(enum kern_type t, uint32_t n)
{
    static const char *const names[] = {"best",  "few",   "several", "some", "many", "batch",
                                        "split", "hold8", "hold16",  "half", "wide"};
    for (size_t i = 0; i < SHAPES; i++) {
        printf("%s, %u tokens, %s:", kern_type_name(t), n, shapes[i].name);
        for (enum cuda_which w = CUDA_BEST; w <= CUDA_USE_WIDE; w++) {
            if ((w == CUDA_USE_FEW || w == CUDA_USE_SEVERAL) && n > 32) continue;
            if ((w == CUDA_USE_BATCH && n > 512) || (w >= CUDA_USE_SPLIT && w <= CUDA_USE_HOLD16 && n > 64)) continue;
            printf(" %s %.1f", names[w], time_of(&shapes[i], t, n, w));
        }
        printf("\n");
        fflush(stdout);
    }
}

/* --- a pass --- */

/* The products of a shape, as a pass computes them. @whole: of one token, with the norm and the activation that are a
 * part of its kernels. */
static void start_products(unsigned shape, const struct cuda_kind *kind, struct cuda_matmul m, bool whole)
{
    struct cuda_one a = {.m = m};
    float *const stream = rows, *const joining = stream + DEEPEST, *const gates = joining + DEEPEST,
                 *const joined = gates + DEEPEST;
    if (m.n > 1 || !cuda_one_fits(kind, m.k)) {
        check(cuda_multiply(&device, kind, &m, CUDA_BEST));
        return;
    }
    if (whole && shape == DOWN) a.row = gates;
    if (whole && shape != DOWN && shape != OUT)
        a.norm = (struct cuda_norm){
            .x = stream, .h = joining, .w = joining, .to = joined, .eps = 1e-5F, .residual = 1, .k = m.k};
    if (whole && shape == GATE_UP)
        a.gated =
            (struct cuda_gated){.gate = m.of[1].out, .up = m.of[0].out, .f = gates, .k = m.of[0].rows, .act = ACT_SILU};
    check(cuda_multiply_one(&device, kind, &a));
}

/* The time of all products of the model; *bytes of weights. */
static double time_of_pass(enum kern_type t, uint32_t n, bool whole, size_t *bytes)
{
    const bool wide = cuda_is_wide(&device, n);
    struct cuda_kind kind;
    device.together = cuda_runs_together(t);
    check(cuda_kind(&device, &kind, t));
    *bytes = 0;
    record();
    for (uint32_t l = 0; l < LAYERS; l++)
        for (unsigned s = 0; s < VOCABULARY; s++)
            start_products(s, &kind, product_of(&shapes[s], t, n, wide, bytes), whole);
    start_products(VOCABULARY, &kind, product_of(&shapes[VOCABULARY], t, n, wide, bytes), whole);
    return replay(PASSES);
}

static void bench_pass(enum kern_type t, uint32_t n)
{
    size_t bytes;
    const double took = time_of_pass(t, n, false, &bytes);
    printf("%s, %u tokens, a pass: %.1f, %.0f GB/s", kern_type_name(t), n, took, (double)bytes / took * 1e-3);
    if (n == 1) printf("; with norms and activations %.1f", time_of_pass(t, n, true, &bytes));
    printf("\n");
    fflush(stdout);
}

static void open_device(void)
{
    check(cuda_device_open(&device, 0));
    check(cuda_device_use(&device));
    weights = alloc_noise(WEIGHTS, "weights");
    rows = alloc_noise(ROWS * DEEPEST * sizeof(float), "rows");
    check(cuda_alloc(&device, (void **)&out, (size_t)TOKENS * WIDEST * sizeof(float), "results"));
    acts.ld = TOKENS;
    acts.q = alloc_noise((size_t)TOKENS * DEEPEST * 2, "codes");
    acts.d = alloc_noise((size_t)TOKENS * DEEPEST / 4, "scales");
    acts.s = alloc_noise((size_t)TOKENS * DEEPEST / 4, "sums");
}

int main(int argc, char **argv)
{
    static const uint32_t some[] = {16, 32, 64, 128, 256}, of_pass[] = {1, 16, 64};
    const bool pass = argc > 1 && !strcmp(argv[1], "pass");
    char **args = argv + 1 + pass, **end = argv + argc;
    const char *type = args < end ? *args++ : "Q4_0";
    const uint32_t *tokens = pass ? of_pass : some;
    const size_t n = pass ? sizeof(of_pass) / sizeof(*of_pass) : sizeof(some) / sizeof(*some);
    void (*const run)(enum kern_type, uint32_t) = pass ? bench_pass : bench;
    open_device();
    for (enum kern_type t = 0; t < KERN_TYPES; t++) {
        if (strcmp(kern_type_name(t), type) || !kern_type_quantized(t)) continue;
        for (char **a = args; a < end; a++) run(t, (uint32_t)atoi(*a) % (TOKENS + 1));
        for (size_t i = 0; args == end && i < n; i++) run(t, tokens[i]);
    }
    cuda_device_close(&device);
    return 0;
}
