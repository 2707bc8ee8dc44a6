/* SPDX-License-Identifier: MIT */
#pragma once
/* The parts of hobd bench: the limits of the machine, its energy counters, and the measured runs. */
#include "daemon/command/tool.h"
#include <jansson.h>

#define BENCH_LIST_MAX 16
#define BENCH_RUNS_MAX 99
#define BENCH_ZONES    16

/* The limits of this machine with @threads threads. */
struct bench_limits {
    double read_gbps; /* memory read, 1e9 bytes per second */
    double int8_gops; /* 1e9 multiplications and additions of 8-bit integers per second */
};

/* Takes more than half a second. 0; -ENOMEM or an error of pool_new: sets the error message. */
int bench_limits(struct bench_limits *out, uint32_t threads);

/* The energy counters of the CPU packages (RAPL), if the kernel exposes them. */
struct bench_meter {
    unsigned zones; /* 0: not readable */
    uint64_t uj[BENCH_ZONES];
};

void bench_meter_read(struct bench_meter *m);
double bench_meter_since(const struct bench_meter *m); /* joules; negative: not readable */

/* How to measure a run. */
struct bench_method {
    uint32_t repeats; /* 1 … BENCH_RUNS_MAX */
    bool timing;      /* also measure the parts */
};

/* The result of the repetitions. */
struct bench_result {
    double seconds;                   /* median, of the whole prompt or of one step */
    double joules;                    /* mean, of the same; negative: not readable */
    struct timing part[TIMING_PARTS]; /* mean, of the same; all 0 unless requested */
};

/* Runs @n tokens from position 0 on. 0 or -errno; sets the error message. */
int bench_prefill(struct tool *l, uint32_t n, const struct bench_method *method, struct bench_result *out);

/* Runs @steps steps of @batch sequences, which have @depth tokens at first (at the end of the context they stop
 * growing). 0 or -errno; sets the error message. */
int bench_decode(struct tool *l, uint32_t batch, uint32_t depth, uint32_t steps, const struct bench_method *method,
                 struct bench_result *out);

/* Seconds to sample a token from one row of logits with the default parameters; 0 without memory. */
double bench_sampling(struct tool *l);

/* Prints all results as text. */
void bench_print(const json_t *j);
