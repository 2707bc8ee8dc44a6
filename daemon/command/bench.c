/* SPDX-License-Identifier: MIT */
#include "daemon/command/bench.h"
#include "daemon/command/command.h"
#include "daemon/model/tensor-type.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <string.h>

static const char usage[] = "usage: hobd bench -m FILE [-p 512] [-n 64] [-b 1,4,16] [-t N] [--depth LIST]\n"
                            "                  [-r 3] [--roofline] [--json]\n"
                            "\nMeasures the speed of prefill and decode without a socket and compares it with\n"
                            "the limits of this machine. Prints medians.\n\n"
                            "  -m, --model FILE     model name or .gguf path\n"
                            "  -p, --prefill N      prompt tokens (default: 512)\n"
                            "  -n, --decode N       steps of each decode (default: 64)\n"
                            "  -b, --batch LIST     sequences decoded together (default: 1,4,16)\n"
                            "  -t, --threads N      compute threads (default: physical cores)\n"
                            "  -r, --repeat N       number of measurements, 1 to 99 (default: 3)\n"
                            "      --depth LIST     tokens already in each sequence (default: 0)\n"
                            "      --roofline       also print bytes read and the time per operation\n"
                            "      --json           print one JSON object instead of a table\n"
                            "      --help           print this help\n";

struct options {
    const char *model;
    uint64_t prefill, decode, threads, repeat;
    uint32_t batch[BENCH_LIST_MAX], n_batch;
    uint32_t depth[BENCH_LIST_MAX], n_depth;
    bool roofline, json, help;
};

/* The cost of one token or step, on any backend. */
struct work {
    double weights, vocabulary; /* bytes: of all weights; of the vocabulary's matrix, a part of them */
    double kv;                  /* bytes of one token, all layers */
    double ops;                 /* multiplications and additions of one token in the layers' matrices */
};

static int parse_numbers(const char *name, const char *s, uint32_t min, uint32_t max, uint32_t *list, uint32_t *n)
{
    *n = tool_parse_list(s, list, BENCH_LIST_MAX);
    bool good = *n > 0;
    for (uint32_t i = 0; i < *n; i++) good &= list[i] >= min && list[i] <= max;
    if (good) return 0;
    return error_say(-EINVAL, "%s: '%s' is not a list of up to %d numbers from %u to %u", name, s, BENCH_LIST_MAX, min,
                     max);
}

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {{"model", 1, 0, 'm'},
                                          {"prefill", 1, 0, 'p'},
                                          {"decode", 1, 0, 'n'},
                                          {"batch", 1, 0, 'b'},
                                          {"threads", 1, 0, 't'},
                                          {"depth", 1, 0, 'd'},
                                          {"json", 0, 0, 'j'},
                                          {"roofline", 0, 0, 'R'},
                                          {"repeat", 1, 0, 'r'},
                                          {"help", 0, 0, 'h'},
                                          {0}};
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
            r = parse_numbers("-b", optarg, 1, 512, o->batch, &o->n_batch);
            break;
        case 't':
            r = tool_parse_number("-t", optarg, 1, 1024, &o->threads);
            break;
        case 'd':
            r = parse_numbers("--depth", optarg, 0, 1 << 20, o->depth, &o->n_depth);
            break;
        case 'r':
            r = tool_parse_number("-r", optarg, 1, BENCH_RUNS_MAX, &o->repeat);
            break;
        case 'R':
            o->roofline = true;
            break;
        case 'j':
            o->json = true;
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
        if (!colon || strncmp(line, "model name", 10)) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon + 2);
        return;
    }
}

static struct work work_of(const struct tool *l)
{
    const struct hparams *y = &l->backend->hparams;
    double dim = y->dim, q = (double)y->heads * y->head_dim, kv = (double)y->kv_heads * y->head_dim;
    struct work w = {.weights = (double)l->backend->weight_bytes, .kv = (double)y->groups[0].bytes_per_token};
    double ffn = y->experts.n ? (double)y->experts.used * y->experts.ffn + y->experts.shared_ffn : y->ffn;
    w.ops = 2.0 * y->n_layers * dim * (2 * q + 2 * kv + 3 * ffn);
    const struct gguf_tensor *t = gguf_find_tensor(l->gguf, y->tied ? "token_embd.weight" : "output.weight");
    enum kern_type type;
    if (t && !tensor_type(t->type, &type))
        w.vocabulary = (double)((y->vocab + KERN_ROWS - 1) / KERN_ROWS) * (double)kern_panel_bytes(type, y->dim);
    return w;
}

static json_t *energy(const struct bench_result *r, double tokens)
{
    return r->joules < 0 ? json_null() : json_real(r->joules / tokens);
}

/* Milliseconds of a run by component. "all" is their sum. */
static json_t *parts_of(const struct bench_result *r)
{
    static const char *const names[TIMING_PARTS] = {"projections", "attention", "vectors", "logits"};
    uint64_t wait = 0, barriers = 0, known = 0;
    json_t *j = json_object();
    for (size_t i = 0; i < TIMING_PARTS; i++) {
        json_object_set_new(j, names[i], json_real((double)r->part[i].work_ns * 1e-6));
        wait += r->part[i].wait_ns;
        barriers += r->part[i].barriers;
        known += r->part[i].work_ns + r->part[i].wait_ns;
    }
    json_object_set_new(j, "waiting", json_real((double)wait * 1e-6));
    json_object_set_new(j, "barriers", json_integer((json_int_t)barriers));
    json_object_set_new(j, "all", json_real((double)known * 1e-6));
    return j;
}

