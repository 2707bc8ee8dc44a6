/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cuda/driver.h"
#include "libcommon/error.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t at; /* in struct cuda_driver */
};

#define STRING(name) #name
#define SYMBOL(name) {STRING(name), offsetof(struct cuda_driver, name)},
static const struct symbol symbols[] = {CUDA_FUNCTIONS(SYMBOL)};

static int find_symbols(struct cuda_driver *d, void *library)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        void *f = dlsym(library, symbols[i].name);
        if (!f) return error_say(-ENODEV, "the CUDA driver is too old: it has no %s", symbols[i].name);
        memcpy((char *)d + symbols[i].at, &f, sizeof(f));
    }
    return 0;
}

static int start(const struct cuda_driver *d)
{
    const char *text = "unknown error";
    CUresult e = d->cuInit(0);
    int n = 0, version = 0;
    if (!e) e = d->cuDeviceGetCount(&n);
    if (!e) e = d->cuDriverGetVersion(&version);
    if (e) d->cuGetErrorString(e, &text);
    if (e) return error_say(-ENODEV, "the CUDA driver does not start: %s", text);
    if (version / 1000 < CUDA_VERSION / 1000) /* code of a later minor version of the same major one can be loaded */
        return error_say(-ENODEV, "the CUDA driver is too old: it has CUDA %d.%d, this program needs %d",
                         version / 1000, version % 1000 / 10, CUDA_VERSION / 1000);
    return n ? 0 : error_say(-ENODEV, "the CUDA driver finds no device");
}

static struct cuda_driver driver;

int cuda_driver_load(void)
{
    static bool loaded;
    void *library = loaded ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loaded && !library) return error_say(-ENODEV, "there is no CUDA driver: %s", dlerror());
    int r = loaded ? 0 : find_symbols(&driver, library);
    loaded = r == 0;
    return r;
}

int cuda_driver(const struct cuda_driver **out)
{
    static bool started;
    int r = cuda_driver_load();
    if (!r && !started) r = start(&driver);
    started |= !r;
    *out = &driver;
    return r;
}

uint32_t cuda_count(const struct cuda_driver *d)
{
    int n = 0;
    d->cuDeviceGetCount(&n);
    return n > 0 ? (uint32_t)n : 0;
}

int cuda_check_number(const struct cuda_driver *d, uint32_t number)
{
    const uint32_t n = cuda_count(d);
    return number < n ? 0 : error_say(-ENODEV, "there is no CUDA device %u; there are %u", number, n);
}
