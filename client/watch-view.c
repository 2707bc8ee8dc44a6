/* SPDX-License-Identifier: MIT */
#include "client/watch-view.h"
#include "client/columns.h"
#include "client/width.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX   32 /* bytes of a formatted figure, with its NUL */
#define NAME_WIDTH 9  /* of a pair: two pairs fit into 40 columns and do not move */
#define TEXT_WIDTH 9
#define GAP        2 /* spaces between columns */

/* --- numbers as texts --- */

static const char *count_text(char *out, double v)
{
    static const char suffix[] = " kMGTP";
    int u = 0;
    if (isnan(v)) return strcpy(out, "-");
    for (; v >= 9999.5 && suffix[u + 1]; u++) v /= 1000;
    if (u == 0)
        snprintf(out, TEXT_MAX, "%.0f", v);
    else
        snprintf(out, TEXT_MAX, "%.*f%c", v < 99.95 ? 1 : 0, v, suffix[u]);
    return out;
}

static const char *rate_text(char *out, double v)
{
    if (isnan(v) || v >= 99.95) return count_text(out, v);
    snprintf(out, TEXT_MAX, "%.1f", v);
    return out;
}

static const char *share_text(char *out, double v)
{
    if (isnan(v)) return strcpy(out, "-");
    snprintf(out, TEXT_MAX, "%.0f%%", v * 100);
    return out;
}

static const char *bytes_text(char *out, double v)
{
    return isnan(v) || v < 0 || v > 1e18 ? strcpy(out, "-") : format_size(out, (uint64_t)v);
}

