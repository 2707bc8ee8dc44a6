/* SPDX-License-Identifier: MIT */
/*
 * How fast the kernels are, one thread: bench-kern [VARIANT [TYPE [TOKENS…]]]; TYPE "vectors": all but products; "all":
 * all. Matrices of k = 2048; with at most 32 tokens it reads 128 MiB of panels once through, as decoding does. GB/s
 * count the panels' bytes, Gop/s two for each weight and token. Not a test.
 */
#include "kernels/kernels.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define K       2048
#define SECONDS 0.3 /* of each figure, at least */
#define DECODE  32  /* tokens of a step that decodes, at most */
#define PIECE   8   /* panels of a call; results have rows of K values */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(KERN_ALIGN, kern_align(bytes));
    if (p) return p;
    fprintf(stderr, "bench-kern: out of memory (%zu bytes)\n", bytes);
    exit(1);
}

static void bench_matmul(const struct kernels *k, enum kern_type t, size_t n)
{
    size_t each = kern_panel_bytes(t, K), panels = n <= DECODE ? ((size_t)128 << 20) / each / PIECE * PIECE : PIECE;
    size_t stride = K / kern_type_block(t) * kern_type_bytes(t);
    uint8_t *w = room(panels * each), *src = room(stride * KERN_ROWS);
    for (size_t i = 0; i < stride * KERN_ROWS; i++) src[i] = i % 2 ? 0x2c : (uint8_t)i;
    for (size_t p = 0; p < panels; p++) kern_panel_pack(t, w + p * each, src, stride, KERN_ROWS, K);
    float *f = room(n * K * sizeof(*f)), *d = room(n * K / KERN_BLOCK * 2 * sizeof(*d));
    int8_t *q = room(n * K);
    int16_t *s = room(n * K / 16 * sizeof(*s));
    for (size_t i = 0; i < n * K; i++) f[i] = sinf((float)i);
    for (size_t i = 0; i < n; i++) {
        const struct kern_act a = kern_act(n, i, K / KERN_BLOCK);
        k->quantize(q + a.at * KERN_BLOCK, d + a.at * 2, s + a.at * 2, f + i * K, K, a.step);
    }
    struct kern_acts x = {.f = f, .q = q, .d = d, .s = s, .n = n, .k = K};
    float *out = room(n * K * sizeof(*out));

    double from = now(), best = INFINITY;
    do {
        double t0 = now();
        for (size_t p = 0; p < panels; p += PIECE)
            k->matmul[t](out + p % (K / KERN_ROWS) * KERN_ROWS, K, w + p * each, &x, PIECE * KERN_ROWS);
        double took = now() - t0;
        if (took < best) best = took;
    } while (now() - from < SECONDS);
    printf("%-7s matmul %-5s n %3zu: %7.1f GB/s %8.1f Gop/s\n", k->name, kern_type_name(t), n,
           (double)(panels * each) / best * 1e-9, 2.0 * (double)(n * panels * KERN_ROWS) * K / best * 1e-9);
    free(w), free(src), free(f), free(d), free(q), free(s), free(out);
}

/* Rows of K values, one after the other in a group of 48 tokens. */
static void bench_quantize(const struct kernels *k)
{
    float *f = room(K * sizeof(*f)), *d = room(KERN_GROUP * K / KERN_BLOCK * 2 * sizeof(*d));
    int8_t *q = room((size_t)KERN_GROUP * K);
    int16_t *s = room((size_t)KERN_GROUP * K / 16 * sizeof(*s));
    for (size_t i = 0; i < K; i++) f[i] = sinf((float)i);
    double from = now(), best = INFINITY;
    do {
        double t0 = now();
        for (size_t t = 0; t < KERN_GROUP; t++) k->quantize(q + t * KERN_BLOCK, d + t * 2, s + t * 2, f, K, KERN_GROUP);
        double took = now() - t0;
        if (took < best) best = took;
    } while (now() - from < SECONDS);
    printf("%-7s quantize: %7.1f ns a block of 32\n", k->name, best / (KERN_GROUP * K / KERN_BLOCK) * 1e9);
    free(f), free(q), free(d), free(s);
}

