/* SPDX-License-Identifier: MIT */
#include "tests/model/fixture.h"
#include "libcommon/error.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

char *fixture_file(const void *bytes, size_t n)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/hob-model-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    return strdup(path);
}

int fixture_open(struct gguf **out, const void *bytes, size_t n)
{
    char *path = fixture_file(bytes, n);
    int r = gguf_open(out, path);
    if (r < 0) assert_non_null(strstr(error_text(r), path));
    unlink(path);
    free(path);
    return r;
}

void fixture_tiny_bytes(struct buf *out, const struct tiny *t)
{
    char *path = fixture_file("", 0);
    assert_int_equal(tiny_write(t, path), 0);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char piece[65536];
    for (size_t n; (n = fread(piece, 1, sizeof(piece), f));) assert_int_equal(buf_append(out, piece, n), 0);
    fclose(f);
    unlink(path);
    free(path);
}

struct gguf *fixture_tiny(const struct tiny *t)
{
    struct buf b = BUF_INIT;
    struct gguf *g = NULL;
    fixture_tiny_bytes(&b, t);
    int r = fixture_open(&g, b.data, b.len);
    if (r < 0) fail_msg("%s", error_text(r));
    buf_fini(&b);
    return g;
}

size_t fixture_where(const struct buf *b, const char *what)
{
    const char *p = memmem(b->data, b->len, what, strlen(what));
    assert_non_null(p);
    return (size_t)(p - b->data);
}

void put_u32(struct buf *b, uint32_t v)
{
    assert_int_equal(buf_append(b, &v, 4), 0);
}

void put_u64(struct buf *b, uint64_t v)
{
    assert_int_equal(buf_append(b, &v, 8), 0);
}

void put_str(struct buf *b, const char *s)
{
    put_u64(b, strlen(s));
    assert_int_equal(buf_append(b, s, strlen(s)), 0);
}

void put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    assert_int_equal(buf_append(b, "GGUF", 4), 0);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}

void put_key_u32(struct buf *b, const char *key, uint32_t v)
{
    put_str(b, key);
    put_u32(b, GGUF_U32);
    put_u32(b, v);
}

void put_key_f32(struct buf *b, const char *key, float v)
{
    put_str(b, key);
    put_u32(b, GGUF_F32);
    assert_int_equal(buf_append(b, &v, 4), 0);
}

void put_key_str(struct buf *b, const char *key, const char *v)
{
    put_str(b, key);
    put_u32(b, GGUF_STRING);
    put_str(b, v);
}

