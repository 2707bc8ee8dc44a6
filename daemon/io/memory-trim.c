/* SPDX-License-Identifier: MIT */
#include "daemon/io/memory-trim.h"
#include "daemon/io/timer.h"
#include <malloc.h>

#define AFTER_USEC 2000000ull
#define LEAST      (1ull << 20) /* free in the allocator's arenas */
#define PART       16           /* and at least this part of what is in use: a trim walks all free chunks */

static int on_timer(sd_event_source *source, uint64_t now, void *ctx)
{
    struct memory_trim *t = ctx;
    t->armed = false;
    struct mallinfo2 heap = mallinfo2();
    if (heap.fordblks >= LEAST && heap.fordblks >= heap.uordblks / PART) malloc_trim(0);
    return 0;
}

void memory_trim_look(struct memory_trim *t, const struct service *s)
{
    uint64_t accepted = service_accepted(s), bytes = service_bytes(s);
    if (t->armed || (accepted == t->accepted && bytes == t->bytes)) return;
    t->accepted = accepted;
    t->bytes = bytes;
    t->armed = true;
    timer_arm(t->event, &t->timer, AFTER_USEC, on_timer, t);
}

void memory_trim_fini(struct memory_trim *t)
{
    t->timer = sd_event_source_disable_unref(t->timer);
}
