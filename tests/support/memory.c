/* SPDX-License-Identifier: MIT */
#include "tests/support/memory.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long left = -1;    /* allocations until the one that fails; negative: none does */
static atomic_size_t size_fails; /* 0: none does */
static atomic_bool failed;

void memory_fail(unsigned long n)
{
    failed = false;
    left = (long)n;
}

void memory_fail_size(size_t size)
{
    failed = false;
    size_fails = size;
}

bool memory_end(void)
{
    left = -1;
    size_fails = 0;
    return atomic_exchange(&failed, false);
}

bool memory_fails(void)
{
    if (atomic_load(&left) < 0 || atomic_fetch_sub(&left, 1) != 0) return false;
    failed = true;
    return true;
}

static bool size_is_out(size_t n)
{
    if (!n || !atomic_compare_exchange_strong(&size_fails, &n, 0)) return false;
    failed = true;
    return true;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t n)
{
    return memory_fails() || size_is_out(n) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return memory_fails() ? NULL : __real_calloc(n, size);
}

/* Memory always moves, and what is read in the old place is wrong. */
static void *moved(void *p, size_t n)
{
    void *to = __real_malloc(n);
    const size_t had = malloc_usable_size(p);
    if (!to) return NULL;
    memcpy(to, p, had < n ? had : n);
    memset(p, 0xa5, had);
    __asm__ volatile("" ::"r"(p) : "memory"); /* or the compiler would leave it out */
    free(p);
    return to;
}

void *__wrap_realloc(void *p, size_t n)
{
    if (memory_fails()) return NULL;
    return p && n ? moved(p, n) : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (memory_fails()) return NULL;
    return p && !__builtin_mul_overflow(n, size, &bytes) && bytes ? moved(p, bytes) : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
    return memory_fails() ? NULL : __real_strdup(s);
}
