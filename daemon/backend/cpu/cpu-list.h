/* SPDX-License-Identifier: MIT */
#pragma once
/* The lists of numbers in the kernel's files, such as "0-3,8". */
#include <sched.h>
#include <stdbool.h>

/* Read the CPUs that the file lists; numbers from CPU_SETSIZE on are left out. False: there is no such file, or it is
 * no list. */
bool cpu_list_read(cpu_set_t *out, const char *path);
