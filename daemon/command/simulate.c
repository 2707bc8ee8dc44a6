/* SPDX-License-Identifier: MIT */
#include "daemon/command/chart.h"
#include "daemon/command/command.h"
#include "daemon/command/simulate-plot.h"
#include "daemon/simulate/caches.h"
#include "daemon/simulate/report.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/units.h"
#include <getopt.h>
#include <math.h>
#include <string.h>

static const char usage[] = "usage: hobd simulate TRACE.jsonl [OPTION…]\n"
                            "\nReplays a trace of requests through the real scheduler and prefix index, with a\n"
                            "modelled step time and without a model.\n\n"
                            "      --policy NAME      hob or fcfs, first come first served (default: both)\n"
                            "      --room PERCENT     cache size in percent of the distinct blocks, or inf\n"
                            "                         (default: 10)\n"
                            "      --users N          number of simulated users (default: 8)\n"
                            "      --parallel N       maximum concurrent sequences (default: 16)\n"
                            "      --batch-tokens N   maximum tokens of a step (default: 512)\n"
                            "      --block N          tokens per block: 32, 64, … 512 (default: 512)\n"
                            "      --step-ms LIST     milliseconds per step, per decoded token, per prompt\n"
                            "                         token, per 1000 positions that a decoded token\n"
                            "                         attends to, and the same for a prompt token\n"
                            "                         (default: 17,3.2,3.3,4.7,1)\n"
                            "      --load X           slow the trace down until the machine is busy for\n"
                            "                         this part of the time (default: 0.8)\n"
                            "      --stretch X        slow the trace down by the factor X instead\n"
                            "      --requests N       replay only the first N requests (default: all)\n"
                            "      --caches           without scheduler: compare eviction policies\n"
                            "      --json             print one JSON object instead of a table\n"
                            "      --plot FILE        also write a plot as SVG\n"
                            "      --help             print this help\n";

struct options {
    struct sim_config sim;
    enum sim_policy policies[SIM_POLICIES];
    int n_policies;
    uint64_t requests;
    float load;
    const char *plot, *path;
    bool json, caches, help;
};

static int parse_policy(struct options *o, const char *s)
{
    for (int i = 0; i < SIM_POLICIES; i++) {
        if (strcmp(s, sim_policy_names[i]) != 0) continue;
        o->policies[0] = (enum sim_policy)i;
        o->n_policies = 1;
        return 0;
    }
    return error_say(-EINVAL, "--policy: '%s' is not hob or fcfs", s);
}

static int parse_u32(const char *name, const char *s, uint64_t most, uint32_t *out)
{
    uint64_t v;
    int r = parse_u64(s, 1, most, &v);
    if (r < 0) return error_in(r, "%s", name);
    *out = (uint32_t)v;
    return 0;
}

static int parse_real(const char *name, const char *s, float min, float max, double *out)
{
    float v;
    int r = parse_float(s, min, max, &v);
    if (r < 0) return error_in(r, "%s", name);
    *out = (double)v;
    return 0;
}

static int parse_room(struct options *o, const char *s)
{
    if (!strcmp(s, "inf")) {
        o->sim.room = -1;
        return 0;
    }
    int r = parse_real("--room", s, 0, 1e6f, &o->sim.room);
    o->sim.room /= 100;
    return r;
}

static int parse_step(struct options *o, const char *s)
{
    _cleanup_(freep) char *copy = strdup(s);
    char *rest = copy, *one;
    int n = 0;
    if (!copy) return -ENOMEM;
    while ((one = strsep(&rest, ","))) {
        if (n == SCHED_TIME_PLAIN) return error_say(-EINVAL, "--step-ms: more than %d numbers", SCHED_TIME_PLAIN);
        int r = parse_real("--step-ms", one, 0, 1e6f, &o->sim.step_ms[n++]);
        if (r < 0) return r;
    }
    if (n < SCHED_TIME_PLAIN) return error_say(-EINVAL, "--step-ms: fewer than %d numbers", SCHED_TIME_PLAIN);
    if (o->sim.step_ms[0] + o->sim.step_ms[1] > 0 && o->sim.step_ms[2] > 0) return 0;
    return error_say(-EINVAL, "--step-ms: a token takes no time");
}

static int parse_block(struct options *o, const char *s)
{
    int r = parse_u32("--block", s, TRACE_BLOCK, &o->sim.block);
    if (r < 0) return r;
    if (o->sim.block >= 32 && !(o->sim.block & (o->sim.block - 1))) return 0;
    return error_say(-EINVAL, "--block: '%s' is not one of 32, 64, 128, 256, 512", s);
}

