/* SPDX-License-Identifier: MIT */
#include "daemon/command/simulate-plot.h"
#include "daemon/command/chart.h"

#define PANELS 3
#define POINTS 201

static const struct stats *stats_of(const struct sim_result *r, int panel)
{
    return panel == 0 ? &r->queue : panel == 1 ? &r->ttft : &r->itl;
}

static void write_time(FILE *f, double ms)
{
    if (ms < 1000)
        fprintf(f, "%g ms", ms);
    else
        fprintf(f, "%g s", ms / 1000);
}

static void write_percent(FILE *f, double share)
{
    fprintf(f, "%g%%", share * 100);
}

void simulate_plot_draw(FILE *f, const void *data)
{
    static const char *const titles[PANELS] = {"until it starts", "until the first token", "between two tokens"};
    const struct simulate_plot *plot = data;
    struct chart_panel panels[PANELS];
    struct chart_line lines[PANELS][SIMULATE_PLOT_MAX];
    double share[POINTS], ms[PANELS][SIMULATE_PLOT_MAX][POINTS];
    for (int k = 0; k < POINTS; k++) share[k] = (double)k / (POINTS - 1);
    for (int i = 0; i < PANELS; i++) {
        struct chart_axis x = {.powers = true, .least = 1, .most = 10, .label = write_time};
        for (int r = 0; r < plot->n; r++) {
            const struct stats *s = stats_of(&plot->results[r], i);
            while (x.most < s->most && x.most < 1e12) x.most *= 10;
            for (int k = 0; k < POINTS; k++) ms[i][r][k] = stats_quantile(s, share[k]);
            lines[i][r] = (struct chart_line){.name = plot->names[r], .x = ms[i][r], .y = share, .n = POINTS};
        }
        while (x.most / x.least > 1e6) x.least *= 10; /* room for the labels */
        panels[i] = (struct chart_panel){.title = titles[i],
                                         .x = x,
                                         .y = {.most = 1, .grid = 0.25, .label = write_percent},
                                         .lines = lines[i],
                                         .n = (size_t)plot->n};
    }
    chart_write(f, panels, PANELS);
}
