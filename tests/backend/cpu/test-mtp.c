/* SPDX-License-Identifier: MIT */
/* Layers that predict later tokens: the fast pass beside the independent one, the same bits whatever the batch, the
 * output matrix of the model, and files whose layer is not whole. Catches: halves of the pair in another order, a state
 * before or after the wrong norm, the wrong layer's tensors. */
#include "daemon/model/backend.h"
#include "daemon/reference/reference.h"
#include "libcommon/error.h"
#include "tests/backend/backend-seq.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH 70

/* The model of "@arch", or "@arch/TYPE", and its MTP layer; a run of both. */
struct mtp {
    struct gguf *g;
    struct backend *model, *layer;
    int32_t tokens[LENGTH];
    float *states;        /* [LENGTH][dim] of the model */
    float *logits, *next; /* [LENGTH][vocab], [LENGTH][dim] of the layer */
};

static void open_mtp(struct mtp *m, const char *arch, uint32_t type)
{
    struct tiny t;
    tiny_init(&t);
    t.arch = arch;
    t.type = type;
    *m = (struct mtp){.g = model_file_tiny(&t)};
    m->model = tiny_backend(m->g, &(struct tiny_backend_config){.kv_type = KERN_KV_F32});
    struct backend_config c = m->model->config;
    c.mtp_of = m->model;
    c.pool = m->model->ops->compute_pool(m->model);
    if (backend_new(&m->layer, m->g, &c) < 0) fail_msg("%s", error_text(-EINVAL));
    const size_t dim = m->model->hparams.dim;
    m->states = calloc(LENGTH, dim * sizeof(float));
    m->next = calloc(LENGTH, dim * sizeof(float));
    m->logits = calloc(LENGTH, m->model->hparams.vocab * sizeof(float));
    assert_true(m->states && m->next && m->logits);
}

static void close_mtp(struct mtp *m)
{
    backend_free(m->layer);
    backend_free(m->model);
    gguf_close(m->g);
    free(m->states);
    free(m->next);
    free(m->logits);
}

/* Run the model for its states. */
static void run_model(struct mtp *m)
{
    struct backend_seq s;
    uint8_t want[LENGTH];
    backend_seq_init(&s, m->model, LENGTH, 5, 0);
    struct batch_entry e = backend_seq_entry(&s, LENGTH);
    memset(want, WANT_HIDDEN, sizeof(want));
    e.want = want;
    assert_int_equal(m->model->ops->forward(m->model, &e, 1, NULL, m->states), 0);
    memcpy(m->tokens, s.tokens, sizeof(m->tokens));
    backend_seq_fini(&s);
}

/* Run the layer over the pairs in chunks. */
static void run_layer(struct mtp *m, uint32_t chunk, float *logits, float *next)
{
    const struct hparams *y = &m->layer->hparams;
    uint32_t table[LENGTH / KV_BLOCK + 1];
    const uint32_t *const tables[] = {table};
    uint8_t want[LENGTH];
    memset(want, WANT_LOGITS | WANT_HIDDEN, sizeof(want));
    for (uint32_t i = 0; i < sizeof(table) / sizeof(*table); i++) table[i] = i + chunk % 3;
    for (uint32_t at = 0; at < LENGTH; at += chunk) {
        const uint32_t n = LENGTH - at < chunk ? LENGTH - at : chunk;
        const struct batch_entry e = {.blocks = tables,
                                      .pos = at,
                                      .n = n,
                                      .tokens = m->tokens + at,
                                      .states = m->states + (size_t)at * y->dim,
                                      .want = want};
        assert_int_equal(
            m->layer->ops->forward(m->layer, &e, 1, logits + (size_t)at * y->vocab, next + (size_t)at * y->dim), 0);
    }
}

static float worst(const float *a, const float *b, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static void test_agrees_with_the_reference(void **state)
{
    struct mtp m;
    struct reference *r = NULL;
    open_mtp(&m, *state, 0);
    const size_t logits = (size_t)LENGTH * m.layer->hparams.vocab, states = (size_t)LENGTH * m.layer->hparams.dim;
    int e = reference_new(&r, m.g);
    if (e == 0) {
        float *want = malloc(logits * sizeof(float)), *next = malloc(states * sizeof(float));
        run_model(&m);
        run_layer(&m, LENGTH, m.logits, m.next);
        assert_int_equal(reference_mtp(r, m.tokens, m.states, LENGTH, want, next), 0);
        assert_true(worst(want, m.logits, logits) < 2e-4f);
        assert_true(worst(next, m.next, states) < 2e-4f);
        free(want);
        free(next);
    }
    reference_free(r);
    close_mtp(&m);
    if (e < 0) skip();
}

/* Chunks, and beside other sequences. */
static void test_same_bits(void **state)
{
    static const uint32_t types[] = {0, 8, 2}, chunks[] = {1, 3, 32, 50};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct mtp m;
        open_mtp(&m, *state, types[i]);
        const size_t logits = (size_t)LENGTH * m.layer->hparams.vocab, states = (size_t)LENGTH * m.layer->hparams.dim;
        float *other = malloc(logits * sizeof(float)), *next = malloc(states * sizeof(float));
        run_model(&m);
        run_layer(&m, LENGTH, m.logits, m.next);
        for (size_t c = 0; c < sizeof(chunks) / sizeof(*chunks); c++) {
            run_layer(&m, chunks[c], other, next);
            assert_memory_equal(other, m.logits, logits * sizeof(float));
            assert_memory_equal(next, m.next, states * sizeof(float));
        }
        free(other);
        free(next);
        close_mtp(&m);
    }
}

