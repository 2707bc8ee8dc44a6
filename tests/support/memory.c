/* SPDX-License-Identifier: MIT */
#include "tests/support/memory.h"
#include <stdatomic.h>
#include <stdlib.h>

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

void *__wrap_realloc(void *p, size_t n)
{
    return memory_fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    return memory_fails() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
    return memory_fails() ? NULL : __real_strdup(s);
}
