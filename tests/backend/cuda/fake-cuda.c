/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 for tests of what hobd does when a driver fails. Its devices have memory, and kernels that compute
 * nothing; or the calls go to a real driver; or, linked with emulation/emulate.cpp, the CPU computes the kernels as
 * they are started. Of several devices only the memory of that whose work runs can be read, a call with a thing of
 * another device than the current one fails, and so does a copy between two that does not wait for the work before it,
 * or a kernel of a device whose memory such a copy still reads.
 * $HOB_FAKE_CUDA has settings, separated by commas:
 *
 *   fail=NAME:N:CODE  the Nth call of NAME (a function, or "any") returns CODE, and so does each later call of any
 *                     function: a device that is lost. fail1=…: that call alone
 *   major=N, version=N, memory=MIB   what each device and the driver say they are
 *   devices=N         how many there are, 1 if not given, at most 8
 *   full=N            the device whose memory is not enough for a context
 *   busy=MIB          what others use of the memory of each device but the first
 *   ptx=N             whose code the driver takes (10 times major, if not given): only that of 90 may start early
 *   real=FILE         the driver that the calls go to
 *   processors=N      multiprocessors, 4 if not given
 *   pitch=N           bytes between rows that one call copies, at most; all if not given
 *   order=N           of the threads of emulated kernels: emulated_order()
 *
 * fake_cuda_set takes new settings; fake_cuda_calls counts the calls since then, fake_cuda_live what is allocated,
 * until fake_cuda_forget.
 */
#include "tests/backend/cuda/emulation/emulate.h"
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      4096
#define DEVICES   8
#define FUNCTIONS 1024

void fake_cuda_set(const char *settings);
long fake_cuda_live(void);
long fake_cuda_calls(void);
void fake_cuda_forget(void);

static struct {
    char name[64];
    long at, code, calls, of_name, live;
    long major, version, devices, full, busy, ptx, processors, pitch;
    size_t memory;
    bool forever, lost;
    void *real;
    struct graph *recorded; /* by the stream; NULL: kernels start at once */
} fake;

/* A kernel on a device. */
struct function {
    struct emulated_kernel_of *kernel;
    int device;
};

/* A device. A stream is the address of stream, a module that of module. */
struct context {
    char stream, module;
    size_t used;                 /* bytes of memory */
    unsigned long work;          /* what its stream has got */
    unsigned long of[DEVICES];   /* how much of that of other devices it comes behind */
    unsigned long read[DEVICES]; /* which work of other devices reads its memory */
    struct function functions[FUNCTIONS];
};
static struct context contexts[DEVICES];
static __thread int current;

struct event {
    int device;
    unsigned long work, of[DEVICES];
};

/* Allocated memory, in the page before it. */
struct block {
    size_t bytes;
    int device; /* -1: the host's */
    struct block *next;
};
static struct block *blocks;
static unsigned visible = ~0u; /* devices whose memory can be read, a bit for each */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
    if (sscanf(s, "devices=%ld", &fake.devices) == 1 && fake.devices > DEVICES) fake.devices = DEVICES;
    sscanf(s, "full=%ld", &fake.full);
    sscanf(s, "busy=%ld", &fake.busy);
    sscanf(s, "ptx=%ld", &fake.ptx);
    sscanf(s, "processors=%ld", &fake.processors);
    sscanf(s, "pitch=%ld", &fake.pitch);
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
    fake.full = -1;
    fake.processors = 4;
    fake.memory = (size_t)4 << 30;
    for (int i = 0; i < DEVICES; i++) { /* a device that was lost frees nothing, and nothing waits for it */
        contexts[i].used = contexts[i].work = 0;
        memset(contexts[i].of, 0, sizeof(contexts[i].of));
        memset(contexts[i].read, 0, sizeof(contexts[i].read));
    }
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

