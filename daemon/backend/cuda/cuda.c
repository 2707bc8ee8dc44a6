/* SPDX-License-Identifier: MIT */
/* The CUDA backend: creation and destruction. forward.c and attention.c compute. */
#include "daemon/backend/cuda/cuda.h"
#include "daemon/backend/backends.h"
#include "libcommon/error.h"
#include <stdlib.h>

#define SPAN ((size_t)64 << 20) /* bytes of weights that are copied at once */

/* Free what a device has, but for the device. */
static void empty(struct cuda_backend *x, struct cuda *c)
{
    c->device.driver->cuCtxSetCurrent(c->device.context); /* a message that is set stays */
    cuda_forget_graphs(c);
    if (!c->first && x->pinned) c->device.driver->cuMemHostUnregister(x->host.scratch.x);
    cuda_fini_buffers(c);
    for (uint32_t i = 0; i < 2; i++) cuda_free(&c->device, c->weights[i].mem);
}

static struct backend *cuda_backend_free(struct backend *b)
{
    struct cuda_backend *x = (struct cuda_backend *)b;
    for (uint32_t i = 0; i < x->n; i++) {
        struct cuda *c = &x->devices[i];
        if (atomic_load(&x->failed)) c->device.context = NULL; /* its memory is freed when the process ends */
        if (c->device.context) empty(x, c);
    }
    for (uint32_t i = 0; i < x->n; i++) cuda_device_close(&x->devices[i].device);
    cuda_fini_batch(x);
    cpu_close(&x->host);
    free(x);
    return NULL;
}

static int upload_weights(struct cuda *c)
{
    const uint8_t *image = c->host->weights.mem;
    int r = 0;
    for (uint32_t n = 0; !r && n < 2; n++) {
        struct cuda_weights *w = &c->weights[n];
        if (w->to > w->from) r = cuda_alloc(&c->device, (void **)&w->mem, w->to - w->from, "the weights");
        for (size_t i = w->from; !r && i < w->to; i += SPAN)
            r = cuda_upload(&c->device, w->mem + (i - w->from), image + i, w->to - i < SPAN ? w->to - i : SPAN);
    }
    return r ? r : cuda_wait(&c->device);
}

/* The rows that the host embeds are copied in each pass. Where the kernel refuses to pin them, only speed is lost. */
static int pin_rows(struct cuda_backend *x)
{
    const struct cuda_device *d = &x->devices[0].device;
    const size_t bytes = (size_t)x->host.base.config.batch_tokens * x->host.base.hparams.dim * sizeof(float);
    int r = cuda_device_use(d);
    if (!r) x->pinned = !d->driver->cuMemHostRegister(x->host.scratch.x, bytes, 0);
    return r;
}

/* Whether cuda_device.together pays: usual layers, all of whose products have a type with which it does. */
static bool runs_together(const struct cuda *c)
{
    const struct hparams *s = &c->host->base.hparams;
    bool all = c->device.early && !s->experts.n && !s->recurrent.taps && !s->mla.kv_rank;
    for (uint32_t l = c->first; l < c->end; l++) {
        const struct layer *w = &c->host->weights.layers[l];
        const struct matrix *const m[] = {&w->q, &w->k, &w->v, &w->o, &w->gate, &w->up, &w->down};
        for (size_t i = 0; i < sizeof(m) / sizeof(*m); i++)
            all = all && (!m[i]->rows || cuda_runs_together(m[i]->type));
    }
    return all;
}

static int fill(struct cuda *c)
{
    int r = cuda_device_use(&c->device);
    c->device.together = runs_together(c);
    if (!r) r = upload_weights(c);
    if (!r) r = cuda_init_buffers(c);
    return r ? r : cuda_find_kernels(c);
}

/* An MTP layer is computed where the model's output matrix is: on its last device. */
static int follow_model(struct cuda_backend *x, struct backend_config *config, struct hparams *s)
{
    const struct cuda_backend *model = (const struct cuda_backend *)config->mtp_of;
    if (config->mtp_of->ops->forward != cuda_forward)
        return error_say(-EOPNOTSUPP, "an MTP layer is computed where its model is");
    if (!hparams_drafts(s)) return 0; /* cpu_open refuses it */
    hparams_mtp(s);
    x->devices[0].model = &model->devices[model->n - 1];
    config->device = (struct device_choice){DEVICE_CUDA, 1, {x->devices[0].model->device.number}};
    return 0;
}

static int open_all(struct cuda_backend *x, const struct gguf *g, const struct backend_config *given)
{
    struct backend_config config = *given;
    struct hparams s;
    x->tokens_given = config.batch_tokens;
    int r = hparams_read(&s, g);
    if (!r && given->mtp_of) r = follow_model(x, &config, &s);
    if (!r) r = cuda_supports(g, &s);
    if (!r) r = cuda_open_devices(x, g, &s, &config);
    x->host.kv_apart = true;
    if (!r) r = cpu_open(&x->host, g, &config);
    if (!r) r = cuda_init_batch(x);
    for (uint32_t i = 0; !r && i < x->n; i++) r = fill(&x->devices[i]);
    return r ? r : pin_rows(x);
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
    x->ops.host_alloc = cuda_host_alloc;
    x->ops.host_free = cuda_host_free;
    x->ops.kv_save = cuda_kv_save;
    x->ops.kv_saved = cuda_kv_saved;
    x->ops.recover = cuda_recover;
    x->ops.adapter_load = cuda_adapter_load;
    x->ops.picks = true;
    x->ops.kv_apart = true;
    x->ops.free = cuda_backend_free;
    b->ops = &x->ops;
    b->isa = x->name;
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

static int probe(const struct device_choice *c, bool start)
{
    const struct cuda_driver *d;
    if (!start) return cuda_driver_load();
    int r = cuda_driver(&d);
    if (!r && !c->n) r = cuda_check_number(d, 0);
    for (uint32_t i = 0; !r && i < c->n; i++) r = cuda_check_number(d, c->number[i]);
    return r;
}

const struct backend_type backend_cuda = {
    .name = "cuda", .new = cuda_backend_new, .check = check, .is_packed = is_packed, .probe = probe};
