/* SPDX-License-Identifier: MIT */
/* Low-rank adapters on the device: batches of several adapters, scales and none, beside the CPU's results of each
 * sequence alone; adapters of all matrices that can have one, of all types. */
#include "daemon/model/adapter.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "tests/backend/cuda/test-cuda.h"
#include "tests/support/lora-file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH   70
#define ADAPTERS 3
#define SEQS     7

static const float scales[] = {1, -0.5f, 2};

static struct gguf *open_untied(const char *arch)
{
    char name[64];
    struct tiny t;
    struct buf b = BUF_INIT;
    struct gguf *g;
    snprintf(name, sizeof(name), "%s", arch);
    char *type = strchr(name, '/');
    if (type) *type++ = 0;
    tiny_init(&t);
    t.type = type ? (uint32_t)tiny_type(type) : 0;
    t.arch = name;
    t.tied = false;
    if (devices.n) t.layers = devices.n + 1;
    model_file_tiny_bytes(&b, &t);
    assert_int_equal(model_file_open(&g, b.data, b.len), 0);
    buf_fini(&b);
    return g;
}

/* Adapter number @i, of an own rank, type and choice of matrices. */
static struct adapter *make(const struct gguf *g, uint32_t i)
{
    static const uint32_t ranks[] = {4, 16, 35}, types[] = {0, 1, 30};
    const char *const only[] = {NULL,
                                gguf_find_tensor(g, "output.weight")
                                    ? "attn_q,attn_v,attn_output,ffn_down,ssm_in,ffn_gate_inp,token_embd.weight,"
                                    : NULL,
                                "attn_q,attn_qkv,ffn_up,ffn_down,ssm_in,ffn_up_shexp,output.weight,"};
    struct lora_file l;
    struct buf b = BUF_INIT;
    struct adapter *a = NULL;
    lora_file_init(&l);
    l.seed = 7 + i;
    l.rank = ranks[i];
    l.type = types[i];
    l.only = only[i];
    l.alpha = i == 1 ? 0 : 8;
    assert_int_equal(lora_file_bytes(&b, &l, g), 0);
    _cleanup_(freep) char *path = model_file_write(b.data, b.len);
    if (adapter_open(&a, path, g)) fail_msg("%s", error_text(-EINVAL));
    unlink(path);
    buf_fini(&b);
    return a;
}

static void load(struct backend *b, const struct adapter *a, uint32_t want)
{
    uint32_t number = 0;
    uint64_t bytes = 0;
    assert_non_null(b->ops->adapter_load);
    if (b->ops->adapter_load(b, a, &number, &bytes)) fail_msg("%s", error_text(-EINVAL));
    assert_int_equal(number, want);
}

/* Sequence number @i: three with the same tokens and other adapters, one without, and others. */
static void begin(struct backend_seq *s, const struct backend *b, uint32_t i, uint32_t block)
{
    backend_seq_init(s, b, LENGTH, i < 4 ? 5 : 50 + i, block);
    s->state = 1 + i;
    s->adapter = i % 4 < ADAPTERS ? i % 4 + 1 : 0;
    s->adapter_scale = i < 4 ? scales[i % ADAPTERS] : 3;
}

/* Each sequence alone on the CPU; all of them in batches on the device, prompts and single tokens. */
static void compare(struct pair *p)
{
    struct backend_seq want[SEQS], got[SEQS];
    for (uint32_t i = 0; i < SEQS; i++) {
        begin(&want[i], p->cpu, i, 4 * i);
        backend_seq_run(p->cpu, &want[i], 40);
        begin(&got[i], p->gpu, i, 4 * i);
    }
    for (uint32_t step = 0, left = 1; left; step++) {
        uint32_t n[SEQS];
        left = 0;
        for (uint32_t i = 0; i < SEQS; i++) {
            const uint32_t rest = LENGTH - got[i].done, most = step % 5 ? 1 : (step * 5 + i * 11) % 29;
            n[i] = most < rest ? most : rest;
            left += rest;
        }
        if (left) backend_seq_step(p->gpu, got, n, SEQS);
    }
    for (uint32_t i = 0; i < SEQS; i++) {
        backend_seq_same_logits(&want[i], &got[i]);
        if (i < 4) backend_seq_some_wanted(p->gpu, &want[i], 40);
    }
    same_blocks(p, 0, 4 * SEQS);
    for (uint32_t i = 0; i < SEQS; i++) backend_seq_fini(&want[i]), backend_seq_fini(&got[i]);
}

/* A token at a time, of which some kernels compute products, norms and activations at once. */
static void compare_alone(struct pair *p)
{
    struct backend_seq want, got;
    const uint32_t first = 40;
    begin(&want, p->cpu, 1, 0);
    begin(&got, p->gpu, 1, 0);
    backend_seq_run(p->cpu, &want, LENGTH);
    backend_seq_step(p->gpu, &got, &first, 1);
    backend_seq_run(p->gpu, &got, 1);
    backend_seq_same_logits(&want, &got);
    backend_seq_fini(&want);
    backend_seq_fini(&got);
}

void test_adapters(void **state)
{
    struct pair p = open_both(open_untied(*state), (struct tiny_backend_config){.blocks = 64, .kv_type = KERN_KV_F16});
    struct adapter *a[ADAPTERS];
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        a[i] = make(p.g, i);
        load(p.cpu, a[i], i + 1);
        load(p.gpu, a[i], i + 1);
        if (i == 1) compare_alone(&p); /* a third one comes later */
    }
    compare(&p);
    backend_free(p.cpu);
    backend_free(p.gpu);
    for (uint32_t i = 0; i < ADAPTERS; i++) adapter_close(a[i]);
    gguf_close(p.g);
}
