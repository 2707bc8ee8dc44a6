/* SPDX-License-Identifier: MIT */
#include "daemon/command/command.h"
#include "daemon/command/tool.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include "libcommon/log.h"
#include "libcommon/units.h"
#include <getopt.h>
#include <jansson.h>
#include <string.h>

#define BATCHES_MAX 16
#define REPEATS     3

static const char usage[] = "usage: hobd bench -m FILE [-p 512] [-n 64] [-b 1,4,16] [-t N] [--json]\n"
                            "Speed of prefill and decode, without a socket. Medians of 3.\n"
                            "  -m, --model FILE     a .gguf file or a model's name\n"
                            "  -p, --prefill N      tokens of the prompt (512)\n"
                            "  -n, --decode N       steps of each decode (64)\n"
                            "  -b, --batch LIST     sequences decoded together (1,4,16)\n"
                            "  -t, --threads N      compute threads (physical cores)\n"
                            "      --json           one JSON object instead of a table\n";

struct options {
    const char *model;
    uint64_t prefill, decode, threads;
    uint32_t batch[BATCHES_MAX], n_batch;
    bool json, help;
};

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"model", 1, 0, 'm'},   {"prefill", 1, 0, 'p'}, {"decode", 1, 0, 'n'}, {"batch", 1, 0, 'b'},
        {"threads", 1, 0, 't'}, {"json", 0, 0, 'j'},    {"help", 0, 0, 'h'},   {0}};
    int c, r = 0;
    optind = 0;
    while (!r && (c = getopt_long(argc, argv, "m:p:n:b:t:h", longs, NULL)) >= 0) switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'p':
            r = parse_u64(optarg, 1, 1 << 20, &o->prefill);
            break;
        case 'n':
            r = parse_u64(optarg, 1, 1 << 20, &o->decode);
            break;
        case 'b':
            o->n_batch = tool_parse_list(optarg, o->batch, BATCHES_MAX);
            for (uint32_t i = 0; i < o->n_batch; i++)
                if (!o->batch[i] || o->batch[i] > 512) o->n_batch = 0;
            if (!o->n_batch)
                r = error_say(-EINVAL, "-b: '%s' is no list of up to %d numbers from 1 to 512", optarg, BATCHES_MAX);
            break;
        case 't':
            r = parse_u64(optarg, 1, 1024, &o->threads);
            break;
        case 'j':
            o->json = true;
            break;
        case 'h':
            o->help = true;
            return 0;
        default:
            return error_say(-EINVAL, "see hobd bench --help");
        }
    if (!r && (!o->model || optind < argc)) r = error_say(-EINVAL, "needs -m FILE, and options only");
    return r;
}

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, REPEATS, sizeof(*v), cmp_double);
    return v[REPEATS / 2];
}

/* Any valid ids will do: speed does not depend on them. */
static void fill(int32_t *tokens, uint32_t n, uint32_t vocab)
{
    uint32_t x = 1;
    for (uint32_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((x >> 8) % vocab);
    }
}

static int prefill(struct tool *l, uint32_t n, double *tok_s)
{
    uint32_t vocab = l->backend->shape.vocab;
    _cleanup_(freep) int32_t *tokens = malloc(n * sizeof(*tokens));
    _cleanup_(freep) float *logits = malloc(vocab * sizeof(float));
    if (!tokens || !logits) return error_origin(-ENOMEM);
    fill(tokens, n, vocab);
    double took[REPEATS];
    int r = tool_forward(l, 0, tokens, 0, n, n - 1, logits); /* warm */
    for (int i = 0; !r && i < REPEATS; i++) {
        double start = tool_now();
        r = tool_forward(l, 0, tokens, 0, n, n - 1, logits);
        took[i] = tool_now() - start;
    }
    if (!r) *tok_s = n / median(took);
    return r;
}

/* One step of @batch sequences at position @pos. */
static int step(struct tool *l, uint32_t batch, uint32_t pos, int32_t *tokens, float *logits)
{
    struct backend *b = l->backend;
    uint32_t n_blocks = (b->config.ctx + KV_BLOCK - 1) / KV_BLOCK;
    static const uint8_t want = WANT_LOGITS;
    _cleanup_(freep) uint32_t *blocks = malloc((size_t)batch * n_blocks * sizeof(*blocks));
    _cleanup_(freep) const uint32_t **tables = malloc(batch * sizeof(*tables));
    _cleanup_(freep) struct batch_entry *e = calloc(batch, sizeof(*e));
    if (!blocks || !tables || !e) return error_origin(-ENOMEM);
    for (uint32_t i = 0; i < batch; i++) {
        for (uint32_t k = 0; k < n_blocks; k++) blocks[(size_t)i * n_blocks + k] = i * n_blocks + k;
        tables[i] = blocks + (size_t)i * n_blocks;
        e[i] = (struct batch_entry){.blocks = &tables[i], .pos = pos, .n = 1, .tokens = &tokens[i], .want = &want};
    }
    return b->ops->forward(b, e, batch, logits, NULL);
}

