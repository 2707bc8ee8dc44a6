/* SPDX-License-Identifier: MIT */
/* Log-probabilities of a token sequence, for comparing with another program: `logits FILE CTX FIRST ID…` prints one
 * line of JSON for each position from FIRST on, the whole vocabulary. KV in f32. -r: of the independent pass in
 * f32 throughout. -n: only that of the next token, of all positions but the last. */
#include "daemon/model/backend.h"
#include "daemon/reference/reference.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct job {
    struct gguf *g;
    uint32_t ctx, first, n;
    int32_t *ids; /* [n] */
    bool exact, next;
};

static int print_rows(const struct job *j, const float *logits, uint32_t vocab)
{
    for (uint32_t at = j->first; at + j->next < j->n; at++, logits += vocab) {
        float max, lse;
        kernels_get(NULL)->logsumexp(&max, &lse, logits, vocab);
        uint32_t from = j->next ? (uint32_t)j->ids[at + 1] : 0, to = j->next ? from + 1 : vocab;
        for (uint32_t i = from; i < to; i++) printf("%c%.9g", i > from ? ',' : '[', (double)(logits[i] - max - lse));
        if (puts("]") < 0) return error_origin(-EIO);
    }
    return 0;
}

static int forward(const struct job *j, struct backend *b)
{
    uint32_t blocks = (j->n + KV_BLOCK - 1) / KV_BLOCK, vocab = b->hparams.vocab;
    _cleanup_(freep) uint32_t *table = malloc(blocks * sizeof(*table));
    _cleanup_(freep) uint8_t *want = calloc(1, j->n);
    _cleanup_(freep) float *logits = malloc((size_t)(j->n - j->first) * vocab * sizeof(*logits));
    if (!table || !want || !logits) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < blocks; i++) table[i] = i;
    for (uint32_t i = j->first; i < j->n; i++) want[i] = WANT_LOGITS;
    const uint32_t *tables[KV_GROUPS_MAX] = {table};
    const struct batch_entry e = {.blocks = tables, .n = j->n, .tokens = j->ids, .want = want};
    int r = b->ops->forward(b, &e, 1, logits, NULL);
    return r ? r : print_rows(j, logits, vocab);
}

static int fast(const struct job *j)
{
    struct backend_config config = {.threads = 1,
                                    .ctx = j->ctx,
                                    .kv_type = KERN_KV_F32,
                                    .kv_bytes = 256u << 20,
                                    .batch_tokens = j->n,
                                    .cpu = getenv("HOB_CPU")};
    struct backend *b = NULL;
    int r = backend_new(&b, j->g, &config);
    if (!r) r = forward(j, b);
    backend_free(b);
    return r;
}

static int reference(const struct job *j)
{
    struct hparams s;
    struct reference *ref = NULL;
    int r = hparams_read(&s, j->g);
    if (!r) r = reference_new(&ref, j->g);
    if (r) return r;
    reference_context(ref, j->ctx);
    _cleanup_(freep) float *logits = malloc((size_t)j->n * s.vocab * sizeof(*logits));
    r = logits ? reference_forward(ref, j->ids, j->n, logits) : error_origin(-ENOMEM);
    reference_free(ref);
    return r ? r : print_rows(j, logits + (size_t)j->first * s.vocab, s.vocab);
}

int main(int argc, char **argv)
{
    struct job j = {0};
    for (int c; (c = getopt(argc, argv, "rn")) != -1;)
        if (c == 'r')
            j.exact = true;
        else if (c == 'n')
            j.next = true;
        else
            return 2;
    argc -= optind, argv += optind;
    if (argc < 4) return fputs("usage: logits [-r] [-n] FILE CTX FIRST ID…\n", stderr), 2;
    j.ctx = (uint32_t)strtoul(argv[1], NULL, 10);
    j.first = (uint32_t)strtoul(argv[2], NULL, 10);
    j.n = (uint32_t)argc - 3;
    _cleanup_(freep) int32_t *ids = j.ids = malloc(j.n * sizeof(*ids));
    int r = ids && j.first < j.n ? gguf_open(&j.g, argv[0]) : -EINVAL;
    for (uint32_t i = 0; !r && i < j.n; i++) ids[i] = (int32_t)strtol(argv[3 + i], NULL, 10);
    if (!r) r = j.exact ? reference(&j) : fast(&j);
    if (r) fprintf(stderr, "logits: %s\n", error_text(r));
    gguf_close(j.g);
    return r ? 1 : 0;
}
