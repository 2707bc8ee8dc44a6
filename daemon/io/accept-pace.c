/* SPDX-License-Identifier: MIT */
#include "daemon/io/accept-pace.h"
#include "libcommon/decay.h"

enum { SHARE = 5, BURST = 3000 /* us */ };

uint64_t accept_pace_charge(struct accept_pace *p, uint64_t usec, uint64_t now)
{
    p->debt = decay_debt(p->debt, now - p->at, SHARE) + usec;
    p->at = now;
    return p->debt < BURST ? 0 : p->debt * SHARE;
}