/* Its weights are its own alone, and its KV is that of one layer. */
static void test_shape(void **state)
{
    struct mtp m;
    size_t bytes;
    open_mtp(&m, *state, 8);
    struct hparams s = m.model->hparams;
    assert_int_equal(s.mtp.nextn, 1);
    hparams_mtp(&s);
    assert_int_equal(s.n_groups, 1);
    assert_int_equal(s.groups[0].n_layers, 1);
    assert_null(hparams_state(&s));
    assert_int_equal(backend_check(NULL, m.g, &s, &bytes), 0);
    assert_int_equal(m.layer->weight_bytes, bytes);
    assert_true(bytes < m.model->weight_bytes);
    assert_int_equal(m.layer->hparams.groups[0].bytes_per_token * 32, backend_kv_bytes(&s, KERN_KV_F32, 0));
    const struct batch_entry e = {
        .n = 1, .tokens = (const int32_t[]){1}, .blocks = (const uint32_t *[]){(uint32_t[]){0}}};
    assert_int_equal(m.layer->ops->forward(m.layer, &e, 1, NULL, NULL), -EINVAL); /* no state */
    close_mtp(&m);
}

/* The file without the tensor @lacks: the model loads, the layer does not. */
static void broken(const char *arch, const char *lacks, const char *instead, int error, const char *says)
{
    struct buf b = BUF_INIT;
    struct gguf *g;
    struct hparams s;
    struct tiny t;
    size_t bytes;
    tiny_init(&t);
    t.arch = arch;
    model_file_tiny_bytes(&b, &t);
    memcpy(b.data + model_file_find(&b, lacks), instead, strlen(instead));
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    assert_int_equal(hparams_read(&s, g), 0);
    assert_int_equal(backend_check(NULL, g, &s, &bytes), 0);
    hparams_mtp(&s);
    assert_int_equal(backend_check(NULL, g, &s, &bytes), error);
    if (!strstr(error_text(error), says)) fail_msg("%s", error_text(error));
    gguf_close(g);
    buf_fini(&b);
}

static void test_layers_that_are_not_whole(void **state)
{
    broken("qwen35-mtp", "blk.5.nextn.eh_proj", "blk.5.nextn.eh_PROJ", -EINVAL,
           "tensor 'blk.5.nextn.eh_proj.weight' is missing");
    broken("qwen35-mtp", "blk.5.nextn.hnorm", "blk.5.nextn.HNORM", -EINVAL,
           "tensor 'blk.5.nextn.hnorm.weight' is missing");
    broken("qwen35-mtp", "blk.5.attn_k.", "blk.5.attn_K.", -EINVAL, "tensor 'blk.5.attn_k.weight' is missing");
    broken("glm4moe", "blk.3.ffn_up_exps", "blk.3.ffn_up_EXPS", -EINVAL,
           "tensor 'blk.3.ffn_up_exps.weight' is missing");
    /* another shape: the embedding's norm in place of the projection */
    broken("qwen35-mtp", "blk.5.nextn.shared_head_norm", "blk.5.nextn.shared_head_head", -EINVAL,
           "tensor 'blk.5.nextn.shared_head_head.weight' is 64 x 1, but the model's keys say");
    broken("glm4moe", "blk.3.nextn.shared_head_norm", "blk.3.nextn.shared_HEAD_norm", -EOPNOTSUPP,
           "tensor 'blk.3.nextn.shared_HEAD_norm.weight' is not supported in a 'glm4moe' model");
}

#define EACH(name)                                                                                                     \
    {name "_agrees", test_agrees_with_the_reference, NULL, NULL, name},                                                \
        {name "_bits", test_same_bits, NULL, NULL, name},                                                              \
    {                                                                                                                  \
        name "_shape", test_shape, NULL, NULL, name                                                                    \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH("qwen35-mtp"),
        EACH("glm4moe"),
        EACH("glm4moe-normed"),
        cmocka_unit_test(test_layers_that_are_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
