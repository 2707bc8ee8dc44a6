/* SPDX-License-Identifier: MIT */
#pragma once
/* Scope-bound cleanup: `_cleanup_(closep) int fd = -1;` runs closep(&fd) when fd goes out of scope. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

/* NAMEp for a TYPE whose free function takes a pointer and returns NULL. */
#define DEFINE_CLEANUP(TYPE, FREE)                                                                                     \
    static inline void FREE##p(TYPE *p)                                                                                \
    {                                                                                                                  \
        if (*p) FREE(*p);                                                                                              \
    }

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline void closep(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static inline void fclosep(FILE **f)
{
    if (*f) fclose(*f);
}

#define steal(p)                                                                                                       \
    __extension__({                                                                                                    \
        __typeof__(p) _stolen = (p);                                                                                   \
        (p) = NULL;                                                                                                    \
        _stolen;                                                                                                       \
    })
