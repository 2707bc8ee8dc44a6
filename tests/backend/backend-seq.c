/* SPDX-License-Identifier: MIT */
#include "tests/backend/backend-seq.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct backend *tiny_backend(const struct gguf *g, const struct tiny_backend_config *c)
{
    struct hparams s;
    struct backend *b = NULL;
    assert_int_equal(hparams_read(&s, g), 0);
    uint32_t ctx = c->ctx ? c->ctx : s.ctx, blocks = c->blocks ? c->blocks : 8 * ((ctx + KV_BLOCK - 1) / KV_BLOCK);
    size_t block = (size_t)s.groups[0].n_layers * backend_kv_bytes(&s, c->kv_type, 0);
    const uint64_t states = hparams_state(&s) ? TINY_STATES * hparams_state(&s)->state_bytes : 0;
    struct backend_config config = {.backend = c->backend,
                                    .device = c->device,
                                    .threads = c->threads ? c->threads : 1,
                                    .ctx = ctx,
                                    .kv_type = c->kv_type,
                                    .kv_bytes = blocks * block + states,
                                    .states = TINY_STATES,
                                    .batch_tokens = c->batch_tokens ? c->batch_tokens : 256,
                                    .cpu = c->cpu ? c->cpu : getenv("HOB_CPU"),
                                    .packed_dir = c->packed_dir,
                                    .no_packed_file = c->no_packed_file,
                                    .window_group = c->window_group};
    int r = backend_new(&b, g, &config);
    if (r < 0) fail_msg("%s", error_text(r));
    assert_true(c->window_group || !s.groups[0].n_layers || b->kv_blocks[0] == blocks);
    return b;
}

void seeded_tokens(int32_t *out, uint32_t n, uint32_t vocab, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        out[i] = (int32_t)((seed >> 33) % vocab);
    }
}

void backend_seq_init(struct backend_seq *s, const struct backend *b, uint32_t n, uint64_t seed, uint32_t first_block)
{
    uint32_t blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
    *s = (struct backend_seq){.n = n, .vocab = b->hparams.vocab, .state = first_block / 8};
    s->tokens = malloc(n * sizeof(*s->tokens));
    s->blocks = malloc(blocks * sizeof(*s->blocks));
    s->want = malloc(n);
    s->logits = malloc((size_t)n * s->vocab * sizeof(float));
    assert_true(s->tokens && s->blocks && s->want && s->logits);
    memset(s->want, WANT_LOGITS, n);
    seeded_tokens(s->tokens, n, s->vocab, seed);
    for (uint32_t i = 0; i < blocks; i++) s->blocks[i] = first_block + i;
    s->n_groups = hparams_kv_groups(&b->hparams);
}

void backend_seq_fini(struct backend_seq *s)
{
    free(s->tokens);
    free(s->blocks);
    free(s->want);
    free(s->logits);
}

struct batch_entry backend_seq_entry(struct backend_seq *s, uint32_t n)
{
    for (uint32_t g = 0; g < s->n_groups; g++) s->groups[g] = g && s->window_blocks ? s->window_blocks : s->blocks;
    return (struct batch_entry){.blocks = s->groups,
                                .state = {s->state, s->n_saves, s->saves},
                                .pos = s->done,
                                .n = n,
                                .tokens = s->tokens + s->done,
                                .sinks = s->sinks,
                                .window = s->window,
                                .adapter = s->adapter,
                                .adapter_scale = s->adapter_scale,
                                .want = s->want + s->done};
}

void backend_seq_step(struct backend *b, struct backend_seq *seqs, const uint32_t *n, size_t n_seqs)
{
    struct batch_entry e[16];
    size_t n_entries = 0, rows = 0, vocab = b->hparams.vocab;
    assert_true(n_seqs <= 16);
    for (size_t i = 0; i < n_seqs; i++)
        if (n[i]) {
            e[n_entries++] = backend_seq_entry(&seqs[i], n[i]);
            rows += n[i];
        }
    float *out = malloc(rows * vocab * sizeof(float)), *row = out;
    assert_non_null(out);
    int r = b->ops->forward(b, e, n_entries, out, NULL);
    if (r < 0) fail_msg("%s", error_text(r));
    for (size_t i = 0; i < n_seqs; i++) {
        memcpy(seqs[i].logits + seqs[i].done * vocab, row, n[i] * vocab * sizeof(float));
        row += n[i] * vocab;
        seqs[i].done += n[i];
    }
    free(out);
}

void backend_seq_run(struct backend *b, struct backend_seq *s, uint32_t chunk)
{
    while (s->done < s->n) {
        uint32_t n = s->n - s->done < chunk ? s->n - s->done : chunk;
        backend_seq_step(b, s, &n, 1);
    }
}

void backend_seq_some_wanted(struct backend *b, const struct backend_seq *all, uint32_t first_block)
{
    struct backend_seq s;
    uint32_t rows = 0;
    backend_seq_init(&s, b, all->n, 0, first_block);
    memcpy(s.tokens, all->tokens, s.n * sizeof(*s.tokens));
    s.sinks = all->sinks, s.window = all->window;
    s.adapter = all->adapter, s.adapter_scale = all->adapter_scale;
    for (uint32_t i = 0; i < s.n; i++) s.want[i] = i / 5 % 3 == 1 || i % 17 == 0 ? WANT_LOGITS : WANT_NOTHING;
    struct batch_entry e = backend_seq_entry(&s, s.n);
    int r = b->ops->forward(b, &e, 1, s.logits, NULL);
    if (r < 0) fail_msg("%s", error_text(r));
    for (uint32_t i = 0; i < s.n; i++)
        if (s.want[i] &&
            memcmp(s.logits + (size_t)rows++ * s.vocab, all->logits + (size_t)i * s.vocab, s.vocab * sizeof(float)))
            fail_msg("the logits of token %u differ where not all are wanted", i);
    backend_seq_fini(&s);
}

void backend_seq_same_logits(const struct backend_seq *a, const struct backend_seq *b)
{
    assert_int_equal(a->done, b->done);
    for (uint32_t i = 0; i < a->done; i++)
        if (memcmp(a->logits + (size_t)i * a->vocab, b->logits + (size_t)i * a->vocab, a->vocab * sizeof(float)))
            fail_msg("the logits of token %u differ", i);
}
