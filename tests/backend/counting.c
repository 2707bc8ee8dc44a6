/* SPDX-License-Identifier: MIT */
#include "tests/backend/counting.h"
#include "daemon/backend/backends.h"
#include "daemon/sample/candidates.h"
#include "libcommon/error.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct counts counting;
bool counting_picks;
bool counting_unknown;
int counting_host = -1;
void (*counting_hook)(uint64_t tokens);

uint64_t counting_fail;

struct wrapper {
    struct backend base;
    struct backend *cpu;
    atomic_bool lost;
};

static struct backend *cpu(const struct backend *b)
{
    return ((const struct wrapper *)b)->cpu;
}

/* Copies to host memory under way: they are done late, but before the backend changes a block. */
static struct save {
    struct save *next;
    uint32_t group, block;
    void *out;
} * saves;
static pthread_mutex_t saving = PTHREAD_MUTEX_INITIALIZER;

static void save_all(struct backend *b)
{
    pthread_mutex_lock(&saving);
    for (struct save *x; (x = saves);) {
        saves = x->next;
        if (!atomic_load(&((struct wrapper *)b)->lost)) cpu(b)->ops->kv_read(cpu(b), x->group, x->block, x->out);
        free(x);
    }
    pthread_mutex_unlock(&saving);
}

static int kv_save(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    struct save *x = malloc(sizeof(*x)), **last = &saves;
    if (!x) abort();
    *x = (struct save){NULL, group, block, out};
    memset(out, 0x55, kv_group_payload(&b->hparams.groups[group]));
    pthread_mutex_lock(&saving);
    while (*last) last = &(*last)->next;
    *last = x;
    pthread_mutex_unlock(&saving);
    return 0;
}

static int kv_saved(struct backend *b)
{
    save_all(b);
    return atomic_load(&((struct wrapper *)b)->lost) ? error_say(-EIO, "the device has failed") : 0;
}

/* The CPU's forward, which gives logits instead of ids. */
static int forward_rows(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden)
{
    const uint32_t vocab = b->hparams.vocab;
    size_t all = 0, at = 0;
    for (size_t i = 0; i < n; i++) all += e[i].n;
    struct batch_entry *entries = calloc(n, sizeof(*entries));
    uint8_t *want = calloc(all, 1);
    float *rows = malloc(all * vocab * sizeof(*rows)), *row = rows;
    struct sample_scratch *scratch;
    if (!entries || !want || !rows || sample_scratch_new(&scratch, vocab) < 0) abort();
    for (size_t i = 0; i < n; at += e[i++].n) {
        entries[i] = e[i];
        entries[i].want = want + at;
        for (uint32_t j = 0; e[i].want && j < e[i].n; j++)
            want[at + j] = e[i].want[j] & WANT_BEST ? (e[i].want[j] & ~WANT_BEST) | WANT_LOGITS : e[i].want[j];
    }
    int r = cpu(b)->ops->forward(cpu(b), entries, n, rows, hidden);
    for (size_t i = 0; !r && i < n; i++) {
        int32_t *best = e[i].best;
        for (uint32_t j = 0; j < e[i].n; j++) {
            const unsigned wanted = e[i].want ? e[i].want[j] : 0;
            const struct logits_row x = {.logits = row, .vocab = vocab, .scratch = scratch};
            if (wanted & WANT_BEST) *best++ = candidates_largest(&x);
            if (wanted & WANT_LOGITS) memcpy(logits, row, vocab * sizeof(*row)), logits += vocab;
            if (wanted & (WANT_LOGITS | WANT_BEST)) row += vocab;
        }
    }
    sample_scratch_free(scratch);
    free(entries);
    free(want);
    free(rows);
    return r;
}

/* No block has what it had. */
static void spoil(struct backend *b)
{
    for (uint32_t g = 0; g < b->hparams.n_groups; g++) {
        const size_t bytes = kv_group_payload(&b->hparams.groups[g]);
        uint8_t *payload = malloc(bytes + 1);
        if (!payload) abort();
        memset(payload, 0x55, bytes);
        for (uint32_t i = 0; bytes && i < b->kv_blocks[g]; i++) cpu(b)->ops->kv_write(cpu(b), g, i, payload);
        free(payload);
    }
}

static bool fails(struct backend *b)
{
    struct wrapper *w = (struct wrapper *)b;
    if (!counting_fail || counting.forwards != counting_fail) return atomic_load(&w->lost);
    counting_fail = 0;
    atomic_store(&w->lost, true);
    return true;
}

static int recover(struct backend *b)
{
    struct wrapper *w = (struct wrapper *)b;
    spoil(b);
    atomic_store(&w->lost, false);
    counting.recoveries++;
    return 0;
}

