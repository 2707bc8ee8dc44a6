/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench.h"
#include "daemon/command/command.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <sched.h>
#include <string.h>

static const char usage[] = "usage: hobd bench -m FILE [-p 512] [-n 64] [-b 1,4,16] [-t LIST] [--depth LIST]\n"
                            "                  [--rows LIST] [-r 3] [--device DEVICE] [--roofline]\n"
                            "                  [--plot FILE] [--json]\n"
                            "\nMeasures the speed of prefill and decode without a socket and compares it with\n"
                            "the limits of this machine. Prints medians.\n\n"
                            "  -m, --model FILE     model name or .gguf path\n"
                            "  -p, --prefill N      prompt tokens (default: 512)\n"
                            "  -n, --decode N       steps of each decode (default: 64)\n"
                            "  -b, --batch LIST     sequences decoded together (default: 1,4,16)\n"
                            "  -t, --threads LIST   compute threads (default: as for serve); with several\n"
                            "                       numbers also print a table of the speed by threads\n"
                            "  -r, --repeat N       number of measurements, 1 to 99 (default: 3)\n"
                            "      --depth LIST     tokens already in each sequence (default: 0)\n"
                            "      --rows LIST      also measure passes of 1 to 32 tokens of one sequence\n"
                            "      --numa YES|NO    spread over NUMA nodes, as serve does (default: yes)\n"
                            "      --device DEVICE  auto, cpu, cuda, cuda:N or cuda:N,N… (default: cpu)\n"
                            "      --roofline       also print bytes read and the time per operation\n"
                            "      --plot FILE      also write a plot as SVG\n"
                            "      --json           print one JSON object instead of a table\n"
                            "      --help           print this help\n";

static int parse_numbers(const char *name, const char *s, uint32_t min, uint32_t max, struct bench_list *list)
{
    list->n = tool_parse_list(s, list->at, BENCH_LIST_MAX);
    bool good = list->n > 0;
    for (uint32_t i = 0; i < list->n; i++) good &= list->at[i] >= min && list->at[i] <= max;
    if (good) return 0;
    return error_say(-EINVAL, "%s: '%s' is not a list of up to %d numbers from %u to %u", name, s, BENCH_LIST_MAX, min,
                     max);
}

/* The options with a list. */
static int parse_list(struct bench_options *o, int c)
{
    switch (c) {
    case 'b':
        return parse_numbers("-b", optarg, 1, 512, &o->batch);
    case 't':
        return parse_numbers("-t", optarg, 1, 1024, &o->threads);
    case 'd':
        return parse_numbers("--depth", optarg, 0, 1 << 20, &o->depth);
    default:
        return parse_numbers("--rows", optarg, 1, BENCH_ROWS_MAX, &o->rows);
    }
}

static int parse_numa(struct bench_options *o)
{
    o->no_numa = strcmp(optarg, "no") == 0;
    if (o->no_numa || strcmp(optarg, "yes") == 0) return 0;
    return error_say(-EINVAL, "--numa: '%s' is neither yes nor no", optarg);
}

static int parse(struct bench_options *o, int argc, char **argv)
{
    static const struct option longs[] = {{"model", 1, 0, 'm'}, {"prefill", 1, 0, 'p'},  {"decode", 1, 0, 'n'},
                                          {"batch", 1, 0, 'b'}, {"threads", 1, 0, 't'},  {"depth", 1, 0, 'd'},
                                          {"rows", 1, 0, 'w'},  {"numa", 1, 0, 'N'},     {"json", 0, 0, 'j'},
                                          {"plot", 1, 0, 'g'},  {"roofline", 0, 0, 'R'}, {"repeat", 1, 0, 'r'},
                                          {"help", 0, 0, 'h'},  {"device", 1, 0, 'D'},   {0}};
    int c, r = 0;
    opterr = optind = 0;
    while (!r && (c = getopt_long(argc, argv, ":m:p:n:b:t:r:h", longs, NULL)) >= 0) switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'p':
            r = tool_parse_number("-p", optarg, 1, 1 << 20, &o->prefill);
            break;
        case 'n':
            r = tool_parse_number("-n", optarg, 1, 1 << 20, &o->decode);
            break;
        case 'b':
        case 't':
        case 'd':
        case 'w':
            r = parse_list(o, c);
            break;
        case 'r':
            r = tool_parse_number("-r", optarg, 1, BENCH_RUNS_MAX, &o->repeat);
            break;
        case 'N':
            r = parse_numa(o);
            break;
        case 'D':
            r = device_parse(&o->device, optarg);
            break;
        case 'R':
            o->roofline = true;
            break;
        case 'j':
            o->json = true;
            break;
        case 'g':
            o->plot = optarg;
            break;
        case 'h':
            o->help = true;
            return 0;
        default:
            return command_refuse(argv, c);
        }
    if (!r && (!o->model || optind < argc))
        r = error_say(-EINVAL, "expected -m FILE and options only; see hobd bench --help");
    return r;
}