static int decode(struct tool *l, uint32_t batch, uint32_t steps, double *tok_s)
{
    uint32_t vocab = l->backend->shape.vocab;
    _cleanup_(freep) int32_t *tokens = malloc(batch * sizeof(*tokens));
    _cleanup_(freep) float *logits = malloc((size_t)batch * vocab * sizeof(float));
    if (!tokens || !logits) return error_origin(-ENOMEM);
    fill(tokens, batch, vocab);
    double took[REPEATS];
    int r = step(l, batch, 0, tokens, logits);
    for (int i = 0; !r && i < REPEATS; i++) {
        double start = tool_now();
        for (uint32_t s = 0; !r && s < steps; s++) r = step(l, batch, s, tokens, logits);
        took[i] = tool_now() - start;
    }
    if (!r) *tok_s = (double)batch * steps / median(took);
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

static int measure(const struct options *o, struct tool *l, json_t *out)
{
    double tok_s = 0;
    char cpu[128];
    cpu_name(cpu, sizeof(cpu));
    const char *base = strrchr(o->model, '/');
    json_object_set_new(out, "model", json_string(base ? base + 1 : o->model));
    json_object_set_new(out, "cpu", json_string(cpu));
    json_object_set_new(out, "isa", json_string(l->backend->isa));
    json_object_set_new(out, "threads", json_integer(l->backend->config.threads));
    json_object_set_new(out, "load_s", json_real(l->seconds));
    int r = prefill(l, (uint32_t)o->prefill, &tok_s);
    json_object_set_new(out, "prefill", json_pack("{s:I, s:f}", "tokens", (json_int_t)o->prefill, "tok_s", tok_s));
    json_t *list = json_array();
    for (uint32_t i = 0; !r && i < o->n_batch; i++) {
        r = decode(l, o->batch[i], (uint32_t)o->decode, &tok_s);
        double gbps = tok_s / o->batch[i] * (double)l->backend->weight_bytes * 1e-9;
        json_array_append_new(
            list, json_pack("{s:I, s:f, s:f}", "batch", (json_int_t)o->batch[i], "tok_s", tok_s, "gbps", gbps));
    }
    json_object_set_new(out, "decode", list);
    return r;
}

static void print(const json_t *j)
{
    const json_t *p = json_object_get(j, "prefill"), *d;
    size_t i;
    printf("%s on %s, %s, %lld threads, loaded in %.2f s\n", json_string_value(json_object_get(j, "model")),
           json_string_value(json_object_get(j, "cpu")), json_string_value(json_object_get(j, "isa")),
           json_integer_value(json_object_get(j, "threads")), json_real_value(json_object_get(j, "load_s")));
    printf("prefill %6lld tokens    %9.1f tok/s\n", json_integer_value(json_object_get(p, "tokens")),
           json_real_value(json_object_get(p, "tok_s")));
    json_array_foreach(json_object_get(j, "decode"), i, d) printf(
        "decode  %6lld sequences %9.1f tok/s  %6.1f GB/s of weights\n", json_integer_value(json_object_get(d, "batch")),
        json_real_value(json_object_get(d, "tok_s")), json_real_value(json_object_get(d, "gbps")));
}

int command_bench(int argc, char **argv)
{
    struct options o = {.prefill = 512, .decode = 64, .batch = {1, 4, 16}, .n_batch = 3};
    int r = parse(&o, argc, argv);
    if (o.help) return fputs(usage, stdout) < 0;
    if (r) {
        log_error("bench: %s", error_text(r));
        return 2;
    }
    uint32_t most = 1;
    for (uint32_t i = 0; i < o.n_batch; i++) most = o.batch[i] > most ? o.batch[i] : most;
    uint64_t longest = o.prefill > o.decode ? o.prefill : o.decode;
    struct backend_config c = {
        .ctx = (uint32_t)longest, .threads = (uint32_t)o.threads, .kv_type = KERN_KV_F16, .batch_tokens = 512};
    struct tool l;
    r = tool_open(&l, o.model, &c, most);
    if (!r && c.ctx < longest)
        r = error_say(-EINVAL, "%lu tokens are more than the model's context of %u", longest, c.ctx);
    json_t *j = json_object();
    if (!r) r = measure(&o, &l, j);
    if (r)
        log_error("bench: %s", error_text(r));
    else if (o.json)
        json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6)), putchar('\n');
    else
        print(j);
    json_decref(j);
    tool_close(&l);
    return r ? 1 : 0;
}
