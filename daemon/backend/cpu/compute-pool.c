/* SPDX-License-Identifier: MIT */
#include "daemon/backend/cpu/compute-pool.h"
#include "daemon/backend/cpu/cpu-count.h"
#include "daemon/backend/cpu/timeslice.h"
#include "libcommon/error.h"
#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 1024
#define SPINS       4000     /* rounds of a waiting thread before it sleeps or yields, some tens of microseconds */
#define CHECKS      64       /* rounds between two looks at the time slice */
#define YIELD_NS    10000000 /* the caller yields its CPU for so long before it sleeps */

/*
 * A run has a number. Its items are divided into one share a thread, the same thread's for the same items in each run
 * of as many: they may be in that thread's caches. A thread takes pieces of its own share, then of those of the others:
 * a thread that is late, slow or off the CPU loses items to them. What a thread writes is on a cache line of its own,
 * so that threads do not wait for each other's lines while each has work.
 *
 * A run is open while its number is in @open. Workers that see a new number in @round enter, take pieces until none are
 * left, and leave. The caller takes pieces too; when none are left, it closes the run and waits for those inside, so
 * that no worker can access a finished run. A worker that wakes late, because other processes have its CPU, finds the
 * run closed, and the caller does not wait for it.
 *
 * If other processes share a worker's CPU, the worker leaves before its time slice ends, so that it is not inside while
 * it is off the CPU (timeslice.h). The caller does not: the others would wait for it anyway. If the kernel wakes a
 * worker on the caller's CPU, because no CPU is idle, the worker moves to another one: two threads of the pool that
 * take turns on one CPU are slower than one.
 */

/* What one thread writes. */
struct lane {
    _Alignas(64) _Atomic uint64_t taken; /* of its share: the run's number in the upper half, items in the lower */
    _Atomic uint32_t inside;             /* number of the run that a worker is in; 0: none. Futex of the caller */
};

struct compute_pool {
    uint32_t threads, started; /* started: workers that run, threads - 1 when complete */
    pthread_t *workers;
    struct lane *lanes; /* [threads] */
    bool spin;
    struct cpu_count cpus; /* when the pool was made */
    struct numa nodes;
    struct timing *timing; /* NULL: not timed */

    /* Of the run; written while no worker is inside. */
    _Alignas(64) compute_fn fn;
    void *ctx;
    uint32_t n, least, most;
    _Atomic int cpu; /* the caller's */

    _Alignas(64) _Atomic uint32_t round; /* futex of the workers */
    _Atomic uint32_t open;               /* number of the open run; 0: none */
    _Atomic bool waits, stop;            /* waits: the caller sleeps or is about to */

    _Alignas(64) _Atomic uint32_t sleepers; /* workers that sleep or are about to */
    _Atomic uint32_t ids;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* First item of a thread's share: shares are whole pieces of the least size. */
static uint32_t share_begin(const struct compute_pool *p, uint32_t thread)
{
    uint64_t pieces = p->n / p->least + (p->n % p->least > 0), at = pieces * thread / p->threads * p->least;
    return at < p->n ? (uint32_t)at : p->n;
}

/* A part of what is left, so that all threads finish at about the same time. */
static uint32_t piece(const struct compute_pool *p, uint32_t left)
{
    uint32_t size = left / 2;
    size = size > p->most ? p->most : size - size % p->least;
    if (size < p->least) size = p->least;
    return size < left ? size : left;
}

/* Do a piece of the share of @of. False: none is left. The share of a thread that has not come yet is whole: its
 * lane has the number of an earlier run. */
static bool take(struct compute_pool *p, uint32_t of, uint32_t round, uint32_t thread)
{
    const uint32_t first = share_begin(p, of), n = share_begin(p, of + 1) - first;
    uint64_t word = atomic_load_explicit(&p->lanes[of].taken, memory_order_relaxed);
    uint32_t taken, size;
    do {
        taken = word >> 32 == round ? (uint32_t)word : 0;
        if (taken >= n) return false;
        size = piece(p, n - taken);
    } while (!atomic_compare_exchange_weak(&p->lanes[of].taken, &word, (uint64_t)round << 32 | (taken + size)));
    p->fn(p->ctx, first + taken, first + taken + size, thread);
    return true;
}

/* Take pieces until none are left, or until the time slice @slice ends; NULL: only when none are left. */
static void work(struct compute_pool *p, struct timeslice *slice, uint32_t round, uint32_t thread)
{
    for (uint32_t of = thread, empty = 0; empty < p->threads;) {
        if (slice && timeslice_shared(slice)) {
            timeslice_check(slice);
            if (timeslice_ends(slice)) return;
        }
        if (take(p, of, round, thread)) {
            empty = 0;
            continue;
        }
        of = of + 1 < p->threads ? of + 1 : 0;
        empty++;
    }
}

/* Leave the caller's CPU for another one that this thread may use. Its set of CPUs is the same afterwards, unless
 * another process (taskset -p) has changed it during the move: then that change stays. Only a change in the moment
 * between reading the set and writing it is lost; the kernel has no call that does both. */
static void part_from_caller(const struct compute_pool *p)
{
    cpu_set_t all, others, now;
    int cpu = atomic_load_explicit(&p->cpu, memory_order_relaxed);
    if (!p->spin || cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu) return;
    if (sched_getaffinity(0, sizeof(all), &all)) return;
    others = all;
    CPU_CLR(cpu, &others);
    if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof(others), &others)) return;
    if (sched_getaffinity(0, sizeof(now), &now) || !CPU_EQUAL(&now, &others)) return;
    sched_setaffinity(0, sizeof(all), &all);
}

