/* SPDX-License-Identifier: MIT */
/* Microseconds of a scheduler's decision (who starts, and the batch) at 1,000 sequences. Not a test: run it alone. */
#include "daemon/sched/scheduler.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST   1000
#define ROUNDS 2000

static struct sched_req reqs[MOST];
static struct sched_user users[MOST];
static struct sched_action actions[MOST];
static struct sched_run runs[MOST];
static uint32_t pos[MOST];
static double took[ROUNDS];

struct way {
    const char *name;
    uint32_t users, parallel, running, decoding; /* of each thousand */
    uint32_t batch_tokens;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fill(const struct way *w, uint64_t seed)
{
    uint64_t rnd = seed * 2862933555777941757u + 3037000493u;
    for (uint32_t i = 0; i < MOST; i++) {
        rnd = rnd * 6364136223846793005u + 1442695040888963407u;
        uint32_t x = (uint32_t)(rnd >> 33), known = 100 + x % 3000;
        bool running = i < w->running, decoding = i < w->decoding;
        reqs[i] = (struct sched_req){
            .arrival = i ^ 0x155,
            .last_step = x % 3,
            .user = x / 7 % w->users,
            .computed = decoding ? known - 1 : 0,
            .known = known,
            .spent = running ? x % 2000 : 0,
            .blocks = 20 + x % 50,
            .group = i % 10 == 9 ? i - 1 : SCHED_NONE,
            .shared = i % 10 == 9 ? 96 : 0,
            .class = (uint8_t)(x / 11 % SCHED_CLASSES),
            .running = running,
            .decoding = decoding,
            .paused = x % 50 == 0,
        };
    }
    for (uint32_t u = 0; u < w->users; u++) users[u] = (struct sched_user){(rnd >> 20) % 997 * u, true};
}

static double median(void)
{
    qsort(took, ROUNDS, sizeof(*took), by_size);
    return took[ROUNDS / 2];
}

static void measure(const struct way *w)
{
    struct sched_config c;
    struct sched_book b = {.clock = 1};
    struct sched_load load;
    void *scratch = malloc(sched_scratch_size(MOST, w->users));
    double decide = 0, step = 0, most = 0, places = 0, start;
    uint32_t n_actions = 0, n_runs = 0;
    if (!scratch) return;
    sched_config_init(&c, w->parallel, w->batch_tokens);
    sched_time_init(&b.time);
    b.time.samples = 1;
    for (int what = 0; what < 3; what++) {
        for (int i = 0; i < ROUNDS; i++) {
            fill(w, (uint64_t)i);
            struct sched_state s = {reqs, MOST, users, w->users, 1000, 30000};
            b.floor = 0;
            start = now();
            if (what == 0) n_actions = sched_decide(&c, &b, &s, scratch, actions);
            if (what == 1) n_runs = sched_step(&c, &b, &s, scratch, runs, &load);
            if (what == 2) sched_positions(&c, &s, scratch, pos);
            took[i] = now() - start;
        }
        *(what == 0 ? &decide : what == 1 ? &step : &places) = median();
        if (what < 2) most += took[ROUNDS * 99 / 100];
    }
    printf("%-44s %6.1f %6.1f %6.1f %6.1f %9.1f   (%u actions, %u runs)\n", w->name, decide + step, decide, step, most,
           places, n_actions, n_runs);
    free(scratch);
}

int main(void)
{
    static const struct way ways[] = {
        {"16 run, 984 wait, 1 user", 1, 16, 16, 12, 512},
        {"16 run, 984 wait, 10 users", 10, 16, 16, 12, 512},
        {"16 slots free, 1000 wait, 10 users", 10, 16, 0, 0, 512},
        {"1000 decode, 512 tokens, 10 users", 10, 1000, 1000, 1000, 512},
        {"1000 read prompts, 10 users", 10, 1000, 1000, 0, 512},
        {"500 decode, 200 read, 300 wait, 10 users", 10, 700, 700, 500, 2048},
        {"500 decode, 200 read, 300 wait, 300 users", 300, 700, 700, 500, 2048},
        {"1000 slots free, 1000 wait, 10 users", 10, 1000, 0, 0, 512},
    };
    printf("%-44s %6s %6s %6s %6s %9s\n", "microseconds at 1,000 sequences", "all", "starts", "batch", "p99", "places");
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) measure(&ways[i]);
    return 0;
}
