/* SPDX-License-Identifier: MIT */
#pragma once
/* The parts of hobd bench: the limits of the machine, the measured runs, their results as JSON, text and picture. */
#include "daemon/command/tool.h"
#include "libcommon/powercap.h"
#include <jansson.h>
#include <stdbool.h>

#define BENCH_LIST_MAX 16
#define BENCH_RUNS_MAX 99
#define BENCH_ROWS_MAX 32

struct bench_list {
    uint32_t at[BENCH_LIST_MAX], n;
};

struct bench_options {
    const char *model, *plot;
    uint64_t prefill, decode, repeat;
    struct bench_list threads, batch, depth;
    struct bench_list rows; /* none: passes by rows are not measured */
    bool roofline, json, help, no_numa;
    struct device_choice device;
};

/* --- the machine --- */

/* The limits of this machine with some number of threads. */
struct bench_limits {
    double read_gbps; /* memory read, 1e9 bytes per second */
    double int8_gops; /* 1e9 multiplications and additions of 8-bit integers per second */
};

/* Measure the limits and raise *out to them. @weight_bytes: of the model; it may fit into the caches. Takes more than
 * half a second. 0; -ENOMEM or an error of compute_pool_new: sets the error message. */
int bench_limits(struct bench_limits *out, uint32_t threads, uint64_t weight_bytes);

/* The energy of the CPU packages. */
struct bench_energy {
    struct powercap counters;
    double idle_watts; /* of the machine without a run; it is taken off the energy of the runs */
};

/* Open the counters, and measure the idle power for a third of a second if they are readable. Close them with
 * powercap_close. */
void bench_energy_open(struct bench_energy *e);

/* --- the runs --- */

/* How to measure a run. */
struct bench_method {
    uint32_t repeats; /* 1 … BENCH_RUNS_MAX */
    bool timing;      /* also measure the parts */
    struct bench_energy *energy;
};

/* The result of the repetitions. */
struct bench_result {
    double seconds;                   /* median, of the whole prompt or of one step */
    double mean;                      /* the mean of the same */
    double joules;                    /* mean, of the same, without the idle power; negative: not readable */
    struct timing part[TIMING_PARTS]; /* mean, of the same; all 0 unless requested */
};

/* Runs @n tokens from position 0 on. 0 or -errno; sets the error message. */
int bench_prefill(struct tool *l, uint32_t n, const struct bench_method *method, struct bench_result *out);

/* Runs @steps steps of @batch sequences, which have @depth tokens at first (at the end of the context they stop
 * growing). 0 or -errno; sets the error message. */
int bench_decode(struct tool *l, uint32_t batch, uint32_t depth, uint32_t steps, const struct bench_method *method,
                 struct bench_result *out);

/* Runs @passes passes of the same @rows tokens of one sequence, which follow @depth others (fewer at the end of the
 * context) and all have logits. 0 or -errno; sets the error message. */
int bench_rows(struct tool *l, uint32_t rows, uint32_t depth, uint32_t passes, const struct bench_method *method,
               struct bench_result *out);

/* Seconds to sample a token from one row of logits with the default parameters; 0 without memory. */
double bench_sampling(struct tool *l);

/* --- the results --- */

/* Measure all of the options with the model that is loaded in @l, and add the results to @out, an object. 0 or -errno;
 * sets the error message. */
int bench_measure(const struct bench_options *o, struct tool *l, json_t *out);

/* Prints all results as text. */
void bench_print(const json_t *j);

/* Writes a picture of the passes by rows, if they were measured, else of the speed by threads. 0 or -errno; sets the
 * error message. */
int bench_plot(const char *path, const json_t *j);
