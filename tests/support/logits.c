/* SPDX-License-Identifier: MIT */
/* Log-probabilities of a token sequence, for comparing with another program: `logits FILE CTX FIRST ID…` prints one
 * line of JSON for each position from FIRST on, the whole vocabulary. KV in f32. */
#include "daemon/model/backend.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>

static int print_row(const struct backend *b, const float *row)
{
    float max, lse;
    b->kern->logsumexp(&max, &lse, row, b->shape.vocab);
    for (uint32_t i = 0; i < b->shape.vocab; i++) printf("%c%.9g", i ? ',' : '[', (double)(row[i] - max - lse));
    return puts("]") < 0 ? -EIO : 0;
}

static int run(struct backend *b, uint32_t first, int32_t *ids, uint32_t n)
{
    uint32_t blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
    _cleanup_(freep) uint32_t *table = malloc(blocks * sizeof(*table));
    _cleanup_(freep) uint8_t *want = calloc(1, n);
    _cleanup_(freep) float *logits = malloc((size_t)(n - first) * b->shape.vocab * sizeof(*logits));
    if (!table || !want || !logits) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < blocks; i++) table[i] = i;
    for (uint32_t i = first; i < n; i++) want[i] = WANT_LOGITS;
    const uint32_t *tables[] = {table};
    const struct batch_entry e = {.blocks = tables, .n = n, .tokens = ids, .want = want};
    int r = b->ops->forward(b, &e, 1, logits, NULL);
    for (uint32_t i = first; !r && i < n; i++) r = print_row(b, logits + (size_t)(i - first) * b->shape.vocab);
    return r;
}

int main(int argc, char **argv)
{
    if (argc < 5) return fputs("usage: logits FILE CTX FIRST ID…\n", stderr), 2;
    uint32_t first = (uint32_t)strtoul(argv[3], NULL, 10), n = (uint32_t)argc - 4;
    _cleanup_(freep) int32_t *ids = malloc(n * sizeof(*ids));
    struct backend_config config = {.threads = 1,
                                    .ctx = (uint32_t)strtoul(argv[2], NULL, 10),
                                    .kv_type = KERN_KV_F32,
                                    .kv_bytes = 256u << 20,
                                    .batch_tokens = n,
                                    .cpu = getenv("HOB_CPU")};
    struct gguf *g = NULL;
    struct backend *b = NULL;
    int r = ids && first < n ? gguf_open(&g, argv[1]) : -EINVAL;
    for (uint32_t i = 0; !r && i < n; i++) ids[i] = (int32_t)strtol(argv[4 + i], NULL, 10);
    if (!r) r = backend_cpu_new(&b, g, &config);
    if (!r) r = run(b, first, ids, n);
    if (r) fprintf(stderr, "logits: %s\n", error_text(r));
    backend_free(b);
    gguf_close(g);
    return r ? 1 : 0;
}
