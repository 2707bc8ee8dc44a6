/* SPDX-License-Identifier: MIT */
#pragma once
/* Line charts as SVG: panels in rows of at most eight, and a legend below them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct chart_axis {
    bool powers;        /* grid lines at powers of ten, which @least and @most are; else at multiples of @grid */
    double least, most; /* least < most */
    double grid;
    void (*label)(FILE *f, double v); /* writes the label of a grid line; NULL: the number */
};

struct chart_line {
    const char *name; /* for the legend, which has the lines of the first panel */
    const double *x, *y;
    size_t n;    /* points */
    bool dashed; /* no measurement */
    bool dots;   /* the points are drawn too */
};

struct chart_panel {
    const char *title; /* plain words: it is not escaped, and neither are the names of lines */
    struct chart_axis x, y;
    const struct chart_line *lines;
    size_t n;
};

/* Write a picture of all panels. The caller checks the stream for errors. */
void chart_write(FILE *f, const struct chart_panel *panels, size_t n);

/* An axis from 0 to at least @most (> 0), with 4 to 10 grid lines at round numbers. */
struct chart_axis chart_linear(double most);

/* Open @path, let @draw write to it, and close it. 0 or -errno; sets the error message. */
int chart_file(const char *path, void (*draw)(FILE *f, const void *data), const void *data);
