/* SPDX-License-Identifier: MIT */
/* The KV blocks on the device, which are laid out as on the CPU (daemon/backend/cpu/kv-memory.h). */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>

struct cuda_kv cuda_kv_layer(const struct cuda *c, uint32_t group, uint32_t layer)
{
    const struct kv_memory *kv = &c->host->kv[group];
    const struct kv_shape *s = kv_memory_shape(kv, layer);
    return (struct cuda_kv){.mem = c->kv[group] + (size_t)layer * kv->blocks * kv->stride,
                            .stride = kv->stride,
                            .half = (uint32_t)s->half,
                            .each = (uint32_t)s->each};
}

/* A block does not have what it should: nothing may be computed any more. */
static void report(struct cuda_backend *x, int r)
{
    if (!r) return;
    log_error("%s", error_text(r));
    atomic_store(&x->failed, true);
}

void cuda_kv_copy(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    struct cuda *c = &x->part;
    const struct kv_memory *kv = &x->host.kv[group];
    if (atomic_load(&x->alone)) {
        kv_memory_copy(kv, dst, src, tokens);
        return;
    }
    if (atomic_load(&x->failed)) return;
    const bool state = c->kv[group] && !kv->shapes[0].head_dim;
    int r = dst == src ? 0 : cuda_device_use(&c->device);
    if (!r && state && dst != src) r = cuda_copy_state(c, group, dst, src);
    for (uint32_t l = 0; !r && !state && dst != src && l < kv->layers; l++) { /* layers may differ in their heads */
        const struct kv_shape *s = kv_memory_shape(kv, l);
        const struct cuda_copy a = {cuda_kv_layer(c, group, l), 0, dst, src, tokens, s->head_dim, (uint32_t)kv->type};
        r = cuda_launch(&c->device, c->kern.kv_copy, (struct cuda_grid){1, s->kv_heads, 256, 0}, &a);
    }
    if (!r) r = cuda_wait(&c->device); /* before another thread reads the block */
    report(x, r);
}

/* Copy one block of all layers, to @out or from @in, in a stream of the call's own: forward may be running. */
static int copy_apart(const struct cuda *c, uint32_t group, uint32_t block, uint8_t *out, const uint8_t *in)
{
    const struct cuda_driver *d = c->device.driver;
    const size_t bytes = c->host->kv[group].stride;
    CUstream stream;
    int r = cuda_device_use(&c->device);
    if (!r) r = cuda_result(&c->device, d->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "no stream");
    if (r) return r;
    for (uint32_t l = 0; !r && l < c->host->kv[group].layers; l++) {
        const CUdeviceptr at = (CUdeviceptr)cuda_kv_layer(c, group, l).mem + block * bytes;
        r = cuda_result(&c->device,
                        out ? d->cuMemcpyDtoHAsync(out + l * bytes, at, bytes, stream)
                            : d->cuMemcpyHtoDAsync(at, in + l * bytes, bytes, stream),
                        "copy of a KV block");
    }
    if (!r) r = cuda_result(&c->device, d->cuStreamSynchronize(stream), "copy of a KV block");
    d->cuStreamDestroy(stream);
    return r;
}

int cuda_kv_read(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    const struct cuda_backend *x = (const struct cuda_backend *)b;
    int r = 0;
    if (atomic_load(&x->alone))
        kv_memory_read(&x->host.kv[group], block, out);
    else if (atomic_load(&x->failed))
        r = error_say(-EIO, "the GPU has failed (%s)", x->part.device.name);
    else
        r = copy_apart(&x->part, group, block, out, NULL);
    return r == -ENOMEM ? error_in(-EIO, "a KV block cannot be read") : r;
}

void cuda_kv_write(struct backend *b, uint32_t group, uint32_t block, const void *in)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    if (atomic_load(&x->alone))
        kv_memory_write(&x->host.kv[group], block, in);
    else if (!atomic_load(&x->failed))
        report(x, copy_apart(&x->part, group, block, NULL, in));
}

/* The pool's memory on the device stays as it is. */
void cuda_kv_release(struct backend *b, uint32_t group, uint32_t first, uint32_t n)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    if (atomic_load(&x->alone)) kv_memory_release(&x->host.kv[group], first, n);
}

int cuda_lost(struct cuda_backend *x, int r)
{
    char why[256];
    atomic_store(&x->failed, true);
    snprintf(why, sizeof(why), "%s", error_text(r));
    return error_say(-EIO, "the GPU has failed: %s", why);
}

int cuda_recover(struct backend *b)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    int r = 0;
    for (uint32_t g = 0; !r && g < b->hparams.n_groups; g++) r = kv_memory_map(&x->host.kv[g]);
    if (r) return r;
    if (!x->tokens_given && b->config.batch_tokens > BACKEND_TOKENS) b->config.batch_tokens = BACKEND_TOKENS;
    b->isa = x->host.kern->name;
    x->ops.picks = false;
    atomic_store(&x->alone, true);
    return 0;
}
