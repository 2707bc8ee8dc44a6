/* SPDX-License-Identifier: MIT */
/* Layers that predict later tokens, on the device beside the CPU: logits, states and KV, in any chunks. */
#include "libcommon/error.h"
#include "tests/backend/cuda/test-cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 70

static struct backend *open_layer(const struct gguf *g, struct backend *model)
{
    struct backend *layer = NULL;
    struct backend_config c = model->config;
    c.mtp_of = model;
    c.pool = model->ops->compute_pool(model);
    if (backend_new(&layer, g, &c) < 0) fail_msg("%s", error_text(-EINVAL));
    return layer;
}

/* The pairs of a sequence. */
struct pairs {
    int32_t tokens[LENGTH];
    float *states; /* [LENGTH][dim] of the model */
};

static void run_model(struct backend *b, struct pairs *p)
{
    struct backend_seq s;
    backend_seq_init(&s, b, LENGTH, 5, 0);
    const struct batch_entry e = backend_seq_entry(&s, LENGTH);
    memset(s.want, WANT_HIDDEN, LENGTH);
    memcpy(p->tokens, s.tokens, sizeof(p->tokens));
    p->states = calloc(LENGTH, b->hparams.dim * sizeof(float));
    assert_non_null(p->states);
    assert_int_equal(b->ops->forward(b, &e, 1, NULL, p->states), 0);
    backend_seq_fini(&s);
}

/* What the layer gives for the pairs in chunks.. */
static void run_layer(struct backend *b, const struct pairs *p, uint32_t chunk, float *logits, float *next)
{
    const struct hparams *y = &b->hparams;
    uint32_t table[LENGTH / KV_BLOCK + 1];
    const uint32_t *const tables[] = {table};
    uint8_t want[LENGTH];
    memset(want, WANT_LOGITS | (next ? WANT_HIDDEN : 0), sizeof(want));
    for (uint32_t i = 0; i < sizeof(table) / sizeof(*table); i++) table[i] = i;
    for (uint32_t at = 0; at < LENGTH; at += chunk) {
        const uint32_t n = LENGTH - at < chunk ? LENGTH - at : chunk;
        const struct batch_entry e = {.blocks = tables,
                                      .pos = at,
                                      .n = n,
                                      .tokens = p->tokens + at,
                                      .states = p->states + (size_t)at * y->dim,
                                      .want = want};
        float *to = next ? next + (size_t)at * y->dim : NULL;
        if (b->ops->forward(b, &e, 1, logits + (size_t)at * y->vocab, to)) fail_msg("%s", error_text(-EIO));
    }
}

void test_mtp(void **state)
{
    static const uint32_t chunks[] = {LENGTH, 1, 3, 32};
    char name[64];
    struct tiny t;
    tiny_init(&t);
    snprintf(name, sizeof(name), "%s", (const char *)*state);
    char *type = strchr(name, '/');
    if (type) *type++ = 0;
    t.type = type ? (uint32_t)tiny_type(type) : 0;
    t.arch = name;
    struct pair p = open_both(model_file_tiny(&t), (struct tiny_backend_config){.kv_type = KERN_KV_F16});
    struct pair layer = {.cpu = open_layer(p.g, p.cpu), .gpu = open_layer(p.g, p.gpu)};
    const struct hparams *y = &layer.cpu->hparams;
    const size_t logits = (size_t)LENGTH * y->vocab * sizeof(float), states = (size_t)LENGTH * y->dim * sizeof(float);
    float *want = malloc(logits), *got = malloc(logits), *next = malloc(states), *got_next = malloc(states);
    struct pairs pairs, of_gpu;
    assert_true(want && got && next && got_next);
    run_model(p.cpu, &pairs);
    run_model(p.gpu, &of_gpu);
    assert_memory_equal(pairs.states, of_gpu.states, states);
    run_layer(layer.cpu, &pairs, LENGTH, want, next);
    for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
        run_layer(layer.gpu, &of_gpu, chunks[i], got, got_next);
        assert_memory_equal(got, want, logits);
        assert_memory_equal(got_next, next, states);
        run_layer(layer.gpu, &of_gpu, chunks[i], got, NULL);
        assert_memory_equal(got, want, logits);
    }
    same_blocks(&layer, 0, LENGTH / KV_BLOCK);
    backend_free(layer.cpu);
    backend_free(layer.gpu);
    close_pair(&p);
    free(want), free(got), free(next), free(got_next);
    free(pairs.states), free(of_gpu.states);
}
