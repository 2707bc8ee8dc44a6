/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cuda/device.h"
#include "libcommon/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cuda_result(const struct cuda_device *d, CUresult e, const char *what)
{
    const char *text = "unknown error";
    if (!e) return 0;
    d->driver->cuGetErrorString(e, &text);
    return error_say(e == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s: %s: %s", d->name, what, text);
}

/* Name the device, and refuse one that is too old: the products use tensor cores for int8, which sm_80 has. */
static int describe(struct cuda_device *d)
{
    char name[64] = "CUDA device";
    int major = 0, minor = 0;
    d->driver->cuDeviceGetName(name, sizeof(name), d->id);
    d->driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->id);
    d->driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->id);
    d->driver->cuDeviceGetAttribute(&d->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->id);
    d->driver->cuDeviceGetAttribute(&d->pitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH, d->id);
    snprintf(d->name, sizeof(d->name), "%s, sm_%d%d", name, major, minor);
    return major >= 8 ? 0 : error_say(-ENODEV, "%s: too old; sm_80 or later is needed", d->name);
}

/* Which code the driver has taken: that of sm_90a, whose kernels wait by themselves (device.cuh), or the PTX of sm_80
 * that it translates for other devices, and for all with CUDA_FORCE_PTX_JIT=1. */
static int find_code(struct cuda_device *d)
{
    CUfunction f = NULL;
    int version = 0;
    int r = cuda_kernel(d, &f, "cuda_norm", 0);
    if (!r)
        r = cuda_result(d, d->driver->cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_PTX_VERSION, f),
                        "cannot look at the kernels");
    d->early = version == 90;
    return r;
}

static int load_modules(struct cuda_device *d)
{
    int r = 0;
    for (size_t i = 0; !r && cuda_images[i]; i++)
        r = cuda_result(d, d->driver->cuModuleLoadData(&d->modules[i], cuda_images[i]), "cannot load the kernels");
    return r ? r : find_code(d);
}

int cuda_device_open(struct cuda_device *d, unsigned number)
{
    memset(d, 0, sizeof(*d));
    d->number = number;
    int r = cuda_driver(&d->driver);
    if (r) return r;
    snprintf(d->name, sizeof(d->name), "CUDA device %u", number);
    r = cuda_check_number(d->driver, number);
    if (!r) r = cuda_result(d, d->driver->cuDeviceGet(&d->id, (int)number), "cannot be used");
    if (!r) r = describe(d);
    if (!r) r = cuda_result(d, d->driver->cuDevicePrimaryCtxRetain(&d->context, d->id), "cannot be used");
    if (r) return r;
    r = cuda_device_use(d);
    if (!r) r = cuda_result(d, d->driver->cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING), "no stream");
    for (size_t i = 0; !r && i <= CUDA_SAVED; i++)
        r = cuda_result(d, d->driver->cuEventCreate(&d->marks[i], CU_EVENT_DISABLE_TIMING), "no event");
    if (!r) r = load_modules(d);
    if (r) cuda_device_close(d);
    return r;
}

void cuda_device_close(struct cuda_device *d)
{
    if (!d->context) return;
    d->driver->cuCtxSetCurrent(d->context); /* a message that is set stays */
    for (size_t i = 0; i < CUDA_MODULES; i++)
        if (d->modules[i]) d->driver->cuModuleUnload(d->modules[i]);
    for (size_t i = 0; i <= CUDA_SAVED; i++)
        if (d->marks[i]) d->driver->cuEventDestroy(d->marks[i]);
    if (d->stream) d->driver->cuStreamDestroy(d->stream);
    d->driver->cuDevicePrimaryCtxRelease(d->id);
    memset(d, 0, sizeof(*d));
}

int cuda_device_use(const struct cuda_device *d)
{
    return cuda_result(d, d->driver->cuCtxSetCurrent(d->context), "cannot be used");
}

/* --- memory --- */

int cuda_alloc(const struct cuda_device *d, void **out, size_t bytes, const char *what)
{
    CUdeviceptr p = 0;
    size_t left = 0, all = 0;
    CUresult e = d->driver->cuMemAlloc(&p, bytes ? bytes : 1);
    if (e == CUDA_ERROR_OUT_OF_MEMORY) {
        d->driver->cuMemGetInfo(&left, &all);
        return error_say(-ENOMEM, "%s: no device memory for %s: %zu MiB are needed, %zu MiB are free", d->name, what,
                         bytes >> 20, left >> 20);
    }
    *out = (void *)p;
    return cuda_result(d, e, what);
}

