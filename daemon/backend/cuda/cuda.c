/* SPDX-License-Identifier: MIT */
/* The CUDA backend: creation and destruction. forward.c and attention.c compute. */
#include "daemon/backend/cuda/cuda.h"
#include "daemon/backend/backends.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdlib.h>

#define SPAN  ((size_t)64 << 20)  /* bytes of weights that are copied at once */
#define SPARE ((size_t)512 << 20) /* device memory that stays free, for the driver */

#define TOKENS       2048 /* of a step, unless they are configured: at most, */
#define TOKENS_SHARE 16   /* and their buffers take at most this part of the free memory */

static struct backend *cuda_backend_free(struct backend *b)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    struct cuda *c = &x->part;
    if (atomic_load(&x->failed)) c->device.context = NULL; /* its memory is freed when the process ends */
    if (c->device.context) c->device.driver->cuCtxSetCurrent(c->device.context); /* a message that is set stays */
    if (c->device.context) cuda_forget_graphs(c);
    if (c->device.context && x->pinned) c->device.driver->cuMemHostUnregister(x->host.scratch.x);
    cuda_fini_buffers(c);
    if (c->device.context) cuda_free(&c->device, c->weights);
    cuda_device_close(&c->device);
    cpu_close(&x->host);
    free(x);
    return NULL;
}

static int upload_weights(struct cuda *c)
{
    const struct weights *w = &c->host->weights;
    int r = cuda_alloc(&c->device, (void **)&c->weights, w->table.size, "the weights");
    for (size_t i = 0; !r && i < w->table.size; i += SPAN) {
        const size_t n = w->table.size - i < SPAN ? w->table.size - i : SPAN;
        r = cuda_upload(&c->device, c->weights + i, (const uint8_t *)w->mem + i, n);
    }
    return r ? r : cuda_wait(&c->device);
}

/* The rows that the host embeds are copied in each pass. Where the kernel refuses to pin them, only speed is lost. */
static void pin_rows(struct cuda_backend *x)
{
    const size_t bytes = (size_t)x->host.base.config.batch_tokens * x->host.base.hparams.dim * sizeof(float);
    x->pinned = !x->part.device.driver->cuMemHostRegister(x->host.scratch.x, bytes, 0);
}

/* Products and attention of 2048 tokens keep all multiprocessors busy; a step of them takes less time than one of
 * BACKEND_TOKENS on a CPU. Fewer, where their buffers would need a large part of the memory that is @left. */
static uint32_t default_tokens(const struct hparams *s, uint32_t ctx, size_t left)
{
    uint32_t rows[2], n = TOKENS;
    while (n > BACKEND_TOKENS && cuda_buffers_bytes(s, n, ctx, &rows[0], &rows[1]) > left / TOKENS_SHARE) n /= 2;
    return n;
}

/* KV takes what the weights and the buffers leave of the device's memory, at most. */
static int limit_memory(const struct cuda *c, const struct gguf *g, const struct hparams *s,
                        struct backend_config *config)
{
    size_t left = 0, all = 0, weights = 0;
    uint32_t rows[2];
    const uint32_t ctx = config->ctx && config->ctx < s->ctx ? config->ctx : s->ctx;
    int r = weights_check(g, s, &weights);
    if (!r) r = cuda_result(&c->device, c->device.driver->cuMemGetInfo(&left, &all), "memory");
    if (r) return r;
    if (!config->batch_tokens) config->batch_tokens = default_tokens(s, ctx, left);
    const size_t texts = s->embedding.whole ? config->batch_tokens * backend_kv_bytes(s, KERN_KV_F32, 0) : 0;
    const size_t used = weights + texts + SPARE + cuda_buffers_bytes(s, config->batch_tokens, ctx, &rows[0], &rows[1]);
    if (used >= left)
        return error_say(-ENOMEM, "%s: the weights and buffers need %zu MiB of device memory, %zu MiB are free",
                         c->device.name, used >> 20, left >> 20);
    if (config->kv_bytes > left - used) {
        log_info("%s: the KV pool is limited to %zu MiB, what the device has left", c->device.name,
                 (left - used) >> 20);
        config->kv_bytes = left - used;
    }
    return 0;
}

static int open_all(struct cuda_backend *x, const struct gguf *g, const struct backend_config *given)
{
    struct backend_config config = *given;
    struct cuda *c = &x->part;
    struct hparams s;
    if (given->mtp_of) return error_say(-EOPNOTSUPP, "an MTP layer cannot be computed on a GPU yet");
    c->host = &x->host;
    x->tokens_given = config.batch_tokens;
    int r = hparams_read(&s, g);
    if (!r) r = cuda_supports(g, &s);
    if (!r) r = cuda_device_open(&c->device, config.device.number);
    if (!r) r = limit_memory(c, g, &s, &config);
    x->host.kv_apart = true;
    if (!r) r = cpu_open(&x->host, g, &config);
    if (!r) r = upload_weights(c);
    if (!r) r = cuda_init_buffers(c);
    if (!r) pin_rows(x);
    return r ? r : cuda_find_kernels(c);
}

static int cuda_backend_new(struct backend **out, const struct gguf *g, const struct backend_config *config)
{
    struct cuda_backend *x = calloc(1, sizeof(*x));
    if (!x) return error_say(-ENOMEM, "out of memory for the CUDA backend");
    struct backend *b = &x->host.base;
    int r = open_all(x, g, config);
    if (r) {
        cuda_backend_free(b);
        return r;
    }
    x->ops = *b->ops;
    x->ops.forward = cuda_forward;
    x->ops.kv_copy = cuda_kv_copy;
    x->ops.kv_read = cuda_kv_read;
    x->ops.kv_write = cuda_kv_write;
    x->ops.kv_release = cuda_kv_release;
    x->ops.recover = cuda_recover;
    x->ops.adapter_load = NULL;
    x->ops.picks = true;
    x->ops.free = cuda_backend_free;
    b->ops = &x->ops;
    b->isa = x->part.device.name;
    *out = b;
    return 0;
}

static int check(const struct gguf *g, const struct hparams *s, size_t *bytes)
{
    int r = cuda_supports(g, s);
    return r ? r : backend_cpu.check(g, s, bytes);
}

static int is_packed(const struct gguf *g, const char *dir)
{
    return backend_cpu.is_packed(g, dir);
}

static int probe(uint32_t number, bool start)
{
    const struct cuda_driver *d;
    if (!start) return cuda_driver_load();
    int r = cuda_driver(&d);
    return r ? r : cuda_check_number(d, number);
}

const struct backend_type backend_cuda = {
    .name = "cuda", .new = cuda_backend_new, .check = check, .is_packed = is_packed, .probe = probe};
