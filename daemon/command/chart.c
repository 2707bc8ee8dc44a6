/* SPDX-License-Identifier: MIT */
#include "daemon/command/chart.h"
#include "libcommon/error.h"
#include <math.h>
#include <string.h>

#define WIDTH  320 /* of a panel's axes */
#define HEIGHT 240
#define LEFT   60
#define TOP    50
#define STEP_X (WIDTH + LEFT + 20)
#define STEP_Y (HEIGHT + TOP + 30)
#define ROW    8   /* panels side by side */
#define LEGEND 130 /* width of an entry */

static const char *const colours[] = {"#888888", "#c8102e", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd"};

static const char *colour(size_t i)
{
    return colours[i % (sizeof(colours) / sizeof(*colours))];
}

/* The place of @v on the axis, 0 to 1. */
static double place(const struct chart_axis *a, double v)
{
    double at = fmin(fmax(v, a->least), a->most);
    if (a->powers) return (log10(at) - log10(a->least)) / (log10(a->most) - log10(a->least));
    return (at - a->least) / (a->most - a->least);
}

static void write_label(FILE *f, const struct chart_axis *a, double v)
{
    if (a->label)
        a->label(f, v);
    else
        fprintf(f, "%g", v);
}

static void write_grid(FILE *f, const struct chart_axis *a, bool upright)
{
    for (double v = a->least; v <= a->most + (a->most - a->least) * 1e-6; v = a->powers ? v * 10 : v + a->grid) {
        double at = upright ? HEIGHT * (1 - place(a, v)) : WIDTH * place(a, v);
        if (upright)
            fprintf(f, "<path d=\"M0 %.1fH%d\" stroke=\"#ddd\"/><text x=\"-6\" y=\"%.1f\" text-anchor=\"end\">", at,
                    WIDTH, at + 4);
        else
            fprintf(f, "<path d=\"M%.1f 0V%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", at,
                    HEIGHT, at, HEIGHT + 16);
        write_label(f, a, v);
        fputs("</text>\n", f);
    }
}

static void write_line(FILE *f, const struct chart_panel *p, const struct chart_line *l, const char *with)
{
    fprintf(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s d=\"M", with,
            l->dashed ? " stroke-dasharray=\"4 4\"" : "");
    for (size_t k = 0; k < l->n; k++)
        fprintf(f, "%.1f %.1f ", WIDTH * place(&p->x, l->x[k]), HEIGHT * (1 - place(&p->y, l->y[k])));
    fputs("\"/>\n", f);
    for (size_t k = 0; l->dots && k < l->n; k++)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", WIDTH * place(&p->x, l->x[k]),
                HEIGHT * (1 - place(&p->y, l->y[k])), with);
}

void chart_write(FILE *f, const struct chart_panel *panels, size_t n)
{
    size_t names = n ? panels[0].n : 0, rows = n ? (n + ROW - 1) / ROW : 1;
    size_t width = (n < ROW ? n : ROW) * STEP_X + 20, bottom = rows * STEP_Y - 30;
    if (width < LEFT + names * LEGEND) width = LEFT + names * LEGEND;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, bottom + 60);
    for (size_t i = 0; i < n; i++) {
        const struct chart_panel *p = &panels[i];
        fprintf(f, "<g transform=\"translate(%zu %zu)\">\n", LEFT + i % ROW * STEP_X, TOP + i / ROW * STEP_Y);
        fprintf(f, "<text x=\"%d\" y=\"-12\" text-anchor=\"middle\" font-size=\"14\">%s</text>\n", WIDTH / 2, p->title);
        write_grid(f, &p->y, true);
        write_grid(f, &p->x, false);
        for (size_t k = 0; k < p->n; k++) write_line(f, p, &p->lines[k], colour(k));
        fputs("</g>\n", f);
    }
    for (size_t k = 0; k < names; k++)
        fprintf(f, "<text x=\"%zu\" y=\"%zu\" fill=\"%s\" font-size=\"13\">%s</text>\n", LEFT + k * LEGEND, bottom + 45,
                colour(k), panels[0].lines[k].name);
    fputs("</svg>\n", f);
}

struct chart_axis chart_linear(double most)
{
    double power = pow(10, floor(log10(most))), grid = power;
    if (most / power < 2)
        grid = power / 4;
    else if (most / power < 5)
        grid = power / 2;
    return (struct chart_axis){.most = ceil(most / grid - 1e-9) * grid, .grid = grid};
}

int chart_file(const char *path, void (*draw)(FILE *f, const void *data), const void *data)
{
    FILE *f = fopen(path, "we");
    int r = f ? 0 : -errno;
    if (f) {
        draw(f, data);
        bool good = !ferror(f);
        if (fclose(f) != 0 || !good) r = errno ? -errno : -EIO;
    }
    return r < 0 ? error_say(r, "%s: %s", path, strerror(-r)) : 0;
}
