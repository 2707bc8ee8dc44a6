/* SPDX-License-Identifier: MIT */
/*
 * Runs the CTAs of a kernel one after the other. Each of its threads is a fiber of the calling thread, with a stack of
 * its own; it runs until it must wait for others.
 */
#include "emulate.h"
#include "cta.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define STACK      (64u << 10)
#define ROOM       (227u << 10) /* shared memory of a CTA */
#define USUAL_ROOM (48u << 10)
#define PAGE       4096u
#define CANARY     0x57ac6e4d0ull /* at the end of a stack */

struct uint3 threadIdx, blockIdx, blockDim, gridDim;
struct cta cta;

/* --- fibers --- */

/* Save the stack's place in *from; go on with the fiber of @to. In the functions that wait, not called: the processor
 * would predict each return wrong. The area below the stack's place may be in use. */
__attribute__((always_inline)) static inline void switch_to(void **from, void *to)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n"
                     "pushq %%rbp\n"
                     "leaq 1f(%%rip), %%rax\n"
                     "pushq %%rax\n"
                     "movq %%rsp, (%%rdi)\n"
                     "movq %%rsi, %%rsp\n"
                     "popq %%rax\n"
                     "popq %%rbp\n"
                     "jmpq *%%rax\n"
                     "1:\n"
                     "leaq 128(%%rsp), %%rsp\n"
                     : "+D"(from), "+S"(to)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                       "xmm13", "xmm14", "xmm15", "cc", "memory");
}

static bool can_run(const struct fiber *f)
{
    return !f->ended && (!f->word || *f->word != f->old);
}

/* The next lane of the warp behind lane @i that can run, in the order of the launch; NULL: none can. */
static struct fiber *search_lane(uint32_t i)
{
    const uint32_t first = i / WARP * WARP, n = cta.warps[i / WARP].lanes, step = cta.order == 1 ? n - 1 : 1;
    uint32_t at = i - first;
    for (uint32_t k = 0; k < n; k++) {
        at = at + step < n ? at + step : at + step - n;
        if (can_run(&cta.fibers[first + at])) return &cta.fibers[first + at];
    }
    return NULL;
}

__attribute__((always_inline)) static inline struct fiber *next_lane(uint32_t i)
{
    struct fiber *f = &cta.fibers[i + 1];
    return cta.order != 1 && (i + 1) % WARP && i + 1 < blockDim.x && can_run(f) ? f : search_lane(i);
}

/* Let another lane of the warp run; or the scheduler, if none can. */
__attribute__((always_inline)) static inline void leave_fiber()
{
    struct fiber *f = cta.now, *next = next_lane((uint32_t)(f - cta.fibers));
    if (next == f) return;
    cta.now = next;
    threadIdx.x = next ? (uint32_t)(next - cta.fibers) : 0;
    switch_to(&f->sp, next ? next->sp : cta.scheduler);
}

static void end_barrier()
{
    cta.arrived = 0;
    cta.barrier++;
}

static void run_fiber()
{
    cta.kernel->call(cta.argument);
    cta.now->ended = true;
    cta.alive--;
    if (cta.arrived && cta.arrived == cta.alive) end_barrier();
    leave_fiber();
    abort();
}

static uint64_t *stack_end(uint32_t i)
{
    return (uint64_t *)(void *)(cta.stacks + (size_t)i * STACK);
}

/* The stack of fiber @i. The tops differ in their lowest bits, or all would want the same lines of the cache. */
static void prepare(uint32_t i)
{
    struct fiber *f = &cta.fibers[i];
    void **sp = (void **)(cta.stacks + (size_t)(i + 1) * STACK - i % 61 * 64 - 64);
    *--sp = NULL; /* where a return address lies: the stack is aligned as behind a call */
    *--sp = NULL;
    *--sp = (void *)run_fiber;
    f->sp = sp;
    f->word = NULL;
    f->ended = false;
    f->first = f->n = f->group = 0;
}