static int forward(struct backend *b, const struct batch_entry *e, size_t n, float *logits, float *hidden)
{
    const uint64_t before = counting.tokens;
    counting.forwards++;
    for (size_t i = 0; i < n; i++) {
        counting.tokens += e[i].n;
        for (uint32_t j = 0; e[i].want && j < e[i].n; j++) {
            counting.rows += (e[i].want[j] & WANT_LOGITS) != 0;
            counting.picks += (e[i].want[j] & WANT_BEST) != 0;
        }
    }
    if (fails(b)) return error_say(-EIO, "the device has failed");
    save_all(b);
    if (counting_hook) counting_hook(counting.tokens - before);
    cpu(b)->timing = b->timing;
    return (b->ops->picks ? forward_rows : cpu(b)->ops->forward)(b->ops->picks ? b : cpu(b), e, n, logits, hidden);
}

static void kv_copy(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens)
{
    counting.copies++;
    save_all(b);
    cpu(b)->ops->kv_copy(cpu(b), group, dst, src, tokens);
}

static int kv_read(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    if (atomic_load(&((struct wrapper *)b)->lost)) return error_say(-EIO, "the device has failed");
    return cpu(b)->ops->kv_read(cpu(b), group, block, out);
}

static void kv_write(struct backend *b, uint32_t group, uint32_t block, const void *in)
{
    if (!atomic_load(&((struct wrapper *)b)->lost)) cpu(b)->ops->kv_write(cpu(b), group, block, in);
}

static void kv_release(struct backend *b, uint32_t group, uint32_t first, uint32_t n)
{
    cpu(b)->ops->kv_release(cpu(b), group, first, n);
}

static int host_alloc(struct backend *b, size_t bytes, void **out)
{
    pthread_mutex_lock(&saving);
    const bool more = counting.pieces < (uint64_t)counting_host;
    counting.pieces += more;
    pthread_mutex_unlock(&saving);
    if (!more) return error_say(-ENOMEM, "no pinned memory");
    *out = malloc(bytes);
    if (!*out) abort();
    return 0;
}

static void host_free(struct backend *b, void *p)
{
    counting.pieces -= p != NULL;
    free(p);
}

static int verify_weights(struct backend *b, const atomic_bool *stop)
{
    return cpu(b)->ops->verify_weights(cpu(b), stop);
}

static void keep_weights(struct backend *b, const atomic_bool *stop)
{
    cpu(b)->ops->keep_weights(cpu(b), stop);
}

static int fingerprint(const struct backend *b, struct fingerprint *out)
{
    return counting_unknown ? 1 : cpu(b)->ops->fingerprint(cpu(b), out);
}

static int kv_identity(const struct backend *b, uint8_t out[16])
{
    return backend_kv_identity(cpu(b), out);
}

static void logsumexp(const struct backend *b, const float *logits, float *max, float *lse)
{
    counting.logsumexps++;
    backend_logsumexp(cpu(b), logits, max, lse);
}

static struct backend *wrapper_free(struct backend *b)
{
    backend_free(cpu(b));
    free(b);
    return NULL;
}

static struct backend_ops ops = {.forward = forward,
                                 .kv_copy = kv_copy,
                                 .kv_read = kv_read,
                                 .kv_write = kv_write,
                                 .kv_release = kv_release,
                                 .verify_weights = verify_weights,
                                 .keep_weights = keep_weights,
                                 .fingerprint = fingerprint,
                                 .kv_identity = kv_identity,
                                 .logsumexp = logsumexp,
                                 .host_free = host_free,
                                 .kv_save = kv_save,
                                 .kv_saved = kv_saved,
                                 .recover = recover,
                                 .free = wrapper_free};

static int counting_new(struct backend **out, const struct gguf *g, const struct backend_config *c)
{
    struct wrapper *w = calloc(1, sizeof(*w));
    if (!w) return error_origin(-ENOMEM);
    int r = backend_cpu.new(&w->cpu, g, c);
    if (r) {
        free(w);
        return r;
    }
    w->base = *w->cpu;
    ops.picks = counting_picks;
    ops.host_alloc = counting_host < 0 ? NULL : host_alloc;
    w->base.ops = &ops;
    counting.made++;
    *out = &w->base;
    return 0;
}

static int check(const struct gguf *g, const struct hparams *h, size_t *bytes)
{
    return backend_cpu.check(g, h, bytes);
}

static int is_packed(const struct gguf *g, const char *packed_dir)
{
    return backend_cpu.is_packed(g, packed_dir);
}

static const struct backend_type type = {
    .name = "counting", .new = counting_new, .check = check, .is_packed = is_packed};

const struct backend_type *const backend_types[] = {&type, &backend_cpu, NULL};
