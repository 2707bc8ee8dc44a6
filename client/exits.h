/* SPDX-License-Identifier: MIT */
#pragma once
/* Exit statuses of hob (EXIT STATUS in hob.1): 69 and 75 are sysexits.h's EX_UNAVAILABLE and EX_TEMPFAIL. */
#include <stdbool.h>

enum exits {
    EXITS_ANSWERED = 0,
    EXITS_FAILED = 1,
    EXITS_USAGE = 2,
    EXITS_NO_DAEMON = 69,
    EXITS_BUSY = 75,
    EXITS_INTERRUPTED = 130,
};

/* The status for a daemon's error event with @code (positive errno); @spoke: words of the answer had come before it. */
int exits_of_event(int code, bool spoke);

/* The status for a local error @r (negative errno): -EINTR interrupted, -EPIPE answered (the reader of our output has
 * gone, which is its right), else failed. */
int exits_of_error(int r);

/* exits_of_error(@r), having said error_text on standard error where there is something to say. */
int exits_say(int r);
