/* SPDX-License-Identifier: MIT */
#include "daemon/simulate/plot.h"
#include <math.h>

#define WIDTH  320 /* of a panel's axes */
#define HEIGHT 240
#define LEFT   60
#define TOP    50
#define STEP_X (WIDTH + LEFT + 20)

static const char *const colours[] = {"#888888", "#c8102e", "#1f77b4", "#2ca02c"};

struct panel {
    const char *title;
    double least, most; /* powers of ten, ms */
};

static const struct stats *stats_of(const struct sim_result *r, int panel)
{
    return panel == 0 ? &r->queue : panel == 1 ? &r->ttft : &r->itl;
}

static double x_of(const struct panel *p, double ms)
{
    double share = (log10(fmax(ms, p->least)) - log10(p->least)) / (log10(p->most) - log10(p->least));
    return share * WIDTH;
}

static void write_time(FILE *f, double ms)
{
    if (ms < 1000)
        fprintf(f, "%g ms", ms);
    else
        fprintf(f, "%g s", ms / 1000);
}

static void write_axes(FILE *f, const struct panel *p)
{
    fprintf(f, "<text x=\"%d\" y=\"-12\" text-anchor=\"middle\" font-size=\"14\">%s</text>\n", WIDTH / 2, p->title);
    for (int k = 0; k <= 4; k++) {
        int y = HEIGHT - k * HEIGHT / 4;
        fprintf(f, "<path d=\"M0 %dH%d\" stroke=\"#ddd\"/><text x=\"-6\" y=\"%d\" text-anchor=\"end\">%d%%</text>\n", y,
                WIDTH, y + 4, k * 25);
    }
    for (double ms = p->least; ms <= p->most * 1.001; ms *= 10) {
        double x = x_of(p, ms);
        fprintf(f, "<path d=\"M%.1f 0V%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x,
                HEIGHT, x, HEIGHT + 16);
        write_time(f, ms);
        fputs("</text>\n", f);
    }
}

static void write_line(FILE *f, const struct panel *p, const struct stats *s, const char *colour)
{
    fprintf(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"M", colour);
    for (int k = 0; k <= 200; k++) {
        double share = k / 200.0;
        fprintf(f, "%.1f %.1f ", x_of(p, stats_quantile(s, share)), HEIGHT * (1 - share));
    }
    fputs("\"/>\n", f);
}

void plot_write(FILE *f, const struct sim_result *results, const char *const *names, int n)
{
    static const char *const titles[] = {"until it starts", "until the first token", "between two tokens"};
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            3 * STEP_X + 20, TOP + HEIGHT + 60);
    for (int i = 0; i < 3; i++) {
        struct panel p = {titles[i], 1, 10};
        for (int k = 0; k < n; k++)
            while (p.most < stats_of(&results[k], i)->most && p.most < 1e12) p.most *= 10;
        while (p.most / p.least > 1e6) p.least *= 10; /* room for the labels */
        fprintf(f, "<g transform=\"translate(%d %d)\">\n", LEFT + i * STEP_X, TOP);
        write_axes(f, &p);
        for (int k = 0; k < n; k++) write_line(f, &p, stats_of(&results[k], i), colours[k % 4]);
        fputs("</g>\n", f);
    }
    for (int k = 0; k < n; k++)
        fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-size=\"13\">%s</text>\n", LEFT + k * 80, TOP + HEIGHT + 45,
                colours[k % 4], names[k]);
    fputs("</svg>\n", f);
}