static void sleep_round(struct compute_pool *p, uint32_t seen)
{
    atomic_fetch_add(&p->sleepers, 1);
    if (atomic_load(&p->round) == seen) futex_wait(&p->round, seen);
    atomic_fetch_sub(&p->sleepers, 1);
}

/* Wait until @round differs from @seen, and return it. */
static uint32_t wait_round(struct compute_pool *p, struct timeslice *slice, uint32_t seen)
{
    uint32_t round;
    for (int i = 0; p->spin && i < SPINS; i++) {
        if ((round = atomic_load_explicit(&p->round, memory_order_acquire)) != seen) return round;
        relax();
        if (i % CHECKS == CHECKS - 1 && timeslice_check(slice)) part_from_caller(p);
    }
    while ((round = atomic_load(&p->round)) == seen) sleep_round(p, seen);
    timeslice_woke(slice);
    part_from_caller(p);
    return round;
}

static void leave(struct compute_pool *p, uint32_t thread)
{
    atomic_store(&p->lanes[thread].inside, 0);
    if (atomic_load(&p->waits)) futex_wake(&p->lanes[thread].inside, 1);
}

/* Either this thread sees that the run is closed, or the caller sees that it is inside. */
static bool enter(struct compute_pool *p, uint32_t round, uint32_t thread)
{
    if (atomic_load(&p->open) != round) return false; /* most often; then the caller need not wait for this thread */
    atomic_store(&p->lanes[thread].inside, round);
    if (atomic_load(&p->open) == round) return true;
    leave(p, thread);
    return false;
}

/* Take part in the run, if it is not over. */
static void take_part(struct compute_pool *p, struct timeslice *slice, uint32_t round, uint32_t thread)
{
    timeslice_check(slice);
    while (enter(p, round, thread)) {
        work(p, slice, round, thread);
        leave(p, thread);
        if (!timeslice_ends(slice)) return;
        timeslice_yield(slice);
    }
}

