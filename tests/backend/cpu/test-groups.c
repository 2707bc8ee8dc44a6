/* SPDX-License-Identifier: MIT */
/* Two KV groups: layers with a window in a group of their own give the same bits, also when the blocks before the
 * window were given back; and how the bytes of KV are divided. */
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW 70 /* of tiny-arch.c */
#define LENGTH 900

static struct gguf *model(const char *arch)
{
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    t.ctx = 2048;
    return model_file_tiny(&t);
}

static void test_split(void **state)
{
    struct gguf *g = model("gemma3"), *all = model("phi3"), *none = model("llama");
    struct gguf *shared = model("gemma3n");
    struct hparams s;
    assert_int_equal(hparams_read(&s, g), 0);
    assert_int_equal(s.n_groups, 1);
    hparams_split(&s);
    assert_int_equal(s.n_groups, 2);
    assert_true(s.groups[0].n_layers == 1 && s.groups[0].kind == KV_FULL && !s.groups[0].window);
    assert_true(s.groups[1].n_layers == 6 && s.groups[1].kind == KV_WINDOW && s.groups[1].window == WINDOW);
    assert_int_equal(hparams_group(&s, 0), 1);
    assert_int_equal(hparams_group(&s, 5), 0);
    assert_int_equal(kv_group_first(&s.groups[1], WINDOW - 1), 0);
    assert_int_equal(kv_group_first(&s.groups[1], WINDOW), 1);
    assert_int_equal(kv_group_first(&s.groups[0], 2000), 0);
    assert_int_equal(hparams_read(&s, shared), 0); /* the last 5 of 25 layers have no KV of their own */
    assert_int_equal(s.groups[0].n_layers, 20);
    hparams_split(&s);
    assert_true(s.groups[0].n_layers == 4 && s.groups[1].n_layers == 16);
    assert_true(hparams_kv_layer(&s, 19) == 19 && hparams_kv_layer(&s, 20) == 18 && hparams_kv_layer(&s, 24) == 19);
    assert_int_equal(hparams_read(&s, all), 0); /* all layers have a window: group 0 has to keep all positions */
    hparams_split(&s);
    assert_int_equal(s.n_groups, 1);
    assert_int_equal(hparams_read(&s, none), 0);
    hparams_split(&s);
    assert_int_equal(s.n_groups, 1);
    gguf_close(g);
    gguf_close(all);
    gguf_close(none);
    gguf_close(shared);
}

/* Few blocks: as many in both groups. Many: both have room for as many long sequences. Never more bytes than told. */
static void test_division(void **state)
{
    struct gguf *g = model("gemma3");
    const uint32_t seen = (WINDOW + 256) / KV_BLOCK + 2, all = 2048 / KV_BLOCK;
    for (uint32_t blocks = 1; blocks < 700; blocks += 37) {
        struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.blocks = blocks, .window_group = true});
        const struct kv_group *full = &b->hparams.groups[0], *window = &b->hparams.groups[1];
        uint32_t n = b->kv_blocks[0], w = b->kv_blocks[1];
        assert_true(n >= blocks && w >= 1);
        assert_true(n <= seen ? w == n : w >= seen && w == (n > all ? n * seen / all : seen));
        uint64_t took = KV_BLOCK * (n * full->bytes_per_token + w * window->bytes_per_token);
        assert_true(b->config.kv_bytes == took);
        assert_true(took <= KV_BLOCK * (uint64_t)blocks * (full->bytes_per_token + window->bytes_per_token));
        backend_free(b);
    }
    struct backend_config none = {.ctx = 64, .kv_bytes = 100, .batch_tokens = 32, .window_group = true};
    struct backend *b = NULL;
    assert_int_equal(backend_new(&b, g, &none), -EINVAL);
    gguf_close(g);
}

/* KV of two sizes: in one group a block has the larger one in each layer, and a copy keeps the other tokens. */
static void test_two_sizes(void **state)
{
    struct gguf *g = model("gemma4");
    struct backend *one = tiny_backend(g, &(struct tiny_backend_config){.kv_type = KERN_KV_F32});
    struct backend *two = tiny_backend(g, &(struct tiny_backend_config){.kv_type = KERN_KV_F32, .window_group = true});
    const uint64_t full = 2ul * 2 * 32 * 4, window = 2ul * 2 * 16 * 4; /* bytes of a token in a layer */
    assert_int_equal(one->hparams.groups[0].bytes_per_token, 5 * full);
    assert_int_equal(two->hparams.groups[0].bytes_per_token, 2 * full);
    assert_int_equal(two->hparams.groups[1].bytes_per_token, 3 * window);
    const size_t bytes = one->hparams.groups[0].bytes_per_token * KV_BLOCK;
    float *a = malloc(bytes), *b = malloc(bytes);
    struct backend_seq s;
    backend_seq_init(&s, one, 64, 1, 0);
    backend_seq_run(one, &s, 64);
    one->ops->kv_copy(one, 0, 1, 0, 7);
    one->ops->kv_read(one, 0, 0, a);
    one->ops->kv_read(one, 0, 1, b);
    /* K is [dim][32], and that of the first layer the smaller one: the first 7 of 32 are copied, the 8th is not */
    assert_memory_equal(a, b, 7 * sizeof(*a));
    assert_memory_equal(a + 15 * KV_BLOCK, b + 15 * KV_BLOCK, 7 * sizeof(*a));
    assert_true(a[7] != b[7]);
    free(a);
    free(b);
    backend_seq_fini(&s);
    backend_free(one);
    backend_free(two);
    gguf_close(g);
}