static int measure_prefill(const struct options *o, struct tool *l, const struct bench_limits *limits, json_t *out)
{
    struct bench_result res;
    struct bench_method method = {(uint32_t)o->repeat, o->roofline};
    struct work w = work_of(l);
    double n = (double)o->prefill;
    int r = bench_prefill(l, (uint32_t)o->prefill, &method, &res);
    if (r) return r;
    double gops = w.ops * n / res.seconds * 1e-9;
    json_t *j = json_pack("{s:I, s:f, s:f, s:f, s:o}", "tokens", (json_int_t)o->prefill, "tok_s", n / res.seconds,
                          "gops", gops, "share", gops / limits->int8_gops, "joules_per_token", energy(&res, n));
    if (o->roofline) json_object_set_new(j, "ms", parts_of(&res));
    json_object_set_new(out, "prefill", j);
    return 0;
}

static int measure_decode(const struct options *o, struct tool *l, uint32_t batch, uint32_t depth,
                          const struct bench_limits *limits, json_t *list)
{
    struct bench_result res;
    struct bench_method method = {(uint32_t)o->repeat, o->roofline};
    struct work w = work_of(l);
    int r = bench_decode(l, batch, depth, (uint32_t)o->decode, &method, &res);
    if (r) return r;
    double length = depth + ((double)o->decode + 1) / 2, kv = w.kv * batch * length;
    double gbps = (w.weights + kv) / res.seconds * 1e-9;
    json_t *j = json_pack("{s:I, s:I, s:f, s:f, s:f, s:o}", "batch", (json_int_t)batch, "depth", (json_int_t)depth,
                          "tok_s", batch / res.seconds, "gbps", gbps, "share", gbps / limits->read_gbps,
                          "joules_per_token", energy(&res, batch));
    if (o->roofline) {
        json_t *ms = parts_of(&res);
        json_object_set_new(ms, "sampling", json_real(bench_sampling(l) * batch * 1e3));
        json_object_set_new(j, "ms", ms);
        json_object_set_new(j, "weight_bytes", json_real(w.weights));
        json_object_set_new(j, "vocabulary_bytes", json_real(w.vocabulary));
        json_object_set_new(j, "kv_bytes", json_real(kv));
    }
    json_array_append_new(list, j);
    return 0;
}

static int measure(const struct options *o, struct tool *l, json_t *out)
{
    struct bench_limits limits;
    char cpu[128];
    cpu_name(cpu, sizeof(cpu));
    int r = bench_limits(&limits, l->backend->config.threads);
    if (r) return r;
    const char *base = strrchr(o->model, '/');
    json_object_set_new(out, "model", json_string(base ? base + 1 : o->model));
    json_object_set_new(out, "cpu", json_string(cpu));
    json_object_set_new(out, "isa", json_string(l->backend->isa));
    json_object_set_new(out, "threads", json_integer(l->backend->config.threads));
    json_object_set_new(out, "read_gbps", json_real(limits.read_gbps));
    json_object_set_new(out, "int8_gops", json_real(limits.int8_gops));
    json_object_set_new(out, "load_s", json_real(l->seconds));
    r = measure_prefill(o, l, &limits, out);
    json_t *list = json_array();
    for (uint32_t d = 0; d < o->n_depth; d++)
        for (uint32_t i = 0; !r && i < o->n_batch; i++)
            r = measure_decode(o, l, o->batch[i], o->depth[d], &limits, list);
    json_object_set_new(out, "decode", list);
    return r;
}

static uint32_t largest(const uint32_t *list, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) most = list[i] > most ? list[i] : most;
    return most;
}

int command_bench(int argc, char **argv)
{
    struct options o = {.prefill = 512, .decode = 64, .batch = {1, 4, 16}, .n_batch = 3, .n_depth = 1, .repeat = 3};
    int r = parse(&o, argc, argv);
    if (o.help) return fputs(usage, stdout) < 0;
    if (r) return command_misused(argv, r);
    /* A step at a depth of the whole context is a step at its last position, so it needs no room behind it. */
    uint32_t depth = largest(o.depth, o.n_depth);
    uint64_t longest = o.prefill > o.decode ? o.prefill : o.decode, room = depth + o.decode;
    struct backend_config c = {.ctx = (uint32_t)(longest > room ? longest : room),
                               .threads = (uint32_t)o.threads,
                               .kv_type = KERN_KV_F16,
                               .batch_tokens = 512};
    struct tool l;
    r = tool_open(&l, o.model, &c, largest(o.batch, o.n_batch));
    if (longest < depth) longest = depth;
    if (!r && c.ctx < longest)
        r = error_say(-EINVAL, "%lu tokens are more than the model's context of %u", longest, c.ctx);
    json_t *j = json_object();
    if (!r) r = measure(&o, &l, j);
    if (r)
        command_failed(argv, r);
    else if (o.json)
        json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)), putchar('\n');
    else
        bench_print(j);
    json_decref(j);
    tool_close(&l);
    return r ? 1 : 0;
}
