/* SPDX-License-Identifier: MIT */
#include "client/progress.h"
#include "client/columns.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_AFTER_MS 1000

const char *progress_line(char out[PROGRESS_LINE], const struct proto_event *e, uint64_t had, int64_t elapsed,
                          unsigned width)
{
    char count[48], known[40] = "", left[40] = "";
    if (e->done > had && e->done < e->total) {
        double s = (double)elapsed * (double)(e->total - e->done) / (double)(e->done - had) / 1000;
        if (s < 100)
            snprintf(left, sizeof(left), " %.0f s left", s < 1 ? 1 : s);
        else if (s < 360000)
            snprintf(left, sizeof(left), " %.0f min left", s / 60);
    }
    if (e->cached) snprintf(known, sizeof(known), " (%" PRIu64 " cached)", e->cached);
    snprintf(count, sizeof(count), "%" PRIu64 "/%" PRIu64, e->done, e->total);
    snprintf(out, PROGRESS_LINE, "prefill %.41s tokens%.30s%.16s", count, known, left);
    if (strlen(out) >= width) snprintf(out, PROGRESS_LINE, "prefill %.41s tokens%.16s", count, left);
    if (strlen(out) >= width) snprintf(out, PROGRESS_LINE, "prefill %.41s", count);
    if (strlen(out) >= width) *out = 0;
    return out;
}

void progress_event(struct progress *p, const struct proto_event *e, int64_t now)
{
    char line[PROGRESS_LINE];
    unsigned n;

    if (!p->on) return;
    if (!p->counts) {
        p->counts = true;
        p->began = now;
        p->had = e->done;
    }
    if (now - p->began < PROGRESS_AFTER_MS || e->done >= e->total) return;
    progress_line(line, e, p->had, now - p->began, table_terminal(STDERR_FILENO));
    n = (unsigned)strlen(line);
    /* Overwrite the rest of a longer line with spaces, which every terminal supports. */
    dprintf(STDERR_FILENO, "\r%s%*s", line, (int)(p->shown > n ? p->shown - n : 0), "");
    if (n > p->shown) p->shown = n;
}

void progress_clear(struct progress *p)
{
    if (p->shown) dprintf(STDERR_FILENO, "\r%*s\r", (int)p->shown, "");
    p->shown = 0;
}
