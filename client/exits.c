/* SPDX-License-Identifier: MIT */
#include "client/exits.h"
#include "libcommon/error.h"
#include "libcommon/log.h"

int exits_of_event(int code, bool spoke)
{
    switch (code) {
    case EBUSY:
        return EXITS_BUSY;
    case ETIMEDOUT:
        return spoke ? EXITS_FAILED : EXITS_BUSY;
    case ESHUTDOWN:
        return EXITS_NO_DAEMON;
    default:
        return EXITS_FAILED;
    }
}

int exits_of_error(int r)
{
    switch (r) {
    case -EINTR:
        return EXITS_INTERRUPTED;
    case -EPIPE:
        return EXITS_ANSWERED;
    default:
        return EXITS_FAILED;
    }
}

int exits_say(int r)
{
    int status = exits_of_error(r);

    if (status == EXITS_FAILED) log_error("%s", error_text(r));
    return status;
}
