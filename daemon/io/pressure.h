/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Notice when memory is short: where the kernel measures stalls (PSI, Documentation/accounting/psi.rst), it tells when
 * tasks waited for memory for 200 ms within 2 s. Watched is what the service manager names in MEMORY_PRESSURE_WATCH and
 * MEMORY_PRESSURE_WRITE (https://systemd.io/MEMORY_PRESSURE), else the own cgroup, else the whole system.
 */
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct pressure {
    sd_event_source *source; /* NULL: nothing is watched */
    bool stream;             /* it delivers bytes, which are read and ignored */
    bool told;               /* once, at @last */
    uint64_t last;           /* monotonic, us */
    void (*fn)(void *ctx);
    void *ctx;
};

/* Open the file, pipe or socket and set its trigger; @root stands before the kernel's paths, "" but in tests. 0 and *fd
 * (the caller's) and *stream; 1: the service manager wants it off; -errno with a message. */
int pressure_open(const char *root, int *fd, bool *stream);

/* Call @fn when memory is short, at most once a second. Where that cannot be had it is only logged: nothing depends on
 * it. */
void pressure_init(struct pressure *p, struct sd_event *event, const char *root, void (*fn)(void *ctx), void *ctx);
void pressure_fini(struct pressure *p);

/* Whether @fn may be called @now. True counts as a call. */
bool pressure_due(struct pressure *p, uint64_t now);
