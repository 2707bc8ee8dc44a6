/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The file that tells libfault.so (fault.c) which calls fail. FAULT_CONTROL in the environment names it. A driver
 * (control.py) and all processes that it starts map it, so a running daemon can be told without a call. The layout is
 * the same on every machine that has the same byte order; control.py reads it with struct.
 */
#include <stdint.h>

enum { FAULT_MAGIC = 0x746c6166, FAULT_SITES = 1 << 14, FAULT_FRAMES = 12, FAULT_MODULES = 64, FAULT_NAME = 56 };

/* Which calls fail, while armed. */
enum fault_choice {
    FAULT_OFF,
    FAULT_NTH,     /* the call behind the next @left calls */
    FAULT_UNTRIED, /* the first call whose site failed fewer than @tries times */
    FAULT_ALL,     /* all: for FAULT_SHORT and FAULT_INTERRUPT */
};

enum fault_effect {
    FAULT_ONCE,      /* this call fails; then none does */
    FAULT_FROM,      /* this call and all later ones of the same group (memory, descriptors, ...) */
    FAULT_SHORT,     /* reads and writes of more than a few bytes move half of them */
    FAULT_INTERRUPT, /* about every second call that a signal may interrupt fails with EINTR */
};

/* A path to a call: the function and the return addresses up to @depth of the program's own. */
struct fault_site {
    uint64_t hash; /* 0: a free entry */
    uint32_t function, reached, tried, n_frames;
    struct {
        uint32_t module, offset; /* a hash of the module's file name; the address within the module */
    } frames[FAULT_FRAMES];
};

struct fault_control {
    uint32_t magic;
    uint32_t choice, effect;
    int32_t error;      /* errno of the failing call; 0: the one that fault.c has for the function */
    uint64_t functions; /* bit n: function n of fault-functions.h can fail */
    int64_t left;
    uint32_t tries, depth;
    int64_t clock_ns; /* added to CLOCK_REALTIME, armed or not */
    uint64_t persist; /* functions that fail from now on (FAULT_FROM) */
    uint64_t calls, failed;
    uint64_t last;          /* hash of the site that failed last */
    uint32_t n_sites, lost; /* lost: sites without an entry */
    uint32_t part, parts;   /* FAULT_UNTRIED chooses only sites whose hash has the remainder @part by @parts; 0: all */
    struct {
        uint32_t hash;
        char name[FAULT_NAME];
    } modules[FAULT_MODULES];
    struct fault_site sites[FAULT_SITES];
};
