/* SPDX-License-Identifier: MIT */
#include "client/batch/batch-meter.h"
#include "client/columns.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define METER_AFTER_MS 500 /* a short batch shows none */
#define METER_EVERY_MS 250
#define METER_SMOOTH   0.2 /* weight of the newest rate */
#define METER_WIDEST   30  /* maximum width of the bar itself */
#define METER_LEAST    8   /* if less room is left, no bar is drawn */

static void put_left(char out[32], double seconds)
{
    uint64_t s = seconds < 1 ? 1 : seconds > 3599999 ? 3599999 : (uint64_t)seconds;
    if (s < 3600)
        snprintf(out, 32, " %" PRIu64 ":%02" PRIu64 " left", s / 60, s % 60);
    else
        snprintf(out, 32, " %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left", s / 3600, s / 60 % 60, s % 60);
}

static void put_bar(char out[METER_WIDEST + 4], double part, size_t room)
{
    size_t cells = room > METER_WIDEST ? METER_WIDEST : room, full = (size_t)(part * (double)cells);
    *out = '[';
    memset(out + 1, ' ', cells);
    memset(out + 1, '=', full);
    strcpy(out + 1 + cells, "] ");
}

const char *batch_meter_line(char out[BATCH_METER_LINE], const struct batch_meter *m, int64_t now, unsigned width)
{
    char count[64], failed[40] = "", percent[16] = "", rate[40] = "", left[32] = "", bar[METER_WIDEST + 4] = "";
    uint64_t done = m->bytes + m->skipped_bytes;
    double part = m->all_bytes ? (double)done / (double)m->all_bytes : 0;
    if (part > 1) part = 1;
    if (m->all_bytes) snprintf(percent, sizeof(percent), " %d%%", (int)(100 * part));
    if (m->rate >= 1) snprintf(rate, sizeof(rate), " %.0f tokens/s", m->rate);
    if (m->bytes && m->all_bytes > done)
        put_left(left, (double)(now - m->began) / 1000 * (double)(m->all_bytes - done) / (double)m->bytes);
    if (m->failed) snprintf(failed, sizeof(failed), " (%" PRIu64 " failed)", m->failed);
    snprintf(count, sizeof(count), "%" PRIu64 " done%.39s", m->answered + m->skipped, failed);
    size_t n = strlen(count) + strlen(percent) + strlen(rate) + strlen(left);
    if (m->all_bytes && n + METER_LEAST + 4 < width) put_bar(bar, part, width - n - 4);
    snprintf(out, BATCH_METER_LINE, "%s%s%s%s%s", bar, count, percent, rate, left);
    if (strlen(out) >= width) snprintf(out, BATCH_METER_LINE, "%s%s%s", count, percent, left);
    if (strlen(out) >= width) snprintf(out, BATCH_METER_LINE, "%s", count);
    if (strlen(out) >= width) *out = 0;
    return out;
}

void batch_meter_show(struct batch_meter *m, uint64_t tokens, int64_t now)
{
    char line[BATCH_METER_LINE];
    if (!m->on || now - m->began < METER_AFTER_MS || (m->last && now - m->last < METER_EVERY_MS)) return;
    if (m->last) {
        double lately = (double)(tokens - m->had) * 1000 / (double)(now - m->last);
        m->rate = m->rate > 0 ? m->rate + METER_SMOOTH * (lately - m->rate) : lately;
    }
    m->last = now;
    m->had = tokens;
    batch_meter_line(line, m, now, table_terminal(STDERR_FILENO));
    unsigned n = (unsigned)strlen(line);
    /* Overwrite the rest of a longer line with spaces, which every terminal supports. */
    dprintf(STDERR_FILENO, "\r%s%*s", line, (int)(m->shown > n ? m->shown - n : 0), "");
    if (n > m->shown) m->shown = n;
}

void batch_meter_clear(struct batch_meter *m)
{
    if (m->shown) dprintf(STDERR_FILENO, "\r%*s\r", (int)m->shown, "");
    m->shown = 0;
}