static int parse_one(struct options *o, char **argv, int c)
{
    double v = 0;
    int r;
    switch (c) {
    case 'p':
        return parse_policy(o, optarg);
    case 'r':
        return parse_room(o, optarg);
    case 'u':
        return parse_u32("--users", optarg, 1000, &o->sim.users);
    case 'P':
        return parse_u32("--parallel", optarg, 4096, &o->sim.parallel);
    case 't':
        return parse_u32("--batch-tokens", optarg, 1 << 20, &o->sim.batch_tokens);
    case 'b':
        return parse_block(o, optarg);
    case 'm':
        return parse_step(o, optarg);
    case 'l':
        r = parse_real("--load", optarg, 1e-3f, 1e3f, &v);
        o->load = (float)v;
        o->sim.stretch = 0;
        return r;
    case 's':
        return parse_real("--stretch", optarg, 1e-6f, 1e6f, &o->sim.stretch);
    case 'n':
        r = parse_u64(optarg, 1, UINT32_MAX, &o->requests);
        return r < 0 ? error_in(r, "--requests") : 0;
    case 'j':
        o->json = true;
        return 0;
    case 'g':
        o->plot = optarg;
        return 0;
    case 'c':
        o->caches = true;
        return 0;
    case 'h':
        o->help = true;
        return 0;
    }
    return command_refuse(argv, c);
}

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {{"policy", 1, 0, 'p'},   {"room", 1, 0, 'r'},         {"users", 1, 0, 'u'},
                                          {"parallel", 1, 0, 'P'}, {"batch-tokens", 1, 0, 't'}, {"block", 1, 0, 'b'},
                                          {"step-ms", 1, 0, 'm'},  {"load", 1, 0, 'l'},         {"stretch", 1, 0, 's'},
                                          {"requests", 1, 0, 'n'}, {"caches", 0, 0, 'c'},       {"json", 0, 0, 'j'},
                                          {"plot", 1, 0, 'g'},     {"help", 0, 0, 'h'},         {0}};
    int c, r = 0;
    opterr = optind = 0;
    while (!r && !o->help && (c = getopt_long(argc, argv, ":", longs, NULL)) >= 0) r = parse_one(o, argv, c);
    if (r < 0 || o->help) return r;
    if (optind + 1 != argc)
        return error_say(-EINVAL, optind < argc ? "more than one TRACE" : "TRACE is missing; see hobd simulate --help");
    o->path = argv[optind];
    return 0;
}

static int write_plot(const char *path, const struct sim_result *results, const struct options *o)
{
    const char *names[SIM_POLICIES];
    for (int k = 0; k < o->n_policies; k++) names[k] = sim_policy_names[o->policies[k]];
    const struct simulate_plot plot = {results, names, o->n_policies};
    return chart_file(path, simulate_plot_draw, &plot);
}

static int print(const struct options *o, const struct trace *t, const struct sim_result *results)
{
    if (!o->json) {
        report_print(t, &o->sim, results, o->n_policies, o->policies);
    } else {
        _cleanup_(json_decrefp) json_t *j = report_json(t, &o->sim, results, o->n_policies, o->policies);
        if (!j || json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) < 0) return -ENOMEM;
        putchar('\n');
    }
    if (fflush(stdout) || ferror(stdout)) return error_say(-EIO, "standard output: %s", strerror(errno));
    return 0;
}

/* Runs each eviction policy in a cache of the size that --room sets. */
static int run_caches(const struct options *o, const struct trace *t)
{
    _cleanup_(json_decrefp) json_t *j = json_object();
    double all = t->infinite_tokens ? (double)t->infinite_tokens : 1;
    uint64_t room = o->sim.room < 0 ? t->distinct : (uint64_t)(o->sim.room * (double)t->distinct);
    if (!o->json)
        printf("Hits in tokens, as a share of an infinite cache's; room for %llu of %llu distinct blocks\n",
               (unsigned long long)room, (unsigned long long)t->distinct);
    for (int policy = 0; policy < CACHES_POLICIES; policy++) {
        uint64_t hit;
        int r = caches_run(t, (enum caches_policy)policy, room ? room : 1, &hit);
        if (r < 0) return r;
        if (!o->json) printf("%-28s %.4f\n", caches_names[policy], (double)hit / all);
        if (json_object_set_new(j, caches_names[policy], json_real((double)hit / all))) return -ENOMEM;
    }
    if (o->json && (json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)) < 0 || putchar('\n') < 0))
        return -ENOMEM;
    if (fflush(stdout) || ferror(stdout)) return error_say(-EIO, "standard output: %s", strerror(errno));
    return 0;
}

static int run_policies(struct options *o, struct trace *t)
{
    struct sim_result *results = calloc(SIM_POLICIES, sizeof(*results));
    int r = results ? 0 : -ENOMEM;
    trace_deal(t, o->sim.users);
    if (o->sim.stretch <= 0) o->sim.stretch = sim_stretch(t, &o->sim, (double)o->load);
    for (int k = 0; r == 0 && k < o->n_policies; k++) {
        o->sim.policy = o->policies[k];
        r = sim_run(&results[k], t, &o->sim);
    }
    if (r == 0) r = print(o, t, results);
    if (r == 0 && o->plot) r = write_plot(o->plot, results, o);
    for (int k = 0; results && k < SIM_POLICIES; k++) sim_result_fini(&results[k]);
    free(results);
    return r;
}

static int run(struct options *o)
{
    struct trace t = {0};
    int r = trace_read(&t, o->path, o->requests);
    if (r < 0) return r;
    r = o->caches ? run_caches(o, &t) : run_policies(o, &t);
    trace_fini(&t);
    return r;
}

int command_simulate(int argc, char **argv)
{
    struct options o = {
        .sim = {.parallel = 16,
                .batch_tokens = 512,
                .users = 8,
                .room = 0.1,
                .block = TRACE_BLOCK,
                .step_ms = {17, 3.2, 3.3, 4.7, 1}},
        .policies = {SIM_FCFS, SIM_HOB},
        .n_policies = SIM_POLICIES,
        .load = 0.8f,
    };
    int r = parse(&o, argc, argv);
    if (r < 0) return command_misused(argv, r);
    if (o.help) {
        fputs(usage, stdout);
        return 0;
    }
    r = run(&o);
    return r < 0 ? command_failed(argv, r) : 0;
}
