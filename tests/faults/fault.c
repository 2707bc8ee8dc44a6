/* SPDX-License-Identifier: MIT */
/*
 * libfault.so, for LD_PRELOAD: makes chosen calls of the C library fail, as fault-control.h says, and counts their
 * sites. It makes no system call after its start, because hobd's sandbox would forbid it.
 */
#undef _FILE_OFFSET_BITS /* open and open64 are defined here as two functions */
#include "tests/faults/fault.h"
#include "tests/faults/fault-control.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum group {
    GROUP_memory,
    GROUP_descriptors,
    GROUP_input,
    GROUP_disk,
    GROUP_locks,
    GROUP_network,
    GROUP_events,
    GROUP_processes
};

static const struct function {
    const char *name;
    enum group group;
    int error;
    bool interruptible;
} functions[] = {
#define X(name, group, error, interruptible) {#name, GROUP_##group, error, interruptible},
#include "tests/faults/fault-functions.h"
#undef X
};

_Static_assert(N_FAULTS == 64, "a mask has one bit for each function");

static struct fault_control *control;
static const void *own; /* the link map of this library */
static char program[256];

/* initial-exec: __tls_get_addr may allocate. */
static __thread bool inside __attribute__((tls_model("initial-exec")));
static __thread uint32_t turns __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("FAULT_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p;
    void *frames[4];
    struct dl_find_object found;

    if (fd < 0) return;
    inside = true;
    backtrace(frames, 4); /* the first call loads libgcc */
    if (_dl_find_object((void *)attach, &found) == 0) own = found.dlfo_link_map;
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) strcpy(program, "?");
    p = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    inside = false;
    if (p != MAP_FAILED && ((struct fault_control *)p)->magic == FAULT_MAGIC) control = p;
}

static uint32_t hash_name(const char *s)
{
    uint32_t h = 2166136261u;
    while (*s) h = (h ^ (unsigned char)*s++) * 16777619u;
    return h ? h : 1;
}

/* The hash of a module's file name, which is noted in the control file. */
static uint32_t module_of(const struct link_map *map)
{
    const char *name = map->l_name && *map->l_name ? map->l_name : program;
    const char *slash = strrchr(name, '/');
    uint32_t h;

    name = slash ? slash + 1 : name;
    h = hash_name(name);
    for (int i = 0; i < FAULT_MODULES; i++) {
        uint32_t none = 0;
        if (!__atomic_compare_exchange_n(&control->modules[i].hash, &none, h, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            if (none == h) break;
            continue;
        }
        strncpy(control->modules[i].name, name, FAULT_NAME - 1);
        break;
    }
    return h;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* The path to this call: libraries' frames up to @depth frames of the program. */
static void find_path(enum fault_function f, struct fault_site *s)
{
    void *frames[FAULT_FRAMES + 4];
    int n = backtrace(frames, FAULT_FRAMES + 4);
    uint32_t depth = 0;

    s->hash = mix(1, f);
    s->function = f;
    s->n_frames = 0;
    for (int i = 0; i < n && s->n_frames < FAULT_FRAMES && depth < control->depth; i++) {
        struct dl_find_object found;
        if (_dl_find_object((char *)frames[i] - 1, &found) < 0 || found.dlfo_link_map == own) continue;
        const struct link_map *map = found.dlfo_link_map;
        uint32_t k = s->n_frames++;
        s->frames[k].module = module_of(map);
        s->frames[k].offset = (uint32_t)((uintptr_t)frames[i] - map->l_addr);
        s->hash = mix(s->hash, (uint64_t)s->frames[k].module << 32 | s->frames[k].offset);
        depth += !map->l_name || !*map->l_name;
    }
    if (!s->hash) s->hash = 1;
}

/* The entry of this site, made if it is new; NULL: there is no room. */
static struct fault_site *enter(const struct fault_site *s)
{
    for (uint32_t i = 0; i < FAULT_SITES; i++) {
        struct fault_site *x = &control->sites[(s->hash + i) % FAULT_SITES];
        uint64_t there = 0;
        if (__atomic_compare_exchange_n(&x->hash, &there, s->hash, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            x->function = s->function;
            x->n_frames = s->n_frames;
            memcpy(x->frames, s->frames, sizeof x->frames);
            __atomic_add_fetch(&control->n_sites, 1, __ATOMIC_RELAXED);
            return x;
        }
        if (there == s->hash) return x;
    }
    __atomic_add_fetch(&control->lost, 1, __ATOMIC_RELAXED);
    return NULL;
}

static bool disarm(void)
{
    uint32_t choice = control->choice;
    return choice != FAULT_OFF &&
           __atomic_compare_exchange_n(&control->choice, &choice, FAULT_OFF, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint64_t group_of(enum fault_function f)
{
    uint64_t set = 0;
    for (int i = 0; i < N_FAULTS; i++)
        if (functions[i].group == functions[f].group) set |= (uint64_t)1 << i;
    return set;
}

static bool is_in_part(const struct fault_site *x)
{
    return control->parts == 0 || x->hash % control->parts == control->part;
}

static bool chosen(struct fault_site *x)
{
    if (control->choice == FAULT_UNTRIED)
        return x && is_in_part(x) && __atomic_load_n(&x->tried, __ATOMIC_ACQUIRE) < control->tries && disarm();
    if (control->choice == FAULT_NTH) return __atomic_fetch_sub(&control->left, 1, __ATOMIC_ACQ_REL) == 0 && disarm();
    return false;
}

static bool choose(enum fault_function f)
{
    struct fault_site s, *x;

    find_path(f, &s);
    x = enter(&s);
    if (x) __atomic_add_fetch(&x->reached, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&control->calls, 1, __ATOMIC_RELAXED);
    if (!chosen(x)) return false;
    if (x) __atomic_add_fetch(&x->tried, 1, __ATOMIC_ACQ_REL);
    control->last = s.hash;
    if (control->effect == FAULT_FROM) control->persist = group_of(f) & control->functions;
    return true;
}

/* About every second call, in no regular order: a loop of two calls makes progress. */
static bool interrupts(void)
{
    turns = turns * 1664525u + 1013904223u;
    return turns >> 31;
}

bool fault_now(enum fault_function f)
{
    bool fails = false;
    int saved = errno;

    if (!control || inside) return false;
    uint64_t bit = (uint64_t)1 << f;
    if (control->persist & bit) {
        fails = true;
    } else if (control->choice == FAULT_ALL) {
        fails = control->effect == FAULT_INTERRUPT && functions[f].interruptible && control->functions & bit &&
                interrupts();
    } else if (control->choice != FAULT_OFF && control->functions & bit) {
        inside = true;
        fails = choose(f);
        inside = false;
    }
    if (!fails) {
        errno = saved;
        return false;
    }
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_RELAXED);
    errno = control->effect == FAULT_INTERRUPT ? EINTR : control->error ? control->error : functions[f].error;
    return true;
}

size_t fault_short(size_t n)
{
    /* Counters of an eventfd have 8 bytes, a record of a signalfd has 128: the kernel never splits those. */
    if (!control || control->choice != FAULT_ALL || control->effect != FAULT_SHORT || n <= 16 || n == 128) return n;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_RELAXED);
    return n / 2;
}

int64_t fault_clock(void)
{
    return control ? control->clock_ns : 0;
}

void *fault_next(const char *name)
{
    bool before = inside;
    inside = true;
    void *p = dlsym(RTLD_NEXT, name);
    inside = before;
    if (!p) abort(); /* no program calls a function that the C library lacks */
    return p;
}
