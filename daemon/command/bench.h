/* SPDX-License-Identifier: MIT */
#pragma once
/* The pieces of hobd bench: the machine's own limits, the energy it used, and the runs that are measured. */
#include "daemon/command/tool.h"
#include <jansson.h>

#define BENCH_LIST_MAX 16
#define BENCH_RUNS_MAX 99
#define BENCH_ZONES    16

/* What this machine can do at best, @threads threads together. */
struct bench_limits {
    double read_gbps; /* memory read, 1e9 bytes a second */
    double int8_gops; /* 1e9 multiplications and additions of 8-bit integers a second */
};

/* Takes a good half second. 0; -ENOMEM, or what pool_new says; with a sentence. */
int bench_limits(struct bench_limits *out, uint32_t threads);

/* The energy counters of the CPU packages (RAPL), where the kernel shows them. */
struct bench_meter {
    unsigned zones; /* 0: not readable */
    uint64_t uj[BENCH_ZONES];
};

void bench_meter_read(struct bench_meter *m);
double bench_meter_since(const struct bench_meter *m); /* joules; negative: not readable */

/* How a run is measured. */
struct bench_way {
    uint32_t repeats; /* 1 … BENCH_RUNS_MAX */
    bool timing;      /* count the parts too */
};

/* The median of the repetitions. */
struct bench_result {
    double seconds;                   /* of the whole prompt, or of one step */
    double joules;                    /* the same, a mean; negative: not readable */
    struct timing part[TIMING_PARTS]; /* the same, a mean; all 0 unless asked for */
};

/* @n tokens from position 0 on. 0 or -errno with a sentence. */
int bench_prefill(struct tool *l, uint32_t n, const struct bench_way *way, struct bench_result *out);

/* @steps steps of @batch sequences which are @depth tokens long at first (at the context's end they grow no more). */
int bench_decode(struct tool *l, uint32_t batch, uint32_t depth, uint32_t steps, const struct bench_way *way,
                 struct bench_result *out);

/* Seconds to pick a token from one row of logits with the default parameters; 0 when there is no memory for it. */
double bench_sampling(struct tool *l);

/* Everything measured, as text. */
void bench_print(const json_t *j);
