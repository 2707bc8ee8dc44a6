/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The energy counters of the CPU packages (RAPL): see Documentation/power/powercap/powercap.rst of the kernel. AMD's
 * packages have the same names. Only root can read the counters unless the administrator permits it.
 */
#include <stdint.h>

#define POWERCAP_ZONES_MAX 16

struct powercap {
    unsigned n; /* packages; 0: not readable */
    struct {
        int fd;               /* owned, open for reading */
        uint64_t last, range; /* microjoules: as read last; the counter starts again at 0 behind @range */
    } zone[POWERCAP_ZONES_MAX];
    double joules; /* that all packages have used since powercap_open */
};

/* Open the counters of all packages. @root is prepended to every path: "" except in tests. If one of the packages
 * cannot be read, none is: *p is then empty. The descriptors stay open until powercap_close. */
void powercap_open(struct powercap *p, const char *root);
void powercap_close(struct powercap *p); /* leaves it empty */

/* Read the counters. Returns p->joules; negative: they are not readable, and *p is empty. At least one call is needed
 * in the time in which a counter runs through its range: minutes. */
double powercap_read(struct powercap *p);