static const char *time_text(char *out, double v)
{
    unsigned long s = isnan(v) || v < 0 || v > 1e9 ? 0 : (unsigned long)v;
    if (s < 60)
        snprintf(out, TEXT_MAX, "%lus", s);
    else if (s < 3600)
        snprintf(out, TEXT_MAX, "%lum%02lus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, TEXT_MAX, "%luh%02lum", s / 3600, s / 60 % 60);
    else
        snprintf(out, TEXT_MAX, "%lud%02luh", s / 86400, s / 3600 % 24);
    return out;
}

/* The rate between two samples. NAN: unknown, for example after a restart of the daemon. */
static double speed(double now, double then, const struct watch_sample *s, const struct watch_sample *before)
{
    if (!before || s->at <= before->at || isnan(now) || isnan(then) || now < then) return NAN;
    return (now - then) * 1000 / (double)(s->at - before->at);
}

/* --- lines --- */

struct page {
    struct buf *out;
    unsigned columns, rows, used; /* rows 0: unlimited */
};

static bool page_full(const struct page *p)
{
    return p->rows && p->used >= p->rows;
}

/* Append one line, cut to the width of the page. */
static int page_line(struct page *p, const char *text)
{
    if (page_full(p)) return 0;
    p->used++;
    int r = buf_append(p->out, text, width_fit(text, p->columns, NULL));
    return r == 0 ? buf_puts(p->out, "\n") : r;
}

/* Pairs of a name and a figure, as many on a line as fit. */
struct pair {
    const char *name;
    char text[2 * TEXT_MAX + 8];
};

static int page_pairs(struct page *p, const struct pair *pairs, size_t n)
{
    size_t name = NAME_WIDTH, text = TEXT_WIDTH, i = 0;
    int r = 0;
    for (size_t k = 0; k < n; k++) {
        if (strlen(pairs[k].name) > name) name = strlen(pairs[k].name);
        if (strlen(pairs[k].text) > text) text = strlen(pairs[k].text);
    }
    size_t across = (p->columns + GAP) / (name + 1 + text + GAP);
    if (across < 1) across = 1;
    while (r == 0 && i < n) {
        struct buf line = BUF_INIT;
        for (size_t k = 0; r == 0 && k < across && i < n; k++, i++)
            r = buf_printf(&line, "%s%-*s %*s", k ? "  " : "", (int)name, pairs[i].name, (int)text, pairs[i].text);
        if (r == 0) r = page_line(p, line.data);
        buf_fini(&line);
    }
    return r;
}

/* --- the content --- */

static int draw_head(struct page *p, const struct watch_sample *s)
{
    struct buf line = BUF_INIT;
    char up[TEXT_MAX];
    int r = buf_printf(&line, "%s: %s, up %s", s->model.data ? s->model.data : "hobd",
                       s->state.data ? s->state.data : "?", time_text(up, s->figures[FIGURE_UPTIME]));
    if (r == 0) r = page_line(p, line.data);
    buf_fini(&line);
    for (const char *note = s->notes.data; r == 0 && note && *note;) {
        size_t n = strcspn(note, "\n");
        r = buf_printf(&line, "! %.*s", (int)n, note);
        if (r == 0) r = page_line(p, line.data);
        buf_fini(&line);
        note += n + 1;
    }
    return r;
}

static void put_pair(struct pair *pairs, size_t *n, const char *name, const char *first, const char *between,
                     const char *second)
{
    pairs[*n].name = name;
    snprintf(pairs[*n].text, sizeof(pairs[*n].text), "%s%s%s", first, between, second);
    ++*n;
}

static int draw_figures(struct page *p, const struct watch_sample *s, const struct watch_sample *before)
{
    const double *f = s->figures, *b = before ? before->figures : NULL;
    double used = f[FIGURE_KV_BLOCKS] - f[FIGURE_KV_FREE] - f[FIGURE_KV_UNUSED];
    double read = f[FIGURE_READ], said = f[FIGURE_SAID];
    char one[TEXT_MAX], two[TEXT_MAX];
    struct pair pairs[16];
    size_t n = 0;
    /* A user who may not see the speed of the daemon sees the speed of the user's own requests. */
    if (b && isnan(read))
        read = speed(f[FIGURE_PROMPT] - f[FIGURE_CACHED], b[FIGURE_PROMPT] - b[FIGURE_CACHED], s, before);
    if (b && isnan(said)) said = speed(f[FIGURE_GENERATED], b[FIGURE_GENERATED], s, before);
    put_pair(pairs, &n, "running", count_text(one, f[FIGURE_RUNNING]), "/", count_text(two, f[FIGURE_PARALLEL]));
    put_pair(pairs, &n, "queued", count_text(one, f[FIGURE_QUEUED]), "/", count_text(two, f[FIGURE_QUEUE]));
    put_pair(pairs, &n, "prefill/s", rate_text(one, read), "", "");
    put_pair(pairs, &n, "decode/s", rate_text(one, said), "", "");
    if (!isnan(f[FIGURE_STEP_MS])) put_pair(pairs, &n, "step ms", rate_text(one, f[FIGURE_STEP_MS]), "", "");
    if (!isnan(f[FIGURE_BATCH])) put_pair(pairs, &n, "batch", rate_text(one, f[FIGURE_BATCH]), "", "");
    if (!isnan(used)) put_pair(pairs, &n, "KV used", share_text(one, used / f[FIGURE_KV_BLOCKS]), "", "");
    if (!isnan(f[FIGURE_BLOCKS_MEMORY])) {
        put_pair(pairs, &n, "in RAM", count_text(one, f[FIGURE_BLOCKS_MEMORY]), "/",
                 bytes_text(two, f[FIGURE_BYTES_MEMORY]));
        put_pair(pairs, &n, "on disk", count_text(one, f[FIGURE_BLOCKS_DISK]), "/",
                 bytes_text(two, f[FIGURE_BYTES_DISK]));
        put_pair(pairs, &n, "hit rate", share_text(one, f[FIGURE_HIT_RATE]), "", "");
    }
    if (!isnan(f[FIGURE_ACCEPTED])) {
        put_pair(pairs, &n, "tok/pass", rate_text(one, f[FIGURE_PASS_TOKENS]), "", "");
        put_pair(pairs, &n, "accepted", share_text(one, f[FIGURE_ACCEPTED]), "", "");
    }
    put_pair(pairs, &n, "requests", count_text(one, f[FIGURE_REQUESTS]), "", "");
    put_pair(pairs, &n, "sessions", count_text(one, f[FIGURE_SESSIONS]), "", "");
    return page_pairs(p, pairs, n);
}

/* --- users --- */

/* The most important column first: columns that do not fit are dropped from the end. */
enum { COL_UID, COL_RUN, COL_WAIT, COL_RATE, COL_FOUND, COL_RAM, COL_DISK, COL_SESSIONS, COLS };

static const char *const heads[COLS] = {"uid", "run", "wait", "tok/s", "hits", "RAM", "disk", "sessions"};

struct user_row {
    double rate, running, uid;
    char cells[COLS][TEXT_MAX];
};

static int busiest_first(const void *a, const void *b)
{
    const struct user_row *x = a, *y = b;
    double d = (isnan(y->rate) ? 0 : y->rate) - (isnan(x->rate) ? 0 : x->rate);
    if (d == 0) d = y->running - x->running;
    if (d == 0) d = x->uid - y->uid;
    return d < 0 ? -1 : d > 0;
}

static double user_speed(const struct watch_user *u, const struct watch_sample *s, const struct watch_sample *before)
{
    for (size_t i = 0; before && i < before->n_users; i++)
        if (before->users[i].figures[USER_UID] == u->figures[USER_UID] && strcmp(before->users[i].name, u->name) == 0)
            return speed(u->figures[USER_GENERATED], before->users[i].figures[USER_GENERATED], s, before);
    /* the user's first request came after the previous sample */
    return speed(u->figures[USER_GENERATED], 0, s, before);
}

static void fill_row(struct user_row *row, const struct watch_user *u, const struct watch_sample *s,
                     const struct watch_sample *before)
{
    const double *f = u->figures, block = s->figures[FIGURE_BYTES_MEMORY] / s->figures[FIGURE_BLOCKS_MEMORY];
    row->rate = user_speed(u, s, before);
    row->running = isnan(f[USER_RUNNING]) ? 0 : f[USER_RUNNING];
    row->uid = isnan(f[USER_UID]) ? -1 : f[USER_UID];
    snprintf(row->cells[COL_UID], TEXT_MAX, "%.0f%s%s", row->uid, *u->name ? ":" : "", u->name);
    count_text(row->cells[COL_RUN], f[USER_RUNNING]);
    count_text(row->cells[COL_WAIT], f[USER_QUEUED]);
    rate_text(row->cells[COL_RATE], row->rate);
    share_text(row->cells[COL_FOUND], f[USER_ASKED] > 0 ? f[USER_FOUND] / f[USER_ASKED] : NAN);
    if (isfinite(block)) {
        bytes_text(row->cells[COL_RAM], f[USER_MEMORY] * block);
        bytes_text(row->cells[COL_DISK], f[USER_DISK] * block);
    } else {
        count_text(row->cells[COL_RAM], f[USER_MEMORY]);
        count_text(row->cells[COL_DISK], f[USER_DISK]);
    }
    count_text(row->cells[COL_SESSIONS], f[USER_SESSIONS]);
}

/* Draw rows that share the column widths; row @n is the heading. */
static int draw_rows(struct page *p, const struct user_row *rows, size_t n)
{
    size_t widths[COLS], all = 0;
    int cols = 0, r = 0;
    for (; cols < COLS; cols++) {
        size_t w = strlen(heads[cols]);
        for (size_t i = 0; i < n; i++)
            if (strlen(rows[i].cells[cols]) > w) w = strlen(rows[i].cells[cols]);
        if (cols && all + GAP + w > p->columns) break;
        all += w + (cols ? GAP : 0);
        widths[cols] = w;
    }
    for (size_t i = 0; r == 0 && i <= n && !page_full(p); i++) {
        struct buf line = BUF_INIT;
        for (int c = 0; r == 0 && c < cols; c++)
            r = buf_printf(&line, "%s%*s", c ? "  " : "", (int)widths[c], i ? rows[i - 1].cells[c] : heads[c]);
        if (r == 0) r = page_line(p, line.data);
        buf_fini(&line);
    }
    return r;
}

static int draw_users(struct page *p, const struct watch_sample *s, const struct watch_sample *before)
{
    struct user_row *rows;
    if (!s->n_users || page_full(p)) return 0;
    rows = calloc(s->n_users, sizeof(*rows));
    if (!rows) return -ENOMEM;
    for (size_t i = 0; i < s->n_users; i++) fill_row(&rows[i], &s->users[i], s, before);
    qsort(rows, s->n_users, sizeof(*rows), busiest_first);
    int r = page_line(p, "");
    if (r == 0) r = draw_rows(p, rows, s->n_users);
    free(rows);
    return r;
}

int watch_draw(struct buf *out, const struct watch_sample *s, const struct watch_sample *before, unsigned columns,
               unsigned rows)
{
    struct page p = {.out = out, .columns = columns, .rows = rows};
    int r = draw_head(&p, s);
    if (r == 0 && !isnan(s->figures[FIGURE_RUNNING])) r = draw_figures(&p, s, before);
    return r == 0 ? draw_users(&p, s, before) : r;
}
