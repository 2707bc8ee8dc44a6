/* SPDX-License-Identifier: MIT */
#include "client/exit-status.h"
#include "libcommon/error.h"
#include "libcommon/log.h"

int exit_status_of_event(int code, bool spoke)
{
    switch (code) {
    case EBUSY:
        return EXIT_BUSY;
    case ETIMEDOUT:
        return spoke ? EXIT_FAILED : EXIT_BUSY;
    case ESHUTDOWN:
        return EXIT_NO_DAEMON;
    case EDOM: /* a constraint that cannot be enforced */
        return spoke ? EXIT_FAILED : EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

int exit_status_of_error(int r)
{
    switch (r) {
    case -EINTR:
        return EXIT_INTERRUPTED;
    case -EPIPE:
        return EXIT_ANSWERED;
    default:
        return EXIT_FAILED;
    }
}

int exit_status_of_connect(int r)
{
    return r == -ENOEXEC ? EXIT_FAILED : EXIT_NO_DAEMON;
}

int exit_status_report(int r)
{
    int status = exit_status_of_error(r);
    if (status == EXIT_FAILED) log_error("%s", error_text(r));
    return status;
}

int exit_status_before(int r)
{
    int status = exit_status_report(r);
    return r == -EINVAL ? EXIT_USAGE : status;
}
