/* SPDX-License-Identifier: MIT */
/* Which devices compute a model, and which layers each of them has. */
#include "daemon/backend/backends.h"
#include "daemon/backend/cuda/cuda.h"
#include "daemon/backend/cuda/shares.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include <stdio.h>
#include <string.h>

/* --- names --- */

#define NUMBER ", cuda:"

/* The length of a device's name without the number that it has among several. */
static size_t bare_length(const char *name)
{
    const char *number = strstr(name, NUMBER);
    return number ? (size_t)(number - name) : strlen(name);
}

/* Of several devices each name has a number: "NVIDIA H200, sm_90, cuda:1"; all of them are "NVIDIA H200, sm_90
 * (cuda:0,1)". */
static void name_devices(struct cuda_backend *x)
{
    const char *last = "";
    size_t at = 0, same = 0;
    for (uint32_t i = 0; i < x->n && x->n > 1; i++) {
        struct cuda_device *d = &x->devices[i].device;
        const size_t n = bare_length(d->name);
        const bool again = i && n == same && !strncmp(d->name, last, n);
        snprintf(d->name + n, sizeof(d->name) - n, NUMBER "%u", d->number);
        at += (size_t)(again ? snprintf(x->name + at, sizeof(x->name) - at, ",%u", d->number)
                             : snprintf(x->name + at, sizeof(x->name) - at, "%s%.*s (cuda:%u", i ? ") and " : "",
                                        (int)n, d->name, d->number));
        last = d->name;
        same = n;
    }
    if (x->n > 1) {
        snprintf(x->name + at, sizeof(x->name) - at, ")");
    } else {
        char *name = x->devices[0].device.name;
        name[bare_length(name)] = 0; /* there may have been several */
        snprintf(x->name, sizeof(x->name), "%s", name);
    }
}

static int add(struct cuda_backend *x, uint32_t number, bool alone)
{
    struct cuda *c = &x->devices[x->n];
    int r = cuda_device_open(&c->device, number);
    if (r) return alone ? r : error_in(r, "cuda:%u", number);
    c->host = &x->host;
    x->n++;
    name_devices(x);
    return 0;
}

/* --- layers --- */

static struct cuda_weights bytes_of(size_t from, size_t to)
{
    return (struct cuda_weights){NULL, from, to};
}

/* What each device has of the layers and of the weights, as cuda_shares_weights counts them. */
static void set_layers(struct cuda_backend *x, const struct cuda_shares *p)
{
    const uint32_t n = p->s->n_layers;
    const size_t *begin = p->begin;
    for (uint32_t i = 0; i < x->n; i++) {
        struct cuda *c = &x->devices[i];
        c->first = cuda_shares_first(p, i);
        c->end = p->of[i].end;
        c->next = i + 1 < x->n ? c + 1 : NULL;
        c->weights[0] = bytes_of(begin[c->first], begin[c->end]);
        c->weights[1] = bytes_of(SIZE_MAX, SIZE_MAX);
        if (!i) c->weights[1] = bytes_of(begin[n], begin[n + 1]);
        if (!c->next) c->weights[0] = bytes_of(0, begin[0]), c->weights[1] = bytes_of(begin[c->first], begin[n + 1]);
        if (x->n == 1) c->weights[0].to = begin[n + 1], c->weights[1] = bytes_of(SIZE_MAX, SIZE_MAX);
        if (x->n > 1) log_info("%s: layers %u to %u", c->device.name, c->first, c->end - 1);
        if (c->next) cuda_connect(&c->device, &c->next->device);
        if (c->next) cuda_connect(&c->next->device, &c->device);
    }
}

/* How many devices there may be: as configured, or all that the machine has, if the model may be split. */
static uint32_t most_devices(const struct cuda_backend *x, const struct hparams *s, const struct device_choice *d)
{
    if (d->n || s->embedding.whole) return x->n;
    const uint32_t n = cuda_count(x->devices[0].device.driver);
    return n < DEVICES_MAX ? n : DEVICES_MAX;
}

/* Close the devices behind the first @n. */
static void leave(struct cuda_backend *x, uint32_t n)
{
    while (x->n > n) cuda_device_close(&x->devices[--x->n].device);
    name_devices(x);
}

/* Plan with the open devices; as long as they have too little memory, with one more. If there are no more: auto is to
 * be the CPU, and cuda takes a short pool, with as many devices as there were when it was one. */
static int plan_some(struct cuda_shares *p, struct cuda_backend *x, struct backend_config *config, size_t mtp)
{
    const struct backend_config as_given = *config;
    const bool is_auto = as_given.device.kind == DEVICE_AUTO;
    uint32_t most = most_devices(x, p->s, &as_given.device), enough = 0;
    for (;;) {
        *config = as_given;
        int r = cuda_plan_memory(p, x, config, mtp);
        if (r == 1) enough = x->n;
        if (x->n < most && (r == 1 || r == -ENOMEM)) {
            r = add(x, x->n, false);
            if (!r) continue;
            log_info("one device less: %s", error_text(r));
            error_forget();
            most = x->n;
            continue;
        }
        if (r == 0 || (r == 1 && !is_auto)) break;
        if (r == 1) return -ENOMEM;
        if (is_auto || !enough || x->n == enough || (r != -ENOMEM && r != -EOPNOTSUPP)) return r;
        leave(x, most = enough);
    }
    if (config->kv_bytes < as_given.kv_bytes)
        log_info("%s: the KV pool is limited to %zu MiB, what the device%s left", x->name,
                 (size_t)config->kv_bytes >> 20, x->n > 1 ? "s have" : " has");
    return 0;
}

int cuda_open_devices(struct cuda_backend *x, const struct gguf *g, const struct hparams *s,
                      struct backend_config *config)
{
    const struct device_choice *d = &config->device;
    struct cuda_shares p;
    size_t mtp = 0;
    int r = cuda_shares_init(&p, s);
    if (!r) r = weights_layers(g, s, p.begin);
    if (!r) r = cuda_measure_mtp(g, s, config, &mtp);
    if (!r && s->embedding.whole && d->n > 1)
        r = error_say(-EOPNOTSUPP, "a '%s' model computes texts whole, and cannot be split over several devices",
                      s->arch);
    for (uint32_t i = 0; !r && i < (d->n ? d->n : 1); i++) r = add(x, d->n ? d->number[i] : 0, d->n < 2);
    if (!r) r = plan_some(&p, x, config, mtp);
    if (!r) set_layers(x, &p);
    cuda_shares_fini(&p);
    return r;
}
