/* SPDX-License-Identifier: MIT */
#include "daemon/request/rates.h"
#include <string.h>

#define SECOND 1000000ull

void rates_add(struct rates *r, uint64_t now, const struct rates_step *step)
{
    uint64_t second = now / SECOND, i = second % RATES_SECONDS;
    if (r->begun == 0) r->begun = now;
    if (r->slot[i].second != second) {
        memset(&r->slot[i], 0, sizeof(r->slot[i]));
        r->slot[i].second = second;
    }
    r->slot[i].steps++;
    r->slot[i].usec += step->usec;
    r->slot[i].sequences += step->sequences;
    r->slot[i].read += step->read;
    r->slot[i].written += step->written;
    r->slot[i].drafted += step->drafted;
    r->slot[i].accepted += step->accepted;
}

void rates_sum(const struct rates *r, uint64_t now, struct rates_sum *out)
{
    uint64_t second = now / SECOND, first = second < RATES_SECONDS ? 0 : second - RATES_SECONDS + 1;
    uint64_t since = r->begun > first * SECOND ? r->begun : first * SECOND, usec = 0, sequences = 0;
    *out = (struct rates_sum){.seconds = (double)(now > since + SECOND ? now - since : SECOND) / SECOND};
    for (int i = 0; i < RATES_SECONDS; i++) {
        if (r->slot[i].second < first || r->slot[i].second > second) continue;
        out->steps += r->slot[i].steps;
        out->read += (double)r->slot[i].read / out->seconds;
        out->written += (double)r->slot[i].written / out->seconds;
        out->drafted += r->slot[i].drafted;
        out->accepted += r->slot[i].accepted;
        usec += r->slot[i].usec;
        sequences += r->slot[i].sequences;
    }
    if (out->steps == 0) return;
    out->step_ms = (double)usec / 1000 / (double)out->steps;
    out->batch = (double)sequences / (double)out->steps;
}
