/* SPDX-License-Identifier: MIT */
/* The states of recurrent layers. Catches: a state that depends on how a prompt was cut, a save that is off by a token
 * or changes the sequence, a sequence that continues from another's state, an old state at position 0. */
#include "daemon/backend/cpu/cpu.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH 60

static struct gguf *open_arch(const char *arch)
{
    struct tiny t;
    struct buf b = BUF_INIT;
    struct gguf *g;
    tiny_init(&t);
    t.type = 0;
    t.arch = arch;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    buf_fini(&b);
    return g;
}

static uint32_t group_of(const struct backend *b)
{
    return b->hparams.n_groups - 1;
}

/* The caller frees it. */
static uint8_t *read_state(struct backend *b, uint32_t block)
{
    uint8_t *p = malloc(b->hparams.groups[group_of(b)].state_bytes);
    assert_non_null(p);
    b->ops->kv_read(b, group_of(b), block, p);
    return p;
}

static void same_states(struct backend *b, uint32_t one, uint32_t two)
{
    uint8_t *x = read_state(b, one), *y = read_state(b, two);
    if (memcmp(x, y, b->hparams.groups[group_of(b)].state_bytes)) fail_msg("states %u and %u differ", one, two);
    free(x);
    free(y);
}

/* The group's place and size. */
static void test_group(void **state)
{
    struct gguf *g = open_arch(*state);
    struct hparams s;
    uint32_t recurrent = 0, attention = 0;
    assert_int_equal(hparams_read(&s, g), 0);
    for (uint32_t l = 0; l < s.n_layers; l++) {
        recurrent += (s.by_layer.parts[l] & LAYER_RECURRENT) != 0;
        attention += (s.by_layer.parts[l] & LAYER_ATTENTION) != 0;
    }
    const struct kv_group *of = hparams_state(&s);
    assert_ptr_equal(of, &s.groups[s.n_groups - 1]);
    assert_true(of->n_layers == recurrent && recurrent > 0 && s.groups[0].n_layers == attention);
    assert_true(of->kind == KV_STATE && s.groups[0].kind == KV_FULL && of->bytes_per_token == 0);
    assert_int_equal(of->state_bytes, kern_align((uint64_t)recurrent * s.recurrent.floats * 4));
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    assert_int_equal(b->kv_blocks[s.n_groups - 1], TINY_STATES);
    assert_int_equal(b->hparams.groups[0].bytes_per_token, 2 * 2 * b->hparams.head_dim * 4 * attention);
    backend_free(b);
    gguf_close(g);
}

/* States saved after each token of one batch are those of token by token, and change nothing. */
static void test_saves(void **state)
{
    struct gguf *g = open_arch(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    struct backend_seq alone, s;
    backend_seq_init(&alone, b, LENGTH, 5, 0);
    backend_seq_init(&s, b, LENGTH, 5, 8);
    uint32_t at = 0, sizes[] = {1, 2, 3, 11, 4, 12, 7, 12, 8};
    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); at += sizes[i++]) {
        struct state_save saves[12];
        for (uint32_t k = 0; k < sizes[i]; k++) saves[k] = (struct state_save){k + 1, 2 + k};
        s.saves = saves;
        s.n_saves = sizes[i];
        backend_seq_step(b, &s, &sizes[i], 1);
        for (uint32_t k = 0, one = 1; k < sizes[i]; k++) {
            backend_seq_step(b, &alone, &one, 1);
            same_states(b, alone.state, 2 + k);
        }
        same_states(b, alone.state, s.state);
    }
    assert_int_equal(at, LENGTH);
    backend_seq_same_logits(&alone, &s);
    backend_seq_fini(&alone);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

/* Continued from a save: in the same backend by a copy, in another by its bytes. */
static void test_restores(void **state)
{
    struct gguf *g = open_arch(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.threads = 2});
    struct backend *other = tiny_backend(g, &(struct tiny_backend_config){.cpu = "scalar"});
    struct backend_seq whole, s;
    const struct state_save save = {37, 3};
    uint32_t all = LENGTH, group = group_of(b);
    backend_seq_init(&whole, b, LENGTH, 5, 0);
    whole.saves = &save, whole.n_saves = 1;
    backend_seq_step(b, &whole, &all, 1);
    backend_seq_init(&s, b, LENGTH, 5, 0); /* the KV of the first */
    s.state = 5;
    s.done = save.n;
    memcpy(s.logits, whole.logits, (size_t)LENGTH * s.vocab * sizeof(float));
    b->ops->kv_copy(b, group, 5, save.block, 0);
    backend_seq_run(b, &s, 9);
    backend_seq_same_logits(&whole, &s);
    same_states(b, 5, whole.state);
    size_t bytes = b->hparams.groups[0].bytes_per_token * KV_BLOCK;
    uint8_t *x = read_state(b, save.block), *kv = malloc(bytes + 1);
    assert_non_null(kv);
    other->ops->kv_write(other, group, 4, x);
    for (uint32_t i = 0; bytes && i < 2; i++) {
        b->ops->kv_read(b, 0, i, kv);
        other->ops->kv_write(other, 0, i, kv);
    }
    s.state = 4;
    s.done = save.n;
    backend_seq_run(other, &s, 23);
    backend_seq_same_logits(&whole, &s);
    free(kv);
    free(x);
    backend_seq_fini(&whole);
    backend_seq_fini(&s);
    backend_free(other);
    backend_free(b);
    gguf_close(g);
}