static void bench_attn(const struct kernels *k, enum kern_kv kv, size_t n_q)
{
    enum { DIM = 64, BLOCKS = KV_SEGMENT / KV_BLOCK };
    size_t bytes = kern_kv_bytes(kv, DIM);
    uint8_t *mem = room(2 * BLOCKS * bytes);
    memset(mem, 0x2c, 2 * BLOCKS * bytes);
    const void *kb[BLOCKS], *vb[BLOCKS];
    for (size_t b = 0; b < BLOCKS; b++) kb[b] = mem + 2 * b * bytes, vb[b] = mem + (2 * b + 1) * bytes;
    float *q = room(n_q * DIM * sizeof(*q)), *ml = room(2 * n_q * sizeof(*ml)), *o = room(n_q * DIM * sizeof(*o));
    const float **qp = room(n_q * sizeof(*qp));
    uint32_t *be = room(2 * n_q * sizeof(*be));
    for (size_t i = 0; i < n_q; i++) {
        qp[i] = q + i * DIM;
        be[i] = 0, be[n_q + i] = KV_SEGMENT;
        for (size_t j = 0; j < DIM; j++) q[i * DIM + j] = sinf((float)(i * DIM + j));
    }
    struct kern_attn a = {.q = qp,
                          .begin = be,
                          .end = be + n_q,
                          .n_q = n_q,
                          .dim = DIM,
                          .k = kb,
                          .v = vb,
                          .n_blocks = BLOCKS,
                          .scale = 0.125f,
                          .m = ml,
                          .l = ml + n_q,
                          .o = o};
    double from = now(), best = INFINITY;
    do {
        double t0 = now();
        for (int i = 0; i < 4; i++) k->attn[kv](&a);
        double took = (now() - t0) / 4;
        if (took < best) best = took;
    } while (now() - from < SECONDS);
    printf("%-7s attn   %-5s q %3zu: %7.1f GB/s %8.1f Gop/s\n", k->name, kern_kv_name(kv), n_q,
           (double)(2 * BLOCKS * bytes) / best * 1e-9, 4.0 * (double)n_q * KV_SEGMENT * DIM / best * 1e-9);
    free(mem), free(q), free(ml), free(o), free(qp), free(be);
}

/* Heads of 128 x 128, @n tokens each; @heads 1 is a state in the cache. */
static void bench_delta(const struct kernels *k, size_t heads, size_t n)
{
    enum { D = 128 };
    float *x = room(n * 3 * D * sizeof(*x)), *gate = room(n * sizeof(*gate)), *o = room(n * D * sizeof(*o));
    float *s = room(heads * D * D * sizeof(*s));
    for (size_t i = 0; i < n * 3 * D; i++) x[i] = sinf((float)i) / 8;
    for (size_t i = 0; i < n; i++) gate[i] = 0.5f;
    memset(s, 0, heads * D * D * sizeof(*s));
    struct kern_delta a = {.q = x, .k = x + D, .v = x + 2 * D, .decay = gate, .beta = gate, .o = o};
    a.ld = a.ld_v = 3 * D, a.ld_gate = 1, a.ld_o = D, a.n = n, a.dk = D, a.dv = D;
    double from = now(), best = INFINITY;
    do {
        double t0 = now();
        for (size_t h = 0; h < heads; h++) {
            a.state = s + h * D * D;
            k->recurrent.delta(&a);
        }
        double took = now() - t0;
        if (took < best) best = took;
    } while (now() - from < SECONDS);
    printf("%-7s delta heads %4zu tokens %2zu: %7.0f ns a token of a head\n", k->name, heads, n,
           best / (double)(heads * n) * 1e9);
    free(x), free(gate), free(o), free(s);
}

int main(int argc, char **argv)
{
    static const size_t usual[] = {1, 16, 512}, queries[] = {1, 2, 3, 4, 8, 36, 128};
    size_t tokens[32], n_tokens = 0;
    for (int i = 3; i < argc && n_tokens < 32; i++) tokens[n_tokens++] = strtoul(argv[i], NULL, 10);
    for (size_t i = 0; argc < 4 && i < 3; i++) tokens[n_tokens++] = usual[i];
    const bool all = argc < 3 || strcmp(argv[2], "all") == 0;
    const struct kernels *k;
    for (size_t i = 0; (k = kernels_nth(i)); i++) {
        if (argc > 1 && strcmp(argv[1], k->name) != 0) continue;
        for (int t = 0; t < KERN_TYPES; t++) {
            if (!all && strcmp(argv[2], kern_type_name((enum kern_type)t)) != 0) continue;
            for (size_t j = 0; j < n_tokens; j++) bench_matmul(k, (enum kern_type)t, tokens[j]);
        }
        if (!all && strcmp(argv[2], "vectors") != 0) continue;
        bench_quantize(k);
        for (int t = 0; t < KERN_KV_TYPES; t++)
            for (size_t j = 0; j < 7; j++) bench_attn(k, (enum kern_kv)t, queries[j]);
        bench_delta(k, 1, 1);
        bench_delta(k, 1, 32);
        bench_delta(k, 1024, 1);
    }
    return 0;
}