/* A call is done: count what it has made, or freed. */
static CUresult counted(long n)
{
    __atomic_add_fetch(&fake.live, n, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult made(void *to, void *thing)
{
    *(void **)to = thing;
    return counted(1);
}

/* --- devices --- */

static CUresult retain(CUcontext *c, CUdevice d)
{
    if (d == fake.full) return CUDA_ERROR_OUT_OF_MEMORY;
    return d < 0 || d >= fake.devices ? CUDA_ERROR_INVALID_DEVICE : made(c, &contexts[d]);
}

static CUresult use(CUcontext c)
{
    current = (int)((struct context *)(void *)c - contexts);
    return CUDA_SUCCESS;
}

/* The stream is the current device's. */
static bool own(CUstream s)
{
    return (char *)(void *)s == &contexts[current].stream;
}

/* A device comes behind some work of another one, and behind what that came behind. */
static void behind(struct context *c, int device, unsigned long work, const unsigned long *of)
{
    for (int i = 0; i < DEVICES; i++)
        if (of[i] > c->of[i]) c->of[i] = of[i];
    if (work > c->of[device]) c->of[device] = work;
}

static CUresult synchronize(CUstream s)
{
    const struct context *of = (const struct context *)(void *)s;
    for (int i = 0; i < DEVICES; i++) behind(&contexts[i], (int)(of - contexts), of->work, of->of);
    return CUDA_SUCCESS;
}

/* No copy of another device may read the current one's memory now. */
static bool is_read(void)
{
    for (int i = 0; i < DEVICES; i++)
        if (contexts[current].read[i] > contexts[current].of[i]) return true;
    return false;
}

/* The stream of the current device gets work. */
static CUresult work(CUresult e)
{
    contexts[current].work++;
    return e;
}

/* Let the memory of some devices be read, and no other. */
static void show(unsigned devices)
{
    if (fake.devices < 2 || devices == visible) return;
    for (struct block *b = blocks; b; b = b->next)
        if (b->device >= 0)
            mprotect((char *)b + PAGE, b->bytes, devices >> b->device & 1 ? PROT_READ | PROT_WRITE : PROT_NONE);
    visible = devices;
}

/* --- memory --- */

static CUresult allocate(void *to, size_t n, int device)
{
    if (device >= 0 && n > fake.memory - contexts[device].used) return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *b = mmap(NULL, n + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *b = (struct block){n, device, blocks}; /* the rest is 0, and takes no memory before it is used */
    blocks = b;
    visible = ~0u;
    if (device >= 0) contexts[device].used += n;
    pthread_mutex_unlock(&lock);
    return made(to, (char *)b + PAGE);
}

static CUresult release(void *at)
{
    struct block *b = (struct block *)(void *)((char *)at - PAGE), **p = &blocks;
    pthread_mutex_lock(&lock);
    while (*p != b) p = &(*p)->next;
    *p = b->next;
    if (b->device >= 0) contexts[b->device].used -= b->bytes;
    munmap(b, b->bytes + PAGE);
    pthread_mutex_unlock(&lock);
    return counted(-1);
}

/* In stream @s, with the memory of another device too. */
static CUresult copy(void *to, const void *from, size_t n, CUstream s, int other)
{
    if (!own(s)) return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    show(1u << current | 1u << other);
    memcpy(to, from, n);
    pthread_mutex_unlock(&lock);
    return work(CUDA_SUCCESS);
}

/* Rows, in stream @s, to the host or from there. */
static CUresult copy_rows(const CUDA_MEMCPY2D *a, CUstream s)
{
    const bool out = a->srcMemoryType == CU_MEMORYTYPE_DEVICE;
    char *to = out ? a->dstHost : (void *)a->dstDevice;
    const char *from = out ? (const void *)a->srcDevice : a->srcHost;
    CUresult e = CUDA_SUCCESS;
    if (a->WidthInBytes > a->srcPitch || a->WidthInBytes > a->dstPitch) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !e && i < a->Height; i++)
        e = copy(to + i * a->dstPitch, from + i * a->srcPitch, a->WidthInBytes, s, current);
    return e;
}

static CUresult copy_peer(void *to, CUcontext c, const void *from, CUcontext other, size_t n, CUstream s)
{
    const int source = (int)((struct context *)(void *)other - contexts);
    if ((void *)c != &contexts[current] || fake.recorded) return CUDA_ERROR_INVALID_CONTEXT;
    if (contexts[current].of[source] < contexts[source].work) return CUDA_ERROR_NOT_READY;
    CUresult e = copy(to, from, n, s, source);
    contexts[source].read[current] = contexts[current].work;
    return e;
}

/* --- events --- */

static CUresult make_event(CUevent *e)
{
    struct event *x = calloc(1, sizeof(*x));
    if (x) x->device = current;
    return x ? made(e, x) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult free_event(void *e)
{
    free(e);
    return counted(-1);
}

static CUresult set_event(struct event *e, CUstream s)
{
    if (!own(s) || e->device != current) return CUDA_ERROR_INVALID_CONTEXT;
    e->work = contexts[current].work;
    memcpy(e->of, contexts[current].of, sizeof(e->of));
    return CUDA_SUCCESS;
}

static CUresult follow(CUstream s, const struct event *e)
{
    if (!own(s)) return CUDA_ERROR_INVALID_CONTEXT;
    behind(&contexts[current], e->device, e->work, e->of);
    return CUDA_SUCCESS;
}

static int attribute(CUdevice_attribute a)
{
    if (a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return (int)fake.major;
    if (a == CU_DEVICE_ATTRIBUTE_MAX_PITCH) return fake.pitch ? (int)fake.pitch : INT32_MAX;
    return a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? (int)fake.processors : 0;
}

static CUresult memory_info(size_t *left, size_t *all)
{
    *all = fake.memory;
    const size_t used = contexts[current].used + (current ? (size_t)fake.busy << 20 : 0);
    *left = used < fake.memory ? fake.memory - used : 0;
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
    pthread_mutex_lock(&lock);
    show(1u << current);
    const int ran = emulated_run(kernel, c->gridDimX, c->gridDimY, c->blockDimX, c->sharedMemBytes, argument);
    pthread_mutex_unlock(&lock);
    return work(ran ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult record(struct graph *g, const CUlaunchConfig *c, struct emulated_kernel_of *kernel,
                       const void *argument)
{
    struct start s = {.config = *c, .kernel = kernel};
    struct start *more = realloc(g->starts, (g->n + 1) * sizeof(*more));
    s.argument = malloc(emulated_bytes(s.kernel));
    if (more) g->starts = more;
    if (!more || !s.argument) abort();
    memcpy(s.argument, argument, emulated_bytes(s.kernel));
    g->starts[g->n++] = s;
    return CUDA_SUCCESS;
}

/* Other code does not wait for the kernels before it. */
static CUresult launch(const CUlaunchConfig *c, const struct function *f, void **arguments)
{
    if (c->numAttrs && code_version() != 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (!own(c->hStream) || f->device != current) return CUDA_ERROR_INVALID_CONTEXT;
    if (!fake.recorded && is_read()) return CUDA_ERROR_NOT_READY;
    if (!emulated_run) return work(CUDA_SUCCESS);
    return fake.recorded ? record(fake.recorded, c, f->kernel, arguments[0]) : run(c, f->kernel, arguments[0]);
}

/* Without emulation all functions of a device are one. */
static CUresult find_kernel(CUfunction *f, CUmodule m, const char *name)
{
    struct emulated_kernel_of *k = emulated_find ? emulated_find(name, (int)code_version()) : NULL;
    struct function *x = contexts[current].functions;
    if ((char *)(void *)m != &contexts[current].module) return CUDA_ERROR_INVALID_CONTEXT;
    if (emulated_find && !k) return CUDA_ERROR_NOT_FOUND;
    while (x->kernel && x->kernel != k) x++;
    if (x == contexts[current].functions + FUNCTIONS - 1) abort();
    *x = (struct function){k, current};
    *f = (CUfunction)(void *)x;
    return CUDA_SUCCESS;
}

static CUresult allow(const struct function *f, CUfunction_attribute a, int value)
{
    if (!emulated_allow || a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    return emulated_allow(f->kernel, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- graphs --- */

static CUresult begin_graph(CUstream s)
{
    if (!own(s)) return CUDA_ERROR_INVALID_CONTEXT;
    fake.recorded = calloc(1, sizeof(*fake.recorded));
    return fake.recorded ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end_graph(CUgraph *g)
{
    *g = (CUgraph)(void *)fake.recorded;
    fake.recorded = NULL;
    return counted(1);
}

/* It takes over what the graph recorded. */
static CUresult instantiate(CUgraphExec *x, CUgraph g)
{
    struct graph *from = (void *)g, *to = malloc(sizeof(*to));
    if (!to) return CUDA_ERROR_OUT_OF_MEMORY;
    *to = *from;
    *from = (struct graph){0};
    *x = (CUgraphExec)(void *)to;
    return counted(1);
}

static CUresult run_graph(const struct graph *g, CUstream s)
{
    CUresult e = !own(s) ? CUDA_ERROR_INVALID_CONTEXT : is_read() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    for (size_t i = 0; !e && i < g->n; i++) e = run(&g->starts[i].config, g->starts[i].kernel, g->starts[i].argument);
    return e;
}

static CUresult free_graph(struct graph *g)
{
    for (size_t i = 0; g && i < g->n; i++) free(g->starts[i].argument);
    if (g) free(g->starts);
    free(g);
    return counted(-1);
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
FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice d), (c, d), retain(c, d))
FUNCTION(cuDevicePrimaryCtxRelease, (CUdevice d), (d), counted(-1))
FUNCTION(cuCtxSetCurrent, (CUcontext c), (c), use(c))
FUNCTION(cuCtxEnablePeerAccess, (CUcontext c, unsigned f), (c, f), CUDA_SUCCESS)
FUNCTION(cuMemGetInfo, (size_t * left, size_t *all), (left, all), memory_info(left, all))
FUNCTION(cuMemAlloc, (CUdeviceptr * p, size_t n), (p, n), allocate(p, n, current))
FUNCTION(cuMemFree, (CUdeviceptr p), (p), release((void *)p))
FUNCTION(cuMemHostAlloc, (void **p, size_t n, unsigned f), (p, n, f), allocate(p, n, -1))
FUNCTION(cuMemFreeHost, (void *p), (p), release(p))
FUNCTION(cuMemHostRegister, (void *p, size_t n, unsigned f), (p, n, f), counted(1))
FUNCTION(cuMemHostUnregister, (void *p), (p), counted(-1))
FUNCTION(cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t n, CUstream s), (to, from, n, s),
         copy((void *)to, from, n, s, current))
FUNCTION(cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s),
         copy(to, (const void *)from, n, s, current))
FUNCTION(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext c, CUdeviceptr from, CUcontext o, size_t n, CUstream s),
         (to, c, from, o, n, s), copy_peer((void *)to, c, (const void *)from, o, n, s))
FUNCTION(cuMemcpy2DAsync, (const CUDA_MEMCPY2D *a, CUstream s), (a, s), copy_rows(a, s))
FUNCTION(cuStreamCreate, (CUstream * s, unsigned f), (s, f), made(s, &contexts[current].stream))
FUNCTION(cuStreamDestroy, (CUstream s), (s), counted(-1))
FUNCTION(cuStreamSynchronize, (CUstream s), (s), synchronize(s))
FUNCTION(cuStreamWaitEvent, (CUstream s, CUevent e_, unsigned f), (s, e_, f), follow(s, (void *)e_))
FUNCTION(cuEventCreate, (CUevent * e_, unsigned f), (e_, f), make_event(e_))
FUNCTION(cuEventDestroy, (CUevent e_), (e_), free_event(e_))
FUNCTION(cuEventRecord, (CUevent e_, CUstream s), (e_, s), set_event((void *)e_, s))
FUNCTION(cuEventSynchronize, (CUevent e_), (e_), CUDA_SUCCESS)
FUNCTION(cuModuleLoadData, (CUmodule * m, const void *image), (m, image), made(m, &contexts[current].module))
FUNCTION(cuModuleUnload, (CUmodule m), (m), counted(-1))
FUNCTION(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name), (f, m, name), find_kernel(f, m, name))
FUNCTION(cuFuncGetAttribute, (int *v, CUfunction_attribute a, CUfunction f), (v, a, f), put(v, code_version()))
FUNCTION(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute a, int v), (f, a, v), allow((void *)f, a, v))
FUNCTION(cuLaunchKernelEx, (const CUlaunchConfig *c, CUfunction f, void **p, void **x), (c, f, p, x),
         launch(c, (void *)f, p))
FUNCTION(cuStreamBeginCapture, (CUstream s, CUstreamCaptureMode m), (s, m), begin_graph(s))
FUNCTION(cuStreamEndCapture, (CUstream s, CUgraph *g), (s, g), end_graph(g))
FUNCTION(cuGraphInstantiateWithFlags, (CUgraphExec * x, CUgraph g, unsigned long long f), (x, g, f), instantiate(x, g))
FUNCTION(cuGraphLaunch, (CUgraphExec x, CUstream s), (x, s), run_graph((void *)x, s))
FUNCTION(cuGraphExecDestroy, (CUgraphExec x), (x), free_graph((void *)x))
FUNCTION(cuGraphDestroy, (CUgraph g), (g), free_graph((void *)g))

/* It never fails: what it says is about other failures. */
CUresult CUDAAPI cuGetErrorString(CUresult e, const char **out)
{
    return say(out);
}
