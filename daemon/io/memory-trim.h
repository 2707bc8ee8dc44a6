/* SPDX-License-Identifier: MIT */
#pragma once
/* Returns free memory to the system shortly after requests: otherwise the allocator keeps it. */
#include "daemon/io/service.h"
#include <stdint.h>
#include <systemd/sd-event.h>

/* Set event; the rest is {0}. */
struct memory_trim {
    sd_event *event;
    sd_event_source *timer;
    uint64_t accepted, bytes; /* of the service, when the timer was set last */
    bool armed;
};

/* After each event. */
void memory_trim_look(struct memory_trim *t, const struct service *s);
void memory_trim_fini(struct memory_trim *t);
