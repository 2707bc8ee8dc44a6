/* SPDX-License-Identifier: MIT */
/* hobd embed: the vectors or scores of the texts on standard input, without a daemon. */
#include "daemon/command/command.h"
#include "daemon/command/embed-texts.h"
#include "libcommon/cleanup.h"
#include "libcommon/error.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: hobd embed -m FILE [OPTION…] <TEXTS\n"
                            "\nPrints the vector or the scores of each line of standard input.\n\n"
                            "  -m, --model FILE     model name or .gguf path\n"
                            "      --jsonl          each line is JSON: a string, a list of token ids, or\n"
                            "                       a list of two strings, a question and a text\n"
                            "      --pooling KIND   mean, cls, last, rank or none (default: the file's)\n"
                            "      --dims N         only the first N values of each vector\n"
                            "      --no-normalize   do not divide vectors by their lengths\n"
                            "      --batch N        tokens of a step (default: 2048)\n"
                            "      --time           print texts and tokens per second to standard error\n"
                            "  -t, --threads N      compute threads (default: as for serve)\n"
                            "      --json           print one JSON object a line\n"
                            "      --help           print this help\n";

struct options {
    const char *model;
    uint64_t dims, batch, threads;
    enum pooling pooling;
    bool pooled, jsonl, raw, time, json, help;
};

enum { JSONL = 256, POOLING, DIMS, RAW, BATCH, TIME, JSON, HELP };

static int parse_pooling(struct options *o, const char *name)
{
    o->pooled = true;
    if (pooling_find(&o->pooling, name)) return 0;
    return error_say(-EINVAL, "--pooling %.64s: not mean, cls, last, rank or none", name);
}

static int take(struct options *o, int c)
{
    switch (c) {
    case 'm':
        o->model = optarg;
        return 0;
    case POOLING:
        return parse_pooling(o, optarg);
    case DIMS:
        return tool_parse_number("--dims", optarg, 1, 1 << 17, &o->dims);
    case BATCH:
        return tool_parse_number("--batch", optarg, 1, 1 << 20, &o->batch);
    case 't':
        return tool_parse_number("-t", optarg, 1, 1024, &o->threads);
    case JSONL:
        o->jsonl = true;
        return 0;
    case RAW:
        o->raw = true;
        return 0;
    case TIME:
        o->time = true;
        return 0;
    case JSON:
        o->json = true;
        return 0;
    }
    o->help = true;
    return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"model", 1, 0, 'm'},
        {"jsonl", 0, 0, JSONL},
        {"pooling", 1, 0, POOLING},
        {"dims", 1, 0, DIMS},
        {"no-normalize", 0, 0, RAW},
        {"batch", 1, 0, BATCH},
        {"time", 0, 0, TIME},
        {"threads", 1, 0, 't'},
        {"json", 0, 0, JSON},
        {"help", 0, 0, HELP},
        {0},
    };
    int c, r = 0;
    opterr = optind = 0;
    while (!r && !o->help && (c = getopt_long(argc, argv, ":m:t:", longs, NULL)) >= 0) {
        if (c == '?' || c == ':') return command_refuse(argv, c);
        r = take(o, c);
    }
    if (!r && !o->help && (!o->model || optind < argc))
        r = error_say(-EINVAL, "expected -m FILE and options only; the texts come from standard input");
    return r;
}

/* What the file has of the request. */
static int check(struct options *o, const struct tool *l)
{
    const struct hparams *s = &l->hparams;
    if (!o->pooled) o->pooling = s->embedding.pooling;
    if (!o->pooled && o->pooling == POOLING_NONE)
        return error_say(-EOPNOTSUPP,
                         "%s: key '%s.pooling_type' is missing or 0: the model gives texts no vectors (--pooling KIND "
                         "pools those of the tokens)",
                         gguf_path(l->gguf), s->arch);
    if (o->dims > s->dim || (o->dims && o->pooling == POOLING_RANK))
        return error_say(-EINVAL, "--dims %lu: the model gives %s of %u values", o->dims,
                         o->pooling == POOLING_RANK ? "scores" : "vectors", hparams_outputs(s, o->pooling));
    return 0;
}

static void print_values(const float *v, uint32_t n, const char *between)
{
    for (uint32_t i = 0; i < n; i++) printf("%s%.9g", i ? between : "", (double)v[i]);
}

static void print_row(const struct options *o, size_t index, uint32_t tokens, const float *v, uint32_t n)
{
    if (!o->json) {
        print_values(v, n, " ");
        putchar('\n');
        return;
    }
    printf("{\"index\":%zu,\"tokens\":%u,\"%s\":[", index, tokens, o->pooling == POOLING_RANK ? "scores" : "embedding");
    print_values(v, n, ",");
    puts("]}");
}

struct printing {
    const struct options *o;
    const struct tool *l;
    const struct embed_texts *t;
};

/* Truncate and normalize the rows of text @index, and print them. */
static int print_text(void *ctx, size_t index, float *rows, size_t n)
{
    const struct printing *p = ctx;
    const struct hparams *s = &p->l->hparams;
    const bool scores = p->o->pooling == POOLING_RANK;
    const uint32_t values = hparams_outputs(s, p->o->pooling), dims = p->o->dims ? (uint32_t)p->o->dims : values;
    for (size_t i = 0; i < n; i++) {
        if (!scores) pooling_finish(rows + i * values, dims, !p->o->raw);
        print_row(p->o, index, p->t->list[index].n, rows + i * values, dims);
    }
    return 0;
}

static int run(struct options *o, struct tool *l, struct backend_config *c)
{
    _cleanup_(buf_fini) struct buf in = BUF_INIT;
    struct embed_texts t = {0};
    int r = tool_open(l, o->model, c, 1);
    if (!r) r = check(o, l);
    if (!r) r = command_read_input(&in);
    if (!r) r = embed_texts_read(&t, l, &in, o->jsonl);
    const double start = tool_now();
    if (!r) r = embed_run(l, &t, o->pooling, print_text, &(struct printing){o, l, &t});
    const double seconds = tool_now() - start;
    size_t tokens = 0;
    for (size_t i = 0; i < t.n; i++) tokens += t.list[i].n;
    if (!r && o->time)
        fprintf(stderr, "%zu texts, %zu tokens in %.3f s: %.1f texts/s, %.0f tokens/s\n", t.n, tokens, seconds,
                (double)t.n / seconds, (double)tokens / seconds);
    embed_texts_fini(&t);
    return r;
}

int command_embed(int argc, char **argv)
{
    struct options o = {.batch = 2048};
    int r = parse(&o, argc, argv);
    if (o.help) return fputs(usage, stdout) < 0;
    if (r) return command_misused(argv, r);
    /* f32, so that only the weights and the arithmetic are rounded, not the KV type. */
    struct backend_config c = {
        .threads = (uint32_t)o.threads, .kv_type = KERN_KV_F32, .batch_tokens = (uint32_t)o.batch};
    struct tool l;
    r = run(&o, &l, &c);
    if (r) command_failed(argv, r);
    tool_close(&l);
    return r ? 1 : 0;
}