/* At position 0 the block's old content is of no meaning, even if it has NaNs. A state matters after that. */
static void test_starts_from_zero(void **state)
{
    struct gguf *g = open_arch(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq want, s;
    uint8_t *nan = read_state(b, 0);
    memset(nan, 0xff, b->hparams.groups[group_of(b)].state_bytes);
    backend_seq_init(&want, b, LENGTH, 5, 0);
    backend_seq_run(b, &want, LENGTH);
    backend_seq_init(&s, b, LENGTH, 5, 8);
    b->ops->kv_write(b, group_of(b), s.state, nan);
    backend_seq_run(b, &s, 7);
    backend_seq_same_logits(&want, &s);
    s.done = LENGTH - 1;
    memset(nan, 0, b->hparams.groups[group_of(b)].state_bytes);
    b->ops->kv_write(b, group_of(b), s.state, nan);
    backend_seq_run(b, &s, 1);
    assert_memory_not_equal(want.logits + (LENGTH - 1) * s.vocab, s.logits + (LENGTH - 1) * s.vocab, s.vocab * 4);
    free(nan);
    backend_seq_fini(&want);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

static void refused(struct backend *b, const struct batch_entry *e, int error, const char *why)
{
    float *logits = malloc((size_t)b->hparams.vocab * 8 * sizeof(*logits));
    assert_non_null(logits);
    assert_int_equal(b->ops->forward(b, e, 1, logits, NULL), error);
    if (!strstr(error_text(error), why)) fail_msg("\"%s\" does not say \"%s\"", error_text(error), why);
    free(logits);
}

static void test_wrong_states(void **state)
{
    struct gguf *g = open_arch(*state);
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){0});
    struct backend_seq s;
    backend_seq_init(&s, b, 8, 5, 0);
    struct batch_entry e = backend_seq_entry(&s, 8);
    e.state.block = TINY_STATES;
    refused(b, &e, -EINVAL, "state 16 of 16");
    struct state_save saves[] = {{3, 2}, {3, 4}};
    e.state = (struct batch_state){0, 2, saves};
    refused(b, &e, -EINVAL, "the state after 3 of 8 tokens cannot be saved");
    saves[1].n = 9;
    refused(b, &e, -EINVAL, "the state after 9 of 8 tokens cannot be saved");
    saves[0].block = 0;
    refused(b, &e, -EINVAL, "state 0 of 16 to save state 0 to");
    e.state.n_saves = 0;
    e.window = 64;
    refused(b, &e, -EOPNOTSUPP, "has recurrent layers and cannot rotate");
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

/* Without a number of states, they get a share of the memory; less than one state is an error. */
static void test_share(void **state)
{
    struct gguf *g = open_arch(*state);
    struct hparams s;
    struct backend *b = NULL;
    assert_int_equal(hparams_read(&s, g), 0);
    const uint64_t one = hparams_state(&s)->state_bytes;
    struct backend_config c = {.threads = 1, .kv_bytes = 64 * one + (1 << 20), .batch_tokens = 8};
    assert_int_equal(backend_new(&b, g, &c), 0);
    uint32_t states = b->kv_blocks[s.n_groups - 1];
    assert_true(states >= 1 && states * one <= c.kv_bytes && b->config.kv_bytes <= c.kv_bytes && b->kv_blocks[0] > 0);
    backend_free(b);
    c.kv_bytes = one - 1;
    assert_int_equal(backend_new(&b, g, &c), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "states of the recurrent layers"));
    gguf_close(g);
}

#define EACH(name)                                                                                                     \
    {"group " name, test_group, NULL, NULL, (void *)(name)}, {"saves " name, test_saves, NULL, NULL, (void *)(name)},  \
        {"restores " name, test_restores, NULL, NULL, (void *)(name)},                                                 \
        {"zero " name, test_starts_from_zero, NULL, NULL, (void *)(name)},                                             \
        {"wrong " name, test_wrong_states, NULL, NULL, (void *)(name)},                                                \
    {                                                                                                                  \
        "share " name, test_share, NULL, NULL, (void *)(name)                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {EACH("lfm2"),       EACH("mamba2"), EACH("granitehybrid"), EACH("falcon-h1"),
                                       EACH("nemotron_h"), EACH("qwen35"), EACH("qwen3next")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