__attribute__((always_inline)) static inline void wait(const char *what, const uint32_t *word, uint32_t old)
{
    struct fiber *f = cta.now;
    f->what = what;
    f->word = word;
    f->old = old;
    while (*word == old) leave_fiber();
    f->word = NULL;
}

void emulated_wait(const char *what, const uint32_t *word, uint32_t old)
{
    wait(what, word, old);
}

/* --- faults --- */

static void say_where()
{
    const unsigned thread = cta.now ? (unsigned)(cta.now - cta.fibers) : 0;
    fprintf(stderr, "%s: CTA (%u, %u) of (%u, %u), thread %u of %u: ", cta.kernel ? cta.kernel->name : "no kernel",
            blockIdx.x, blockIdx.y, gridDim.x, gridDim.y, thread, blockDim.x);
}

void emulated_fault(const char *format, ...)
{
    va_list args;
    say_where();
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

/* A signal in a kernel. */
static void on_signal(int number, siginfo_t *info, void *)
{
    if (cta.now) {
        say_where();
        fprintf(stderr, "signal %d at %p\n", number, info->si_addr);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals()
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    static char stack[64 << 10];
    const stack_t s = {stack, 0, sizeof(stack)};
    struct sigaction a = {};
    a.sa_sigaction = on_signal;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaltstack(&s, NULL);
    for (int n : numbers) sigaction(n, &a, NULL);
}

/* All that are left wait. */
static void stuck()
{
    cta.now = NULL;
    say_where();
    fprintf(stderr, "threads wait for each other forever\n");
    for (uint32_t i = 0; i < blockDim.x; i++) {
        const struct fiber *f = &cta.fibers[i];
        if (i && f->ended == f[-1].ended && (f->ended || f->what == f[-1].what)) continue;
        fprintf(stderr, "  thread %u and those behind it: %s\n", i, f->ended ? "at the end" : f->what);
    }
    abort();
}

/* --- what threads wait for --- */

void emulated_barrier()
{
    const uint32_t old = cta.barrier;
    if (++cta.arrived == cta.alive)
        end_barrier();
    else
        wait("__syncthreads", &cta.barrier, old);
}

void ptx_bar_arrive(uint32_t i, uint32_t n)
{
    if (!i || i >= 16 || !n || n > blockDim.x || n % WARP) emulated_fault("barrier %u of %u threads", i, n);
    if (++cta.numbered[i].arrived == n) cta.numbered[i].arrived = 0, cta.numbered[i].turn++;
}

void ptx_bar_sync(uint32_t i, uint32_t n)
{
    const uint32_t old = cta.numbered[i % 16].turn;
    ptx_bar_arrive(i, n);
    wait("bar.sync", &cta.numbered[i].turn, old);
}

const uint32_t (*emulated_exchange(const char *what, const uint32_t *own, int n))[32]
{
    struct warp *w = &cta.warps[threadIdx.x / WARP];
    const uint32_t turn = w->turn, lane = threadIdx.x % WARP;
    if (!w->arrived) w->what = what;
    if (w->what != what && strcmp(w->what, what)) emulated_fault("%s, while other lanes are at %s", what, w->what);
    for (int i = 0; i < n; i++) w->words[turn & 1][i][lane] = own[i];
    if (++w->arrived == w->lanes)
        w->arrived = 0, w->turn++;
    else
        wait(what, &w->turn, turn);
    return w->words[turn & 1];
}

/* --- CTAs --- */

static uint32_t next_random()
{
    cta.random = cta.random * 1664525u + 1013904223u;
    return cta.random >> 8;
}

/* Let the lanes of a warp run until all wait for other warps. */
static bool run_warp(uint32_t first, uint32_t n)
{
    struct fiber *f = next_lane(first + (cta.order > 1 ? next_random() % n : cta.order ? 0 : n - 1));
    if (!f) return false;
    cta.now = f;
    threadIdx.x = (uint32_t)(f - cta.fibers);
    switch_to(&cta.scheduler, f->sp);
    return true;
}

static void prepare_cta()
{
    const uint32_t n = blockDim.x;
    emulated_prepare_shared();
    for (uint32_t i = 0; i < n; i++) prepare(i);
    for (uint32_t w = 0; w * WARP < n; w++) {
        cta.warps[w].arrived = cta.warps[w].turn = 0;
        cta.warps[w].lanes = n - w * WARP < WARP ? n - w * WARP : WARP;
    }
    cta.arrived = cta.barrier = 0;
    memset(cta.numbered, 0, sizeof(cta.numbered));
    cta.alive = n;
}

static void run_cta()
{
    const uint32_t warps = (blockDim.x + WARP - 1) / WARP;
    prepare_cta();
    while (cta.alive) {
        const uint32_t by = cta.order > 1 ? next_random() % warps : 0;
        bool any = false;
        for (uint32_t i = 0; i < warps; i++) {
            const uint32_t w = cta.order == 1 ? warps - 1 - i : (i + by) % warps;
            any |= run_warp(w * WARP, cta.warps[w].lanes);
        }
        if (!any && !emulated_finish_bulk()) stuck();
    }
    if (emulated_finish_bulk()) emulated_fault("a bulk copy is under way at the end");
    for (uint32_t i = 0; i < blockDim.x; i++)
        if (*stack_end(i) != CANARY) emulated_fault("the stack of thread %u is too small", i);
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

/* Stacks, in large pages; shared memory, with a page behind it that faults. */
static void make_room()
{
    const size_t room = (ROOM + PAGE - 1) / PAGE * PAGE;
    cta.stacks = (uint8_t *)map((size_t)MOST_THREADS * STACK);
    madvise(cta.stacks, (size_t)MOST_THREADS * STACK, MADV_HUGEPAGE);
    for (uint32_t i = 0; i < MOST_THREADS; i++) *stack_end(i) = CANARY;
    uint8_t *room_begin = (uint8_t *)map(room + PAGE);
    cta.room_end = room_begin + room;
    mprotect(cta.room_end, PAGE, PROT_NONE);
    struct copy *copies = (struct copy *)map(sizeof(*copies) * COPIES * MOST_THREADS);
    for (uint32_t i = 0; i < MOST_THREADS; i++) cta.fibers[i].copies = copies + (size_t)i * COPIES;
    catch_signals();
}

/* --- for the driver --- */

#define MOST_LISTS 64

static struct {
    struct emulated_kernel_of *list;
    size_t n;
} lists[MOST_LISTS];
static size_t n_lists;

void emulated_enter(struct emulated_kernel_of *list, size_t n)
{
    if (n_lists == MOST_LISTS) abort();
    for (size_t i = 0; i < n; i++) list[i].room = USUAL_ROOM;
    lists[n_lists].list = list;
    lists[n_lists++].n = n;
}

struct emulated_kernel_of *emulated_find(const char *name, int architecture)
{
    for (size_t l = 0; l < n_lists; l++)
        for (size_t i = 0; i < lists[l].n; i++)
            if (lists[l].list[i].architecture == architecture && !strcmp(lists[l].list[i].name, name))
                return &lists[l].list[i];
    return NULL;
}

size_t emulated_bytes(const struct emulated_kernel_of *k)
{
    return k->bytes;
}

int emulated_allow(struct emulated_kernel_of *k, int bytes)
{
    if (bytes < 0 || bytes + (k->end - k->begin) > (ptrdiff_t)ROOM) return 0;
    k->room = (unsigned)bytes;
    return 1;
}

int emulated_run(const struct emulated_kernel_of *k, unsigned x, unsigned y, unsigned threads, unsigned shared,
                 const void *argument)
{
    if (!x || !y || y > 65535 || !threads || threads > k->most || shared > k->room) return 0;
    if (!cta.stacks) make_room();
    cta.kernel = k;
    cta.argument = argument;
    cta.room_bytes = shared;
    cta.room = cta.room_end - (shared + 127) / 128 * 128;
    gridDim = {x, y, 1};
    blockDim = {threads, 1, 1};
    for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) run_cta();
    cta.kernel = NULL;
    return 1;
}

void emulated_order(unsigned order)
{
    cta.order = cta.random = order;
}

int emulated_supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
