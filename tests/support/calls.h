/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * System calls that fail or do less than they are asked. In a test with calls_dep the linker sends such calls of hob
 * here (--wrap); calls inside other libraries are not replaced. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum call {
    CALL_OPEN, /* open and openat */
    CALL_FSTAT,
    CALL_FSTATVFS,
    CALL_READ,  /* read, pread and preadv */
    CALL_WRITE, /* write, pwrite and writev */
    CALL_FSYNC,
    CALL_TRUNCATE, /* ftruncate */
    CALL_RANDOM,   /* getrandom */
    CALL_RENAME,   /* renameat and renameat2 */
    CALL_LINK,     /* linkat */
    CALL_UNLINK,   /* unlinkat */
    CALL_MEMFD,    /* memfd_create */
    CALLS
};

/* The call behind the next @n of its kind fails with @error, and no other; 0: it returns 0 and does nothing. */
void calls_fail(enum call which, unsigned long n, int error);
/* Only opens of names that end with @suffix, or are it if it begins with no dot, are counted and fail; static text;
 * NULL: all. */
void calls_name(const char *suffix);
/* Reads and writes do at most @bytes at a time. */
void calls_short(size_t bytes);
/* Calls that succeed leave @error in errno, as they may. */
void calls_stale(int error);
/* What fstatvfs tells: blocks of one byte that are free, and all. */
void calls_space(uint64_t free, uint64_t all);
/* All of what fstatvfs tells; copied. */
struct statvfs;
void calls_disk(const struct statvfs *fs);
/* The number of calls since the last calls_fail or calls_end. */
unsigned long calls_count(enum call which);
/* All calls work from now on. True: one failed. */
bool calls_end(void);
