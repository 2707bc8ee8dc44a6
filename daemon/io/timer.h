/* SPDX-License-Identifier: MIT */
#pragma once
/* One-shot timers of the main thread. */
#include <stdint.h>
#include <systemd/sd-event.h>

/* Call @fn once, @usec from now, by the monotonic clock. *timer is made when it is NULL, else set anew; the caller
 * releases it. An error is logged. */
void timer_arm(sd_event *event, sd_event_source **timer, uint64_t usec, sd_event_time_handler_t fn, void *ctx);
/* Do not call it. NULL ok. */
void timer_disarm(sd_event_source *timer);