void cuda_free(const struct cuda_device *d, void *p)
{
    if (p) d->driver->cuMemFree((CUdeviceptr)p);
}

int cuda_alloc_host(const struct cuda_device *d, void **out, size_t bytes)
{
    return cuda_result(d, d->driver->cuMemHostAlloc(out, bytes ? bytes : 1, 0), "pinned memory");
}

void cuda_free_host(const struct cuda_device *d, void *p)
{
    if (p) d->driver->cuMemFreeHost(p);
}

int cuda_upload(const struct cuda_device *d, void *to, const void *from, size_t bytes)
{
    if (!bytes) return 0;
    return cuda_result(d, d->driver->cuMemcpyHtoDAsync((CUdeviceptr)to, from, bytes, d->stream), "upload");
}

int cuda_download(const struct cuda_device *d, void *to, const void *from, size_t bytes)
{
    if (!bytes) return 0;
    return cuda_result(d, d->driver->cuMemcpyDtoHAsync(to, (CUdeviceptr)from, bytes, d->stream), "download");
}

int cuda_copy_from(const struct cuda_device *d, void *to, const struct cuda_device *other, const void *from,
                   size_t bytes)
{
    if (!bytes) return 0;
    return cuda_result(
        d,
        d->driver->cuMemcpyPeerAsync((CUdeviceptr)to, d->context, (CUdeviceptr)from, other->context, bytes, d->stream),
        "a copy from another device");
}

void cuda_connect(const struct cuda_device *d, const struct cuda_device *other)
{
    d->driver->cuCtxSetCurrent(d->context);
    d->driver->cuCtxEnablePeerAccess(other->context, 0);
}

int cuda_wait(const struct cuda_device *d)
{
    return cuda_result(d, d->driver->cuStreamSynchronize(d->stream), "a computation failed");
}

int cuda_mark(const struct cuda_device *d, unsigned i)
{
    return cuda_result(d, d->driver->cuEventRecord(d->marks[i], d->stream), "an event");
}

int cuda_wait_mark(const struct cuda_device *d, unsigned i)
{
    return cuda_result(d, d->driver->cuEventSynchronize(d->marks[i]), "a computation failed");
}

int cuda_follow(const struct cuda_device *d, const struct cuda_device *other, unsigned i)
{
    return cuda_result(d, d->driver->cuStreamWaitEvent(d->stream, other->marks[i], 0), "an event");
}

/* --- kernels --- */

int cuda_kernel(const struct cuda_device *d, CUfunction *out, const char *name, unsigned shared)
{
    CUresult e = CUDA_ERROR_NOT_FOUND;
    for (size_t i = 0; e && i < CUDA_MODULES && d->modules[i]; i++)
        e = d->driver->cuModuleGetFunction(out, d->modules[i], name);
    if (!e && shared > 48 << 10)
        e = d->driver->cuFuncSetAttribute(*out, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
    /* a multiprocessor that changes its share of shared memory has to be empty */
    if (!e && d->together)
        e = d->driver->cuFuncSetAttribute(*out, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                          CU_SHAREDMEM_CARVEOUT_MAX_SHARED);
    return cuda_result(d, e, name);
}

int cuda_kernel_of(const struct cuda_device *d, CUfunction *out, unsigned shared, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    return cuda_kernel(d, out, name, shared);
}

int cuda_kernels(const struct cuda_device *d, const struct cuda_named *all, size_t n, unsigned shared)
{
    int r = 0;
    for (size_t i = 0; !r && i < n; i++) r = cuda_kernel(d, all[i].to, all[i].name, shared);
    return r;
}

int cuda_launch(const struct cuda_device *d, CUfunction f, struct cuda_grid grid, const void *args)
{
    void *params[] = {(void *)(uintptr_t)args};
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig config = {.gridDimX = grid.x,
                                   .gridDimY = grid.y,
                                   .gridDimZ = 1,
                                   .blockDimX = grid.threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = grid.shared,
                                   .hStream = d->stream,
                                   .attrs = &early,
                                   .numAttrs = d->early};
    if (!grid.x || !grid.y) return 0;
    CUresult e = d->driver->cuLaunchKernelEx(&config, f, params, NULL);
    return cuda_result(d, e, "cannot start a kernel");
}