void put_tensor(struct buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t n_dims, const uint64_t *dims)
{
    put_str(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) put_u64(b, dims[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

void put_zeros(struct buf *b, size_t n)
{
    while (n--) assert_int_equal(buf_append(b, "", 1), 0);
}

void put_padding(struct buf *b, size_t align)
{
    put_zeros(b, -b->len % align);
}

struct backend *fixture_backend(const struct gguf *g, const struct fixture_config *c)
{
    struct hparams s;
    struct backend *b = NULL;
    assert_int_equal(hparams_read(&s, g), 0);
    uint32_t ctx = c->ctx ? c->ctx : s.ctx, blocks = c->blocks ? c->blocks : 8 * ((ctx + KV_BLOCK - 1) / KV_BLOCK);
    size_t block = (size_t)s.n_layers * s.kv_heads * 2 * kern_kv_bytes(c->kv_type, s.head_dim);
    struct backend_config config = {.threads = c->threads ? c->threads : 1,
                                    .ctx = ctx,
                                    .kv_type = c->kv_type,
                                    .kv_bytes = blocks * block,
                                    .batch_tokens = c->batch_tokens ? c->batch_tokens : 256,
                                    .cpu = c->cpu ? c->cpu : getenv("HOB_CPU"),
                                    .packed_dir = c->packed_dir};
    int r = backend_new(&b, g, &config);
    if (r < 0) fail_msg("%s", error_text(r));
    assert_int_equal(b->kv_blocks, blocks);
    return b;
}

void fixture_tokens(int32_t *out, uint32_t n, uint32_t vocab, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        out[i] = (int32_t)((seed >> 33) % vocab);
    }
}

void fixture_seq_init(struct fixture_seq *s, const struct backend *b, uint32_t n, uint64_t seed, uint32_t first_block)
{
    uint32_t blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
    *s = (struct fixture_seq){.n = n, .vocab = b->hparams.vocab};
    s->tokens = malloc(n * sizeof(*s->tokens));
    s->blocks = malloc(blocks * sizeof(*s->blocks));
    s->want = malloc(n);
    s->logits = malloc((size_t)n * s->vocab * sizeof(float));
    assert_true(s->tokens && s->blocks && s->want && s->logits);
    memset(s->want, WANT_LOGITS, n);
    fixture_tokens(s->tokens, n, s->vocab, seed);
    for (uint32_t i = 0; i < blocks; i++) s->blocks[i] = first_block + i;
    s->groups[0] = s->blocks;
}

void fixture_seq_fini(struct fixture_seq *s)
{
    free(s->tokens);
    free(s->blocks);
    free(s->want);
    free(s->logits);
}

struct batch_entry fixture_entry(struct fixture_seq *s, uint32_t n)
{
    s->groups[0] = s->blocks;
    return (struct batch_entry){.blocks = s->groups,
                                .pos = s->done,
                                .n = n,
                                .tokens = s->tokens + s->done,
                                .sinks = s->sinks,
                                .window = s->window,
                                .want = s->want + s->done};
}

void fixture_step(struct backend *b, struct fixture_seq *seqs, const uint32_t *n, size_t n_seqs)
{
    struct batch_entry e[16];
    size_t n_entries = 0, rows = 0, vocab = b->hparams.vocab;
    assert_true(n_seqs <= 16);
    for (size_t i = 0; i < n_seqs; i++)
        if (n[i]) {
            e[n_entries++] = fixture_entry(&seqs[i], n[i]);
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

void fixture_run(struct backend *b, struct fixture_seq *s, uint32_t chunk)
{
    while (s->done < s->n) {
        uint32_t n = s->n - s->done < chunk ? s->n - s->done : chunk;
        fixture_step(b, s, &n, 1);
    }
}

void fixture_some_wanted(struct backend *b, const struct fixture_seq *all, uint32_t first_block)
{
    struct fixture_seq s;
    uint32_t rows = 0;
    fixture_seq_init(&s, b, all->n, 0, first_block);
    memcpy(s.tokens, all->tokens, s.n * sizeof(*s.tokens));
    s.sinks = all->sinks, s.window = all->window;
    for (uint32_t i = 0; i < s.n; i++) s.want[i] = i / 5 % 3 == 1 || i % 17 == 0 ? WANT_LOGITS : WANT_NOTHING;
    struct batch_entry e = fixture_entry(&s, s.n);
    int r = b->ops->forward(b, &e, 1, s.logits, NULL);
    if (r < 0) fail_msg("%s", error_text(r));
    for (uint32_t i = 0; i < s.n; i++)
        if (s.want[i] &&
            memcmp(s.logits + (size_t)rows++ * s.vocab, all->logits + (size_t)i * s.vocab, s.vocab * sizeof(float)))
            fail_msg("the logits of token %u differ where not all are wanted", i);
    fixture_seq_fini(&s);
}

void fixture_same_logits(const struct fixture_seq *a, const struct fixture_seq *b)
{
    assert_int_equal(a->done, b->done);
    for (uint32_t i = 0; i < a->done; i++)
        if (memcmp(a->logits + (size_t)i * a->vocab, b->logits + (size_t)i * a->vocab, a->vocab * sizeof(float)))
            fail_msg("the logits of token %u differ", i);
}
