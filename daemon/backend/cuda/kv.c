/* SPDX-License-Identifier: MIT */
/* The KV blocks on the device, which are laid out as on the CPU (daemon/backend/cpu/kv-memory.h). */
#include "daemon/backend/cuda/cuda.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>

/* Layers before layer @end that have KV blocks of the group, or states. */
static uint32_t layers_before(const struct hparams *s, uint32_t group, uint32_t end)
{
    const bool states = s->groups[group].kind == KV_STATE;
    uint32_t n = 0;
    for (uint32_t l = 0; l < end; l++)
        n += states ? (s->by_layer.parts[l] & LAYER_RECURRENT) > 0
                    : s->by_layer.parts[l] & LAYER_ATTENTION && hparams_own_kv(s, l) && hparams_group(s, l) == group;
    return n;
}

void cuda_take_kv(struct cuda *c)
{
    const struct hparams *s = &c->host->base.hparams;
    for (uint32_t g = 0; g < s->n_groups; g++) {
        const struct kv_memory *kv = &c->host->kv[g];
        const uint32_t first = layers_before(s, g, c->first), layers = layers_before(s, g, c->end) - first;
        struct cuda_kv_part *to = &c->kv[g];
        *to = (struct cuda_kv_part){NULL, first, layers, kv->stride, kv->stride, first * kv->stride};
        if (!c->first && !c->next) to->layers = kv->layers; /* also of texts that are computed whole */
        if (s->groups[g].kind != KV_STATE) continue;
        to->at = first * s->recurrent.floats * sizeof(float);
        to->bytes = c->next ? layers * s->recurrent.floats * sizeof(float) : kv->stride - to->at;
        to->stride = kern_align(to->bytes);
        to->layers = layers > 0;
    }
}

struct cuda_kv cuda_kv_layer(const struct cuda *c, uint32_t group, uint32_t layer)
{
    const struct kv_memory *kv = &c->host->kv[group];
    const struct cuda_kv_part *part = &c->kv[group];
    const struct kv_shape *s = kv_memory_shape(kv, layer);
    return (struct cuda_kv){.mem = part->mem + (size_t)(layer - part->first) * kv->blocks * kv->stride,
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

/* The same on a device, @dst != @src. */
static int copy_block(const struct cuda *c, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens)
{
    const struct kv_memory *kv = &c->host->kv[group];
    const struct cuda_kv_part *part = &c->kv[group];
    const bool state = part->mem && !kv->shapes[0].head_dim;
    int r = cuda_device_use(&c->device);
    if (!r && state) r = cuda_copy_state(c, group, dst, src);
    for (uint32_t i = 0; !r && !state && i < part->layers; i++) { /* layers may differ in their heads */
        const uint32_t l = part->first + i;
        const struct kv_shape *s = kv_memory_shape(kv, l);
        const struct cuda_copy a = {cuda_kv_layer(c, group, l), 0, dst, src, tokens, s->head_dim, (uint32_t)kv->type};
        r = cuda_launch(&c->device, c->kern.kv_copy, (struct cuda_grid){1, s->kv_heads, 256, 0}, &a);
    }
    return r ? r : cuda_wait(&c->device); /* before another thread reads the block */
}

void cuda_kv_copy(struct backend *b, uint32_t group, uint32_t dst, uint32_t src, uint32_t tokens)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    int r = 0;
    if (atomic_load(&x->alone)) {
        kv_memory_copy(&x->host.kv[group], dst, src, tokens);
        return;
    }
    if (atomic_load(&x->failed) || dst == src) return;
    for (uint32_t i = 0; !r && i < x->n; i++) r = copy_block(&x->devices[i], group, dst, src, tokens);
    report(x, r);
}

/* Start to copy a device's part of one block, to @out or from @in: all layers with one call, if their distance is not
 * too large for that. */
static int start_copy(const struct cuda *c, uint32_t group, uint32_t block, uint8_t *out, const uint8_t *in,
                      CUstream stream)
{
    const struct cuda_driver *d = c->device.driver;
    const struct cuda_kv_part *part = &c->kv[group];
    const size_t apart = c->host->kv[group].blocks * part->stride;
    const uint32_t rows = apart <= (size_t)c->device.pitch ? part->layers : 1;
    int r = 0;
    for (uint32_t l = 0; !r && l < part->layers; l += rows) {
        const CUdeviceptr at = (CUdeviceptr)part->mem + l * apart + block * part->stride;
        const size_t host = part->at + l * part->bytes;
        CUDA_MEMCPY2D a = {.WidthInBytes = part->bytes, .Height = rows};
        a.srcMemoryType = out ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        a.dstMemoryType = out ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        a.srcDevice = a.dstDevice = at;
        a.srcHost = in + host;
        a.dstHost = out + host;
        a.srcPitch = out && rows > 1 ? apart : part->bytes;
        a.dstPitch = out || rows == 1 ? part->bytes : apart;
        r = cuda_result(&c->device, d->cuMemcpy2DAsync(&a, stream), "copy of a KV block");
    }
    return r;
}

/* Copy it in a stream of the call's own: forward may be running. */
static int copy_part(const struct cuda *c, uint32_t group, uint32_t block, uint8_t *out, const uint8_t *in)
{
    const struct cuda_driver *d = c->device.driver;
    CUstream stream;
    if (!c->kv[group].layers) return 0;
    int r = cuda_device_use(&c->device);
    if (!r) r = cuda_result(&c->device, d->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "no stream");
    if (r) return r;
    r = start_copy(c, group, block, out, in, stream);
    if (!r) r = cuda_result(&c->device, d->cuStreamSynchronize(stream), "copy of a KV block");
    d->cuStreamDestroy(stream);
    return r;
}

static int copy_apart(const struct cuda_backend *x, uint32_t group, uint32_t block, uint8_t *out, const uint8_t *in)
{
    int r = 0;
    for (uint32_t i = 0; !r && i < x->n; i++) r = copy_part(&x->devices[i], group, block, out, in);
    return r;
}

int cuda_kv_read(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    const struct cuda_backend *x = (const struct cuda_backend *)b;
    int r = 0;
    if (atomic_load(&x->alone))
        kv_memory_read(&x->host.kv[group], block, out);
    else if (atomic_load(&x->failed))
        r = error_say(-EIO, "the GPU has failed (%s)", x->name);
    else
        r = copy_apart(x, group, block, out, NULL);
    return r == -ENOMEM ? error_in(-EIO, "a KV block cannot be read") : r;
}

void cuda_kv_write(struct backend *b, uint32_t group, uint32_t block, const void *in)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    if (atomic_load(&x->alone))
        kv_memory_write(&x->host.kv[group], block, in);
    else if (!atomic_load(&x->failed))
        report(x, copy_apart(x, group, block, NULL, in));
}

