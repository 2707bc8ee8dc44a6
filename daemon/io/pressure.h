/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Detects memory pressure. The kernel (PSI, Documentation/accounting/psi.rst) reports when tasks waited for memory for
 * 200 ms within 2 s. The watched file is the one that the service manager names in MEMORY_PRESSURE_WATCH and
 * MEMORY_PRESSURE_WRITE (https://systemd.io/MEMORY_PRESSURE), else that of the process's own cgroup, else that of the
 * whole system.
 */
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct pressure {
    sd_event_source *source; /* NULL: nothing is watched */
    bool stream;             /* it delivers bytes, which are read and ignored */
    bool told;               /* @last is valid */
    uint64_t last;           /* time of the last call, monotonic us */
    void (*fn)(void *ctx);
    void *ctx;
};

/* Open the file, FIFO or socket and set its trigger. @root is prepended to the kernel's paths: "" except in tests. 0:
 * *fd belongs to the caller, and *stream is set; 1: MEMORY_PRESSURE_WATCH disables it; -errno; sets the error
 * message. */
int pressure_open(const char *root, int *fd, bool *stream);

/* Call @fn under memory pressure, at most once a second. A failure is only logged: the daemon works without it. */
void pressure_init(struct pressure *p, struct sd_event *event, const char *root, void (*fn)(void *ctx), void *ctx);
void pressure_fini(struct pressure *p);

/* True if @fn may be called @now. True counts as a call. */
bool pressure_due(struct pressure *p, uint64_t now);
