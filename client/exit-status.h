/* SPDX-License-Identifier: MIT */
#pragma once
/* Exit statuses of hob (EXIT STATUS in hob.1): 69 and 75 are sysexits.h's EX_UNAVAILABLE and EX_TEMPFAIL. */
#include <stdbool.h>

enum exit_status {
    EXIT_ANSWERED = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_DAEMON = 69,
    EXIT_BUSY = 75,
    EXIT_INTERRUPTED = 130,
};

/* The status for a daemon's error event with @code (positive errno). @spoke: text of the answer came before it. */
int exit_status_of_event(int code, bool spoke);

/* The status for a local error @r (negative errno): -EINTR interrupted, -EPIPE answered (the reader of standard output
 * closed it), else failed. */
int exit_status_of_error(int r);

/* The status where no daemon could be reached or started (endpoints_connect_or_start). */
int exit_status_of_connect(int r);

/* exit_status_of_error(@r); prints the error message of a failure. */
int exit_status_report(int r);

/* The same for an error before the request was sent, where -EINVAL is wrong usage. */
int exit_status_before(int r);
