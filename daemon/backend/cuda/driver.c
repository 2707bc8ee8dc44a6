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
    int n = 0;
    if (!e) e = d->cuDeviceGetCount(&n);
    if (e) d->cuGetErrorString(e, &text);
    if (e) return error_say(-ENODEV, "the CUDA driver does not start: %s", text);
    return n ? 0 : error_say(-ENODEV, "the CUDA driver finds no device");
}

/* The library stays open until the process ends. */
int cuda_driver(const struct cuda_driver **out)
{
    static struct cuda_driver driver;
    static bool opened;
    if (!opened) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) return error_say(-ENODEV, "there is no CUDA driver (libcuda.so.1)");
        int r = find_symbols(&driver, library);
        if (!r) r = start(&driver);
        if (r) {
            dlclose(library);
            return r;
        }
        opened = true;
    }
    *out = &driver;
    return 0;
}