static void cpu_name(char *out, size_t size)
{
    _cleanup_(fclosep) FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon + 2);
        return;
    }
}

static uint32_t largest(const struct bench_list *list)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < list->n; i++) most = list->at[i] > most ? list->at[i] : most;
    return most;
}

/* CPUs that this process may use; 0: unknown. */
static uint32_t cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 0 : (uint32_t)CPU_COUNT(&set);
}

/* The context must hold all runs. A step at a depth of the whole context is a step at its last position, so it needs no
 * room behind it. */
static int check_context(const struct bench_options *o, uint32_t ctx)
{
    uint64_t longest = o->prefill > o->decode ? o->prefill : o->decode;
    uint32_t depth = largest(&o->depth), rows = largest(&o->rows);
    if (longest < depth) longest = depth;
    if (longest < rows) longest = rows;
    return ctx >= longest ? 0 : error_say(-EINVAL, "%lu tokens are more than the model's context of %u", longest, ctx);
}

/* Load the model with @threads threads, and add the results of all runs to @list, and what does not depend on the
 * threads to @out. */
static int measure(const struct bench_options *o, uint32_t threads, json_t *out, json_t *list)
{
    uint64_t longest = o->prefill > o->decode ? o->prefill : o->decode;
    uint64_t room = largest(&o->depth) + (o->decode > largest(&o->rows) ? o->decode : largest(&o->rows));
    struct backend_config c = {.ctx = (uint32_t)(longest > room ? longest : room),
                               .threads = threads,
                               .no_numa = o->no_numa,
                               .device = o->device,
                               .kv_type = KERN_KV_F16};
    struct tool l;
    json_t *j = json_object();
    int r = tool_open(&l, o->model, &c, largest(&o->batch));
    if (!r) r = check_context(o, c.ctx);
    if (!r) r = bench_measure(o, &l, j);
    if (!r) {
        char name[128];
        const char *base = strrchr(o->model, '/');
        cpu_name(name, sizeof(name));
        json_object_set_new(out, "model", json_string(base ? base + 1 : o->model));
        json_object_set_new(out, "cpu", json_string(name));
        json_object_set_new(out, "isa", json_string(l.backend->isa));
        json_object_set_new(j, "oversubscribed", json_boolean(cpus() && l.backend->config.threads > cpus()));
        json_array_append(list, j);
    }
    json_decref(j);
    tool_close(&l);
    return r;
}

/* The results of one thread count stand for all: of the most threads that have a CPU each, else of the most. */
static const json_t *headline(const json_t *list)
{
    const json_t *j, *best = NULL;
    size_t i;
    json_array_foreach(list, i, j)
    {
        bool over = json_is_true(json_object_get(j, "oversubscribed"));
        bool was = best && json_is_true(json_object_get(best, "oversubscribed"));
        json_int_t n = json_integer_value(json_object_get(j, "threads"));
        if (!best || (was && !over) || (was == over && n > json_integer_value(json_object_get(best, "threads"))))
            best = j;
    }
    return best;
}

/* Set the results of all thread counts: those of one of them in @out itself, those of each in "scaling", without the
 * passes by rows. */
static int measure_all(const struct bench_options *o, json_t *out)
{
    json_t *list = json_array(), *j;
    size_t i;
    int r = 0;
    for (uint32_t k = 0; !r && k < (o->threads.n ? o->threads.n : 1); k++)
        r = measure(o, o->threads.n ? o->threads.at[k] : 0, out, list);
    json_object_set_new(out, "cpus", json_integer(cpus()));
    json_object_update(out, (json_t *)headline(list));
    json_object_del(out, "oversubscribed");
    json_array_foreach(list, i, j) json_object_del(j, "rows");
    json_object_set_new(out, "scaling", list);
    return r;
}

int command_bench(int argc, char **argv)
{
    struct bench_options o = {.prefill = 512, .decode = 64, .batch = {{1, 4, 16}, 3}, .depth = {{0}, 1}, .repeat = 3};
    int r = parse(&o, argc, argv);
    if (o.help) return fputs(usage, stdout) < 0;
    if (r) return command_misused(argv, r);
    json_t *j = json_object();
    r = measure_all(&o, j);
    if (!r && o.json)
        json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)), putchar('\n');
    else if (!r)
        bench_print(j);
    if (!r && o.plot) r = bench_plot(o.plot, j);
    if (r) command_failed(argv, r);
    json_decref(j);
    return r ? 1 : 0;
}