static void *worker(void *arg)
{
    struct compute_pool *p = arg;
    struct timeslice slice;
    uint32_t thread = 1 + atomic_fetch_add(&p->ids, 1), seen = 0;
    char name[16];
    snprintf(name, sizeof(name), "compute-%u", thread);
    pthread_setname_np(pthread_self(), name);
    if (p->nodes.n > 1) {
        const cpu_set_t *cpus = &p->nodes.cpus[numa_node_of(&p->nodes, thread, p->threads)];
        sched_setaffinity(0, sizeof(*cpus), cpus); /* a failure costs only speed */
    }
    timeslice_init(&slice);
    for (;;) {
        seen = wait_round(p, &slice, seen);
        if (atomic_load(&p->stop)) return NULL;
        take_part(p, &slice, seen, thread);
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A worker inside that is off its CPU comes back within some milliseconds. A caller that sleeps meanwhile makes its CPU
 * idle, and the kernel moves the worker there, where it is in the caller's way. */
static void wait_worker(struct compute_pool *p, uint32_t thread)
{
    _Atomic uint32_t *inside = &p->lanes[thread].inside;
    for (int i = 0; p->spin && i < SPINS; i++) {
        if (!atomic_load(inside)) return;
        relax();
    }
    for (uint64_t end = now_ns() + YIELD_NS; p->spin && now_ns() < end;) {
        if (!atomic_load(inside)) return;
        sched_yield();
    }
    atomic_store(&p->waits, true);
    for (uint32_t round; (round = atomic_load(inside));) futex_wait(inside, round);
    atomic_store(&p->waits, false);
}

/* Begin run @round. */
static void publish(struct compute_pool *p, uint32_t round)
{
    atomic_store_explicit(&p->cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store(&p->open, round);
    atomic_store(&p->round, round);
    if (atomic_load(&p->sleepers)) futex_wake(&p->round, THREADS_MAX);
}

/* Number of the next run; 0 means none. */
static uint32_t next_round(const struct compute_pool *p)
{
    uint32_t round = atomic_load_explicit(&p->round, memory_order_relaxed) + 1;
    return round ? round : 1;
}

void compute_pool_time(struct compute_pool *p, struct timing *timing)
{
    p->timing = timing;
}

void compute_pool_run(struct compute_pool *p, compute_fn fn, void *ctx, uint32_t n, uint32_t least, uint32_t most)
{
    assert(least > 0);
    uint64_t start = p->timing ? now_ns() : 0;
    if (p->threads == 1 || n <= least) {
        if (n) fn(ctx, 0, n, 0);
        if (p->timing) p->timing->work_ns += now_ns() - start;
        return;
    }
    const uint32_t round = next_round(p);
    p->fn = fn;
    p->ctx = ctx;
    p->n = n;
    p->least = least;
    p->most = most > least ? most / least * least : least;
    publish(p, round);
    work(p, NULL, round, 0);
    atomic_store(&p->open, 0);
    uint64_t done = p->timing ? now_ns() : 0;
    for (uint32_t i = 1; i < p->threads; i++) wait_worker(p, i);
    if (!p->timing) return;
    p->timing->work_ns += done - start;
    p->timing->wait_ns += now_ns() - done;
    p->timing->barriers++;
}

int compute_pool_new_on(struct compute_pool **out, uint32_t threads, const struct numa *nodes)
{
    struct cpu_count cpus;
    cpu_count(&cpus);
    if (!threads) threads = cpus.threads;
    if (threads > THREADS_MAX) return error_say(-EINVAL, "%u compute threads; at most %u", threads, THREADS_MAX);
    struct compute_pool *p = aligned_alloc(64, (sizeof(*p) + 63) & ~(size_t)63);
    if (!p) return error_say(-ENOMEM, "out of memory for the compute pool");
    memset(p, 0, sizeof(*p));
    p->threads = threads;
    p->cpus = cpus;
    p->nodes = *nodes;
    /* With fewer CPUs than threads, spinning keeps the others from working. */
    p->spin = threads <= cpus.allowed && threads <= cpus.quota / 1000 + (cpus.quota % 1000 > 0);
    p->workers = calloc(threads, sizeof(*p->workers));
    p->lanes = aligned_alloc(64, threads * sizeof(*p->lanes));
    if (p->lanes) memset(p->lanes, 0, threads * sizeof(*p->lanes));
    int e = p->workers && p->lanes ? 0 : ENOMEM;
    sigset_t all, old;
    sigfillset(&all);        /* the main thread handles signals */
    sigdelset(&all, SIGBUS); /* except faults in a mapped file */
    sigdelset(&all, SIGSYS); /* and forbidden system calls */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (!e && p->started < threads - 1 && !(e = pthread_create(&p->workers[p->started], NULL, worker, p)))
        p->started++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) {
        uint32_t started = p->started;
        compute_pool_free(p);
        return error_say(-e, "cannot start compute thread %u of %u: %s", started + 2, threads, strerror(e));
    }
    *out = p;
    return 0;
}

int compute_pool_new(struct compute_pool **out, uint32_t threads)
{
    return compute_pool_new_on(out, threads, &(struct numa){0});
}

struct compute_pool *compute_pool_free(struct compute_pool *p)
{
    if (!p) return NULL;
    atomic_store(&p->stop, true);
    publish(p, next_round(p));
    for (uint32_t i = 0; i < p->started; i++) pthread_join(p->workers[i], NULL);
    free(p->workers);
    free(p->lanes);
    free(p);
    return NULL;
}

uint32_t compute_pool_threads(const struct compute_pool *p)
{
    return p->threads;
}

void compute_pool_describe(const struct compute_pool *p, char *out, size_t size)
{
    cpu_count_describe(&p->cpus, p->threads, out, size);
    const size_t len = strlen(out);
    if (p->nodes.n > 1) snprintf(out + len, size - len, ", on %u NUMA nodes", p->nodes.n);
}
