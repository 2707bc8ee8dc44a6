/* SPDX-License-Identifier: MIT */
#include "daemon/io/timer.h"
#include "daemon/io/priority.h"
#include "libcommon/log.h"
#include <string.h>
#include <time.h>

#define ACCURACY 1000ull /* the default is a quarter of a second */

void timer_arm(sd_event *event, sd_event_source **timer, uint64_t usec, sd_event_time_handler_t fn, void *ctx)
{
    int r;
    if (!*timer) {
        r = sd_event_add_time_relative(event, timer, CLOCK_MONOTONIC, usec, ACCURACY, fn, ctx);
        if (r >= 0) r = sd_event_source_set_priority(*timer, PRIORITY_TIMER);
    } else {
        r = sd_event_source_set_time_relative(*timer, usec);
        if (r >= 0) r = sd_event_source_set_enabled(*timer, SD_EVENT_ONESHOT);
    }
    if (r < 0) log_error("cannot set a timer: %s", strerror(-r));
}

void timer_disarm(sd_event_source *timer)
{
    if (timer) sd_event_source_set_enabled(timer, SD_EVENT_OFF);
}
