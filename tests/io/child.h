/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Cases that run in a child process, for example because they enter the sandbox. Such a case is a function without
 * parameters. It returns 0 when all is as expected, NO_KERNEL when the kernel lacks a feature, else another number. It
 * uses these macros in place of cmocka's.
 */
#include <errno.h>

enum { NO_KERNEL = 77 };

/* If @condition is false, print it with its line and return 1. errno is 0 before it is evaluated. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        if (!(condition)) return child_failed(__LINE__, #condition);                                                   \
    } while (0)
/* @call returns a negative number and sets errno to @error. */
#define FAILS(call, error) EXPECT((call) < 0 && errno == (error))

/* Print the condition @text of @line and errno to stderr. Returns 1. */
int child_failed(int line, const char *text);

/* Run @fn in a child. Returns its result, or minus the signal that ended it. */
int child_run(int (*fn)(void));
