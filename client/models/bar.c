/* SPDX-License-Identifier: MIT */
#include "client/models/bar.h"
#include "client/columns.h"
#include "libcommon/units.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_EVERY_MS 200
#define BAR_SMOOTH   0.2 /* weight of the newest rate */
#define BAR_WIDEST   40  /* maximum width of the bar itself */
#define BAR_LEAST    8   /* if less room is left, no bar is drawn */

static void put_left(char out[32], double seconds)
{
    uint64_t s = seconds < 1 ? 1 : seconds > 359999 ? 359999 : (uint64_t)seconds;
    if (s < 3600)
        snprintf(out, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    else
        snprintf(out, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
}

/* Append at most @max characters of @name. Returns the number of characters. */
static size_t put_name(char *out, size_t size, const char *name, size_t max)
{
    size_t n = 0;
    for (; *name && n < max && n + 1 < size; name++)
        if (((unsigned char)*name & 0xc0) != 0x80) out[n++] = (char)(*name >= ' ' && *name < 0x7f ? *name : '?');
    out[n] = 0;
    return n;
}

const char *bar_line(char out[BAR_LINE], const char *name, uint64_t done, uint64_t total, double rate, unsigned width)
{
    char size[16], speed[24] = "", left[32] = "", tail[80], shown[80], grown[BAR_WIDEST + 3] = "";
    double part = total ? (double)done / (double)total : 0;
    if (rate >= 1) snprintf(speed, sizeof(speed), " %s/s", format_size(size, (uint64_t)rate));
    if (rate >= 1 && total > done) put_left(left, (double)(total - done) / rate);
    if (total)
        snprintf(tail, sizeof(tail), "%3d%%%s%s%s", (int)(100 * (part > 1 ? 1 : part)), speed, *left ? " " : "", left);
    else
        snprintf(tail, sizeof(tail), "%s%s", format_size(size, done), speed);
    *out = 0;
    if (width > BAR_LINE) width = BAR_LINE;
    if (strlen(tail) >= width) return out;
    size_t room = width - 1 - strlen(tail); /* for the name, the bar, and spaces */
    size_t n = put_name(shown, sizeof(shown), name, room / 2);
    if (total && room > n + BAR_LEAST + 4) {
        size_t cells = room - n - 4 > BAR_WIDEST ? BAR_WIDEST : room - n - 4;
        size_t full = (size_t)(part * (double)cells);
        *grown = '[';
        memset(grown + 1, ' ', cells);
        memset(grown + 1, '=', full > cells ? cells : full);
        strcpy(grown + 1 + cells, "]");
    }
    snprintf(out, BAR_LINE, "%s%s%s%s%s", shown, *grown ? " " : "", grown, n || *grown ? " " : "", tail);
    return out;
}

void bar_show(struct bar *b, uint64_t done, uint64_t total, int64_t now)
{
    char line[BAR_LINE];
    double lately;
    unsigned n;

    if (!b->on || (b->last && now - b->last < BAR_EVERY_MS)) return;
    if (b->last && done >= b->had) {
        lately = (double)(done - b->had) * 1000 / (double)(now - b->last);
        b->rate = b->rate > 0 ? b->rate + BAR_SMOOTH * (lately - b->rate) : lately;
    }
    b->last = now;
    b->had = done;
    bar_line(line, b->name, done, total, b->rate, table_terminal(STDERR_FILENO));
    n = (unsigned)strlen(line);
    /* Overwrite the rest of a longer line with spaces, which every terminal supports. */
    dprintf(STDERR_FILENO, "\r%s%*s", line, (int)(b->shown > n ? b->shown - n : 0), "");
    if (n > b->shown) b->shown = n;
}

void bar_clear(struct bar *b)
{
    if (b->shown) dprintf(STDERR_FILENO, "\r%*s\r", (int)b->shown, "");
    b->shown = 0;
}
