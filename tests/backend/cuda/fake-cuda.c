/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 for tests of what hobd does when a driver fails. Its one device has memory, and kernels that compute
 * nothing; or the calls go to a real driver; or, linked with emulation/emulate.cpp, the CPU computes the kernels as
 * they are started. $HOB_FAKE_CUDA has settings, separated by commas:
 *
 *   fail=NAME:N:CODE  the Nth call of NAME (a function, or "any") returns CODE, and so does each later call of any
 *                     function: a device that is lost. fail1=…: that call alone
 *   major=N, version=N, devices=N, memory=MIB   what the device and the driver say they are
 *   ptx=N             whose code the driver takes (10 times major, if not given): only that of 90 may start early
 *   real=FILE         the driver that the calls go to
 *   processors=N      multiprocessors, 4 if not given
 *   order=N           of the threads of emulated kernels: emulated_order()
 *
 * fake_cuda_set takes new settings; fake_cuda_calls counts the calls since then, fake_cuda_live what is allocated,
 * until fake_cuda_forget.
 */
#include "tests/backend/cuda/emulation/emulate.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096

void fake_cuda_set(const char *settings);
long fake_cuda_live(void);
long fake_cuda_calls(void);
void fake_cuda_forget(void);

static struct {
    char name[64];
    long at, code, calls, of_name, live;
    long major, version, devices, ptx, processors;
    size_t memory, used;
    bool forever, lost;
    void *real;
    struct graph *recorded; /* by the stream; NULL: kernels start at once */
} fake;

/* Without emulation these do not exist. */
#define WEAK __attribute__((weak))
extern WEAK __typeof__(emulated_find) emulated_find;
extern WEAK __typeof__(emulated_bytes) emulated_bytes;
extern WEAK __typeof__(emulated_allow) emulated_allow;
extern WEAK __typeof__(emulated_run) emulated_run;
extern WEAK __typeof__(emulated_order) emulated_order;
extern WEAK __typeof__(emulated_supported) emulated_supported;

static void set_fail(const char *s, bool forever)
{
    fake.forever = forever;
    if (sscanf(s, "%63[^:]:%ld:%ld", fake.name, &fake.at, &fake.code) != 3) fake.at = 0;
}