/* Overwrite the blocks that @s no longer sees with NaN, and take them away. */
static void trim(struct backend *b, struct backend_seq *s)
{
    size_t bytes = b->hparams.groups[1].bytes_per_token * KV_BLOCK;
    uint8_t *nan = malloc(bytes);
    memset(nan, 0xff, bytes);
    uint32_t first = kv_group_first(&b->hparams.groups[1], s->done);
    for (uint32_t j = 0; j < first / KV_BLOCK; j++) {
        if (s->window_blocks[j] == KV_NO_BLOCK) continue;
        b->ops->kv_write(b, 1, s->window_blocks[j], nan);
        s->window_blocks[j] = KV_NO_BLOCK;
    }
    free(nan);
}

static void same_bits(const char *arch, enum kern_kv type)
{
    struct gguf *g = model(arch);
    struct backend *one = tiny_backend(g, &(struct tiny_backend_config){.kv_type = type});
    struct backend *two = tiny_backend(g, &(struct tiny_backend_config){.kv_type = type, .window_group = true});
    uint32_t other[LENGTH / KV_BLOCK + 1];
    struct backend_seq a, b, c;
    uint64_t draw = 3;
    backend_seq_init(&a, one, LENGTH, 1, 0);
    backend_seq_init(&b, two, LENGTH, 1, 4);
    backend_seq_init(&c, two, LENGTH, 1, 40);
    assert_true(two->kv_blocks[1] >= 60);
    for (uint32_t j = 0; j < LENGTH / KV_BLOCK + 1; j++) other[j] = 59 - j; /* groups count their blocks alone */
    c.window_blocks = other;
    backend_seq_run(one, &a, 256);
    backend_seq_run(two, &b, 100);
    while (c.done < c.n) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        uint32_t n = 1 + (uint32_t)(draw >> 33) % (c.done % 3 ? 90 : 5);
        if (n > c.n - c.done) n = c.n - c.done;
        trim(two, &c);
        backend_seq_step(two, &c, &n, 1);
    }
    backend_seq_same_logits(&a, &b);
    backend_seq_same_logits(&a, &c);
    backend_seq_fini(&a);
    backend_seq_fini(&b);
    backend_seq_fini(&c);
    backend_free(one);
    backend_free(two);
    gguf_close(g);
}

static void test_same_bits(void **state)
{
    same_bits("gemma3", KERN_KV_F16);
    same_bits("gemma2", KERN_KV_Q8);
    same_bits("olmo3", KERN_KV_F32);
    same_bits("gpt-oss", KERN_KV_F16); /* with scores of sinks */
    same_bits("smallthinker-near", KERN_KV_F16);
    same_bits("llama4-near", KERN_KV_F16); /* with chunks */
    same_bits("gemma3n", KERN_KV_F16);     /* with layers that use the KV of others */
    same_bits("gemma4", KERN_KV_F16);      /* and with KV of two sizes, in one group too */
    same_bits("gemma4-dense", KERN_KV_Q8);
    same_bits("gemma4-experts", KERN_KV_F32);
}

/* Payloads are of each group alone; a block that is seen must be there. */
static void test_blocks(void **state)
{
    struct gguf *g = model("gemma3");
    struct backend *b = tiny_backend(g, &(struct tiny_backend_config){.window_group = true});
    struct backend_seq s;
    backend_seq_init(&s, b, 200, 1, 0);
    backend_seq_run(b, &s, 128);
    size_t bytes[2] = {b->hparams.groups[0].bytes_per_token * KV_BLOCK,
                       b->hparams.groups[1].bytes_per_token * KV_BLOCK};
    assert_int_equal(bytes[1], 6 * bytes[0]);
    uint8_t *x = malloc(bytes[1]), *y = malloc(bytes[1]);
    b->ops->kv_copy(b, 0, 9, 2, KV_BLOCK);
    b->ops->kv_read(b, 1, 9, x);
    b->ops->kv_read(b, 1, 2, y);
    assert_memory_not_equal(x, y, bytes[1]); /* the other group's block 9 is not touched */
    b->ops->kv_copy(b, 1, 9, 2, KV_BLOCK);
    b->ops->kv_read(b, 1, 9, x);
    assert_memory_equal(x, y, bytes[1]);
    uint32_t gone[7];
    memcpy(gone, s.blocks, sizeof(gone));
    gone[(200 - WINDOW) / KV_BLOCK] = KV_NO_BLOCK;
    s.window_blocks = gone;
    s.done = 199;
    struct batch_entry e = backend_seq_entry(&s, 1);
    assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), -EINVAL);
    assert_non_null(strstr(error_text(-EINVAL), "no KV block for position 128"));
    gone[0] = gone[(200 - WINDOW) / KV_BLOCK - 1] = KV_NO_BLOCK;
    gone[(200 - WINDOW) / KV_BLOCK] = s.blocks[(200 - WINDOW) / KV_BLOCK];
    assert_int_equal(b->ops->forward(b, &e, 1, s.logits, NULL), 0);
    free(x);
    free(y);
    backend_seq_fini(&s);
    backend_free(b);
    gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),     cmocka_unit_test(test_division), cmocka_unit_test(test_two_sizes),
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