/* The pool's memory on the device stays as it is. */
void cuda_kv_release(struct backend *b, uint32_t group, uint32_t first, uint32_t n)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    if (atomic_load(&x->alone)) kv_memory_release(&x->host.kv[group], first, n);
}

/* In the stream of forward and kv_copy, which come behind it. */
int cuda_kv_save(struct backend *b, uint32_t group, uint32_t block, void *out)
{
    const struct cuda_backend *x = (const struct cuda_backend *)b;
    int r = 0;
    if (atomic_load(&x->alone) || atomic_load(&x->failed)) return cuda_kv_read(b, group, block, out);
    for (uint32_t i = 0; !r && i < x->n; i++) {
        const struct cuda *c = &x->devices[i];
        r = cuda_device_use(&c->device);
        if (!r) r = start_copy(c, group, block, out, NULL, c->device.stream);
        if (!r) r = cuda_mark(&c->device, CUDA_SAVED);
    }
    return r;
}

int cuda_kv_saved(struct backend *b)
{
    const struct cuda_backend *x = (const struct cuda_backend *)b;
    int r = 0;
    if (atomic_load(&x->alone)) return 0;
    if (atomic_load(&x->failed)) return error_say(-EIO, "the GPU has failed (%s)", x->name);
    for (uint32_t i = 0; !r && i < x->n; i++) {
        r = cuda_device_use(&x->devices[i].device);
        if (!r) r = cuda_wait_mark(&x->devices[i].device, CUDA_SAVED);
    }
    return r;
}

/* Memory that one device has pinned is pinned for all: they share the address space. */
int cuda_host_alloc(struct backend *b, size_t bytes, void **out)
{
    const struct cuda_backend *x = (const struct cuda_backend *)b;
    if (atomic_load(&x->failed)) return error_say(-EIO, "the GPU has failed (%s)", x->name);
    int r = cuda_device_use(&x->devices[0].device);
    return r ? r : cuda_alloc_host(&x->devices[0].device, out, bytes);
}

/* The memory of a device that has failed is freed when the process ends. */
void cuda_host_free(struct backend *b, void *p)
{
    const struct cuda_backend *x = (const struct cuda_backend *)b;
    if (atomic_load(&x->failed) || cuda_device_use(&x->devices[0].device)) return;
    cuda_free_host(&x->devices[0].device, p);
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
    x->ops.kv_apart = false;
    atomic_store(&x->failed, true); /* also if it was the device of another model that failed */
    atomic_store(&x->alone, true);
    return 0;
}
