/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench.h"
#include "daemon/command/chart.h"
#include "libcommon/error.h"
#include <math.h>
#include <stdlib.h>

#define LINES_MAX (BENCH_LIST_MAX + 1)

/* The points of the lines of a panel. */
struct lines {
    struct chart_line line[LINES_MAX];
    double x[LINES_MAX][BENCH_LIST_MAX], y[LINES_MAX][BENCH_LIST_MAX], most; /* most: of y */
    char name[LINES_MAX][48];
    size_t n;
};

/* The picture of the speed by threads has a panel for prefill and one for each decode. */
struct picture {
    const json_t *results;
    struct lines *lines;
    struct chart_panel *panels;
    char (*titles)[64];
};

static double real(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* Add a point to line @l. */
static void add(struct lines *s, size_t l, double x, double y)
{
    struct chart_line *c = &s->line[l];
    if (c->n == BENCH_LIST_MAX) return;
    s->x[l][c->n] = x;
    s->y[l][c->n++] = y;
    s->most = fmax(s->most, y);
}

static void begin(struct lines *s, size_t l)
{
    s->line[l] = (struct chart_line){.name = s->name[l], .x = s->x[l], .y = s->y[l], .dots = true};
    s->n = l + 1;
}

static struct chart_panel panel(const struct lines *s, const char *title, struct chart_axis x)
{
    return (struct chart_panel){
        .title = title, .x = x, .y = chart_linear(s->most > 0 ? s->most : 1), .lines = s->line, .n = s->n};
}

/* The decodes, the same for every number of threads. */
static const json_t *decodes(const json_t *results)
{
    return json_object_get(json_array_get(json_object_get(results, "scaling"), 0), "decode");
}

/* Tokens per second of a kind of work by threads, and linear scaling from the first number of threads on. @nth: of the
 * decodes; negative: prefill. */
static void scaling_lines(struct lines *s, size_t l, const json_t *list, int nth)
{
    const json_t *j, *d, *first = NULL;
    size_t i;
    begin(s, l);
    begin(s, l + 1);
    s->line[l + 1].dashed = true;
    s->line[l + 1].dots = false;
    json_array_foreach(list, i, j)
    {
        double threads = real(j, "threads");
        d = nth < 0 ? json_object_get(j, "prefill") : json_array_get(json_object_get(j, "decode"), (size_t)nth);
        if (!first) first = d;
        add(s, l, threads, real(d, "tok_s"));
        add(s, l + 1, threads, real(first, "tok_s") * threads / real(json_array_get(list, 0), "threads"));
    }
    snprintf(s->name[l], sizeof(s->name[l]), "measured");
    snprintf(s->name[l + 1], sizeof(s->name[l + 1]), "linear");
}

static void draw_scaling(FILE *f, const struct picture *p)
{
    const json_t *j, *decode = decodes(p->results), *list = json_object_get(p->results, "scaling");
    double most = 1;
    size_t i;
    json_array_foreach(list, i, j) most = fmax(most, real(j, "threads"));
    scaling_lines(&p->lines[0], 0, list, -1);
    snprintf(p->titles[0], sizeof(*p->titles), "prefill, tok/s by threads");
    p->panels[0] = panel(&p->lines[0], p->titles[0], chart_linear(most));
    json_array_foreach(decode, i, j)
    {
        size_t n = i + 1;
        scaling_lines(&p->lines[n], 0, list, (int)i);
        snprintf(p->titles[n], sizeof(*p->titles), "decode of %.0f at depth %.0f", real(j, "batch"), real(j, "depth"));
        p->panels[n] = panel(&p->lines[n], p->titles[n], chart_linear(most));
    }
    chart_write(f, p->panels, 1 + json_array_size(decode));
}

/* A line of milliseconds, or of the share of the limit, for each depth. */
static void draw_rows(FILE *f, const json_t *list)
{
    static const char *const keys[] = {"ms", "share"};
    struct lines lines[2] = {0};
    struct chart_panel panels[2];
    const json_t *j;
    double depth[BENCH_LIST_MAX], most = 1;
    size_t i, n = 0;
    json_array_foreach(list, i, j)
    {
        size_t l = 0;
        while (l < n && depth[l] != real(j, "depth")) l++;
        if (l == BENCH_LIST_MAX) continue;
        most = fmax(most, real(j, "rows"));
        for (size_t p = 0; p < 2; p++) {
            if (l == n) begin(&lines[p], l);
            snprintf(lines[p].name[l], sizeof(lines[p].name[l]), "depth %.0f", real(j, "depth"));
            add(&lines[p], l, real(j, "rows"), (p ? 100 : 1) * real(j, keys[p]));
        }
        if (l == n) depth[n++] = real(j, "depth");
    }
    panels[0] = panel(&lines[0], "ms of a pass by rows", chart_linear(most));
    panels[1] = panel(&lines[1], "% of the machine's limit by rows", chart_linear(most));
    chart_write(f, panels, 2);
}

static void draw(FILE *f, const void *data)
{
    const struct picture *p = data;
    const json_t *rows = json_object_get(p->results, "rows");
    if (json_array_size(rows))
        draw_rows(f, rows);
    else
        draw_scaling(f, p);
}

int bench_plot(const char *path, const json_t *j)
{
    size_t n = 1 + json_array_size(decodes(j));
    struct picture p = {.results = j,
                        .lines = calloc(n, sizeof(*p.lines)),
                        .panels = calloc(n, sizeof(*p.panels)),
                        .titles = calloc(n, sizeof(*p.titles))};
    int r = p.lines && p.panels && p.titles ? chart_file(path, draw, &p)
                                            : error_say(-ENOMEM, "no memory for a picture of %zu panels", n);
    free(p.lines);
    free(p.panels);
    free(p.titles);
    return r;
}
