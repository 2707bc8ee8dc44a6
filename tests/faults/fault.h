/* SPDX-License-Identifier: MIT */
#pragma once
/* Between the functions that replace the C library's (fault-memory.c, fault-calls.c) and the choice of calls (fault.c).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_function {
#define X(name, group, error, interruptible) FAULT_##name,
#include "tests/faults/fault-functions.h"
#undef X
    N_FAULTS
};

/* Whether this call of @f fails; errno is then set. */
bool fault_now(enum fault_function f);
/* How many of the @n bytes a read or write moves; only the first part of a vector is shortened. */
size_t fault_short(size_t n);
/* What is added to the real time, in nanoseconds. */
int64_t fault_clock(void);
/* The address of the function that this library replaces. */
void *fault_next(const char *name);

static inline void *fault_kept(void **kept, const char *name)
{
    if (!*kept) *kept = fault_next(name);
    return *kept;
}

/* Calls the replaced function @name. */
#define NEXT(name) ((__typeof__(name) *)fault_kept(&next_##name, #name))
/* Defines @name, with a list of parameters and their names, which returns @failure if this call fails. */
#define WRAP_AS(f, type, name, failure, parameters, names)                                                             \
    static void *next_##name;                                                                                          \
    type name parameters                                                                                               \
    {                                                                                                                  \
        return fault_now(FAULT_##f) ? (failure) : NEXT(name) names;                                                    \
    }
#define WRAP(type, name, failure, parameters, names) WRAP_AS(name, type, name, failure, parameters, names)