static void set(const char *s)
{
    char file[4096];
    unsigned order;
    if (!strncmp(s, "fail=", 5)) set_fail(s + 5, true);
    if (!strncmp(s, "fail1=", 6)) set_fail(s + 6, false);
    sscanf(s, "major=%ld", &fake.major);
    sscanf(s, "version=%ld", &fake.version);
    sscanf(s, "devices=%ld", &fake.devices);
    sscanf(s, "ptx=%ld", &fake.ptx);
    sscanf(s, "processors=%ld", &fake.processors);
    if (emulated_order && sscanf(s, "order=%u", &order) == 1) emulated_order(order);
    if (sscanf(s, "memory=%zu", &fake.memory) == 1) fake.memory <<= 20;
    if (sscanf(s, "real=%4095[^,]", file) == 1) fake.real = dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

void fake_cuda_set(const char *settings)
{
    const long live = fake.live;
    void *real = fake.real;
    memset(&fake, 0, sizeof(fake));
    fake.live = live;
    fake.real = real;
    fake.major = 9;
    fake.version = CUDA_VERSION;
    fake.devices = !emulated_supported || emulated_supported();
    fake.processors = 4;
    fake.memory = (size_t)4 << 30;
    for (const char *s = settings; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) set(s);
}

long fake_cuda_live(void)
{
    return fake.live;
}

void fake_cuda_forget(void)
{
    fake.live = 0;
}

long fake_cuda_calls(void)
{
    return fake.calls;
}

__attribute__((constructor)) static void begin(void)
{
    fake_cuda_set(getenv("HOB_FAKE_CUDA"));
}

/* @name is that of the failure; cuda.h adds versions to some names. */
static bool meant(const char *name)
{
    const size_t n = strlen(fake.name);
    return !strcmp(fake.name, "any") || (!strncmp(fake.name, name, n) && (!name[n] || !strncmp(name + n, "_v", 2)));
}

/* Count a call. What it returns in place of doing anything; 0: it does what it should. */
static CUresult enter(const char *name)
{
    __atomic_add_fetch(&fake.calls, 1, __ATOMIC_RELAXED);
    if (fake.lost) return (CUresult)fake.code;
    if (!fake.at || !meant(name)) return CUDA_SUCCESS;
    if (__atomic_add_fetch(&fake.of_name, 1, __ATOMIC_RELAXED) != fake.at) return CUDA_SUCCESS;
    fake.lost = fake.forever;
    return (CUresult)fake.code;
}

static CUresult made(void *to)
{
    static char thing;
    *(void **)to = &thing;
    fake.live++;
    return CUDA_SUCCESS;
}

static CUresult gone(void)
{
    fake.live--;
    return CUDA_SUCCESS;
}

static CUresult allocate(void *to, size_t n)
{
    if (n > fake.memory - fake.used) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t *p = mmap(NULL, n + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *p = n; /* the rest is 0, and takes no memory before it is used */
    fake.used += n;
    fake.live++;
    *(char **)to = (char *)p + PAGE;
    return CUDA_SUCCESS;
}

static CUresult release(void *at)
{
    size_t *p = (size_t *)(void *)((char *)at - PAGE);
    fake.used -= *p;
    fake.live--;
    munmap(p, *p + PAGE);
    return CUDA_SUCCESS;
}

static CUresult copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return CUDA_SUCCESS;
}

static int attribute(CUdevice_attribute a)
{
    if (a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return (int)fake.major;
    return a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? (int)fake.processors : 0;
}

static CUresult memory_info(size_t *left, size_t *all)
{
    *all = fake.memory;
    *left = fake.memory - fake.used;
    return CUDA_SUCCESS;
}

static CUresult put(int *to, long value)
{
    *to = (int)value;
    return CUDA_SUCCESS;
}

static long code_version(void)
{
    return fake.ptx ? fake.ptx : fake.major * 10;
}

/* --- kernels --- */

/* A started kernel, with its argument. */
struct start {
    CUlaunchConfig config;
    struct emulated_kernel_of *kernel;
    void *argument;
};

struct graph {
    struct start *starts;
    size_t n;
};

static CUresult run(const CUlaunchConfig *c, const struct emulated_kernel_of *kernel, const void *argument)
{
    if (c->gridDimZ != 1 || c->blockDimY != 1 || c->blockDimZ != 1) return CUDA_ERROR_INVALID_VALUE;
    return emulated_run(kernel, c->gridDimX, c->gridDimY, c->blockDimX, c->sharedMemBytes, argument)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult record(struct graph *g, const CUlaunchConfig *c, CUfunction f, const void *argument)
{
    struct start s = {.config = *c, .kernel = (void *)f};
    struct start *more = realloc(g->starts, (g->n + 1) * sizeof(*more));
    s.argument = malloc(emulated_bytes(s.kernel));
    if (more) g->starts = more;
    if (!more || !s.argument) abort();
    memcpy(s.argument, argument, emulated_bytes(s.kernel));
    g->starts[g->n++] = s;
    return CUDA_SUCCESS;
}

/* Other code does not wait for the kernels before it. */
static CUresult launch(const CUlaunchConfig *c, CUfunction f, void **arguments)
{
    if (c->numAttrs && code_version() != 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (!emulated_run) return CUDA_SUCCESS;
    return fake.recorded ? record(fake.recorded, c, f, arguments[0]) : run(c, (void *)f, arguments[0]);
}

static CUresult find_kernel(CUfunction *f, const char *name)
{
    *f = emulated_find ? (CUfunction)(void *)emulated_find(name, (int)code_version()) : (CUfunction)(void *)&fake;
    return *f ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult allow(CUfunction f, CUfunction_attribute a, int value)
{
    if (!emulated_allow || a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    return emulated_allow((void *)f, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- graphs --- */

static CUresult begin_graph(void)
{
    fake.recorded = calloc(1, sizeof(*fake.recorded));
    return fake.recorded ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end_graph(CUgraph *g)
{
    *g = (CUgraph)(void *)fake.recorded;
    fake.recorded = NULL;
    fake.live++;
    return CUDA_SUCCESS;
}

/* It takes over what the graph recorded. */
static CUresult instantiate(CUgraphExec *x, CUgraph g)
{
    struct graph *from = (void *)g, *to = malloc(sizeof(*to));
    if (!to) return CUDA_ERROR_OUT_OF_MEMORY;
    *to = *from;
    *from = (struct graph){0};
    *x = (CUgraphExec)(void *)to;
    fake.live++;
    return CUDA_SUCCESS;
}

static CUresult run_graph(const struct graph *g)
{
    CUresult e = CUDA_SUCCESS;
    for (size_t i = 0; !e && i < g->n; i++) e = run(&g->starts[i].config, g->starts[i].kernel, g->starts[i].argument);
    return e;
}

static CUresult free_graph(struct graph *g)
{
    for (size_t i = 0; g && i < g->n; i++) free(g->starts[i].argument);
    if (g) free(g->starts);
    free(g);
    return gone();
}

static CUresult say(const char **out)
{
    *out = "the fake driver fails";
    return CUDA_SUCCESS;
}

/* The function @name, whose declaration cuda.h has. */
#define TEXT(name) #name
#define FUNCTION(name, params, args, does)                                                                             \
    CUresult CUDAAPI name params                                                                                       \
    {                                                                                                                  \
        const CUresult e = enter(TEXT(name));                                                                          \
        __typeof__(name) *real;                                                                                        \
        if (e) return e;                                                                                               \
        if (!fake.real) return does;                                                                                   \
        *(void **)&real = dlsym(fake.real, TEXT(name));                                                                \
        return real args;                                                                                              \
    }

FUNCTION(cuInit, (unsigned flags), (flags), CUDA_SUCCESS)
FUNCTION(cuDriverGetVersion, (int *v), (v), put(v, fake.version))
FUNCTION(cuDeviceGetCount, (int *n), (n), put(n, fake.devices))
FUNCTION(cuDeviceGet, (CUdevice * d, int i), (d, i), put(d, i))
FUNCTION(cuDeviceGetName, (char *s, int n, CUdevice d), (s, n, d), (snprintf(s, (size_t)n, "fake"), CUDA_SUCCESS))
FUNCTION(cuDeviceGetAttribute, (int *v, CUdevice_attribute a, CUdevice d), (v, a, d), put(v, attribute(a)))
FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice d), (c, d), made(c))
FUNCTION(cuDevicePrimaryCtxRelease, (CUdevice d), (d), gone())
FUNCTION(cuCtxSetCurrent, (CUcontext c), (c), CUDA_SUCCESS)
FUNCTION(cuMemGetInfo, (size_t * left, size_t *all), (left, all), memory_info(left, all))
FUNCTION(cuMemAlloc, (CUdeviceptr * p, size_t n), (p, n), allocate(p, n))
FUNCTION(cuMemFree, (CUdeviceptr p), (p), release((void *)p))
FUNCTION(cuMemHostAlloc, (void **p, size_t n, unsigned f), (p, n, f), allocate(p, n))
FUNCTION(cuMemFreeHost, (void *p), (p), release(p))
FUNCTION(cuMemHostRegister, (void *p, size_t n, unsigned f), (p, n, f), (fake.live++, CUDA_SUCCESS))
FUNCTION(cuMemHostUnregister, (void *p), (p), gone())
FUNCTION(cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t n, CUstream s), (to, from, n, s),
         copy((void *)to, from, n))
FUNCTION(cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s),
         copy(to, (const void *)from, n))
FUNCTION(cuStreamCreate, (CUstream * s, unsigned f), (s, f), made(s))
FUNCTION(cuStreamDestroy, (CUstream s), (s), gone())
FUNCTION(cuStreamSynchronize, (CUstream s), (s), CUDA_SUCCESS)
FUNCTION(cuEventCreate, (CUevent * e_, unsigned f), (e_, f), made(e_))
FUNCTION(cuEventDestroy, (CUevent e_), (e_), gone())
FUNCTION(cuEventRecord, (CUevent e_, CUstream s), (e_, s), CUDA_SUCCESS)
FUNCTION(cuEventSynchronize, (CUevent e_), (e_), CUDA_SUCCESS)
FUNCTION(cuModuleLoadData, (CUmodule * m, const void *image), (m, image), made(m))
FUNCTION(cuModuleUnload, (CUmodule m), (m), gone())
FUNCTION(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name), (f, m, name), find_kernel(f, name))
FUNCTION(cuFuncGetAttribute, (int *v, CUfunction_attribute a, CUfunction f), (v, a, f), put(v, code_version()))
FUNCTION(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute a, int v), (f, a, v), allow(f, a, v))
FUNCTION(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f, void **p, void **x), (c, f, p, x), launch(c, f, p))
FUNCTION(cuStreamBeginCapture, (CUstream s, CUstreamCaptureMode m), (s, m), begin_graph())
FUNCTION(cuStreamEndCapture, (CUstream s, CUgraph *g), (s, g), end_graph(g))
FUNCTION(cuGraphInstantiateWithFlags, (CUgraphExec * x, CUgraph g, unsigned long long f), (x, g, f), instantiate(x, g))
FUNCTION(cuGraphLaunch, (CUgraphExec x, CUstream s), (x, s), run_graph((void *)x))
FUNCTION(cuGraphExecDestroy, (CUgraphExec x), (x), free_graph((void *)x))
FUNCTION(cuGraphDestroy, (CUgraph g), (g), free_graph((void *)g))

/* It never fails: what it says is about other failures. */
CUresult CUDAAPI cuGetErrorString(CUresult e, const char **out)
{
    return say(out);
}
